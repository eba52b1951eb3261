"""Sweeps: many heads with drawn settings on the rows of one file, each judged by its validation predictions.

The paper trains hundreds of models for its comparison and its choice among them (paper: section 6.1 and appendix C).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.metrics import accuracy, log_loss
from clovecal.progress import SILENT, Progress, within
from clovecal.tables import open_table
from clovecal.tables.features import read_features
from clovecal.training.data import TrainingData
from clovecal.training.ensemble import Member, train_ensemble
from clovecal.training.head.classifier import CloveClassifier
from clovecal.training.head.inputs import check_device, checked_rows
from clovecal.training.head.network import HeadNetwork, held_out_rows, moments
from clovecal.training.loop.stopping import probabilities
from clovecal.training.mlp import MLP
from clovecal.training.sweep.config import Source, Sweep, SweepMember, read_sweep

__all__ = ["Outcome", "Sweep", "SweepData", "SweepMember", "read_sweep", "read_sweep_data", "train_members"]


@dataclass(frozen=True, kw_only=True, eq=False)
class SweepData:
    """The rows of a sweep, some of each domain held out.

    Attributes
    ----------
    training
        Rows to train on, their features standardised and clipped as `CloveClassifier` does.
    inputs, y
        The same of the held-out rows; labels are positions in ``classes``.
    domains
        Domain columns of the held-out rows by name, as in the file.
    classes
        The labels of the file.
    head
        A head without a network: what the members have in common, which is all but their settings and weights.
    fingerprint
        Changes with the rows, with how classes, domains and features are named, and with which rows are held out.
    used
        In words, which columns of a table are what; None for an archive.
    """

    training: TrainingData
    inputs: torch.Tensor
    y: IntArray
    domains: Mapping[str, AnyArray]
    classes: AnyArray
    head: CloveClassifier
    fingerprint: str
    used: str | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """The result of training one member of a sweep.

    Attributes
    ----------
    diverged
        None, or a sentence that says when and why.
    p
        Predictions of the held-out rows, (n,) or (n, C); None if the training diverged.
    head
        The trained model, which can be saved and takes features as they are in the file; None if it diverged.
    summary
        For the record: the objective's terms at the last step, accuracy and log-loss on the held-out rows.
    """

    diverged: str | None
    p: FloatArray | None
    head: CloveClassifier | None
    summary: dict[str, float | None]


def read_sweep_data(sweep: Sweep) -> SweepData:
    """Read a sweep's rows, hold some of each domain out, and standardise the features by the others.

    Parameters
    ----------
    sweep
        From `read_sweep`.
    """
    source = sweep.source
    prefix, names = _feature_columns(source)
    rows = read_features(str(source.file), label=source.label, domains=source.domain, prefix=prefix, names=names)
    labels, domains = rows.training_labels()
    head = CloveClassifier()
    try:
        features, head.classes_, y = checked_rows(head, rows.X, labels)
    except InputError as error:
        raise error.about("data.label" if error.argument == "y" else f"data: {error.argument}") from None
    whole = TrainingData.of(torch.from_numpy(features), torch.from_numpy(y), domains=domains)
    if len(whole.names) < 2:
        raise InputError("data.domain", f"has one domain only, {whole.names[0]}", "give rows of at least two domains")
    strata = _combinations(whole.domains)
    held = held_out_rows(strata, y, fraction=source.validation, rng=np.random.default_rng([sweep.seed]))
    if len(whole.domains.restrict(np.flatnonzero(held)).names) < 2:
        raise InputError(
            "data.validation",
            f"is {source.validation:g}, which holds out rows of one domain only",
            "raise it or give more rows: a choice among models compares domains",
        )
    head.mean_, head.scale_ = moments(features[~held])
    standardised = torch.as_tensor((features - head.mean_) / head.scale_, dtype=torch.float32)
    inputs = standardised.clamp(-head.clip, head.clip)
    standard = TrainingData(inputs, whole.y, whole.domains)
    return SweepData(
        training=standard.select(~held),
        inputs=inputs[torch.from_numpy(held)],
        y=y[held],
        domains={name: column[held] for name, column in rows.domains.items()},
        classes=head.classes_,
        head=head,
        fingerprint=_fingerprint(
            features,
            y,
            whole.domains.codes,
            np.arange(len(y)) if whole.domains.rows is None else whole.domains.rows,
            held,
            names=[*head.classes_.tolist(), whole.names, *getattr(head, "feature_names_in_", ())],
        ),
        used=rows.used,
    )


def train_members(
    members: Sequence[SweepMember],
    data: SweepData,
    *,
    chunk: int = 100,
    device: torch.device | str | None = None,
    progress: Progress = SILENT,
) -> Iterator[tuple[SweepMember, Outcome]]:
    """Train members of a sweep, yielding each with its outcome as soon as its chunk is done.

    Parameters
    ----------
    members
        From `Sweep.members`; those of one objective are trained together.
    data
        The rows.
    chunk
        Most members trained together.
    device
        None: a GPU if there is one.
    progress
        Is told the model steps that are done.
    """
    check_device(device)
    done, task = 0, progress.task("Training", sum(member.steps for member in members))
    for lot in _chunks(members, chunk):
        first = lot[0]
        trained = train_ensemble(
            [
                Member(
                    member.hidden,
                    member.make_objective(len(data.training.names)),
                    learning_rate=member.learning_rate,
                    weight_decay=member.weight_decay,
                    seed=member.seed,
                )
                for member in lot
            ],
            data.training,
            steps=first.steps,
            batch_size=first.batch_size,
            balance=first.balance,
            optimizer=first.optimizer,
            precision=first.precision,
            n_outputs=1 if len(data.classes) == 2 else len(data.classes),
            device=device,
            progress=within(task, before=done),
        )
        done += sum(member.steps for member in lot)
        logits = torch.from_numpy(trained.logits(data.inputs))
        for place, member in enumerate(lot):
            terms = {name: float(values[place]) for name, values in trained.terms.items()}
            summary = {name: value if math.isfinite(value) else None for name, value in terms.items()}
            diverged = trained.diverged[place]
            if diverged is not None:
                yield member, Outcome(diverged=diverged, p=None, head=None, summary=summary)
                continue
            p = probabilities(logits[place])
            summary |= {"accuracy": accuracy(data.y, p), "log-loss": log_loss(data.y, p)}
            head = _head(member, trained.member(place), data)
            yield member, Outcome(diverged=None, p=p, head=head, summary=summary)


def _feature_columns(source: Source) -> tuple[str | None, tuple[str, ...] | None]:
    """Return how feature columns begin, or their names, checked."""
    if source.features is None:
        return None, None
    if source.file.suffix.lower() == ".npz":
        raise InputError("data.features", "names columns of a table", "the features of an npz archive are its array X")
    if isinstance(source.features, str):
        return source.features, None
    available = open_table(source.file).columns
    missing = next((name for name in source.features if name not in available), None)
    if missing is not None:
        raise InputError(
            "data.features", f"has {missing!r}, but {str(source.file)!r} has no such column", "check the name"
        )
    return None, source.features


def _combinations(domains: Domains) -> IntArray:
    """Return a number for each row's combination of domains."""
    if domains.rows is None:
        return len(domains.names) - domains.codes  # in the order of the combinations' columns of 0 and 1
    columns = np.zeros((domains.n_rows, len(domains.names)), dtype=bool)  # which their user passed as a matrix
    columns[domains.rows, domains.codes] = True
    return np.asarray(np.unique(columns, axis=0, return_inverse=True)[1]).reshape(-1)


