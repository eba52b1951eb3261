"""The sentences of a report, each derived from its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from clovecal.expecting import MeanChange, Repair, RepairStudy
from clovecal.findings import CANNOT_TELL, MISCALIBRATED, ON_AVERAGE, TOO_FEW, WITHIN
from clovecal.report._content import Advice, DomainRow, Estimate, Invariance, Shift, Words
from clovecal.text import listed as _listed
from clovecal.text import significant
from clovecal.verdicts import CLEAR_P, percentage_points, quantity

WORDS: Mapping[str, Words] = MappingProxyType(
    {
        "binary": Words(
            error="ECE",
            error_in_full="expected calibration error",
            loss="Brier score",
            score="predicted probability",
            outcome="observed frequency",
            observed="happened",
            predicted="predicted",
            mismatch="it predicts {predicted} on average and {observed} happened",
            percent=True,
            task="binary",
        ),
        "multiclass": Words(
            error="ECE",
            error_in_full="expected calibration error",
            loss="Brier score",
            score="confidence in the top label",
            outcome="accuracy of the top label",
            observed="correct",
            predicted="confidence",
            mismatch="its confidence is {predicted} on average and {observed} of its top labels are correct",
            percent=True,
            task="multiclass",
        ),
        "regression": Words(
            error="calibration error",
            error_in_full="calibration error of the mean",
            loss="mean squared error",
            score="predicted mean",
            outcome="observed mean",
            observed="observed",
            predicted="predicted",
            mismatch="it predicts {predicted} on average and {observed} was observed",
            percent=False,
            task="regression",
        ),
    }
)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a metric is called where its value in a new domain is told, and how it is written.

    Attributes
    ----------
    label, axis
        In few words, and on the axis of a chart.
    meaning
        What a value says, in a sentence; empty for what needs none.
    percent
        Whether it is a share.
    digits
        Decimals; None: as many as a calibration error, or a loss, has in the rest of the page.
    """

    label: str
    axis: str = ""
    meaning: str = ""
    percent: bool = False
    digits: int | None = 2

    def write(self, value: float, words: Words) -> str:
        """Write a value."""
        if self.percent:
            return percent(value)
        return number(value, words.digits if self.digits is None else self.digits)


# In the order of the table of what to expect in a new domain.
MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        "observed_expected": Measure(
            label="Observed over predicted (O:E)",
            axis="observed over predicted (O:E)",
            meaning="Above 1, more events than predicted; a half is drawn as far from 1 as a double.",
        ),
        "calibration_intercept": Measure(
            label="Calibration intercept",
            axis="calibration intercept, in log-odds",
            meaning="Above 0, more events than predicted: by so much all log-odds are too low.",
        ),
        "calibration_slope": Measure(
            label="Calibration slope", axis="calibration slope", meaning="Below 1, predictions are too extreme."
        ),
        "ece": Measure(label="ECE", digits=None),
        "accuracy": Measure(label="Accuracy", axis="accuracy", percent=True),
        "auc": Measure(label="AUC", axis="AUC", digits=3),
        "sensitivity": Measure(label="Sensitivity", axis="sensitivity", percent=True),
        "specificity": Measure(label="Specificity", axis="specificity", percent=True),
        "brier": Measure(label="Brier score", digits=3),
        "log_loss": Measure(label="Log-loss", digits=3),
        "mean_residual": Measure(
            label="Mean residual",
            axis="mean residual, in units of y",
            meaning="Above 0, outcomes are higher than predicted.",
            digits=None,
        ),
        "regression_slope": Measure(
            label="Slope", axis="slope of y on the prediction", meaning="Below 1, predictions are too extreme."
        ),
    }
)
# Those that a page draws by domain, the most telling first.
FORESTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "binary": (
            "observed_expected",
            "calibration_intercept",
            "calibration_slope",
            "auc",
            "sensitivity",
            "specificity",
        ),
        "multiclass": ("accuracy",),
        "regression": ("mean_residual", "regression_slope"),
    }
)
_SCALES = MappingProxyType({"identity": "", "log": " (of the logarithm)", "logit": " (of the log-odds)"})
ALL_ROWS = "all rows"
_NAMED = 3
_SMALLEST_P = 0.001  # that is written as a number
_LONGEST = 60  # characters of domain names in the headline
_ABLE = "that have rows enough to tell"


