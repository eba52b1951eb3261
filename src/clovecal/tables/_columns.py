"""Which column is the label, the score, the domain: what the user says, or a guess that is always reported."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from clovecal.errors import InputError

_LABELS = ("y", "label", "target", "y_true", "outcome", "truth", "actual")
_SCORES = ("p", "score", "prob", "probability", "proba", "p_hat", "y_prob", "y_score", "prediction", "pred", "y_pred")
_DOMAINS = ("domain", "group", "site", "environment", "env", "hospital", "country", "region", "source")
_WEIGHTS = ("sample_weight", "weight", "frequency")
_PER_CLASS = re.compile(r"^(?:p|prob|proba|probability|score)[_ ]?(\d+)$", re.IGNORECASE)
_PER_DOMAIN = re.compile(r"^(?:domain|group|site)_(.+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Columns:
    """The columns of a prediction table.

    Attributes
    ----------
    label
        Column of labels or targets.
    scores
        One column of scores, or one per class in order.
    domains
        One column of domain labels, or several 0/1 columns of domains that may overlap.
    weight
        Column of frequencies, or None.
    guessed
        The roles that were guessed from column names.
    """

    label: str
    scores: tuple[str, ...]
    domains: tuple[str, ...]
    weight: str | None
    guessed: tuple[str, ...]

    @property
    def used(self) -> list[str]:
        """Every column that is read."""
        return [self.label, *self.scores, *self.domains, *([self.weight] if self.weight else [])]

    def __str__(self) -> str:
        said = {
            "label": repr(self.label),
            "score": ", ".join(map(repr, self.scores)),
            "domain": ", ".join(map(repr, self.domains)),
            **({"weight": repr(self.weight)} if self.weight else {}),
        }
        return "; ".join(
            f"{role} {names}{' (guessed)' if role in self.guessed else ''}" for role, names in said.items()
        )


def find_columns(
    available: Sequence[str],
    *,
    label: str | None = None,
    scores: Sequence[str] = (),
    domains: Sequence[str] = (),
    weight: str | None = None,
) -> Columns:
    """Find the columns of each role among those available.

    Parameters
    ----------
    available
        Column names of the table.
    label, scores, domains, weight
        What the user said; what is missing is guessed (a weight only by its full name).
    """
    reject_duplicates(available)
    said_names = (*([label] if label else []), *scores, *domains, *([weight] if weight else []))
    for number, name in enumerate(said_names):
        if name not in available:
            raise InputError(f"column {name!r}", "is not in the table", f"it has {_listed(available)}")
        if name in said_names[:number]:
            raise InputError(f"column {name!r}", "is named twice", "name another column for one of its two uses")
    guessed = [role for role, said in (("label", label), ("score", scores), ("domain", domains)) if not said]
    taken = {name for name in (label, weight, *scores, *domains) if name}
    free = [name for name in available if name not in taken]
    found_label = label or _one_of(_LABELS, free, "label", "--label")
    found_scores = tuple(scores) or guess_scores([name for name in free if name != found_label])
    free = [name for name in free if name != found_label and name not in found_scores]
    found_domains = tuple(domains) or _guess_domains(free)
    if weight is None:
        weight = next((name for name in free if name.lower() in _WEIGHTS), None)
        guessed += ["weight"] if weight else []
    return Columns(found_label, found_scores, found_domains, weight, tuple(guessed))


def reject_duplicates(available: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    twice = next((name for name, count in Counter(available).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"column {twice!r}", "appears more than once", "rename one of them")


def _one_of(candidates: Sequence[str], available: Sequence[str], role: str, option: str) -> str:
    by_lower = {name.lower(): name for name in reversed(available)}
    for candidate in candidates:
        if candidate in by_lower:
            return by_lower[candidate]
    raise InputError(
        option, f"is not given, and no column of {_listed(available)} looks like the {role}", "name the column"
    )


def guess_scores(available: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that look like scores: one, or one per class."""
    numbered = {int(match[1]): name for name in available if (match := _PER_CLASS.match(name))}
    if len(numbered) > 1 and sorted(numbered) == list(range(len(numbered))):
        return tuple(numbered[number] for number in sorted(numbered))
    try:
        return (_one_of(_SCORES, available, "score", "--score"),)
    except InputError:
        starting = [name for name in available if name.lower().startswith("prob")]
        if len(starting) == 1:
            return (starting[0],)
        raise


def _guess_domains(available: Sequence[str]) -> tuple[str, ...]:
    try:
        return (_one_of(_DOMAINS, available, "domain", "--domain"),)
    except InputError:
        several = tuple(name for name in available if _PER_DOMAIN.match(name))
        if len(several) > 1:
            return several
        raise


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "no columns"
