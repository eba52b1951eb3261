"""Tables of the selection study that `load_table` does not know: of Rdatasets, of reviews and pictures, and flights.

``$CLOVECAL_DATA/rdatasets/PACKAGE/ITEM.csv`` are the files of Rdatasets (github.com/vincentarelbundock/Rdatasets,
folder csv, commit 1dcc2bf5f955cc1224a3e1307256e1fe86b68dae). What is a label, a domain or a feature in them was written
down before any model was fitted, and what is known only after the label is no feature.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clovecal.datasets import colored_digits, load_dataset, load_flights, load_mnist, load_table

Table = tuple[NDArray[np.float64], NDArray[np.int64], NDArray[Any]]
Columns = Mapping[str, NDArray[Any]]

MOST_LEVELS = 12  # of a category, the most frequent ones
COMPONENTS = 24  # principal ones of a table with hundreds of features, of all rows without their labels


@dataclass(frozen=True)
class Source:
    """A file of Rdatasets, and what its columns are."""

    file: str
    domain: str
    label: Callable[[Columns], NDArray[Any]]  # NaN where it is not known
    features: tuple[str, ...]


def _above(column: str, value: float) -> Callable[[Columns], NDArray[Any]]:
    return lambda of: np.where(np.isnan(of[column]), np.nan, of[column] > value)


def _above_median(column: str) -> Callable[[Columns], NDArray[Any]]:
    return lambda of: np.where(np.isnan(of[column]), np.nan, of[column] > np.nanmedian(of[column]))


def _is(column: str, value: str, known: tuple[str, ...] = ()) -> Callable[[Columns], NDArray[Any]]:
    return lambda of: np.where(np.isin(of[column], (value, *known)) if known else True, of[column] == value, np.nan)


SOURCES: Mapping[str, Source] = {
    "vocabulary": Source("carData/GSSvocab", "year", _above("vocab", 6), ("gender", "nativeBorn", "age", "educ")),
    "schools": Source(
        "mlmRev/star",
        "sch",
        _above_median("math"),
        ("gr", "cltype", "hdeg", "clad", "exp", "trace", "ses", "schtype", "sx", "eth", "birthy", "yrs"),
    ),
    "crashes": Source(
        "DAAG/nassCDS",
        "yearacc",
        _above("injSeverity", 2),
        ("dvcat", "airbag", "seatbelt", "frontal", "sex", "ageOFocc", "yearVeh", "abcat", "occRole"),
    ),
    "diamonds": Source(
        "ggplot2/diamonds",
        "clarity",
        _above_median("price"),
        ("cut", "color", "depth", "table", "x"),
    ),
    "hotel": Source(
        "modeldata/hotel_rates",
        "country",
        _above_median("avg_price_per_room"),
        (
            "lead_time",
            "stays_in_weekend_nights",
            "stays_in_week_nights",
            "adults",
            "children",
            "meal",
            "market_segment",
            "distribution_channel",
            "is_repeated_guest",
            "customer_type",
            "total_of_special_requests",
            "near_christmas",
        ),
    ),
    "loans": Source(
        "openintro/loans_full_schema",
        "state",
        _above_median("interest_rate"),
        (
            "emp_length",
            "homeownership",
            "annual_income",
            "verified_income",
            "debt_to_income",
            "delinq_2y",
            "earliest_credit_line",
            "inquiries_last_12m",
            "total_credit_limit",
            "total_credit_utilized",
            "num_total_cc_accounts",
            "account_never_delinq_percent",
            "public_record_bankrupt",
            "loan_purpose",
            "loan_amount",
            "term",
        ),
    ),
    "wives": Source(
        "Ecdat/HI",
        "education",
        _above("whrswk", 0),
        ("hhi", "race", "hispanic", "experience", "kidslt6", "kids618", "husby", "region"),
    ),
    "doctor": Source(
        "COUNT/rwm5yr",
        "year",
        _above("docvis", 0),
        ("edlevel", "age", "outwork", "female", "married", "kids", "hhninc", "educ", "self"),
    ),
    "census": Source("wooldridge/census2000", "state", _above_median("lweekinc"), ("educ", "exper", "expersq")),
    "food": Source("Ecdat/BudgetFood", "town", _above_median("wfood"), ("totexp", "age", "size", "sex")),
    "colleges": Source(
        "causaldata/scorecard",
        "state_abbr",
        lambda of: np.where(
            np.isnan(of["count_working"] + of["count_not_working"]),
            np.nan,
            of["count_not_working"] > 0.15 * (of["count_working"] + of["count_not_working"]),
        ),
        ("pred_degree_awarded_ipeds", "year", "earnings_med"),
    ),
    "parties": Source(
        "stevedata/anes_partytherms",
        "year",
        _above("therm_dem", 59),
        (
            "age",
            "educat",
            "pid7",
            "incomeperc",
            "race4",
            "unemployed",
            "distrust_govt",
            "govt_waste",
            "govt_biginterests",
        ),
    ),
    "injuries": Source(
        "wooldridge/injury",
        "injtype",
        _above("durat", 4),
        ("afchnge", "highearn", "male", "married", "hosp", "indust", "age", "prewage", "totmed", "ky"),
    ),
    "insurance": Source(
        "AER/HealthInsurance",
        "education",
        _is("insurance", "yes"),
        ("health", "age", "limit", "gender", "married", "selfemp", "family", "region", "ethnicity"),
    ),
    "chains": Source(
        "survival/flchain",
        "sample.yr",
        _above("death", 0),
        ("age", "sex", "kappa", "lambda", "creatinine", "mgus"),
    ),
    "youth": Source(
        "openintro/yrbss",
        "race",
        _above("physically_active_7d", 4),
        (
            "age",
            "gender",
            "hispanic",
            "height",
            "weight",
            "helmet_12m",
            "text_while_driving_30d",
            "hours_tv_per_school_day",
            "strength_training_7d",
            "school_night_hours_sleep",
        ),
    ),
    "rodents": Source(
        "ratdat/complete",
        "species",
        _is("sex", "M", ("F",)),
        ("month", "year", "plot_type", "hindfoot_length", "weight"),
    ),
    "wages": Source(
        "AER/CPS1988",
        "region",
        _above_median("wage"),
        ("education", "experience", "ethnicity", "smsa", "parttime"),
    ),
    "deliveries": Source(
        "modeldata/deliveries",
        "day",
        _above_median("time_to_delivery"),
        ("hour", "distance", *(f"item_{i:02d}" for i in range(1, 28))),
    ),
    "churn": Source(
        "modeldata/wa_churn",
        "payment_method",
        _is("churn", "Yes"),
        (
            "female",
            "senior_citizen",
            "partner",
            "dependents",
            "tenure",
            "multiple_lines",
            "internet_service",
            "online_security",
            "tech_support",
            "streaming_tv",
            "contract",
            "paperless_billing",
            "monthly_charges",
        ),
    ),
    "elections": Source(
        "causaldata/close_elections_lmb",
        "state",
        _above("democrat", 0),
        ("score", "year", "lagdemvoteshare"),
    ),
}
# Which of them rules may be chosen on: every other one, in an order that nobody chose.
_ORDER = sorted(SOURCES, key=lambda name: zlib.crc32(name.encode()))
MORE_DEVELOPMENT, MORE_VERDICT = tuple(_ORDER[0::2]), tuple(_ORDER[1::2])


def load(name: str) -> Table:
    """Return features, labels and domains."""
    if name in SOURCES:
        return _of_rdatasets(SOURCES[name])
    X, y, domains = OTHERS[name]() if name in OTHERS else _known(name)
    return X.astype(np.float64), y.astype(np.int64), domains


def _known(name: str) -> tuple[Any, Any, Any]:
    loaded = load_table(name)
    return loaded.X, loaded.y, loaded.domains


def _of_rdatasets(source: Source) -> Table:
    from pyarrow import csv

    file = Path(os.environ.get("CLOVECAL_DATA", ""), "rdatasets", f"{source.file}.csv")
    options = csv.ConvertOptions(strings_can_be_null=True, null_values=["", "NA"])
    read = csv.read_csv(file, convert_options=options)
    of = {name: read[name].to_numpy(zero_copy_only=False) for name in read.column_names}
    of = {name: column.astype(np.float64) if column.dtype.kind in "iub" else column for name, column in of.items()}
    label, domain = source.label(of), of[source.domain]
    known = ~np.isnan(label.astype(np.float64)) & np.array([one is not None and one == one for one in domain])
    X = np.column_stack([column for name in source.features for column in _features(of[name][known])])
    names = np.array([f"{one:g}" if isinstance(one, float) else str(one) for one in domain[known]])
    return X, label[known].astype(np.int64), names


def _features(values: NDArray[Any]) -> list[NDArray[np.float64]]:
    if values.dtype.kind == "f":
        return [np.where(np.isnan(values), np.nanmedian(values), values)]
    texts = np.array(["unknown" if one is None else str(one) for one in values])
    levels, counts = np.unique(texts, return_counts=True)
    kept = levels[np.argsort(-counts, kind="stable")][:MOST_LEVELS]
    return [(texts == level).astype(np.float64) for level in kept[: 1 if len(levels) == 2 else None]]


def _flights() -> tuple[Any, Any, Any]:
    loaded = load_flights()
    return loaded.X, loaded.y, loaded.domains


def _components(name: str) -> tuple[Any, Any, Any]:
    loaded = load_dataset(name)
    return principal(loaded.X), loaded.y, loaded.domains


def _pictures() -> tuple[Any, Any, Any]:
    """Return PACS: is it an animal?"""
    with np.load(Path(os.environ.get("CLOVECAL_DATA", ""), "pacs", "pacs_efficientnet_lite0.npz")) as stored:
        animal = np.isin(stored["classes"][stored["y"]], ("dog", "elephant", "giraffe", "horse"))
        return principal(stored["X"]), animal, stored["domain"]


def _office() -> tuple[Any, Any, Any]:
    """Return Office-Caltech: is it one of the first five classes?"""
    with np.load(Path(os.environ.get("CLOVECAL_DATA", ""), "office_caltech10", "office_caltech10_surf.npz")) as stored:
        return principal(stored["X"]), stored["y"] <= 5, stored["domain"]


def _digits() -> tuple[Any, Any, Any]:
    """Return digits whose label is wrong in a quarter of the rows, in eight domains that differ in nothing."""
    digits = load_mnist()
    one = colored_digits(digits.images[:20_000], digits.labels[:20_000], 0.25, 0.5, rng=0)
    grey = one.X[:, : one.X.shape[1] // 2] + one.X[:, one.X.shape[1] // 2 :]
    return principal(grey), one.y, np.array([f"part {i % 8}" for i in range(len(grey))])


def principal(X: Any) -> NDArray[np.float64]:
    """Return the rows' principal components."""
    centred = np.asarray(X, dtype=np.float64) - np.mean(X, axis=0, dtype=np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ vectors[:, ::-1][:, :COMPONENTS])


OTHERS: Mapping[str, Callable[[], tuple[Any, Any, Any]]] = {
    "flights": _flights,
    "amazon": lambda: _components("amazon"),
    "amazon25": lambda: _components("amazon25"),
    "pacs": _pictures,
    "office": _office,
    "digits": _digits,
}