def listed(items: Sequence[str], most: int = _NAMED) -> str:
    """Join items as prose, the surplus as a number."""
    return _listed(items, most)


def number(value: float, digits: int = 3) -> str:
    """Write a number with a real minus sign, and with few digits where it is large.

    Examples
    --------
    >>> number(-0.04251), number(1234.5)
    ('−0.043', '1,234')
    """
    size = abs(value)
    if size >= 1000:
        text = f"{size:,.0f}"
    elif size >= 10:
        text = f"{size:.{max(digits - 2, 1)}f}"
    else:
        text = f"{size:.{digits}f}"
    return f"−{text}" if value < 0 and text.strip("0.,") else text


def share(value: float, words: Words) -> str:
    """Write an outcome or a score: in percent where it is a share."""
    return quantity(value, words.task) if words.percent else number(value, words.digits)


def percent(value: float) -> str:
    """Write a share in percent."""
    return f"{100 * value:.1f}%"


def error(value: float, words: Words) -> str:
    """Write a calibration error, with digits enough to compare it with what is tolerated."""
    return number(value, words.digits)


def limits(one: Estimate, words: Words) -> str:
    """Write the interval of a calibration error; empty where there is none."""
    return interval(one.low, one.high, words.digits)


def p_value(value: float) -> str:
    """Write a p-value for a table.

    Examples
    --------
    >>> p_value(0.0004), p_value(0.0496), p_value(1.0)
    ('<0.001', '0.050', '1.000')
    """
    return f"{value:.3f}" if value >= _SMALLEST_P else f"<{_SMALLEST_P:g}"


def difference(value: float, words: Words) -> str:
    """Write a difference of two outcomes: in percentage points where they are shares."""
    if not words.percent:
        return f"{number(value, words.digits)} units of y"
    return f"{percentage_points(value)} percentage points"


def apart(test: Invariance, words: Words) -> str:
    """Say how far a score's meanings are apart; the estimate has its noise taken off, which may leave nothing."""
    if not test.shift > 0:
        return "too little to put a size to it"
    return f"{difference(test.shift, words)} apart (root mean square over rows)"


def width(value: float, words: Words) -> str:
    """Write the width of an interval of outcomes.

    Examples
    --------
    >>> width(0.291, WORDS["binary"])
    '29.1 points'
    """
    return f"{percentage_points(value)} points" if words.percent else number(value, words.digits)


def spread(between_sd: float, scale: str | None) -> str:
    """Write a standard deviation between domains, with the scale that it is on.

    Examples
    --------
    >>> spread(0.1734, "log")
    '0.17 (of the logarithm)'
    """
    return f"{significant(between_sd, 2) if between_sd else '0'}{_SCALES[scale or 'identity']}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Write an interval; empty where there is none."""
    return "" if low is None or high is None else f"{number(low, digits)} to {number(high, digits)}"


def quoted(name: str) -> str:
    """Name a domain inside a sentence."""
    return f"'{name}'"


def _with(domains: Sequence[DomainRow], label: str) -> list[DomainRow]:
    return [one for one in domains if one.finding == label]


