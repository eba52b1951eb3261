"""What an audit's findings come to, in sentences: each says only what its numbers show.

The terminal, the page and a notebook say the same things, so the words are here once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from clovecal.domains import DomainResult, Name
from clovecal.findings import CANNOT_TELL, LABELS, MISCALIBRATED, ON_AVERAGE, TOO_FEW, WITHIN, Finding, Tolerance
from clovecal.metrics import InvarianceTest
from clovecal.text import listed, significant

_NAMED = 4
CLEAR_P = 0.01  # between this and 1 − ci the evidence is called some evidence
_HINT_P = 0.1


def share(value: float) -> str:
    """Write a probability or a frequency in percent, a rare one with two digits.

    Examples
    --------
    >>> share(0.1842), share(0.0048), share(0.0), share(1.0)
    ('18.4%', '0.48%', '0%', '100%')
    """
    percent = 100 * value
    if percent in (0.0, 100.0):
        return f"{percent:.0f}%"
    return f"{percent:.2g}%" if percent < 1 else f"{percent:.1f}%"


def error_digits(tolerated: Iterable[float], *, most: int = 6) -> int:
    """Return how many decimals it takes to compare an error with what is tolerated, three at least.

    Parameters
    ----------
    tolerated
        The errors that are allowed.
    most
        Of decimals.

    Examples
    --------
    >>> error_digits([0.041, 0.038, 0.0012]), error_digits([0.0012])
    (3, 4)
    """
    allowed = sorted(tolerated)
    typical = allowed[len(allowed) // 2]
    return min(max(3, math.ceil(-math.log10(typical)) + 1), most) if typical > 0 else 3


def error_format(tolerated: Iterable[float], task: str) -> Callable[[float], str]:
    """Return how errors and means are written where there is one way for a whole table.

    Parameters
    ----------
    tolerated
        The errors that are allowed.
    task
        "binary", "multiclass" or "regression".
    """
    return significant if task == "regression" else f"{{:.{error_digits(tolerated)}f}}".format


def tolerated_in_words(
    tolerance: Tolerance, findings: Mapping[Name, Finding], calibration: DomainResult, *, task: str, error: str
) -> str:
    """Say what the columns "tolerated" and "p" of a table of domains are.

    Parameters
    ----------
    tolerance
        How far off is still called calibrated.
    findings, calibration
        Of each domain: its finding, and its calibration error with intervals.
    task
        "binary", "multiclass" or "regression".
    error
        What the calibration error is called.
    """
    allowed = tolerance.in_words(task)
    in_odds = task != "regression" and tolerance.absolute is None
    article = "an" if error[0] in "aeiouAEIOU" else "a"
    several = len(findings) > 1
    sentences = [
        f"Tolerated: {f'the {error} that {allowed} makes' if in_odds else allowed}.",
        f"p: of {article} {error} up to that{f', adjusted for {len(findings)} domains (Holm)' if several else ''}.",
    ]
    # A reader who compares the columns would take these for miscalibrated.
    if several and any(
        one.label != MISCALIBRATED and calibration.intervals[name][0] > one.tolerance for name, one in findings.items()
    ):
        sentences.append(
            "An interval above what is tolerated is no finding by itself: it is not adjusted for the number of "
            "domains, as p is."
        )
    return " ".join(sentences)


def percentage_points(difference: float) -> str:
    """Write a difference of two shares: with one decimal, or with two digits where it is small.

    Examples
    --------
    >>> percentage_points(0.0224), percentage_points(0.0004), percentage_points(-0.3)
    ('2.2', '0.04', '−30.0')
    """
    points = 100 * abs(difference)
    text = f"{points:.1f}" if points >= 1 or points == 0 else f"{float(f'{points:.2g}'):.12f}".rstrip("0")
    return f"−{text}" if difference < 0 else text


def finding_meanings(
    labels: Collection[str], tolerance: Tolerance, *, task: str, ci: float, needed: str = "in brackets"
) -> dict[str, str]:
    """Say what each finding means, those of ``labels``, in their order.

    Parameters
    ----------
    labels
        Which.
    tolerance
        How far off is still called calibrated.
    task
        "binary", "multiclass" or "regression".
    ci
        Of the audit.
    needed
        Where the number of rows is that would tell.
    """
    allowed, gross = tolerance.in_words(task), tolerance.gross_error_in_words(task)
    meanings = {
        MISCALIBRATED: f"p is at most {1 - ci:.2g}",
        WITHIN: "the interval ends below what is tolerated",
        ON_AVERAGE: f"the mean outcome is within {allowed}; single predictions may not be",
        TOO_FEW: f"even {gross} would often stay unseen ({needed}: rows that would show it)",
        CANNOT_TELL: f"none of these ({needed}: rows that would show whether it is right on average)",
    }
    return {label: meanings[label] for label in LABELS if label in labels}


def quantity(value: float, task: str) -> str:
    """Write a mean outcome or prediction: in percent where it is a share."""
    return significant(value) if task == "regression" else share(value)


def means_in_words(predicted: float, observed: float, task: str) -> str:
    """Say what was predicted on average and what happened.

    Examples
    --------
    >>> means_in_words(0.321, 0.07, "binary")
    'predicted 32.1%, happened 7.0%'
    """
    first, second = {
        "binary": ("predicted", "happened"),
        "multiclass": ("confidence", "correct"),
        "regression": ("predicted", "observed"),
    }[task]
    return f"{first} {quantity(predicted, task)}, {second} {quantity(observed, task)}"


def example_of(
    name: Name,
    finding: Finding,
    calibration: DomainResult,
    means: tuple[float, float],
    task: str,
    error: str,
    write: Callable[[float], str] = "{:.3f}".format,
) -> str:
    """Name a domain with the figures that tell most: the two means where they surely differ, else its error.

    Parameters
    ----------
    name, finding
        The domain and its finding.
    calibration
        The calibration error with intervals.
    means
        Its mean outcome and mean prediction.
    task
        "binary", "multiclass" or "regression".
    error
        What the calibration error is called.
    write
        How it is written.
    """
    observed, predicted = means
    if finding.direction is not None:
        return f"'{name}' ({means_in_words(predicted, observed, task)})"
    figures = _with_limits(calibration.by_domain[name], calibration.intervals[name], write)
    return f"'{name}' ({error} {figures}, though not surely off on average)"


def counted(findings: Mapping[Name, Finding], gross: str) -> str:
    """Say how many domains have which finding; ``gross`` is the error that too few rows would often hide."""
    numbers = {label: sum(one.label == label for one in findings.values()) for label in LABELS}
    words = {
        MISCALIBRATED: "miscalibrated",
        WITHIN: "shown to be within tolerance",
        ON_AVERAGE: "shown to be right on average only",
        TOO_FEW: f"with too few rows to show even {gross}",
        CANNOT_TELL: "where the rows cannot tell",
    }
    return listed([f"{number:,} {words[label]}" for label, number in numbers.items() if number])


def verdict_on_calibration(
    findings: Mapping[Name, Finding],
    overall: Finding,
    *,
    by_evidence: Sequence[Name],
    calibration: DomainResult,
    means: Mapping[Name, tuple[float, float]],
    tolerance: Tolerance,
    task: str,
    error: str,
) -> list[str]:
    """Return the sentences on calibration, the most important first.

    Parameters
    ----------
    findings, overall
        Of each domain, and of all rows together.
    by_evidence
        The domains, those with the strongest evidence of miscalibration first.
    calibration
        The calibration error with intervals.
    means
        Mean outcome and mean prediction of each domain.
    tolerance
        How far off is still called calibrated.
    task
        "binary", "multiclass" or "regression".
    error
        What the calibration error is called.
    """
    allowed = tolerance.in_words(task)
    write = error_format([one.tolerance for one in (*findings.values(), overall)], task)

    def named(some: Sequence[Name]) -> str:
        examples = [
            example_of(name, findings[name], calibration, means[name], task, error, write) for name in some[:_NAMED]
        ]
        return listed(examples + [""] * (len(some) - len(examples)), _NAMED)

    off = [name for name in by_evidence if findings[name].label == MISCALIBRATED]
    gross = tolerance.gross_error_in_words(task)
    sentences = [
        _on_domains(findings, off, named, allowed, gross),
        _on_all_rows(overall, calibration, off, findings, error, write),
    ]
    little = [name for name in by_evidence if findings[name].surely_off and findings[name].label != MISCALIBRATED]
    unsized = [name for name in little if findings[name].label != WITHIN]
    by_less = [name for name in little if findings[name].label == WITHIN]
    if unsized:
        sentences.append(f"Surely off, but not shown to be off by more than that: {named(unsized)}.")
    if by_less:
        sentences.append(f"Surely off, by less than that: {named(by_less)}.")
    return [one for one in sentences if one]


def _on_domains(
    findings: Mapping[Name, Finding],
    off: Sequence[Name],
    named: Callable[[Sequence[Name]], str],
    allowed: str,
    gross: str,
) -> str:
    k = len(findings)
    others = {name: one for name, one in findings.items() if one.label != MISCALIBRATED}
    if off:
        where = "every domain" if len(off) == k > 1 else f"{len(off)} of {k} domains"
        first = f"Miscalibrated beyond {allowed} in {where if k > 1 else 'the one domain'}: {named(off)}."
        return f"{first} The others: {counted(others, gross)}." if others else first
    if all(one.label == WITHIN for one in findings.values()):
        return f"Calibrated in {'every domain' if k > 1 else 'the one domain'}, within {allowed}."
    shown = "No domain is shown to be miscalibrated" if k > 1 else "The domain is not shown to be miscalibrated"
    if k > 1:
        return f"{shown} (beyond {allowed}); that is not proof that none is: {counted(findings, gross)}."
    (one,) = findings.values()
    rest = {
        ON_AVERAGE: "it is right on average, which says nothing of single probabilities",
        TOO_FEW: f"its rows are too few to show even {gross}",
        CANNOT_TELL: "its rows cannot tell whether it is",
    }[one.label]
    return f"{shown} (beyond {allowed}); {rest}."


def _on_all_rows(
    overall: Finding,
    calibration: DomainResult,
    off: Sequence[Name],
    findings: Mapping[Name, Finding],
    error: str,
    write: Callable[[float], str],
) -> str:
    if len(findings) < 2:
        return ""
    assert calibration.overall_interval is not None
    figures = f"{error} {_with_limits(calibration.overall, calibration.overall_interval, write)}"
    if overall.label == MISCALIBRATED:
        if off:
            return f"All rows together are miscalibrated too ({figures})."
        return f"All rows together are miscalibrated ({figures}), though no single domain has the rows to show it."
    what = {
        WITHIN: "within tolerance",
        ON_AVERAGE: "right on average",
        TOO_FEW: "too few to tell",
        CANNOT_TELL: "neither shown to be miscalibrated nor to be within tolerance",
    }[overall.label]
    return f"All rows together: {what} ({figures})."


def invariance_in_words(test: InvarianceTest, *, ci: float, task: str) -> str:
    """Say what the test shows of "a score means the same in every domain".

    Parameters
    ----------
    test
        The test.
    ci
        Its level is 1 − ci.
    task
        "binary", "multiclass" or "regression".
    """
    p = f"p = {test.p_value:.3g}"
    different = "the same score means different things in different domains"
    if test.p_value > 1 - ci:
        clearly = "There is no clear sign" if test.p_value <= max(_HINT_P, 1 - ci) else "Nothing shows"
        return f"{clearly} that {different} ({p})."
    opening = f"There is some evidence that {different}" if test.p_value > CLEAR_P else different.capitalize()
    if not test.shift > 0:  # the noise is taken off the estimate, which may leave nothing of it
        return f"{opening} ({p}), but too little to put a size to it."
    size = significant(test.shift, 3) if task == "regression" else f"{percentage_points(test.shift)} percentage points"
    return f"{opening} ({p}): {size} apart (root mean square over the rows)."


def _with_limits(value: float, limits: tuple[float, float], write: Callable[[float], str]) -> str:
    """Write an error and its interval."""
    return f"{write(value)} [{write(limits[0])}, {write(limits[1])}]"
