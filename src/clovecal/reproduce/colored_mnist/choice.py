"""Choice among the models of Colored MNIST from their records alone (paper: section 5.1 and appendix C.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from clovecal.reproduce.colored_mnist.settings import METHODS, SETTINGS
from clovecal.reproduce.study import Record
from clovecal.selection import RankedCandidate, Selection, rank
from clovecal.theory import two_bit

OURS = "mmce"  # of the criteria the one that tells models apart with the fewest rows
AMONG = 10  # of the models that it ranks best, ours is the most accurate
_CHANCE = 0.5  # labels are balanced
PENALTY_OF_OBJECTIVE = 1e6  # λ of the objective that appendix C.1 ranks trained models by

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Criterion:
    """A measure of validation predictions, averaged over the training domains.

    Attributes
    ----------
    label
        As figures and tables call it.
    stage
        Part of the record: "validation" (as the model is), "one_deal" or "recalibrated".
    measure
        A name in `MEASURES`.
    scale
        How it is drawn and correlated: as it is ("linear"), its root ("root", of what is a square; below 0 it is 0) or
        its logarithm ("log"). Its ranking is that of the value itself.
    """

    label: str
    stage: str
    measure: str
    scale: str = "linear"

    @property
    def axis(self) -> str:
        """What is drawn and correlated."""
        return f"√{self.label}" if self.scale == "root" else self.label


# The paper's are "ece" (how often rows were dealt for the recalibration it does not say) and "raw-irm".
CRITERIA: Mapping[str, Criterion] = MappingProxyType(
    {
        "raw-ece": Criterion("ECE, not recalibrated", "validation", "ece"),
        "ece-one-deal": Criterion("ECE, one deal", "one_deal", "ece"),
        "ece": Criterion("ECE", "recalibrated", "ece"),
        "debiased-ece": Criterion("debiased ECE", "recalibrated", "debiased_ece"),
        "mmce": Criterion("MMCE", "recalibrated", "mmce", "root"),
        "sharp-mmce": Criterion("MMCE, γ = 50", "recalibrated", "sharp_mmce", "root"),
        "positive-mmce": Criterion("MMCE of P(y = 1)", "recalibrated", "positive_mmce", "root"),
        "sharp-positive-mmce": Criterion("MMCE of P(y = 1), γ = 50", "recalibrated", "sharp_positive_mmce", "root"),
        "raw-irm": Criterion("IRMv1 penalty", "validation", "irm"),
        "log-raw-irm": Criterion("IRMv1 penalty (log₁₀)", "validation", "irm", "log"),
        "irm": Criterion("IRMv1 penalty, recalibrated", "recalibrated", "irm"),
    }
)


@dataclass(frozen=True, eq=False)
class Pool:
    """Models of one setting and one seed of the data, a column a quantity.

    Attributes
    ----------
    method
        Name of each model's method.
    id_accuracy
        Validation accuracy of the model as it is, mean over the training domains. (After recalibration some models
        are far more accurate than with their own threshold, which the test domain is judged with.)
    ood_accuracy
        Accuracy in the test domain, of the model as it is; no choice looks at it.
    criteria
        `CRITERIA` by name.
    records
        Where all of that comes from.
    """

    method: NDArray[np.str_]
    id_accuracy: FloatArray
    ood_accuracy: FloatArray
    criteria: Mapping[str, FloatArray]
    records: Sequence[Record]

    def shown(self, criterion: str) -> FloatArray:
        """Return a criterion on the scale that it is drawn and correlated on."""
        values, scale = self.criteria[criterion], CRITERIA[criterion].scale
        if scale == "log":
            return np.log10(np.maximum(values, np.finfo(float).tiny))
        return np.sqrt(np.maximum(values, 0.0)) if scale == "root" else values


def pools(
    records: Iterable[Record], setting: str, methods: Collection[str] | None = None, *, recalibrated: bool = False
) -> list[Pool]:
    """Return the models of a setting (of some methods, or of all) that did not diverge, a pool for each seed.

    With ``recalibrated`` accuracies are those of the models after recalibration, in the domains seen and in the test
    domain, as the procedure of appendix C.2 reads; otherwise those of the models as they were trained.
    """
    by_seed: dict[int, list[Record]] = {}
    for record in records:
        config = record["config"]
        wanted = methods is None or config["method"]["name"] in methods
        if config["setting"] == setting and wanted and "diverged" not in record:
            by_seed.setdefault(config["seed"], []).append(record)
    return [_pool(of_seed, recalibrated=recalibrated) for _, of_seed in sorted(by_seed.items())]


def _pool(records: Sequence[Record], *, recalibrated: bool) -> Pool:
    def column(stage: str, measure: str) -> FloatArray:
        return np.array([np.mean(record[stage][measure]) for record in records])

    return Pool(
        method=np.array([record["config"]["method"]["name"] for record in records]),
        id_accuracy=column("recalibrated" if recalibrated else "validation", "accuracy"),
        ood_accuracy=column("test", "recalibrated_accuracy" if recalibrated else "accuracy"),
        criteria={name: column(one.stage, one.measure) for name, one in CRITERIA.items()},
        records=records,
    )


def pearson(pool: Pool, criterion: str) -> float:
    """Return the correlation of a criterion, on its scale, with the test accuracy; NaN if one of them is constant."""
    values = pool.shown(criterion)
    if np.ptp(values) == 0 or np.ptp(pool.ood_accuracy) == 0:
        return float("nan")
    return float(np.corrcoef(values, pool.ood_accuracy)[0, 1])


def selection(pool: Pool, criterion: str, floor: float | str | None = "half-skill", *, among: int = 1) -> Selection:
    """Rank the models of a pool, each named by its place there, as `clovecal.select` ranks them.

    Parameters
    ----------
    pool
        The models.
    criterion
        A name in `CRITERIA`.
    floor
        In-domain accuracy that is asked for. "half-skill", halfway between chance and the most accurate model, needs
        no test data: any floor that keeps out the nearly constant, which are calibrated everywhere, will do, and this
        one asks for half of what could be had.
    among
        The choice is the most accurate of this many of the best; 1: the best itself, as the paper chooses.

    Notes
    -----
    Not `select` itself, which measures one criterion: the records have all of them, measured once by the same deals.
    """
    models = zip(pool.criteria[criterion].tolist(), pool.id_accuracy.tolist(), strict=True)
    return rank(
        [
            RankedCandidate(name=str(place), criterion=value, accuracy=accuracy, by_domain={})
            for place, (value, accuracy) in enumerate(models)
        ],
        criterion=criterion,
        min_accuracy=floor,
        base_rate=_CHANCE,
        among=among,
    )


def choose(pool: Pool, criterion: str, floor: float | str | None = "half-skill", *, among: int = 1) -> int | None:
    """Return the place of the chosen model, or None if none reaches the floor; arguments as in `selection`."""
    best = selection(pool, criterion, floor, among=among).best
    return None if best is None else int(best)


def ranked(pool: Pool, criterion: str, floor: float | str | None = "half-skill") -> list[int]:
    """Return the places of the models that reach the floor, the best by a criterion first."""
    return [int(one.name) for one in selection(pool, criterion, floor).table if one.excluded is None]


def objective(record: Record) -> float:
    """Return Σ_e l^e + 10⁶·r^e on the training rows (without a penalty Σ_e l^e), which appendix C.1 ranks by."""
    penalty = record["train"]["penalty"]
    return float(sum(record["train"]["risk"]) + PENALTY_OF_OBJECTIVE * sum(penalty or ()))


def optimal_log_losses(setting: str) -> tuple[float, float]:
    """Return the log-loss in the test domain of the optimal invariant classifier and of OPT_IRMv1.

    Notes
    -----
    Of the Two-Bit domains, whose digit is read without error; a network's is not, so that in the settings with an
    invariant digit even the best has a somewhat higher loss.

    Examples
    --------
    With α = .25 there is no spurious zero of IRMv1, and both have −(.25 log .25 + .75 log .75):

    >>> [round(loss, 4) for loss in optimal_log_losses("digit25")]
    [0.5623, 0.5623]
    >>> [round(loss, 4) for loss in optimal_log_losses("color05")]
    [0.1985, 0.5222]
    """
    domains = [two_bit.domain(*one) for one in SETTINGS[setting].train]
    test = two_bit.domain(*SETTINGS[setting].test)
    return two_bit.risk(two_bit.clove_optimum(domains), test), two_bit.risk(two_bit.irm_optimum(domains), test)


def models_in(records: Iterable[Record]) -> list[Record]:
    """Return the records of models, without those of averages of several models' predictions."""
    return [one for one in records if "method" in one["config"]]


def averages_in(records: Iterable[Record]) -> list[Record]:
    """Return the records of averages of several models' predictions."""
    return [one for one in records if "method" not in one["config"]]


def settings_of(records: Iterable[Record]) -> list[str]:
    """Return the settings that records have, in the order of `SETTINGS`."""
    present = {one["config"]["setting"] for one in records}
    return [name for name in SETTINGS if name in present]


def methods_of(records: Iterable[Record]) -> list[str]:
    """Return the methods that records have, in the order of `METHODS`."""
    present = {one["config"]["method"]["name"] for one in records}
    return [*(name for name in METHODS if name in present), *sorted(present - set(METHODS))]


def spread(values: Sequence[float], digits: int) -> str:
    """Return the mean of values and, where there are several, their standard deviation; a dash if it is undefined."""
    if not np.isfinite(values).all():
        return "–"
    mean = f"{np.mean(values):.{digits}f}".replace("-", "−")
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"