def headline(
    domains: Sequence[DomainRow], overall: str, invariance: Invariance | None, tolerance: str
) -> tuple[str, str]:
    """Return the mood and the answer in a few words.

    Parameters
    ----------
    domains
        The table.
    overall
        The finding of all rows together.
    invariance
        The test that a score means the same in every domain, if there is one.
    tolerance
        How far off is still called calibrated, as a noun.
    """
    off = [one.name for one in _with(domains, MISCALIBRATED)]
    if len(domains) == 1:
        return {
            MISCALIBRATED: ("off", "Miscalibrated"),
            WITHIN: ("within", f"Calibrated, within {tolerance}"),
            ON_AVERAGE: ("average", "Right on average; single predictions may not be"),
            TOO_FEW: ("unsure", "Too few rows to tell"),
            CANNOT_TELL: ("unsure", "The rows cannot tell whether it is calibrated"),
        }[domains[0].finding]
    if off:
        if len(off) == len(domains):
            return "off", "Miscalibrated in every domain"
        if len(off) <= _NAMED and sum(map(len, off)) <= _LONGEST:
            return "off", f"Miscalibrated in {listed(off)}"
        return "off", f"Miscalibrated in {len(off)} of {len(domains)} domains"
    if overall == MISCALIBRATED:
        return "off", "Miscalibrated over all rows, in no single domain for sure"
    if invariance is not None and invariance.rejected:
        some = "" if invariance.p_value <= CLEAR_P else "Some evidence that "
        return (
            "off" if not some else "unsure",
            f"{some or ''}{'a' if some else 'A'} score’s meaning depends on the domain",
        )
    untold = len(_with(domains, TOO_FEW)) + len(_with(domains, CANNOT_TELL))
    if untold:
        if untold == len(domains):
            return "unsure", "No domain is shown to be miscalibrated, and none to be calibrated"
        return "unsure", f"No domain is shown to be miscalibrated; in {untold} of {len(domains)} the rows cannot tell"
    if _with(domains, ON_AVERAGE):
        return "average", "Right on average in every domain"
    return "within", f"Calibrated in every domain, within {tolerance}"


def explain_error(one: DomainRow, words: Words) -> str:
    """Say what the calibration error of a domain, or of all rows, means there."""
    value, low, high = one.error.value, one.error.low, one.error.high
    among, what = {
        "binary": ("about the same probability", "the share that comes true"),
        "multiclass": ("about the same confidence", "the share of correct top labels"),
        "regression": ("about the same prediction", "the mean outcome"),
    }[words.task]
    size = difference(value, words)
    between = ""
    if low is not None and high is not None:
        ends = [100 * end for end in (low, high)] if words.percent else [low, high]
        digits = words.digits - 2 if words.percent else words.digits
        between = f" (interval {number(ends[0], digits)} to {number(ends[1], digits)})"
    means = {"predicted": share(one.predicted, words), "observed": share(one.observed, words)}
    direction = f" Here {words.mismatch.format(**means)}." if one.direction else ""
    article = "A" if words.error.startswith("cal") else "An"
    where = "over all rows" if one.name == ALL_ROWS else f"as in domain {quoted(one.name)}"
    return (
        f"{article} {words.error} of {error(value, words)}, {where}, means: among rows with {among}, {what} is off by "
        f"{size} on average{between}.{direction}"
    )


def explain_invariance(
    test: Invariance, sentence: str, repair: RepairStudy | None, words: Words, *, partly: bool = False
) -> tuple[str, ...]:
    """Say what the invariance test found, and what one recalibration for all does to the error.

    Parameters
    ----------
    test
        Its figures.
    sentence
        The same in words, as the terminal has it.
    repair
        What recalibration does in left-out domains, if that is known.
    words
        What things are called.
    partly
        Whether the study's errors are those of the domains that do not have too few rows.
    """
    sentences = [sentence]
    if test.rejected:
        figures = f" {pooled_map(repair, words, partly=partly)}" if repair is not None else ""
        sentences.append(
            "One recalibration for all domains cannot remove such a difference, only the error that they share."
            f"{figures}"
        )
    else:
        sentences.append("As far as these rows show, one recalibration can serve every domain.")
    if test.comparable < 0.8:
        sentences.append(
            f"Only {test.comparable:.0%} of the rows have a score that also occurs in another domain; the test says "
            "nothing about the others."
        )
    return tuple(sentences)