def _fingerprint(*arrays: AnyArray, names: Sequence[object]) -> str:
    digest = hashlib.sha256(repr(names).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _head(member: SweepMember, model: MLP, data: SweepData) -> CloveClassifier:
    """Return a member as the estimator that `clovecal predict` reads."""
    options = {name: value for name, value in member.options.items() if name != "rescale"}
    head = CloveClassifier(
        member.hidden,
        objective=member.objective,
        penalty=member.penalty or 0.0,
        mmce_options=options if member.objective == "clove" else None,  # type: ignore[arg-type]
        learning_rate=member.learning_rate,
        weight_decay=0.0,
        batch_size=member.batch_size,
        max_steps=member.steps,
        random_state=member.seed,
    )
    for name in ("classes_", "mean_", "scale_", "n_features_in_", "feature_names_in_"):
        if hasattr(data.head, name):
            setattr(head, name, getattr(data.head, name))
    head.penalty_, head.candidates_ = member.penalty or 0.0, ()
    head.message_ = f"Trained for {member.steps} steps as member {member.name} of a sweep."
    head.network_ = HeadNetwork(
        model.n_inputs, hidden=model.hidden, n_outputs=model.n_outputs, clip=head.clip, linear=False
    )
    head.network_.mlp = model
    head.chosen_, head.choices_, head.price_ = member.name, {}, None
    head.networks_ = {head.chosen_: head.network_}
    return head


def _chunks(members: Sequence[SweepMember], size: int) -> Iterator[Sequence[SweepMember]]:
    """Yield runs of members with the same objective and options."""
    start = 0
    for stop in range(1, len(members) + 1):
        if stop == len(members) or stop - start == size or _kind(members[stop]) != _kind(members[start]):
            yield members[start:stop]
            start = stop


def _kind(member: SweepMember) -> tuple[object, ...]:
    shared = (member.steps, member.batch_size, member.balance, member.optimizer, member.precision)
    return (member.objective, sorted(member.options.items()), *shared)
