"""What other people's sweeps leave behind, read for a choice: DomainBed's records and WILDS' predictions.

DomainBed records the accuracy in each domain, and no prediction: its runs can be chosen among by their error in the
training domains, never by calibration. WILDS writes predictions for each row, but of classifiers the predicted classes
unless it is told otherwise, and these say nothing of calibration either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from clovecal._checks import FloatArray, check_choice
from clovecal.errors import InputError
from clovecal.records import read
from clovecal.selection._criteria import SUMMARIES
from clovecal.selection._ranking import RankedCandidate, Selection, rank
from clovecal.text import listed


@dataclass(frozen=True, kw_only=True)
class DomainBedRuns:
    """Runs of one DomainBed sweep that can be compared.

    Attributes
    ----------
    candidates
        Each run at its best checkpoint: ``criterion`` is the error in the training domains, put together by
        ``summary``, ``by_domain`` that in each, ``accuracy`` the mean over them.
    summary
        "mean" or "worst".
    steps
        The step of each run's best checkpoint, by name.
    test_accuracy
        Mean accuracy in the test domains at that step, by name: to judge a rule by, never to choose by.
    """

    candidates: tuple[RankedCandidate, ...]
    summary: str
    steps: Mapping[str, int]
    test_accuracy: Mapping[str, float]

    def select(self, *, min_accuracy: float | None = None, among: int = 1) -> Selection:
        """Choose the run of the lowest error.

        Parameters
        ----------
        min_accuracy, among
            As in `clovecal.select`.
        """
        return rank(self.candidates, criterion="error", summary=self.summary, min_accuracy=min_accuracy, among=among)


def read_domainbed(
    folder: str | Path,
    *,
    test_domains: Sequence[int] | None = None,
    dataset: str | None = None,
    trial_seed: int | None = None,
    summary: str = "mean",
) -> DomainBedRuns:
    """Read the runs of a DomainBed sweep, to choose among them by their accuracy in the training domains.

    Parameters
    ----------
    folder
        The sweep's output, with a folder for each run that holds ``results.jsonl``.
    test_domains, dataset, trial_seed
        Only runs with these test domains (numbers, as in ``--test_envs``), this data set, this trial; None: all, which
        must then agree in it, as only such runs can be compared.
    summary
        "mean": by the mean error over the training domains, which with one test domain is DomainBed's "training-domain
        validation set"; "worst": by that of the worst one.

    Returns
    -------
    DomainBedRuns
        Its ``select()`` makes the choice.

    Notes
    -----
    The accuracies are those of each domain's held-out part (``env0_out_acc`` and so on). Nothing in these records tells
    how well a run is calibrated, or how unlike domains are beyond their accuracy: two runs of equal accuracy, one of
    which leans on what differs between domains, look the same. For a choice by calibration predict the held-out parts
    with the stored models and pass the probabilities to `clovecal.select`. DomainBed's choice by leaving one more
    domain out is not made here.

    References
    ----------
    I. Gulrajani and D. Lopez-Paz (2021), In search of lost domain generalization, ICLR.
    """
    check_choice(summary, "summary", ("mean", "worst"))
    root = Path(folder)
    wanted = {
        "test_domains": None if test_domains is None else tuple(sorted(int(one) for one in test_domains)),
        "dataset": dataset,
        "trial_seed": trial_seed,
    }
    runs: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, set[Any]] = {name: set() for name in wanted}
    for path in sorted(root.rglob("results.jsonl")):
        found = _records_of(path)
        if not found:
            continue
        about = _about(found[0], path)
        if any(value is not None and about[name] != value for name, value in wanted.items()):
            continue
        for name, value in about.items():
            seen[name].add(value)
        inside = path.parent.relative_to(root).as_posix()
        runs[f"{found[0]['args'].get('algorithm', 'run')} {inside if inside != '.' else root.name}"] = found
    if not runs:
        raise InputError(
            f"folder {str(folder)!r}",
            "has no results.jsonl of a run that was asked for",
            "name the sweep's output, and test domains that it has",
        )
    for name, values in seen.items():
        if len(values) > 1:
            shown = listed([repr(one) for one in sorted(values, key=str)], 8)
            raise InputError(name, f"differs between runs, which cannot be compared: {shown}", "name one of them")
    best = {name: _best(found, summary) for name, found in runs.items()}
    return DomainBedRuns(
        candidates=tuple(
            RankedCandidate(
                name=name,
                criterion=one.error,
                accuracy=float(np.mean([1 - error for error in one.errors.values()])),
                by_domain=MappingProxyType(one.errors),
            )
            for name, one in best.items()
        ),
        summary=summary,
        steps=MappingProxyType({name: one.step for name, one in best.items()}),
        test_accuracy=MappingProxyType({name: one.elsewhere for name, one in best.items()}),
    )


def read_wilds(folder: str | Path, *, split: str = "val", epoch: str | int = "best") -> dict[str, FloatArray]:
    """Read the predictions that WILDS' runs wrote for a split, as candidates for `clovecal.select`.

    Parameters
    ----------
    folder
        Of one run, or one that holds those of many.
    split
        Such as "val" or "id_val": a split with the domains to choose by.
    epoch
        "best", "last", or a number.

    Returns
    -------
    dict
        (n,) probabilities of label 1, or (n, C), of each run; named after its folder, and its seed where a folder has
        several. Rows are in the order of the split in the data set: its ``y_array``, and its ``metadata_array`` for
        the domains.

    Notes
    -----
    The files must hold logits (one column: log-odds of label 1). By default WILDS writes predicted classes of
    classifiers instead (its ``process_outputs_function``), which are refused: no probability can be made of them. Its
    ``save_pred`` has to be given the outputs before that function.
    """
    root = Path(folder)
    ending = f"_epoch:{epoch}_pred.csv"
    found = [path for path in sorted(root.rglob(f"*{ending}")) if f"_split:{split}_" in path.name]
    if not found:
        raise InputError(
            f"folder {str(folder)!r}",
            f"has no predictions of split {split!r} at epoch {epoch}",
            f"name a folder with files such as camelyon17_split:{split}_seed:0{ending}",
        )
    several = len({path.parent for path in found}) < len(found)
    candidates: dict[str, FloatArray] = {}
    for path in found:
        replicate = path.name.removesuffix(ending).partition(f"_split:{split}_")[2]
        inside = path.parent.relative_to(root).as_posix()
        name = root.name if inside == "." else inside
        candidates[f"{name} {replicate}" if several else name] = _probabilities(path)
    shapes = {name: p.shape for name, p in candidates.items()}
    first = next(iter(shapes))
    for name, shape in shapes.items():
        if shape != shapes[first]:
            raise InputError(
                f"model {name!r}",
                f"has predictions of shape {shape} but {first!r} of {shapes[first]}",
                "name a folder whose runs are of the same data",
            )
    return candidates


@dataclass(frozen=True)
class _Checkpoint:
    step: int
    error: float
    errors: dict[Any, float]
    elsewhere: float


def _records_of(path: Path) -> list[dict[str, Any]]:
    try:
        return read(path)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"file {str(path)!r}", "has a line that is not JSON", "repair it or remove the run") from None


def _about(record: Mapping[str, Any], path: Path) -> dict[str, Any]:
    args = record.get("args")
    if not isinstance(args, Mapping) or "test_envs" not in args or "env0_out_acc" not in record:
        raise InputError(
            f"file {str(path)!r}",
            "is not one of DomainBed",
            "its lines have 'args' and accuracies such as env0_out_acc",
        )
    return {
        "test_domains": tuple(sorted(args["test_envs"])),
        "dataset": args.get("dataset"),
        "trial_seed": args.get("trial_seed"),
    }


def _best(found: Sequence[Mapping[str, Any]], summary: str) -> _Checkpoint:
    """Return the checkpoint of the lowest error in the training domains, the first of equals."""
    checkpoints = []
    for record in found:
        test = record["args"]["test_envs"]
        domains = [one for one in range(_n_domains(record)) if one not in test]
        if not domains:
            raise InputError("the records", "have test domains alone", "name runs with a domain to train on")
        errors = {f"env{one}": 1 - float(record[f"env{one}_out_acc"]) for one in domains}
        elsewhere = float(np.mean([record[f"env{one}_in_acc"] for one in test])) if test else float("nan")
        error = float(SUMMARIES[summary][0](errors.values()))
        checkpoints.append(_Checkpoint(int(record["step"]), error, errors, elsewhere))
    return min(checkpoints, key=lambda one: one.error)


def _n_domains(record: Mapping[str, Any]) -> int:
    number = 0
    while f"env{number}_out_acc" in record:
        number += 1
    return number


def _probabilities(path: Path) -> FloatArray:
    try:
        logits = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError:
        raise InputError(
            f"file {str(path)!r}", "has values that are not numbers", "name predictions of WILDS"
        ) from None
    if not logits.size:
        raise InputError(f"file {str(path)!r}", "has no row", "run the evaluation again")
    if logits.shape[1] == 1:
        if np.array_equal(logits, np.round(logits)):
            raise InputError(
                f"file {str(path)!r}",
                "holds predicted classes, which say nothing of calibration",
                "let WILDS save the outputs before its process_outputs_function makes classes of them",
            )
        z = logits[:, 0]
        return np.asarray(np.exp(-np.logaddexp(0, -z)))
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))
