"""Which column of a table is the label, the score, the domain: what the caller says, or a guess that is reported.

One guesser for predictions, features, images and texts; each asks only for the roles that it needs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeAlias

from clovecal.errors import InputError
from clovecal.text import quoted

ROLES = ("label", "score", "domain", "weight", "input", "split", "features")
# Names that are usual, in tiers: two of one tier are a question to the user, and an earlier tier wins over a later one.
_LABELS = (
    ("y",),
    ("label", "target", "y_true"),
    ("outcome", "event", "died", "dead", "death", "readmitted", "observed", "truth", "actual"),
)
_SCORES = (
    ("p",),
    ("prob", "probability", "proba", "p_hat", "phat", "y_prob", "y_proba", "p_pred", "predicted_probability"),
    (
        *("score", "y_score", "risk", "risk_score", "predicted_risk"),
        *("prediction", "pred", "predicted", "y_pred", "yhat", "y_hat"),
    ),
)
_DOMAINS = (
    ("domain",),
    (
        *("group", "site", "environment", "env", "source", "country", "state", "region", "county"),
        *("hospital", "center", "centre", "clinic", "ward", "institution", "facility"),
    ),
)
_WEIGHTS = (("sample_weight",), ("weight", "frequency"))
_INPUTS = {
    "image": ("file", "filename", "file_name", "filepath", "path", "image", "image_path", "img"),
    "text": ("text", "comment", "comment_text", "review", "sentence", "body", "content"),
}
_SPLIT = "split"
_ARGUMENTS = {"score": "scores", "domain": "domains"}  # of `find_roles`, where they are not called as the role
_PER_CLASS = re.compile(r"^(?:p|prob|proba|probability|score)[_ ]?(\d+)$", re.IGNORECASE)
_PER_DOMAIN = re.compile(r"^(?:domain|group|site)_(.+)$", re.IGNORECASE)


@dataclass(frozen=True)
class Roles:
    """The columns of a table by what they are.

    Attributes
    ----------
    label
        Column of labels or targets, or None.
    scores
        One column of scores, or one per class in order.
    domains
        One column of domain labels, or several 0/1 columns of domains that may overlap.
    weight
        Column of frequencies, or None.
    input
        Column of images' files or of texts, or None.
    split
        Column that says which part of the data a row is in, or None.
    features
        Columns of features.
    guessed
        The roles that were guessed from column names.
    wanted
        The roles that were looked for, whether or not they were found.
    patterns
        The patterns among the domains that the caller named.
    crossed
        Whether the columns of domains are of labels, whose values and pairs of values are the domains.
    unclear
        Of a role that need not be there, the columns that could each have it; none of them was taken.
    """

    label: str | None = None
    scores: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    weight: str | None = None
    input: str | None = None
    split: str | None = None
    features: tuple[str, ...] = ()
    guessed: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    unclear: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    crossed: bool = False

    @property
    def names_of_domains(self) -> tuple[str, ...]:
        """The columns whose values name domains: the one, or those that are crossed; none of columns of 0 and 1."""
        return self.domains if len(self.domains) == 1 or self.crossed else ()

    @property
    def to_be_said(self) -> bool:
        """Whether the user did not name every column: something was guessed, matched or left out as unclear."""
        return bool(self.guessed or self.patterns or self.unclear)

    @property
    def used(self) -> list[str]:
        """Every column that is read but the features: label, scores, domains, weight, input and split."""
        return [name for role in ROLES[:-1] for name in self.columns(role)]

    def columns(self, role: str) -> tuple[str, ...]:
        """Return the columns that have a role.

        Parameters
        ----------
        role
            One of `ROLES`.
        """
        found: str | tuple[str, ...] | None = getattr(self, {"score": "scores", "domain": "domains"}.get(role, role))
        return found if isinstance(found, tuple) else () if found is None else (found,)

    def in_words(self, kind: str = "input") -> str:
        """Return what is what, for the user to check.

        Parameters
        ----------
        kind
            What the inputs are: "image" or "text".
        """
        words = []
        for role in ("input", "label", "score", "domain", "split", "weight"):
            columns, name = self.columns(role), kind if role == "input" else role
            if columns:
                how = " (guessed)" if role in self.guessed else ""
                if role == "domain" and self.patterns:
                    how = f" (matching {quoted(self.patterns)})"
                words.append(f"{name} {quoted(columns)}{how}")
            elif role in self.unclear:
                words.append(f"no {name} (it could be {_alternatives(self.unclear[role])})")
            elif role in self.wanted and role in ("label", "domain"):
                words.append(f"no {name}")
        return "; ".join(words)

    def __str__(self) -> str:
        return self.in_words()


def find_roles(
    available: Sequence[str],
    wanted: Collection[str] = ("label", "score", "domain"),
    *,
    optional: Collection[str] = (),
    label: str | None = None,
    scores: Sequence[str] = (),
    domains: Sequence[str] = (),
    weight: str | None = None,
    input: str | None = None,
    split: str | None = None,
    features: Sequence[str] = (),
    fitted_scores: Sequence[str] = (),
    kind: str = "image",
    table: str | None = None,
) -> Roles:
    """Find the columns of each role among those available.

    Parameters
    ----------
    available
        Column names of the table.
    wanted
        The roles that must be there.
    optional
        The roles that are looked for and may be missing.
    label, scores, domains, weight, input, split, features
        What the caller says; of what is missing only the roles asked for are guessed by name. A domain that is no
        column may be a pattern, such as "id_*", for those that match it.
    fitted_scores
        The columns of scores that a calibrator was fitted on: they are taken where the table has them, and no other is
        guessed in their place.
    kind
        "image" or "text": what the inputs are, if they are asked for.
    table
        The table's name, for errors.

    Returns
    -------
    Roles
        With ``guessed``, the roles that the caller did not say.

    Notes
    -----
    A column has one role, but for a split, which may be a domain too, and features, which the caller may name twice.
    The features are all columns without another role. Two columns that could each have a role that is wanted are
    refused by name; where the role need not be there, neither is taken, and ``unclear`` names them.

    Examples
    --------
    >>> found = find_roles(["id", "y", "p_0", "p_1", "hospital"])
    >>> print(found)
    label 'y' (guessed); score 'p_0', 'p_1' (guessed); domain 'hospital' (guessed)
    >>> print(find_roles(["comment", "site"], ["input"], optional=["label", "domain"], kind="text"))
    input 'comment' (guessed); no label; domain 'site' (guessed)
    """
    shown = "the table" if table is None else repr(table)
    reject_duplicates(available)
    patterns = tuple(name for name in domains if name not in available and any(sign in name for sign in "*?["))
    others = [name for name in (label, *scores, weight, input, split) if name is not None]
    all_domains = _matching(domains, patterns, [name for name in available if name not in others], shown)
    one_role = [name for name in (label, *scores, *all_domains, weight) if name is not None]
    for name in (*one_role, input, split, *features):
        if name is not None and name not in available:
            raise InputError(
                f"column {name!r}", f"is not in {shown}", f"it has {quoted(available) if available else 'no columns'}"
            )
    twice = next((name for name, count in Counter(one_role).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"column {twice!r}", "is named twice", "name another column for one of its two uses")

    said = {
        "input": () if input is None else (input,),
        "split": () if split is None else (split,),
        "label": () if label is None else (label,),
        "score": tuple(scores),
        "domain": tuple(all_domains),
        "weight": () if weight is None else (weight,),
        "features": tuple(features),
    }
    taken = {name for names in said.values() for name in names}
    found, guessed = dict(said), []
    unclear: dict[str, tuple[str, ...]] = {}
    for role in said:
        if said[role] or role not in {*wanted, *optional}:
            continue
        free = [name for name in available if name not in taken]
        if role == "score" and fitted_scores:
            found[role] = _as_fitted(fitted_scores, free, shown)
            taken.update(found[role])
            continue
        found[role], possible = _guess(role, free, kind)
        if possible and role in wanted:
            raise InputError(
                _ARGUMENTS.get(role, role),
                f"is not given, and it could be {_alternatives(possible)}",
                "name the column",
            )
        if possible:
            unclear[role] = possible
        if found[role]:
            guessed.append(role)
            taken.update(found[role])
        elif role in wanted:
            raise _missing(role, available, kind)
    return Roles(
        label=next(iter(found["label"]), None),
        scores=found["score"],
        domains=found["domain"],
        weight=next(iter(found["weight"]), None),
        input=next(iter(found["input"]), None),
        split=next(iter(found["split"]), None),
        features=found["features"],
        guessed=tuple(guessed),
        patterns=patterns,
        unclear=unclear,
        wanted=tuple(role for role in ROLES if role in {*wanted, *optional}),
    )


def reject_duplicates(available: Sequence[str]) -> None:
    """Raise if two columns have the same name."""
    twice = next((name for name, count in Counter(available).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"column {twice!r}", "appears more than once", "rename one of them")


def _matching(domains: Sequence[str], patterns: Collection[str], available: Sequence[str], shown: str) -> list[str]:
    """Return the domain columns with every pattern replaced by the columns that match it."""
    names: dict[str, None] = {}
    for one in domains:
        if one not in patterns:
            if one in names:  # named twice, which is refused where the names are checked
                return [*names, one]
            names[one] = None
            continue
        matches = [name for name in available if fnmatchcase(name, one)]
        if not matches:
            raise InputError(
                "domains", f"is {one!r}, which matches no column of {shown}", f"it has {quoted(available)}"
            )
        names |= dict.fromkeys(matches)
    return list(names)


Guess: TypeAlias = "tuple[tuple[str, ...], tuple[str, ...]]"  # what has a role; or else what could each have it


def _guess(role: str, free: Sequence[str], kind: str) -> Guess:
    """Return the free columns that look like a role, or those of which any one could have it."""
    if role == "score":
        return _guess_scores(free)
    if role == "domain":
        several = tuple(name for name in free if _PER_DOMAIN.match(name))
        found, others = _first_of(_DOMAINS, free)
        return (found, others) if found or others else (several if len(several) > 1 else (), ())
    if role == "weight":
        return _first_of(_WEIGHTS, free)
    if role == "split":
        return ((_SPLIT,) if _SPLIT in free else ()), ()
    if role == "features":
        return tuple(free), ()
    return _first_of([(name,) for name in _INPUTS[kind]] if role == "input" else _LABELS, free)


def _as_fitted(fitted: Sequence[str], free: Sequence[str], shown: str) -> tuple[str, ...]:
    """Return the columns that a calibrator was fitted on, or raise with the column that a guess would have taken."""
    absent = [name for name in fitted if name not in free]
    if not absent:
        return tuple(fitted)
    looks, _ = _guess_scores(free)
    other = f"; {quoted(looks)}, which it has, may be something else" if looks else ""
    raise InputError(
        "scores",
        f"is not given, and {shown} has no column {quoted(absent)}, which the calibrator was fitted on{other}",
        "name the column of the same scores",
    )


def _guess_scores(available: Sequence[str]) -> Guess:
    """Return the columns that look like scores: one, or one per class; none if there are none."""
    numbered = {int(match[1]): name for name in available if (match := _PER_CLASS.match(name))}
    if len(numbered) > 1 and sorted(numbered) == list(range(len(numbered))):
        return tuple(numbered[number] for number in sorted(numbered)), ()
    found, others = _first_of(_SCORES, available)
    if found or others:
        return found, others
    starting = tuple(name for name in available if name.lower().startswith("prob"))
    return (starting, ()) if len(starting) == 1 else ((), starting)


def _first_of(usual: Sequence[Sequence[str]], available: Sequence[str]) -> Guess:
    """Return the column with a name of the first tier that has one; where it has several, all of these."""
    for tier in usual:
        found = tuple(name for name in available if name.lower() in tier)
        if found:
            return (found, ()) if len(found) == 1 else ((), found)
    return (), ()


def _alternatives(names: Sequence[str]) -> str:
    return f"{quoted(names[:-1])} or {names[-1]!r}"


def _missing(role: str, available: Sequence[str], kind: str) -> InputError:
    inputs = "the images' files" if kind == "image" else "the texts"
    looks_like = {"score": "the score", "domain": "the domain", "input": inputs}.get(role, f"the {role}")
    columns = f"no column of {quoted(available)}" if available else "no column"
    return InputError(
        _ARGUMENTS.get(role, role), f"is not given, and {columns} looks like {looks_like}", "name the column"
    )


__all__ = ["ROLES", "Roles", "find_roles", "reject_duplicates"]
