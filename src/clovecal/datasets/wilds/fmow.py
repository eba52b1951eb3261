"""Functional Map of the World: what is this land used for? Domains are region × time (paper: appendix B.4)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clovecal.datasets._lazy import Files, LazyDataset, combined, decode_image, need_pillow
from clovecal.datasets._scores import accuracy_by, check_predicted, label_accuracy, worst
from clovecal.datasets.wilds._base import Published, check_splits, find_folder, require
from clovecal.errors import InputError
from clovecal.tables.columns import Columns, read_columns
from clovecal.tables.formats import data_row_error

PUBLISHED = Published(
    name="fmow",
    versions=("1.1",),
    needs=("rgb_metadata.csv", "country_code_mapping.csv", "images"),
    counts={"train": 76_863, "id_val": 11_483, "id_test": 11_327, "val": 19_915, "test": 22_108},
    headline="worst_region_accuracy",
    title="FMoW",
    task="multiclass",
    score_name="worst region accuracy, %",
)
CATEGORIES = (
    "airport", "airport_hangar", "airport_terminal", "amusement_park", "aquaculture", "archaeological_site", "barn",
    "border_checkpoint", "burial_site", "car_dealership", "construction_site", "crop_field", "dam", "debris_or_rubble",
    "educational_institution", "electric_substation", "factory_or_powerplant", "fire_station", "flooded_road",
    "fountain", "gas_station", "golf_course", "ground_transportation_station", "helipad", "hospital",
    "impoverished_settlement", "interchange", "lake_or_pond", "lighthouse", "military_facility",
    "multi-unit_residential", "nuclear_powerplant", "office_building", "oil_or_gas_facility", "park",
    "parking_lot_or_garage", "place_of_worship", "police_station", "port", "prison", "race_track", "railway_bridge",
    "recreational_facility", "road_bridge", "runway", "shipyard", "shopping_mall", "single-unit_residential",
    "smokestack", "solar_farm", "space_facility", "stadium", "storage_tank", "surface_mine", "swimming_pool",
    "toll_booth", "tower", "tunnel_opening", "waste_disposal", "water_treatment_facility", "wind_farm", "zoo",
)  # fmt: skip
OTHER = "Other"
_FIRST_VALIDATION_YEAR, _FIRST_TEST_YEAR = 2013, 2016
_PERIODS = ("before 2013", "2013 to 2015", "from 2016")


def load(root: str | Path, *, splits: str = "paper") -> LazyDataset:
    """Read FMoW from its published folder.

    Parameters
    ----------
    root
        The folder that holds ``fmow_v1.1``.
    splits
        "paper" or "wilds"; here they are the same.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is a (224, 224, 3) uint8 image, ``y`` one of 62 categories, ``domains`` "Africa, before 2013" and
        so on; ``metadata`` has region, period, year, country and row.

    Notes
    -----
    Train, id_val and id_test are from before 2013, val from 2013 to 2015, test from 2016 on. Images of a later period
    in the original training part, and the sequestered ones, are in no split and are left out; a file's number counts
    them. A country the mapping does not know, or gives no region, is in "Other", which the worst region ignores. The
    paper's domains are region and time range; ``grouped_by("region", "year")`` gives WILDS' finer ones.
    """
    check_splits(splits)
    folder = find_folder(root, PUBLISHED)
    require(folder, *PUBLISHED.needs)
    need_pillow()
    table = read_columns(folder / "rgb_metadata.csv", ("split", "category", "country_code", "timestamp"))
    year = _years(table)
    period = np.digitize(year, (_FIRST_VALIDATION_YEAR, _FIRST_TEST_YEAR))
    original = table.labels("split")
    split = np.full(len(table), "", dtype="<U7")
    split[(original == "train") & (period == 0)] = "train"
    for part, later in (("val", 1), ("test", 2)):
        split[(original == part) & (period == 0)] = f"id_{part}"
        split[(original == part) & (period == later)] = part
    used = np.flatnonzero(split != "")
    if len(used) == 0:
        raise InputError(
            f"file {str(table.path)!r}", "has no row in any split", "check its columns split and timestamp"
        )
    country = table.labels("country_code")[used]
    region = _regions(folder / "country_code_mapping.csv", country)
    names = np.array([f"rgb_img_{row}.png" for row in table.rows[used]], dtype=np.dtypes.StringDType())
    named_period = np.array(_PERIODS)[period[used]]
    return LazyDataset(
        name="fmow",
        task="multiclass",
        classes=CATEGORIES,
        inputs=Files(folder / "images", names, table.rows[used], decode_image),
        y=_labels(table)[used],
        domains=combined(region, named_period),
        split=split[used],
        metadata={
            "region": region,
            "period": named_period,
            "year": year[used],
            "country": country,
            "row": table.rows[used],
        },
    )


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted labels: accuracy of the worst region (the paper's), of all rows, and of the worst year.

    Notes
    -----
    The region "Other" is not a region: it counts in the accuracy of all rows alone, as in WILDS.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> four = LazyDataset(
    ...     "fmow", "multiclass", CATEGORIES, Texts(np.array(list("abcd"))), np.array([3, 4, 5, 6]),
    ...     np.array(["Asia, from 2016"] * 4), np.array(["test"] * 4),
    ...     {"region": np.array(["Asia", "Asia", "Africa", "Other"]), "year": np.array([2016, 2016, 2017, 2017])},
    ... )
    >>> evaluate(four, [3, 0, 5, 0])
    {'worst_region_accuracy': 0.5, 'accuracy': 0.5, 'worst_year_accuracy': 0.5}
    """
    predicted = check_predicted(data, y_pred)
    regions = accuracy_by(data.metadata["region"], data.y, predicted)
    return {
        "worst_region_accuracy": worst(value for region, value in regions.items() if region != OTHER),
        "accuracy": label_accuracy(data.y, predicted),
        "worst_year_accuracy": worst(accuracy_by(data.metadata["year"], data.y, predicted).values()),
    }


def _years(table: Columns) -> npt.NDArray[np.int64]:
    """Return the year of each time stamp in universal time."""
    years = np.empty(len(table), dtype=np.int64)
    for row, text in enumerate(table.texts("timestamp").tolist()):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise data_row_error(
                f"column 'timestamp' of {str(table.path)!r}",
                f"is {text!r}",
                "it must be a time such as 2016-02-14T10:06:27Z",
                row=int(table.rows[row]),
            ) from None
        years[row] = (moment if moment.tzinfo is None else moment.astimezone(UTC)).year
    return years


def _labels(table: Columns) -> npt.NDArray[np.int64]:
    number = {category: i for i, category in enumerate(CATEGORIES)}
    categories = table.labels("category")
    labels = np.array([number.get(category, -1) for category in categories.tolist()])
    unknown = labels < 0
    table.reject("category", unknown, f"is {str(categories[np.argmax(unknown)])!r}", "FMoW has no such one")
    return labels


def _regions(mapping: Path, country: npt.NDArray[np.str_]) -> npt.NDArray[np.str_]:
    table = read_columns(mapping, ("alpha-3", "region"))
    region = dict(zip(table.texts("alpha-3").tolist(), table.texts("region").tolist(), strict=True))
    return np.array([region.get(code) or OTHER for code in country.tolist()])
