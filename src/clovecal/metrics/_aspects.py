"""The two columns that calibration compares: an outcome, and the score that is its predicted frequency.

Definition 1 of the paper compares P(y=1) with y ("positive"); its MMCE compares the top label's confidence with its
correctness ("confidence"). Its ECE is worded so that it may be either; for two classes it is "positive" here.
"""

from __future__ import annotations

import numpy as np

from clovecal._checks import AnyArray, FloatArray, check_choice
from clovecal.errors import InputError
from clovecal.rows import Rows

ASPECTS = ("positive", "confidence", "classwise")


def outcomes_and_scores(rows: Rows, of: str | None) -> list[tuple[AnyArray, FloatArray]]:
    """Return the (outcome, score) columns to compare: one pair, or one per class for ``of="classwise"``."""
    if of is None:
        of = "confidence" if rows.multiclass else "positive"
    check_choice(of, "of", ASPECTS)
    y, p = rows.y, rows.p
    if of == "classwise":
        if not rows.multiclass:
            return [(1 - y, 1 - p), (y, p)]
        return [((y == c).astype(np.float64), p[:, c]) for c in range(p.shape[1])]
    if of == "confidence":
        return [rows.top_label]
    if not rows.multiclass:
        return [(y, p)]
    if p.shape[1] == 2:
        return [(y, p[:, 1])]
    raise InputError(
        "of", f"is 'positive' but p has {p.shape[1]} classes", "use of='confidence' (the top label) or of='classwise'"
    )
