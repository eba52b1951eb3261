"""Amazon reviews: how many stars go with this text? Domains are reviewers (paper: section 6.2, further results)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clovecal.datasets._lazy import LazyDataset, Texts
from clovecal.datasets._scores import accuracy_by, check_predicted, label_accuracy, worst
from clovecal.datasets.wilds._base import Published, check_splits, find_folder, require
from clovecal.tables.columns import read_columns

PUBLISHED = Published(
    name="amazon",
    versions=("2.1",),
    needs=("reviews.csv", "splits/user.csv"),
    counts={"train": 245_502, "id_val": 46_950, "id_test": 46_950, "val": 100_050, "test": 100_050},
    headline="tenth_percentile_accuracy",
    title="Amazon",
    task="multiclass",
    score_name="tenth percentile accuracy, %",
)
_SPLIT_OF_CODE = {0: "train", 1: "val", 2: "id_val", 3: "test", 4: "id_test"}
_UNUSED = -1


def load(root: str | Path, *, splits: str = "paper") -> LazyDataset:
    """Read the Amazon reviews from their published folder, split by reviewer.

    Parameters
    ----------
    root
        The folder that holds ``amazon_v2.1``.
    splits
        "paper" or "wilds"; here they are the same.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is the review's text, ``y`` 0 to 4 for one to five stars, ``domains`` the reviewer;
        ``metadata`` has product, category, year and row.

    Notes
    -----
    Most rows of ``reviews.csv`` are in no split; they are dropped while the file is read.
    """
    check_splits(splits)
    folder = find_folder(root, PUBLISHED)
    require(folder, *PUBLISHED.needs)
    split_table = read_columns(folder / "splits" / "user.csv", ("split",))
    code = split_table.whole("split")
    unknown = ~np.isin(code, (_UNUSED, *_SPLIT_OF_CODE))
    split_table.reject("split", unknown, f"is {code[np.argmax(unknown)]}", "it must be −1 to 4")
    columns = ("reviewText", "overall", "reviewerID", "asin", "category", "reviewYear")
    table = read_columns(folder / "reviews.csv", columns, keep=code != _UNUSED)
    stars = table.whole("overall")
    wrong = (stars < 1) | (stars > 5)
    table.reject("overall", wrong, f"is {stars[np.argmax(wrong)]}", "stars are 1 to 5")
    names = np.array([_SPLIT_OF_CODE[one] for one in range(len(_SPLIT_OF_CODE))])
    return LazyDataset(
        name="amazon",
        task="multiclass",
        classes=tuple(f"{number} star{'s' if number > 1 else ''}" for number in range(1, 6)),
        inputs=Texts(table.texts("reviewText")),
        y=stars - 1,
        domains=table.labels("reviewerID"),
        split=names[code[table.rows]],
        metadata={
            "product": table.labels("asin"),
            "category": table.labels("category"),
            "year": table.whole("reviewYear"),
            "row": table.rows,
        },
    )


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted labels: accuracy at the 10th percentile of reviewers, of all reviews, of the worst reviewer.

    Notes
    -----
    The percentile is numpy's default, linear between the two nearest reviewers, as in WILDS.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> four = LazyDataset(
    ...     "amazon", "multiclass", ("1", "2", "3", "4", "5"), Texts(np.array(list("abcd"))), np.array([4, 4, 0, 3]),
    ...     np.array(["ann", "ann", "bob", "bob"]), np.array(["test"] * 4),
    ... )
    >>> evaluate(four, [4, 4, 0, 4])  # 1 and ½: a tenth of the way from ½ to 1
    {'tenth_percentile_accuracy': 0.55, 'accuracy': 0.75, 'worst_reviewer_accuracy': 0.5}
    """
    predicted = check_predicted(data, y_pred)
    reviewers = list(accuracy_by(data.domains, data.y, predicted).values())
    return {
        "tenth_percentile_accuracy": float(np.percentile(reviewers, 10)),
        "accuracy": label_accuracy(data.y, predicted),
        "worst_reviewer_accuracy": worst(reviewers),
    }
