"""The content of a report as plain values: strings, numbers and tuples of small frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from clovecal.expecting import RepairStudy

Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Words:
    """The names of a task's quantities, as the page's sentences use them.

    Attributes
    ----------
    error, error_in_full
        The calibration error, short and long.
    loss
        What recalibration minimises: "Brier score" or "mean squared error".
    score, outcome
        Labels of the axes of a reliability diagram.
    observed, predicted
        Heads of the columns with the means of these.
    success
        Name of the second metric in the table of domains; None: there is none.
    mismatch
        A clause with {predicted} and {observed} to fill in.
    percent
        Whether outcomes and scores are shares, to be written in percent.
    """

    error: str
    error_in_full: str
    loss: str
    score: str
    outcome: str
    observed: str
    predicted: str
    success: str | None
    mismatch: str
    percent: bool


@dataclass(frozen=True)
class KeyFigure:
    """A number worth a large font: what it is, its value, and one remark."""

    label: str
    value: str
    remark: str


@dataclass(frozen=True)
class Advice:
    """One thing to do, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Estimate:
    """A value with its confidence interval, where there is one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class DomainRow:
    """One line of the table of domains.

    ``finding`` is "off" (above the tolerance beyond doubt), "fine" (below it beyond doubt) or "unsure".
    """

    name: str
    rows: float
    observed: float
    predicted: float
    error: Estimate
    success: Estimate | None
    loss: Estimate
    finding: str


@dataclass(frozen=True, kw_only=True)
class ReliabilityPoint:
    """One bin of a reliability diagram."""

    predicted: float
    observed: float
    low: float
    high: float
    rows: float


@dataclass(frozen=True)
class Curve:
    """One domain's points in a reliability diagram."""

    name: str
    error: float
    points: tuple[ReliabilityPoint, ...]
    shown: bool


@dataclass(frozen=True, kw_only=True)
class Diagram:
    """A reliability diagram: all rows, the domains (the worst first), the range of both axes, domains left out."""

    overall: Curve
    curves: tuple[Curve, ...]
    low: float
    high: float
    left_out: int


@dataclass(frozen=True)
class Histogram:
    """Share of a domain's rows in each bin of the score; ``top`` is the largest of them or of all rows'."""

    name: str
    shares: tuple[float, ...]
    top: float
    quartiles: tuple[float, float, float]


@dataclass(frozen=True)
class Histograms:
    """Score histograms on common edges; rows beyond the outermost edges are in the outermost bins."""

    edges: tuple[float, ...]
    overall: Histogram
    by_domain: tuple[Histogram, ...]
    left_out: int


@dataclass(frozen=True)
class Shift:
    """How much more often the outcome happens in a domain than at the same score elsewhere."""

    name: str
    shift: Estimate


@dataclass(frozen=True, kw_only=True)
class Invariance:
    """The test that a score means the same in every domain; ``by_domain`` has the largest shifts, highest first."""

    rejected: bool
    p_value: float
    shift: float
    comparable: float
    sentences: tuple[str, ...]
    by_domain: tuple[Shift, ...]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class RankedModel:
    """One line of the ranking of models; ``place`` is None for a model that was excluded."""

    place: int | None
    name: str
    criterion: float
    accuracy: float
    excluded: str | None


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The models in order, and the choice, also in words; ``best`` is None when no model is accurate enough."""

    verdict: str
    best: str | None
    criterion: str
    min_accuracy: float | None
    models: tuple[RankedModel, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything the page shows; `render` only draws it.

    Attributes
    ----------
    title
        Of the page.
    mood
        "off" (something is miscalibrated), "fine" or "unsure": the colour of the headline.
    headline, verdict
        The answer in a few words, and in one or two sentences.
    explanations
        What the calibration error means, in plain sentences.
    key_figures, advice
        Numbers in large type, and what to do about them.
    words
        What things are called.
    task
        "binary", "multiclass" or "regression".
    ci, tolerance
        Of the audit.
    overall, domains
        The table of domains, the worst first.
    most_drawn
        The most domains that charts show: the first ones.
    diagram, histograms, invariance, repair, ranking
        Sections; None where one does not apply.
    notes
        Remarks of the caller.
    reproduction
        Pairs of a label and a value.
    command
        What makes this page again.
    """

    title: str
    mood: str
    headline: str
    verdict: str
    explanations: tuple[str, ...]
    key_figures: tuple[KeyFigure, ...]
    advice: tuple[Advice, ...]
    words: Words
    task: str
    ci: float
    tolerance: float
    overall: DomainRow
    domains: tuple[DomainRow, ...]
    most_drawn: int
    diagram: Diagram | None
    histograms: Histograms
    invariance: Invariance | None
    repair: RepairStudy | None
    ranking: Ranking | None
    notes: tuple[str, ...]
    reproduction: tuple[tuple[str, str], ...]
    command: str
