"""The content of a report as plain values: strings, numbers and tuples of small frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from clovecal.expecting import LabelsNeeded, RateAt, RepairStudy

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
    mismatch
        A clause with {predicted} and {observed} to fill in.
    percent
        Whether outcomes and scores are shares, to be written in percent.
    task
        "binary", "multiclass" or "regression".
    digits
        Decimals of a calibration error: enough to compare it with what is tolerated.
    loss_digits
        Decimals of a loss, and of what recalibration changes in it.
    """

    error: str
    error_in_full: str
    loss: str
    score: str
    outcome: str
    observed: str
    predicted: str
    mismatch: str
    percent: bool
    task: str
    digits: int = 3
    loss_digits: int = 4


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

    Attributes
    ----------
    name, rows
        The domain, and its rows by their weight.
    events
        How often the outcome happened; None where outcomes are not events.
    observed, predicted
        Mean outcome and mean prediction.
    ratio
        Observed over predicted (O:E); None for a regression.
    error
        The calibration error, with the domain's own interval.
    tolerance
        The calibration error that is allowed in this domain.
    adjusted_p
        Of "the error is at most the tolerance", as one of all domains.
    finding
        One of the labels of `clovecal.findings`.
    direction
        "more" or "less" where it is sure that outcomes are more or less frequent (or high) than predicted.
    rows_needed
        About how many rows would tell; None where nothing is missing or no number can be given.
    measures
        Further metrics, written out, in the order of `Report.measures`.
    """

    name: str
    rows: float
    events: float | None
    observed: float
    predicted: float
    ratio: Estimate | None
    error: Estimate
    tolerance: float
    adjusted_p: float
    finding: str
    direction: str | None
    rows_needed: int | None
    measures: tuple[str, ...]


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
    """A reliability diagram on bins that hold equal shares of all rows.

    Attributes
    ----------
    overall, curves
        All rows, and the domains that are drawn.
    low, high
        What both axes must cover; points of few rows may lie beyond.
    bins, min_rows
        Bins of all rows, and the fewest rows of a domain that a bin has unless it is the domain's only one.
    """

    overall: Curve
    curves: tuple[Curve, ...]
    low: float
    high: float
    bins: int
    min_rows: int


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


@dataclass(frozen=True)
class Shift:
    """How much more often the outcome happens in a domain than at the same score elsewhere.

    ``clear``: beyond its noise with all domains considered, in a domain that does not have too few rows.
    """

    name: str
    shift: Estimate
    clear: bool


@dataclass(frozen=True, kw_only=True)
class Invariance:
    """The test that a score means the same in every domain; ``by_domain`` has the clearest shifts, highest first."""

    rejected: bool
    p_value: float
    shift: float
    comparable: float
    sentences: tuple[str, ...]
    by_domain: tuple[Shift, ...]
    left_out: int


@dataclass(frozen=True)
class ForestLine:
    """A metric in one domain."""

    name: str
    rows: float
    estimate: Estimate


@dataclass(frozen=True, kw_only=True)
class Forest:
    """A metric in the domains that are drawn, its mean over all of them, and what it will be in a new one.

    Attributes
    ----------
    key
        The end of the name of its chart.
    label, title, meaning
        What the metric is called, in few words and on an axis, and what a value says.
    ideal
        The value of a model that is right; None where there is none.
    ratio, percent
        Whether a half is as far from 1 as a double, and whether values are shares.
    lines
        The domains, in order of evidence.
    mean, new
        The mean over domains with its confidence interval, and with the prediction interval of a new domain.
    domains
        How many have an estimate, drawn or not.
    left_out, reasons
        How many have none, and why.
    in_mean_only
        How many of those that charts show have an estimate for the mean, but no value: one of a single row.
    """

    key: str
    label: str
    title: str
    meaning: str
    ideal: float | None
    ratio: bool
    percent: bool
    lines: tuple[ForestLine, ...]
    mean: Estimate
    new: Estimate
    domains: int
    left_out: int
    reasons: str
    in_mean_only: int


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """One line of the table of what to expect in a new domain, written out; an interval that is not there is empty."""

    label: str
    mean: str
    limits: str
    spread: str
    new: str


@dataclass(frozen=True, kw_only=True)
class NewDomainForecast:
    """What to expect of the model as it is in a new domain.

    Attributes
    ----------
    sentences
        The same in words.
    domains
        How many are known.
    forests, measures
        Charts to choose from, the most telling first, and a line for each metric.
    curve
        The band of a new domain's reliability curve; empty where there is none.
    error
        A new domain's calibration error with its prediction interval, if it is of the audit's bins.
    wider
        Whether an interval of a mean, which uses no prior of how much domains differ, is wider than that of a new
        domain, which does.
    """

    sentences: tuple[str, ...]
    domains: int
    forests: tuple[Forest, ...]
    measures: tuple[Foreseen, ...]
    curve: tuple[RateAt, ...]
    error: Estimate | None
    wider: bool


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
    date, model
        When the audit was made, and of which model; empty where that is not said.
    mood
        "off" (something is miscalibrated), "within" (nothing is), "average" or "unsure": the colour of the headline.
    headline, verdict
        The answer in a few words, and in one or two sentences.
    explanations
        What the calibration error means, then what each finding means.
    key_figures, advice
        Numbers in large type, and what to do about them.
    words, measures
        What things are called; heads of the table's further columns.
    ci
        Of the audit.
    tolerance
        How far off is still called calibrated, as a noun.
    overall, domains
        The table of domains, in order of evidence.
    drawn
        Those that charts show: flagged ones and the largest, in the same order.
    diagram, histograms, invariance, new_domain, repair, labels, ranking
        Sections; None where one does not apply, and ``labels`` where it was not asked for.
    left_out_of_errors
        Domains with too few rows, whose calibration error under a recalibration is mostly noise: the errors in
        ``repair`` are of the others.
    notes
        Remarks of the caller.
    reproduction
        Pairs of a label and a value.
    command
        What makes this page again.
    """

    title: str
    date: str
    model: str
    mood: str
    headline: str
    verdict: str
    explanations: tuple[str, ...]
    key_figures: tuple[KeyFigure, ...]
    advice: tuple[Advice, ...]
    words: Words
    measures: tuple[str, ...]
    ci: float
    tolerance: str
    overall: DomainRow
    domains: tuple[DomainRow, ...]
    drawn: tuple[DomainRow, ...]
    diagram: Diagram | None
    histograms: Histograms
    invariance: Invariance | None
    new_domain: NewDomainForecast | None
    repair: RepairStudy | None
    labels: LabelsNeeded | None
    left_out_of_errors: tuple[str, ...]
    ranking: Ranking | None
    notes: tuple[str, ...]
    reproduction: tuple[tuple[str, str], ...]
    command: str