def pooled_map(repair: RepairStudy, words: Words, *, partly: bool = False) -> str:
    """Say how much of the error in left-out domains one recalibration for all takes away.

    ``partly``: the errors are those of the domains that do not have too few rows.
    """
    before, after = repair.repairs[0], repair.of(repair.recommended)
    able = f" {_ABLE}" if partly else ""
    first, then = error(before.mean_error, words), error(after.mean_error, words)
    course = f"leaves the {words.error} in left-out domains{able} at {first}"
    if first != then:
        course = f"takes the {words.error} in left-out domains{able} from {first} to {then}"
    return f"The {after.method} method, fitted on the other domains, {course} on average."


def advise(
    domains: Sequence[DomainRow],
    overall: DomainRow,
    invariance: Invariance | None,
    repair: RepairStudy | None,
    words: Words,
    ci: float,
) -> tuple[Advice, ...]:
    """Say what to do, the most urgent first."""
    advice = []
    off = _with(domains, MISCALIBRATED)
    if off:
        advice.append(_caution(off, words))
    elif overall.finding == MISCALIBRATED:
        advice.append(_caution_everywhere(overall, words))
    rejected = invariance is not None and invariance.rejected
    asked = bool(off) or rejected or overall.finding == MISCALIBRATED or (repair is not None and repair.helps == "yes")
    if repair is not None and asked:
        partly = 0 < len(_with(domains, TOO_FEW)) < len(domains)
        advice.append(_recalibrate(repair, words, ci, partly=partly))
    if invariance is not None and rejected:
        advice.append(_not_invariant(invariance, words))
    # Where there are rows enough and the mean is near the edge of what is tolerated, more are not promised to tell.
    untold = [one for one in domains if one.finding in (TOO_FEW, CANNOT_TELL) and one.rows_needed]
    if untold:
        advice.append(_collect(untold, len(domains)))
    if len(domains) == 1:
        advice.append(
            Advice(
                "Audit more than one domain",
                "One domain says nothing about another. Name a column that tells hospitals, countries, years or "
                "product lines apart, and this page compares them.",
            )
        )
    if not asked:
        advice.append(_keep(domains))
    return tuple(advice)


def _caution(off: Sequence[DomainRow], words: Words) -> Advice:
    def said(one: DomainRow) -> str:
        where = f"in domain {quoted(one.name)}"
        if one.direction is None:
            between = limits(one.error, words)
            return f"{where} the {words.error} is {error(one.error.value, words)}{f' ({between})' if between else ''}"
        means = {"predicted": share(one.predicted, words), "observed": share(one.observed, words)}
        return f"{where} {words.mismatch.format(**means)}"

    where = listed([quoted(one.name) for one in off]) if len(off) > 1 else f"domain {quoted(off[0].name)}"
    examples = "; ".join(map(said, off[:2]))
    return Advice(f"Do not take predictions at face value in {where}", f"{examples[0].upper()}{examples[1:]}.")


def _caution_everywhere(overall: DomainRow, words: Words) -> Advice:
    """Warn of an error that only all rows together show."""
    between = limits(overall.error, words)
    figures = f"{error(overall.error.value, words)}{f', {between}' if between else ''}"
    above = f"the {words.error} ({figures}) is above what is tolerated; in which domains, their rows do not show."
    if overall.direction is None:
        return Advice("Do not take predictions at face value", f"Over all rows {above}")
    means = {"predicted": share(overall.predicted, words), "observed": share(overall.observed, words)}
    said = words.mismatch.format(**means)
    return Advice("Do not take predictions at face value", f"Over all rows {said}, and {above}")


def _recalibrate(repair: RepairStudy, words: Words, ci: float, *, partly: bool) -> Advice:
    before, after = repair.repairs[0], repair.of(repair.recommended)
    nothing = number(before.mean_loss, words.loss_digits) == number(after.mean_loss, words.loss_digits)
    what = {
        "yes": f"Recalibrate with the {after.method} method",
        "perhaps": f"Recalibrating with the {after.method} method may help; the domains do not agree",
        "no": "Recalibration is not shown to help in a new domain",
    }["no" if repair.helps == "perhaps" and nothing else repair.helps]
    return Advice(what, expectation(before, after, words, ci, partly=partly))


