"""Which column of your own table is the image's file, the text, the label, the domain or the split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clovecal._text import quoted
from clovecal.errors import InputError
from clovecal.tables import open_table
from clovecal.tables._columns import find_columns, reject_duplicates

_INPUTS = {
    "image": ("file", "filename", "file_name", "filepath", "path", "image", "image_path", "img"),
    "text": ("text", "comment", "comment_text", "review", "sentence", "body", "content"),
}
_SPLIT = "split"
_STAND_INS = ("\0score", "\0label", "\0domain")  # for roles that are not looked for


@dataclass(frozen=True)
class Roles:
    """The columns of a table, and which of them were guessed.

    Attributes
    ----------
    input, label, domains, split
        Their names; None or empty where there is none.
    guessed
        Those not said by the user: "input", "label", "domain", "split".
    """

    input: str
    label: str | None
    domains: tuple[str, ...]
    split: str | None
    guessed: tuple[str, ...]

    def in_words(self, kind: str) -> str:
        """Return what is what, for the user to check."""
        said = {
            "input": (kind, [self.input]),
            "label": ("label", [] if self.label is None else [self.label]),
            "domain": ("domain", list(self.domains)),
            "split": ("split", [] if self.split is None else [self.split]),
        }
        words = [
            f"{name} {', '.join(map(repr, columns))}{' (guessed)' if role in self.guessed else ''}"
            if columns
            else f"no {name}"
            for role, (name, columns) in said.items()
            if columns or role in ("label", "domain")
        ]
        return "; ".join(words)


def find_roles(
    table: str | Path,
    kind: str,
    *,
    input: str | None = None,
    label: str | None = None,
    domains: Sequence[str] = (),
    split: str | None = None,
    training: bool = True,
) -> Roles:
    """Find the columns of a CSV or Parquet file.

    Parameters
    ----------
    table
        The file.
    kind
        "image" or "text": what the inputs are.
    input, label, domains, split
        What the user said; what is missing is guessed by name.
    training
        Whether label and domain must be there, and a split is looked for.
    """
    opened = open_table(str(table))
    if opened.format not in ("csv", "parquet"):
        raise InputError(f"table {str(table)!r}", f"is in the format {opened.format}", "give CSV or Parquet")
    available = list(opened.columns)
    reject_duplicates(available)
    for name in (input, label, *domains, split):
        if name is not None and name not in available:
            raise InputError(
                f"column {name!r}", f"is not in {str(table)!r}", f"it has {', '.join(map(repr, available))}"
            )
    found_input = input or _guess_input(available, kind, str(table))
    guessed = ["input"] if input is None else []
    if split is None and training and _SPLIT in available and _SPLIT not in (label, *domains, found_input):
        split = _SPLIT
        guessed.append("split")
    free = [name for name in available if name in (label, *domains) or name not in (found_input, split)]
    if training:
        found = find_columns([*free, _STAND_INS[0]], label=label, scores=_STAND_INS[:1], domains=domains)
        guessed += [role for role in found.guessed if role in ("label", "domain")]
        return Roles(found_input, found.label, found.domains, split, tuple(guessed))
    found_label, found_domains = _those_there(free, label, tuple(domains))
    guessed += ["label"] * (label is None and found_label is not None)
    guessed += ["domain"] * (not domains and bool(found_domains))
    return Roles(found_input, found_label, found_domains, split, tuple(guessed))


def _guess_input(available: Sequence[str], kind: str, table: str) -> str:
    by_lower = {name.lower(): name for name in reversed(available)}
    found = next((by_lower[name] for name in _INPUTS[kind] if name in by_lower), None)
    if found is None:
        what = "the images' files" if kind == "image" else "the texts"
        if len(available) == 1 and ";" in available[0]:
            raise InputError(f"table {table!r}", "is separated by semicolons", "save it with commas")
        raise InputError(
            "input",
            f"cannot be guessed: no column of {table!r} looks like {what}",
            f"choose one of {quoted(available)}",
        )
    return found


def _those_there(free: list[str], label: str | None, domains: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the label's column and the domains' where there are some."""
    score, no_label, no_domain = _STAND_INS
    if label is None:
        try:
            label = find_columns([*free, score, no_domain], scores=(score,), domains=domains or (no_domain,)).label
        except InputError:
            label = None
    if not domains:
        try:
            domains = find_columns(
                [*(name for name in free if name != label), score, no_label], label=no_label, scores=(score,)
            ).domains
        except InputError:
            domains = ()
    return label, domains
