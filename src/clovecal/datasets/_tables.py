"""Tables of several domains that are not in the package: one file each, with its label, domain and features.

Nobody publishes these files in the form they have here, so that they are looked for in ``$CLOVECAL_DATA`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clovecal.datasets._base import DomainDataset
from clovecal.datasets.registry import DataFile, data_set, fetch, register_dataset
from clovecal.errors import InputError, needs


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """What the columns of a table are: every other one is a feature, and texts are categories."""

    label: str = "y"
    domain: str = "domain"
    positive: str | None = None  # the label's value that counts as 1; None: it is 0 or 1 already
    nominal: tuple[str, ...] = ()  # numbers that are names of categories
    dropped: tuple[str, ...] = ()


def load_table(name: str, *, without: Sequence[str] = ()) -> DomainDataset:
    """Load one of the tables of several domains that are files in ``$CLOVECAL_DATA``.

    Parameters
    ----------
    name
        Its name in `DATA_SETS`: ``"impact"``, ``"pisa"``, ``"gusto"``, …
    without
        Columns of the file that shall be no features, such as ``["age"]``.

    Returns
    -------
    DomainDataset
        ``X`` float32, ``y`` int8 (0 and 1, or 0 to C − 1), ``domains`` as texts. ``description`` says what it is and
        where the file comes from.

    Notes
    -----
    A category becomes columns of 0 and 1, one for each of its values. Gaps in numbers are filled with the column's
    median over all rows, gaps in categories with the commonest value, as a column that says what was missing would give
    the domain away.

    Columns known only after the label are no features: how long a call lasted (bank), and neither are finer domains
    (gusto) nor the date (weather).

    See Also
    --------
    load_dataset : Loads any data set by name, these too.

    Examples
    --------
    >>> from clovecal.datasets import load_table
    >>> impact = load_table("impact")  # doctest: +SKIP
    >>> impact.X.shape, len(set(impact.domains))  # doctest: +SKIP
    ((10712, 15), 15)
    """
    if name not in _COLUMNS:
        raise InputError(f"table {name!r}", "is not known", f"choose one of {', '.join(_COLUMNS)}")
    one, columns = data_set(name), _COLUMNS[name]
    (path,) = fetch(name)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            y, domains, numbers = archive[columns.label], archive[columns.domain], archive["X"]
        features = {f"feature_{i}": column for i, column in enumerate(numbers.T)}
        _check_known(without, features)
        features = {column: values for column, values in features.items() if column not in without}
    else:
        table = _read(path, name)
        y, domains = _values(table[columns.label]), _values(table[columns.domain])
        possible = [one for one in table.column_names if one not in (columns.label, columns.domain, *columns.dropped)]
        _check_known(without, possible)
        features = {}
        for column in possible:
            if column not in without:
                features |= _features(column, _values(table[column]), nominal=column in columns.nominal)
    return DomainDataset(
        X=np.column_stack(list(features.values())).astype(np.float32),
        y=(y if columns.positive is None else y == columns.positive).astype(np.int8),
        domains=domains.astype(np.str_),
        feature_names=tuple(features),
        name=name,
        description=f"{one.description}.\n\nSource: {one.files[0].source}.\n",
    )


def _check_known(without: Sequence[str], columns: Iterable[str]) -> None:
    for name in without:
        if name not in columns:
            raise InputError("without", f"names {name!r}", f"choose from {', '.join(columns)}")


def _read(path: Path, name: str) -> Any:
    """Read a file with pyarrow."""
    what = f"loading data set {name!r}"
    if path.suffix == ".parquet":
        return needs("pyarrow.parquet", "tables", what).read_table(path)
    csv = needs("pyarrow.csv", "tables", what)
    return csv.read_csv(path, convert_options=csv.ConvertOptions(strings_can_be_null=True, null_values=["", "NA"]))


def _values(column: Any) -> NDArray[Any]:
    """Return a column's values: numbers with NaN for a gap, or texts with None."""
    if hasattr(column.type, "value_type"):  # categories
        column = column.cast(column.type.value_type)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _features(name: str, values: NDArray[Any], *, nominal: bool) -> dict[str, NDArray[np.float32]]:
    """Return a column as features without gaps: itself, or one of 0 and 1 for each of its values."""
    texts = values.dtype == object
    if not texts and not nominal:
        return {name: np.where(np.isnan(values), np.nanmedian(values), values).astype(np.float32)}
    known = np.array([value is not None for value in values]) if texts else ~np.isnan(values)
    levels, codes, counts = np.unique(values[known].astype(np.str_), return_inverse=True, return_counts=True)
    level = np.full(len(values), int(np.argmax(counts)))
    level[known] = codes
    return {f"{name}={shown}": (level == i).astype(np.float32) for i, shown in enumerate(levels)}


_COLUMNS: dict[str, _Columns] = {}


def _register(
    name: str, description: str, path: str, sha256: str | None, *, source: str, columns: _Columns | None = None
) -> None:
    _COLUMNS[name] = columns or _Columns()
    folder, _, file = path.partition("/")
    register_dataset(
        name,
        partial(load_table, name),
        description=description,
        files=[DataFile(file, None, sha256, source=source)],
        folder=folder,
    )