def expectation(before: Repair, after: Repair, words: Words, ci: float, *, partly: bool = False) -> str:
    """Say what to expect in a domain nobody has seen, before and after recalibrating.

    ``partly``: the errors are those of the domains that do not have too few rows.
    """
    change = after.change or MeanChange(0.0, None, None)
    digits = words.loss_digits
    losses = number(before.mean_loss, digits), number(after.mean_loss, digits)
    if losses[0] == losses[1]:
        course = f"stays at {losses[0]}"
    else:
        course = f"{'falls' if change.value < 0 else 'rises'} from {losses[0]} to {losses[1]}"
    changes = [one.change for one in after.by_domain]
    domains = len(after.by_domain)
    spread = f"{number(min(changes), digits)} to {number(max(changes), digits)} by domain"
    between = interval(change.low, change.high, digits)
    over_domains = f"; {ci:.0%} interval of the mean change {between}" if between else ""
    return (
        f"In domains left out of the fit, the {words.loss} {course} on average "
        f"(change {spread}{over_domains}), and is lower in {after.better_in} of "
        f"{domains}. The {words.error} {_course(before.mean_error, after.mean_error, words)} on average"
        f"{f' of those {_ABLE}' if partly else ''}, and {_course(before.worst_error, after.worst_error, words)} in the "
        "worst domain."
    )


def _course(first: float, then: float, words: Words) -> str:
    before, after = error(first, words), error(then, words)
    return f"stays at {after}" if before == after else f"goes from {before} to {after}"


def _not_invariant(test: Invariance, words: Words) -> Advice:
    def said(one: Shift) -> str:
        sign = "+" if one.shift.value > 0 else ""
        return f"{quoted(one.name)} ({sign}{difference(one.shift.value, words)})"

    clear = [one for one in test.by_domain if one.clear]  # the furthest up and down of them; others may be noise
    ends = list(dict.fromkeys([clear[0], clear[-1]])) if clear else []
    most = f"Outcomes at the same score differ most in {listed([said(one) for one in ends])}. " if ends else ""
    return Advice(
        "Look for what the model misses between domains; for domains to come, consider retraining",
        f"{most}Once some rows of a new domain are labelled, a calibrator that knows how domains differ can be adapted "
        "to it; before that, only the range of what it may be like is known. Retraining for calibration in every "
        "domain at once (the paper's CLOvE), or a feature that explains the difference, can remove the cause.",
    )


def _collect(untold: Sequence[DomainRow], domains: int) -> Advice:
    if domains == 1:
        needed = untold[0].rows_needed
        rows = f" They are {untold[0].rows:,.0f} of about {needed:,} needed." if needed else ""
        return Advice("Collect more labelled rows", f"These do not show whether the model is right.{rows}")
    where = "every domain" if len(untold) == domains else f"{len(untold)} of {domains} domains"
    nearest = sorted((one for one in untold if one.rows_needed), key=lambda one: (one.rows_needed or 0) - one.rows)
    named = [f"{quoted(one.name)} has {one.rows:,.0f} of about {one.rows_needed:,} needed" for one in nearest[:_NAMED]]
    examples = f" Nearest to an answer: {'; '.join(named)}." if named else ""
    return Advice(
        f"Collect more labelled rows in {where}",
        f"The rows there do not show whether the model is right.{examples} Until then, or where there never will be "
        "so many, domains that belong together can be audited as one.",
    )


def _keep(domains: Sequence[DomainRow]) -> Advice:
    if len(_with(domains, WITHIN)) == len(domains):
        return Advice(
            "Keep the model, and audit again when a new domain arrives",
            "Every domain is shown to be within tolerance; a new domain may differ from those seen so far.",
        )
    return Advice(
        "Nothing here asks for a repair; do not read that as proof that none is needed",
        "No domain is shown to be miscalibrated, and not every domain is shown to be calibrated. Audit again with "
        "more rows, and when a new domain arrives.",
    )
