"""PovertyMap: how wealthy is the place in an image? Domains are country × urban/rural (paper: appendix B.1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clovecal._checks import AnyArray, check_choice
from clovecal.datasets._lazy import Files, Inputs, LazyDataset, combined, decode_npz
from clovecal.datasets._scores import check_predicted, pearson, worst
from clovecal.datasets.splits import held_out_count
from clovecal.datasets.wilds._base import (
    MINIATURE_SHARE,
    Published,
    check_splits,
    find_folder,
    is_miniature,
    require,
    version_of,
)
from clovecal.errors import InputError
from clovecal.tables.columns import read_columns

PUBLISHED = Published(
    name="poverty",
    versions=("1.1", "1.0"),
    needs=("dhs_metadata.csv",),
    counts={"train": 9_797, "id_val": 1_000, "id_test": 1_000, "val": 3_909, "test": 3_963},  # fold A
    headline="pearson",
    title="PovertyMap",
    task="regression",
    score_name="Pearson's r",
    scale=1,
    digits=(3, 3),
    error_unit="units of wealth",
)
# Five sets of countries; each fold tests on one of them and validates on another (Yeh et al. 2020).
COUNTRIES_BY_FOLD = {
    "A": ("angola", "cote_d_ivoire", "ethiopia", "mali", "rwanda"),
    "B": ("benin", "burkina_faso", "guinea", "sierra_leone", "tanzania"),
    "C": ("cameroon", "ghana", "malawi", "zimbabwe"),
    "D": ("democratic_republic_of_congo", "mozambique", "nigeria", "togo", "uganda"),
    "E": ("kenya", "lesotho", "senegal", "zambia"),
}
COUNTRIES = tuple(sorted(country for countries in COUNTRIES_BY_FOLD.values() for country in countries))
_VALIDATED_ON = {"A": "B", "B": "C", "C": "D", "D": "E", "E": "A"}
_IN_DOMAIN_ROWS = 2_000  # half for id_val, half for id_test
_SEED_OFFSET = 541_433  # WILDS adds it to the letter's code, and so must the same rows


@dataclass(frozen=True, eq=False)
class MemoryMapped:
    """Rows of one (n, height, width, channels) array on disk, as version 1.0 has them; an `Inputs`."""

    path: Path
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> npt.NDArray[np.float32]:
        row = self.rows[index]
        images = np.load(self.path, mmap_mode="r", allow_pickle=False)  # opened each time: nothing to pickle
        if row >= len(images):
            raise InputError(
                f"file {str(self.path)!r}", f"has {len(images)} images, none for data row {row + 1}", "get it again"
            )
        return np.array(images[row].transpose(2, 0, 1), dtype=np.float32)

    def subset(self, rows: AnyArray) -> MemoryMapped:
        """Return the images at these positions, in this order."""
        return replace(self, rows=self.rows[rows])


def load(
    root: str | Path, *, splits: str = "paper", fold: str = "A", in_domain: float | int | None = None
) -> LazyDataset:
    """Read PovertyMap from its published folder.

    Parameters
    ----------
    root
        The folder that holds ``poverty_v1.1`` (or ``poverty_v1.0``).
    splits
        "paper" or "wilds"; here they are the same.
    fold
        Which countries to hold out, "A" to "E"; the paper's counts are those of A.
    in_domain
        Rows of the training countries kept for id_val and id_test, half each, or the share of their rows; None: 2,000,
        the published number, and in a generated miniature a fifth.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is an (8, 224, 224) float32 image, already standardised, the last channel being the lights at
        night; ``y`` the wealth index; ``domains`` "angola, urban" and so on; ``metadata`` has country, area ("urban"
        or "rural") and row.

    Notes
    -----
    The rows of id_val and id_test are those of WILDS, which draws them with numpy from a seed of the fold. The paper's
    appendix rounds the counts: 9,797 for training, 3,909 and 3,963 for val and test of fold A, 1,000 and 1,000.
    """
    check_splits(splits)
    check_choice(fold, "fold", tuple(COUNTRIES_BY_FOLD))
    folder = find_folder(root, PUBLISHED)
    images = "images" if version_of(folder) == "1.1" else "landsat_poverty_imgs.npy"
    require(folder, *PUBLISHED.needs, images)
    table = read_columns(folder / "dhs_metadata.csv", ("country", "wealthpooled", "urban"))
    country = table.labels("country")
    unknown = ~np.isin(country, COUNTRIES)
    table.reject("country", unknown, f"is {str(country[np.argmax(unknown)])!r}", "there is no such one")
    if in_domain is None:
        in_domain = MINIATURE_SHARE if is_miniature(folder) else _IN_DOMAIN_ROWS
    inputs: Inputs
    if images == "images":
        names = np.array([f"landsat_poverty_img_{row}.npz" for row in table.rows], dtype=np.dtypes.StringDType())
        inputs = Files(folder / images, names, table.rows, decode_npz)
    else:
        inputs = MemoryMapped(folder / images, table.rows)
    area = np.where(table.finite("urban") == 1, "urban", "rural")
    return LazyDataset(
        name="poverty",
        task="regression",
        classes=(),
        inputs=inputs,
        y=table.finite("wealthpooled"),
        domains=combined(country, area),
        split=_split(country, fold, in_domain),
        metadata={"country": country, "area": area, "row": table.rows},
    )


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted wealth: Pearson's r (the paper's), in urban and rural areas, the worse of both, squared error.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> four = LazyDataset(
    ...     "poverty", "regression", (), Texts(np.array(list("abcd"))), np.array([0.0, 1.0, 2.0, 3.0]),
    ...     np.array(["mali, urban"] * 4), np.array(["test"] * 4),
    ...     {"area": np.array(["rural", "rural", "urban", "urban"])},
    ... )
    >>> scores = evaluate(four, [0.0, 1.0, 3.0, 2.0])
    >>> round(scores["pearson"], 3), round(scores["worst_area_pearson"], 3), scores["mean_squared_error"]
    (0.8, -1.0, 0.5)
    """
    predicted = check_predicted(data, y_pred)
    area = data.metadata["area"]
    by_area = {
        name: pearson(data.y[area == name], predicted[area == name]) if np.any(area == name) else float("nan")
        for name in ("urban", "rural")
    }
    return {
        "pearson": pearson(data.y, predicted),
        **{f"{name}_pearson": value for name, value in by_area.items()},
        "worst_area_pearson": worst(by_area.values()),
        "mean_squared_error": float(np.mean((predicted - data.y) ** 2)),
    }


def _split(country: npt.NDArray[np.str_], fold: str, in_domain: float | int) -> npt.NDArray[np.str_]:
    split = np.full(len(country), "train", dtype="<U7")
    split[np.isin(country, COUNTRIES_BY_FOLD[fold])] = "test"
    split[np.isin(country, COUNTRIES_BY_FOLD[_VALIDATED_ON[fold]])] = "val"
    inside = np.flatnonzero(split == "train")
    count = held_out_count(in_domain, len(inside), "in_domain", "the training countries together")
    shuffled = inside.copy()
    np.random.default_rng(ord(fold) + _SEED_OFFSET).shuffle(shuffled)
    split[shuffled[: count // 2]] = "id_val"
    split[shuffled[count // 2 : count]] = "id_test"
    return split
