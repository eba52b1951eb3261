"""CivilComments: is a comment toxic? Domains are the eight identities it may mention (paper: appendix B.3)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clovecal.datasets._lazy import LazyDataset, Texts
from clovecal.datasets._scores import average, by_domain, check_predicted, label_accuracy, worst
from clovecal.datasets.wilds._base import Published, check_splits, find_folder, require
from clovecal.tables.columns import read_columns

PUBLISHED = Published(
    name="civilcomments",
    versions=("1.0",),
    needs=("all_data_with_identities.csv",),
    counts={"train": 269_038, "val": 45_180, "test": 133_782},
    headline="average_group_accuracy",
    title="CivilComments",
    task="binary",
    score_name="average group accuracy, %",
    judged_on="test rows",  # no identity is unseen
)
IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
_FURTHER = (
    "identity_any", "severe_toxicity", "obscene", "threat", "insult", "identity_attack", "sexual_explicit",
)  # fmt: skip


def load(root: str | Path, *, splits: str = "paper") -> LazyDataset:
    """Read CivilComments from its published folder.

    Parameters
    ----------
    root
        The folder that holds ``civilcomments_v1.0``.
    splits
        "paper" or "wilds"; here they are the same.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is the comment, ``y`` 1 if at least half of the raters found it toxic, ``domains`` an (n, 8)
        membership in the identities named by ``overlapping``; ``metadata`` has further 0/1 ratings and row.

    Notes
    -----
    A comment is in a domain if at least half of its raters saw that identity mentioned; most comments are in none,
    some in several. A comment that reads "NA" or "None" is that text; the ``wilds`` package returns NaN for it.
    """
    check_splits(splits)
    folder = find_folder(root, PUBLISHED)
    require(folder, *PUBLISHED.needs)
    table = read_columns(folder / PUBLISHED.needs[0], ("comment_text", "split", "toxicity", *IDENTITIES, *_FURTHER))
    split = table.labels("split")
    unknown = ~np.isin(split, tuple(PUBLISHED.counts))
    table.reject("split", unknown, f"is {str(split[np.argmax(unknown)])!r}", "it must be train, val or test")
    # An empty cell is NaN, which is not at least one half.
    membership = np.column_stack([table.numbers(name) >= 0.5 for name in IDENTITIES])
    metadata = {name: table.numbers(name) >= 0.5 for name in _FURTHER}
    return LazyDataset(
        name="civilcomments",
        task="binary",
        classes=("civil", "toxic"),
        inputs=Texts(table.texts("comment_text")),
        y=(table.finite("toxicity") >= 0.5).astype(np.int64),
        domains=membership,
        split=split,
        metadata={**metadata, "row": table.rows},
        overlapping=IDENTITIES,
    )


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted labels over all comments, over identities, and over identities × label.

    Notes
    -----
    A *group*, in the words of WILDS, is the toxic or the civil comments that mention one identity: 16 in all.
    ``average_group_accuracy`` is the plain mean over them, ``worst_group_accuracy`` the lowest (the leaderboard's
    figure). The paper's "average group accuracy" (table 3) is read as the former; it does not define its groups.
    ``average_domain_accuracy`` and ``worst_domain_accuracy`` are over the eight identities, both labels together. A
    group without rows is left out; the ``wilds`` package counts it as 0.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> membership = np.zeros((4, 8), dtype=bool)
    >>> membership[:3, 0] = True  # three comments mention men, one no identity
    >>> four = LazyDataset(
    ...     "civilcomments", "binary", ("civil", "toxic"), Texts(np.array(list("abcd"))), np.array([0, 0, 1, 1]),
    ...     membership, np.array(["test"] * 4), {}, IDENTITIES,
    ... )
    >>> scores = evaluate(four, [0, 1, 1, 0])
    >>> scores["accuracy"], scores["average_group_accuracy"], scores["worst_group_accuracy"]
    (0.5, 0.75, 0.5)
    """
    predicted = check_predicted(data, y_pred)
    groups = [
        label_accuracy(data.y[rows], predicted[rows])
        for member in np.asarray(data.domains, dtype=bool).T
        for rows in (member & (data.y == 0), member & (data.y == 1))
    ]
    domains = by_domain(data, predicted).values() if np.any(data.domains) else ()
    return {
        "accuracy": label_accuracy(data.y, predicted),
        "average_domain_accuracy": average(domains),
        "worst_domain_accuracy": worst(domains),
        "average_group_accuracy": average(groups),
        "worst_group_accuracy": worst(groups),
    }
