"""The sentences of a report, each derived from its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from clovecal.expecting import MeanChange, Repair, RepairStudy
from clovecal.report._content import Advice, DomainRow, Invariance, Words
from clovecal.text import listed as _listed

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
            success="accuracy",
            mismatch="it predicts {predicted} on average and {observed} happened",
            percent=True,
        ),
        "multiclass": Words(
            error="ECE",
            error_in_full="expected calibration error",
            loss="Brier score",
            score="confidence in the top label",
            outcome="accuracy of the top label",
            observed="correct",
            predicted="confidence",
            success=None,  # it is the observed frequency already
            mismatch="its confidence is {predicted} on average and {observed} of its top labels are correct",
            percent=True,
        ),
        "regression": Words(
            error="calibration error",
            error_in_full="calibration error of the mean",
            loss="mean squared error",
            score="predicted mean",
            outcome="observed mean",
            observed="observed",
            predicted="predicted",
            success=None,
            mismatch="it predicts {predicted} on average and {observed} was observed",
            percent=False,
        ),
    }
)
FINDINGS: Mapping[str, str] = MappingProxyType(
    {"off": "miscalibrated", "fine": "within tolerance", "unsure": "cannot tell"}
)
_NAMED = 3
_LONGEST = 60  # characters of domain names in the headline


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
    return f"{100 * value:.1f}%" if words.percent else number(value)


def difference(value: float, words: Words) -> str:
    """Write a difference of two outcomes: in percentage points where they are shares."""
    return f"{number(100 * value, 1)} percentage points" if words.percent else f"{number(value)} units of y"


def apart(test: Invariance, words: Words) -> str:
    """Say how far a score's meanings are apart; the estimate has its noise taken off, which may leave nothing."""
    if test.shift < 5e-4:
        return "less than the noise away"
    return f"typically {difference(test.shift, words)} away"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Write an interval; empty where there is none."""
    return "" if low is None or high is None else f"{number(low, digits)} to {number(high, digits)}"


def quoted(name: str) -> str:
    """Name a domain inside a sentence."""
    return f"'{name}'"


def headline(domains: Sequence[DomainRow], *, overall_off: bool, invariant: bool) -> tuple[str, str]:
    """Return the mood and the answer in a few words."""
    off = [one.name for one in domains if one.finding == "off"]
    unsure = sum(one.finding == "unsure" for one in domains)
    if len(domains) == 1:
        said = {"off": "Miscalibrated", "fine": "Calibrated", "unsure": "No sign of miscalibration, nor proof of none"}
        mood = "off" if overall_off else domains[0].finding
        return mood, said[mood]
    if off:
        opening = "Miscalibrated overall, and in" if overall_off else "Calibrated overall, but not in"
        if len(off) == len(domains):
            where = "every domain" if overall_off else "any domain"
        elif len(off) <= _NAMED and sum(map(len, off)) <= _LONGEST:
            where = listed(off)
        else:
            where = f"{len(off)} of {len(domains)} domains"
        return "off", f"{opening} {where}"
    if overall_off:
        return "off", "Miscalibrated overall"
    if not invariant:
        return "off", "Calibrated as far as can be seen, but a score’s meaning depends on the domain"
    if not unsure:
        return "fine", "Calibrated in every domain"
    few = "every domain has" if unsure == len(domains) else f"{unsure} of {len(domains)} domains have"
    return "unsure", f"No sign of miscalibration, but {few} too few rows to be sure"


def explain_error(worst: DomainRow, words: Words, task: str, tolerance: float) -> tuple[str, ...]:
    """Say what the calibration error means, and where the limit comes from."""
    value = worst.error.value
    if task == "binary":
        here = worst.predicted
        around = f"{100 * max(here - value, 0):.0f}% or {100 * min(here + value, 1):.0f}%"
        meaning = (
            f"among rows given about the same probability, the share that comes true is off by {100 * value:.1f} "
            f"percentage points on average: where the model says {100 * here:.0f}%, think of {around}"
        )
    elif task == "multiclass":
        meaning = (
            f"among rows with about the same confidence, the share of correct top labels is off by {100 * value:.1f} "
            "percentage points on average"
        )
    else:
        meaning = (
            f"among rows with about the same prediction, the mean outcome is off by {number(value)} (in units of y) "
            "on average"
        )
    article = "A" if words.error.startswith("cal") else "An"
    return (
        f"{article} {words.error} of {number(value)}, as in domain {quoted(worst.name)}, means: {meaning}.",
        f"A domain is called miscalibrated when its {words.error} is above {tolerance:g} beyond doubt, with all "
        f"{words.error} intervals widened for having looked at every domain.",
    )


def explain_invariance(test: Invariance, words: Words) -> tuple[str, ...]:
    """Say what the invariance test found."""
    p = f"p = {test.p_value:.3g}"
    if test.rejected:
        first = (
            f"The same score means different things in different domains ({p}): what happens at a given score is "
            f"{apart(test, words)} from what happens at that score in all domains together."
        )
        second = (
            "No recalibration that is the same for every domain can repair that; it can only settle for a compromise."
        )
    else:
        first = f"Nothing shows that the same score means different things in different domains ({p})."
        second = "If the model is miscalibrated, one recalibration can then repair every domain at once."
    sentences = [first, second]
    if test.comparable < 0.8:
        sentences.append(
            f"Only {test.comparable:.0%} of the rows have a score that also occurs in another domain; the test says "
            "nothing about the others."
        )
    return tuple(sentences)


def advise(
    domains: Sequence[DomainRow],
    invariance: Invariance | None,
    repair: RepairStudy | None,
    words: Words,
    ci: float,
) -> tuple[Advice, ...]:
    """Say what to do, the most urgent first."""
    advice = []
    off = [one for one in domains if one.finding == "off"]
    if off:
        advice.append(_caution(off, words))
    rejected = invariance is not None and invariance.rejected
    if repair is not None and (off or rejected or repair.helps == "yes"):
        advice.append(_recalibrate(repair, words, ci))
    if invariance is not None and rejected:
        advice.append(_not_invariant(invariance, words))
    unsure = [one for one in domains if one.finding == "unsure"]
    if unsure:
        names = listed([quoted(one.name) for one in sorted(unsure, key=lambda one: one.rows)], 5)
        advice.append(
            Advice(
                "Collect more labelled rows" + (f" in {len(unsure)} domains" if len(unsure) > 1 else ""),
                f"Too few to say whether the {words.error} is above or below the tolerance: {names}"
                f"{' (fewest rows first)' if len(unsure) > 1 else ''}.",
            )
        )
    if len(domains) == 1:
        advice.append(
            Advice(
                "Audit more than one domain",
                "One domain says nothing about another. Name a column that tells hospitals, countries, years or "
                "product lines apart, and this page compares them.",
            )
        )
    if not off and not rejected:
        advice.append(
            Advice(
                "Keep the model, and audit again when a new domain arrives",
                "Nothing here needs repair beyond doubt; a new domain may differ from those seen so far.",
            )
        )
    return tuple(advice)


def _caution(off: Sequence[DomainRow], words: Words) -> Advice:
    def said(one: DomainRow) -> str:
        means = {"predicted": share(one.predicted, words), "observed": share(one.observed, words)}
        return f"in domain {quoted(one.name)} {words.mismatch.format(**means)}"

    where = listed([quoted(one.name) for one in off]) if len(off) > 1 else f"domain {quoted(off[0].name)}"
    furthest = sorted(off, key=lambda one: -abs(one.predicted - one.observed))[:2]
    examples = "; ".join(said(one) for one in furthest)
    return Advice(f"Do not take predictions at face value in {where}", f"{examples[0].upper()}{examples[1:]}.")


def _recalibrate(repair: RepairStudy, words: Words, ci: float) -> Advice:
    before, after = repair.repairs[0], repair.of(repair.recommended)
    what = {
        "yes": f"Recalibrate with the {after.method} method",
        "perhaps": f"Recalibrating with the {after.method} method may help; the domains do not agree",
        "no": "Do not expect recalibration to help in a new domain",
    }[repair.helps]
    return Advice(what, expectation(before, after, words, ci))


def expectation(before: Repair, after: Repair, words: Words, ci: float) -> str:
    """Say what to expect in a domain nobody has seen, before and after recalibrating."""
    change = after.change or MeanChange(0.0, None, None)
    losses = number(before.mean_loss, 4), number(after.mean_loss, 4)
    if losses[0] == losses[1]:
        course = f"stays at {losses[0]}"
    else:
        course = f"{'falls' if change.value < 0 else 'rises'} from {losses[0]} to {losses[1]}"
    changes = [one.change for one in after.by_domain]
    domains = len(after.by_domain)
    spread = f"{number(min(changes), 4)} to {number(max(changes), 4)} by domain"
    limits = interval(change.low, change.high, 4)
    over_domains = f"; {ci:.0%} interval of the mean change {limits}" if limits else ""
    return (
        f"In domains left out of the fit, the {words.loss} {course} on average "
        f"(change {spread}{over_domains}), and is lower in {after.better_in} of "
        f"{domains}. The {words.error} goes from {number(before.mean_error)} to {number(after.mean_error)} on average, "
        f"and from {number(before.worst_error)} to {number(after.worst_error)} in the worst domain."
    )


def _not_invariant(test: Invariance, words: Words) -> Advice:
    extremes = (test.by_domain[0], test.by_domain[-1])

    def said(value: float) -> str:
        return f"{'+' if value > 0 else ''}{difference(value, words)}"

    most = " and ".join(f"{quoted(one.name)} ({said(one.shift.value)})" for one in extremes)
    return Advice(
        "Look for what the model misses between domains; for domains to come, retrain",
        f"Outcomes at the same score differ most in {most}. A domain with labelled rows can be recalibrated on its "
        "own; a domain nobody has seen cannot. Retraining for calibration in every domain at once (the "
        "paper's CLOvE), or a feature that explains the difference, removes the cause.",
    )
