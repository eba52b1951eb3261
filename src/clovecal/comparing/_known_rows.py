"""Rows that a calibrator was fitted on or adapted with, which flatter it, among those that it is judged on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clovecal._checks import FloatArray
from clovecal.calibrators import AdaptedCalibrator, Calibrator
from clovecal.domains import Name
from clovecal.rows import Rows
from clovecal.text import listed

_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class KnownRows:
    """What a calibrator recognises of the rows that it is to be judged on.

    Attributes
    ----------
    same_rows
        Whether they are those of its fit; None where that cannot be told.
    domains_of_fit
        Domains whose rows are.
    rows_of_adapting
        How many it was adapted with.
    remarks
        What it cannot recognise.
    """

    same_rows: bool | None = None
    domains_of_fit: tuple[Name, ...] = ()
    rows_of_adapting: int = 0
    remarks: tuple[str, ...] = ()

    def notice(self, n_domains: int) -> str:
        """Say what to know before any figure of so many domains; nothing where nothing is recognised."""
        said = []
        flatter = "they flatter it. Compare on rows it has not seen."
        if self.same_rows:
            said.append(f"These are the rows it was fitted on: {flatter}")
        elif self.domains_of_fit:
            names = listed([str(name) for name in self.domains_of_fit], _NAMED)
            rows = f"{len(self.domains_of_fit)} of {n_domains} domains"
            said.append(f"It was fitted on the rows of {rows} ({names}): {flatter}")
        if self.rows_of_adapting:
            said.append(f"It was adapted with {self.rows_of_adapting:,} of these rows: {flatter}")
        return " ".join(said)


def rows_known_to(calibrator: Calibrator, scores: FloatArray, rows: Rows) -> KnownRows:
    """Return what a calibrator recognises of rows with these scores."""
    y = rows.y.astype(np.float64)
    same: bool | None = None
    of_fit: tuple[Name, ...] = ()
    if calibrator.fitted_on_ is not None:
        same, of_fit = calibrator.fitted_on_.same_rows(scores, y, weight=rows.weight, domains=rows.domains)
    if not isinstance(calibrator, AdaptedCalibrator) or not calibrator.labels_:
        return KnownRows(same_rows=same, domains_of_fit=of_fit)
    here = [
        one.rows for one in calibrator.adapted_on_ if one.stands_in(scores, y, weight=rows.weight, domains=rows.domains)
    ]
    remarks = []
    if len(here) < max(len(calibrator.adapted_on_), 1):
        of_all = f" of the {calibrator.labels_:,.10g}" if here else ""
        labelled = (
            f"{calibrator.labels_ - sum(here):,.10g}{of_all} labelled rows" if calibrator.labels_ > 1 else "a row"
        )
        remarks.append(
            f"It was adapted with {labelled} that are not recognised here, and would flatter it: about 24 or more that "
            "stand together would be."
        )
    return KnownRows(same_rows=same, domains_of_fit=of_fit, rows_of_adapting=sum(here), remarks=tuple(remarks))
