"""Finding the columns of your own table: the image's file or text, the label, the domain, the split."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clovecal import tables
from clovecal.tables import Roles, open_table

_ROLES = ("input", "label", "domain")


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
    """Find the columns of a table of images or texts.

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
    return tables.find_roles(
        open_table(table).columns,
        _ROLES if training else ("input",),
        optional=("split",) if training else ("label", "domain"),
        input=input,
        label=label,
        domains=domains,
        split=split,
        kind=kind,
        table=str(table),
    )