_CODED: tuple[tuple[str, str, str, str], ...] = (
    (
        "abort",
        "29,316 Americans asked in 26 years; label: abortion should be legal for any reason",
        "gss_abortion of the R package stevedata",
        "e52227c8a71ee41d295068fe29e7c952ddaf18866acea4634b721b0e05295a75",
    ),
    (
        "birds",
        "12,789 birds struck by aircraft in 19 states; label: y, 9% of the strikes",
        "birds of the R package openintro",
        "1afe6bdf0c5e463c591f89a89a4ac0b36817f37521a88cd4851a3f0fedbe6877",
    ),
    (
        "chem97",
        "9,867 pupils of 30 local authorities; label: y, from their mark in A-level chemistry",
        "Chem97 of the R package mlmRev",
        "bca65f4e12290e0ab57b98a85f4a3141456288e8efce1b7f7c5b539b28db6746",
    ),
    (
        "gsswages",
        "14,373 earners in 11 kinds of occupation; label: y, from their income",
        "gss_wages of the R package stevedata",
        "3f42cba10088a0bb1f4e68a50009599b49b0f7db41d0ac24eaa23f43a81c32c2",
    ),
    (
        "happy",
        "12,706 Americans asked in 7 years; label: y, very happy",
        "happiness of the R package wooldridge",
        "0020609cd78feb0536d9daf6e0b37d33226ffb3329d802fa90ad4bb9a25e3a8b",
    ),
    (
        "impact",
        "10,712 patients with a brain injury in 15 studies; label: died within 6 months",
        "impact of the R package metamisc (GPL-3)",
        "0f37e916f50962c558c7705d1be9a6c53a41ea927677ae2b85e070377ae71804",
    ),
    (
        "insteval",
        "16,800 ratings of lectures in 14 departments; label: y, from the rating",
        "InstEval of the R package lme4",
        "a1df141368960000a203e73da8250adbff16bf0df428378e6f79342e1df420dc",
    ),
    (
        "mpls",
        "20,539 stops by the police in 30 neighbourhoods of Minneapolis; label: y, 13% of the stops",
        "MplsStops of the R package carData",
        "7c3e8dce4578f7a793b384132dca45827fd592ea4892e6f5f0f6291d4dc5781e",
    ),
    (
        "pisa",
        "23,532 pupils of 30 countries; label: y, from their score in PISA",
        "student of the R package learningtower",
        "aa39fbe12f2ee635ee6add46732486d2f39385383ee7dd93071adf0393aded7e",
    ),
    (
        "union",
        "9,013 women asked about their work in 11 industries; label: member of a union",
        "nlswork of the R package sampleSelection",
        "201468375b19f2deeba61cb7daf88356138a1bba4ec99beca23e3f5f282b68e9",
    ),
    (
        "viet",
        "26,939 people of 25 communes in Vietnam; label: y, from what they spent on their health",
        "VietNamI of the R package Ecdat",
        "33b0f9c6906bff915682ebe2ddbb07a734d06babe4bfbe48cb0311a8481e8dd1",
    ),
)
for _name, _description, _made_of, _sha256 in _CODED:
    _register(
        _name,
        _description,
        f"multi_domain/{_name}.parquet",
        _sha256,
        source=f"it is made from {_made_of}, numbers standardised",
    )
_register(
    "gusto",
    "40,830 patients with a heart attack in 16 regions; label: died within 30 days",
    "gusto/gusto.csv",
    "5a96c74ab43305fcaabd94a645e02c8b901c40321112e196295a64867a9b4b20",
    source="it is gusto of the R package predtools (GPL)",
    columns=_Columns(label="day30", domain="regl", dropped=("grpl", "grps", "tpa")),  # finer regions; what tx says
)
_register(
    "heart",
    "920 patients of 4 hospitals; label: narrowed coronary arteries",
    "heart_disease/heart_disease.csv",
    "ac0484e83653ed9ec32d2781b601e5c237a0c64bf41a3fc79d77fdedb1ea2d5a",
    source="it is made from the four files of heart disease in the UCI Machine Learning Repository",
    # num is the label before it was cut at 1
    columns=_Columns(label="label", nominal=("cp", "restecg", "slope", "thal"), dropped=("num",)),
)
_register(
    "bank",
    "41,188 calls of a bank in 10 months of the year; label: the customer opened a deposit",
    "bank_marketing/bank_additional_full.csv",
    "5797716d254c8259177486baf6b0695df48c2fa8e33bda4c40c2fbf5cf34e475",
    source="it is bank-additional-full of the UCI Machine Learning Repository, as the Python package aif360 has it",
    columns=_Columns(domain="month", positive="yes", dropped=("duration",)),  # known once the call is over
)
_register(
    "weather",
    "142,193 days at 49 weather stations of Australia; label: it rained the day after",
    "weather_aus/weather_aus.parquet",
    "854ee7e26e96c855a2bf3d3778031f67fbfc778b4b46967b1047238e4e81df35",
    source="it is made from weatherAUS of the R package rattle.data (GPL-3)",
    columns=_Columns(label="RainTomorrow", domain="Location", dropped=("Date",)),
)
_register(
    "amazon",
    "7,996 reviews of 4 product lines, as 400 numbers each; label: a good review",
    "amazon_reviews/amazon_review_400.npz",
    "262dde13755527f29bc7fc61734a7de5ed4378dcd49436d458607d9ffc08dc03",
    source="it is made from the reviews of Blitzer, Dredze and Pereira (2007)",
)
_register(
    "amazon25",
    "31,501 reviews of 25 product lines, as 384 numbers each; label: five stars",
    "amazon25/amazon25_minilm.npz",
    None,
    source="it is made by scripts/amazon25_features.py from the reviews of Yu et al. (2018), without their stop words",
)
_register(
    "pacs",
    "9,991 pictures of 4 kinds, as 1,280 numbers each; label: dog, elephant, giraffe, guitar, horse, house or person",
    "pacs/pacs_efficientnet_lite0.npz",
    None,
    source="it is made by scripts/pacs_features.py from the pictures of Li et al. (2017)",
)
