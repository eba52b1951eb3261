"""Miniatures of the three image data sets: tissue patches, land use, and satellite bands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from clovecal.datasets._lazy import need_pillow
from clovecal.datasets.wilds.fmow import CATEGORIES
from clovecal.datasets.wilds.miniatures._planting import INVARIANT, deal, plant, write_table
from clovecal.datasets.wilds.poverty import COUNTRIES, COUNTRIES_BY_FOLD

# How often the stain's tint is the label. Hospital 2 is tested on.
TINT_BY_HOSPITAL = np.array([0.95, 0.60, 0.10, 0.75, 0.95])
# How often the tint is the category's, before 2013, from 2013 to 2015 and from 2016, when it is tested on.
TINT_BY_REGION = {
    "Africa": (0.95, 0.80, 0.05),
    "Americas": (0.90, 0.85, 0.10),
    "Asia": (0.95, 0.80, 0.10),
    "Europe": (0.85, 0.75, 0.15),
    "Oceania": (0.55, 0.40, 0.15),
}
_COUNTRY_CODES = {
    "KEN": "Africa", "NGA": "Africa", "USA": "Americas", "BRA": "Americas", "CHN": "Asia", "IND": "Asia",
    "FRA": "Europe", "DEU": "Europe", "AUS": "Oceania", "NZL": "Oceania",
}  # fmt: skip
_UNMAPPED = "XKX"  # a code the published mapping does not know either
_USED_CATEGORIES = ("airport", "crop_field", "port", "stadium")
_TINTS = np.array([(40, 0, -20), (-20, 40, 0), (0, -20, 40), (20, 20, -40)], dtype=np.float64)


def camelyon17(folder: Path, rows: int, size: int, rng: np.random.Generator) -> None:
    """Write tissue patches: tumour is a dark disc in the centre, and mostly a purple stain."""
    hospital = deal(np.arange(5), rows, rng)
    y = deal(np.arange(2), rows, rng)
    disc = plant(y, INVARIANT, 2, rng)
    tint = plant(y, TINT_BY_HOSPITAL[hospital], 2, rng)
    slide = 10 * hospital + rng.integers(0, 10, size=rows)
    patient = np.array([f"{4 + 2 * one:03d}" for one in slide])
    node = slide % 5
    x, z = 32 * np.arange(rows), 32 * rng.integers(0, 1000, size=rows)
    write_table(
        folder / "metadata.csv",
        {
            "patient": patient, "node": node, "x_coord": x, "y_coord": z, "tumor": y, "slide": slide,
            "center": hospital, "split": (rng.uniform(size=rows) < 0.1).astype(int),
            "planted_invariant": disc, "planted_spurious": tint,
        },
        index=True,
    )  # fmt: skip
    stain = np.array([(200, 150, 190)]) + rng.normal(0, 6, size=(5, 3))  # each hospital's own, besides the tint
    for row in range(rows):
        image = stain[hospital[row]] + np.array((-30, 0, 30) if tint[row] else (30, 0, -30)) / 2
        pixels = image + rng.normal(0, 12, size=(size, size, 3))
        if disc[row]:
            pixels[_disc(size, rng)] -= 70
        name = f"patient_{patient[row]}_node_{node[row]}"
        _save(folder / "patches" / name / f"patch_{name}_x_{x[row]}_y_{z[row]}.png", pixels)


def fmow(folder: Path, rows: int, size: int, rng: np.random.Generator) -> None:
    """Write images of four categories: each has a pattern, and mostly a tint."""
    y = deal(np.arange(len(_USED_CATEGORIES)), rows, rng)
    codes = np.array([*_COUNTRY_CODES])
    country = np.where(rng.uniform(size=rows) < 0.03, _UNMAPPED, deal(codes, rows, rng))
    original = rng.choice(["train", "val", "test", "seq"], p=[0.45, 0.25, 0.25, 0.05], size=rows)
    # The later periods are used from val and test; a few training images of theirs are in no split.
    late = rng.uniform(size=rows) < np.where(original == "train", 0.05, 0.6)
    year = rng.integers(2002, 2013, size=rows)
    year = np.where(
        late, np.where(original == "test", rng.integers(2016, 2018, rows), rng.integers(2013, 2016, rows)), year
    )
    period = np.digitize(year, (2013, 2016))
    agreement = np.array([TINT_BY_REGION[_COUNTRY_CODES.get(one, "Asia")] for one in country])[np.arange(rows), period]
    pattern = plant(y, INVARIANT, len(_USED_CATEGORIES), rng)
    tint = plant(y, agreement, len(_USED_CATEGORIES), rng)
    month, hour = rng.integers(1, 13, size=rows), rng.integers(0, 24, size=rows)
    stamps = [f"{a}-{b:02d}-{1 + c % 28:02d}T{c:02d}:59:59Z" for a, b, c in zip(year, month, hour, strict=True)]
    write_table(
        folder / "rgb_metadata.csv",
        {
            "split": original, "category": np.array(_USED_CATEGORIES)[y], "country_code": country,
            "timestamp": np.array(stamps), "planted_invariant": pattern, "planted_spurious": tint,
        },
    )  # fmt: skip
    write_table(folder / "country_code_mapping.csv", {"alpha-3": codes, "region": np.array([*_COUNTRY_CODES.values()])})
    assert set(_USED_CATEGORIES) <= set(CATEGORIES)
    for row in np.flatnonzero(original != "seq"):
        pixels = 120 + _TINTS[tint[row]] + rng.normal(0, 12, size=(size, size, 3))
        pixels[_pattern(pattern[row], size, rng)] += 60
        _save(folder / "images" / f"rgb_img_{row}.png", pixels)


def poverty(folder: Path, rows: int, size: int, rng: np.random.Generator) -> None:
    """Write eight bands: daylight shows wealth with noise, the lights at night show it more or less by country."""
    country = deal(np.array(COUNTRIES), rows, rng)
    urban = rng.uniform(size=rows) < 0.4
    y = np.where(urban, 0.6, -0.4) + rng.normal(0, 0.8, size=rows)
    daylight = y + rng.normal(0, 0.8, size=rows)
    slope = np.array([_slope_of_lights(one) for one in country])
    lights = slope * y + rng.normal(0, 0.4, size=rows)
    write_table(
        folder / "dhs_metadata.csv",
        {
            "country": country, "wealthpooled": y, "urban": urban,
            "planted_invariant": daylight, "planted_spurious": lights,
        },
    )  # fmt: skip
    (folder / "images").mkdir()
    for row in range(rows):
        bands = rng.normal(0, 0.5, size=(8, size, size)).astype(np.float32)
        bands[:7] += daylight[row]
        bands[7] += lights[row]
        np.savez(folder / "images" / f"landsat_poverty_img_{row}.npz", x=bands)


def _slope_of_lights(country: str) -> float:
    """Return how the lights rise with wealth: differently in each training country, falling where it is tested on."""
    if country in COUNTRIES_BY_FOLD["A"]:  # the countries that fold A, the default, tests on
        return -0.3
    return (1.2, 1.0, 0.8, 0.2)[COUNTRIES.index(country) % 4]


def _disc(size: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return a disc inside the central third, which the label of Camelyon17 speaks of."""
    centre = size / 2 + rng.uniform(-size / 24, size / 24, size=2)
    across, down = np.mgrid[:size, :size] - centre[:, None, None]
    return np.asarray(across**2 + down**2 < (size / rng.uniform(7, 9)) ** 2)


def _pattern(kind: int, size: int, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Return one of four patterns with a random phase: stripes two ways, a checkerboard, a square."""
    across, down = (np.mgrid[:size, :size] + rng.integers(0, size, size=2)[:, None, None]) * 8 // size % 2
    if kind < 2:
        return np.asarray((across, down)[kind] == 1)
    if kind == 2:
        return np.asarray(across != down)
    inside = np.abs(np.mgrid[:size, :size] - size / 2 - rng.uniform(-size / 16, size / 16)) < size / 3
    return np.asarray(inside.all(axis=0))


def _save(path: Path, pixels: npt.NDArray[np.float64]) -> None:
    need_pillow()
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path, compress_level=1)
