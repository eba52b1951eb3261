"""Camelyon17: does the centre of a tissue patch hold tumour? Domains are hospitals (paper: appendix B.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from clovecal.datasets._lazy import Files, LazyDataset, decode_image, need_pillow
from clovecal.datasets._scores import accuracy_by, check_predicted, label_accuracy, worst
from clovecal.datasets.splits import hold_out
from clovecal.datasets.wilds._base import MINIATURE_SHARE, Published, check_splits, find_folder, is_miniature, require
from clovecal.tables.columns import read_columns

PUBLISHED = Published(
    name="camelyon17",
    versions=("1.0",),
    needs=("metadata.csv", "patches"),
    counts={"train": 302_436, "id_val": 33_560, "val": 34_904, "test": 85_054},
    headline="accuracy",
    title="Camelyon17",
    task="binary",
    score_name="accuracy, %",
)
_COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
_TEST, _VALIDATION = 2, 1  # WILDS counts the hospitals from 0
_VALIDATION_PATCHES = 15_000


def load(
    root: str | Path, *, splits: str = "paper", validation: float | int | None = None, seed: int = 0
) -> LazyDataset:
    """Read Camelyon17 from its published folder.

    Parameters
    ----------
    root
        The folder that holds ``camelyon17_v1.0``.
    splits
        "paper": train and validate on hospitals 0, 1, 3 and 4, test on hospital 2. "wilds": train on 0, 3 and 4
        (with ``id_val`` from the same), validate on hospital 1, test on hospital 2.
    validation
        For "paper": patches of each hospital to validate on, or the share of its patches; None: 15,000, the paper's,
        and in a generated miniature a fifth.
    seed
        For "paper": seed of the choice of those patches.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is a (96, 96, 3) uint8 patch, ``y`` 1 for tumour, ``domains`` "hospital 0" to "hospital 4";
        ``metadata`` has hospital, slide, patient and row.

    Notes
    -----
    The published table has 455,954 patches, 85,054 of them from hospital 2. The paper's appendix states 335,996
    patches for training, which is what hospitals 0, 3 and 4 have together (302,436 + 33,560): that count leaves
    hospital 1 out, and the validation patches in. Its rule is kept here instead: the four hospitals have 370,900
    patches, of which 4 × 15,000 are for validation and 310,900 for training. The paper does not say how the validation
    patches are chosen; here at random within a hospital, so neighbours on one slide may be on both sides.
    """
    check_splits(splits)
    folder = find_folder(root, PUBLISHED)
    require(folder, *PUBLISHED.needs)
    need_pillow()
    table = read_columns(folder / "metadata.csv", _COLUMNS)
    hospital = table.whole("center")
    domains = np.char.add("hospital ", hospital.astype(np.str_))
    if validation is None:
        validation = MINIATURE_SHARE if is_miniature(folder) else _VALIDATION_PATCHES
    if splits == "paper":
        split = hold_out(domains, test=[f"hospital {_TEST}"], validation=validation, seed=seed)
    else:
        held = table.whole("split")
        wrong = ~np.isin(held, (0, 1))
        table.reject("split", wrong, f"is {held[np.argmax(wrong)]}", "it must be 0 or 1")
        split = np.where(held == 1, "id_val", "train")
        split = np.where(hospital == _VALIDATION, "val", np.where(hospital == _TEST, "test", split))
    patient, node, x, y = (table.labels(name) for name in _COLUMNS[:4])
    names = [
        f"patient_{p}_node_{n}/patch_patient_{p}_node_{n}_x_{i}_y_{j}.png"
        for p, n, i, j in zip(patient.tolist(), node.tolist(), x.tolist(), y.tolist(), strict=True)
    ]
    inputs = Files(folder / "patches", np.array(names, dtype=np.dtypes.StringDType()), table.rows, decode_image)
    metadata = {"hospital": hospital, "slide": table.whole("slide"), "patient": patient, "row": table.rows}
    return LazyDataset(
        name="camelyon17",
        task="binary",
        classes=("normal", "tumor"),
        inputs=inputs,
        y=table.whole("tumor"),
        domains=domains,
        split=split,
        metadata=metadata,
    )


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted labels: accuracy (the paper's), and that of the worst hospital and slide.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> four = LazyDataset(
    ...     "camelyon17", "binary", ("normal", "tumor"), Texts(np.array(list("abcd"))), np.array([0, 1, 1, 0]),
    ...     np.array(["hospital 2"] * 4), np.array(["test"] * 4), {"slide": np.array([20, 20, 21, 21])},
    ... )
    >>> evaluate(four, [0, 1, 0, 0])
    {'accuracy': 0.75, 'worst_hospital_accuracy': 0.75, 'worst_slide_accuracy': 0.5}
    """
    predicted = check_predicted(data, y_pred)
    return {
        "accuracy": label_accuracy(data.y, predicted),
        "worst_hospital_accuracy": worst(accuracy_by(data.domains, data.y, predicted).values()),
        "worst_slide_accuracy": worst(accuracy_by(data.metadata["slide"], data.y, predicted).values()),
    }
