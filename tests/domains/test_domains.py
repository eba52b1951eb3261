"""Domains of rows from every kind of input, and metrics computed in each of them."""

from __future__ import annotations

import datetime
import functools
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import clovecal as cc
from clovecal.domains import pooled_value
from clovecal.metrics import mean_squared_error, metric_names

# Six rows in two countries. Right at p > ½: rows 0, 1, 2, 3 (all of Sweden), neither of the UK's.
Y = [0, 1, 1, 0, 0, 1]
P = [0.2, 0.9, 0.6, 0.4, 0.8, 0.1]
COUNTRY = ["Sweden"] * 4 + ["UK"] * 2


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def perfect_model(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return (rng.uniform(size=n) < p).astype(int), p


def own_brier(y, p, *, power=2, sample_weight=None):
    return float(np.average(np.abs(p - y) ** power, weights=sample_weight))


# -------------------------------------------------------------------------------------------------- computed by hand


def test_the_first_domain_of_each_row_by_hand():
    overlapping = cc.Domains.from_membership([[0, 1, 1], [0, 0, 0], [1, 0, 1], [0, 0, 1]])
    assert overlapping.primary_codes.tolist() == [1, 3, 0, 2]  # 3: in none of the three
    assert cc.Domains.from_labels(["b", "a", "b"]).primary_codes.tolist() == [1, 0, 1]
    assert cc.Domains.pooled(2).primary_codes.tolist() == [0, 0]


def test_each_domain_has_the_metric_of_its_own_rows():
    result = cc.per_domain(cc.brier, Y, P, domains=COUNTRY)
    # Sweden: (0.2² + 0.1² + 0.4² + 0.4²)/4 = 0.37/4; UK: (0.8² + 0.9²)/2 = 1.45/2; overall 1.82/6
    assert dict(result.by_domain) == pytest.approx({"Sweden": 0.0925, "UK": 0.725})
    assert result.overall == pytest.approx(1.82 / 6)
    assert result.mean == pytest.approx((0.0925 + 0.725) / 2)
    assert (result.worst, result.worst_domain) == (result.by_domain["UK"], "UK")
    assert result.gap == pytest.approx(0.725 - 0.0925)
    assert (result.metric, result.higher_is_better) == ("brier", False)


def test_the_worst_accuracy_is_the_lowest():
    result = cc.per_domain(cc.accuracy, Y, P, domains=COUNTRY)
    assert dict(result.by_domain) == {"Sweden": 1.0, "UK": 0.0}
    assert (result.worst, result.worst_domain) == (0.0, "UK")
    assert result.gap == 1.0
    assert result.higher_is_better


def test_rows_in_no_domain_count_overall_only():
    female, muslim = [1, 1, 0, 0, 0, 0], [0, 1, 0, 0, 1, 0]
    membership = np.column_stack([female, muslim])
    result = cc.per_domain(cc.accuracy, Y, P, domains=membership)
    # rows 0 and 1 are right; of rows 1 and 4 the first is; of all six rows the first four are
    assert dict(result.by_domain) == {0: 1.0, 1: 0.5}
    assert result.overall == pytest.approx(4 / 6)
    assert result.mean == 0.75
    own = cc.per_domain(own_brier, Y, P, domains=membership)
    assert dict(own.by_domain) == pytest.approx({0: 0.05 / 2, 1: 0.65 / 2})
    assert own.overall == pytest.approx(1.82 / 6)


def test_a_row_in_two_domains_counts_fully_in_both():
    result = cc.per_domain(cc.brier, Y, P, domains=[[1, 1], [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]])
    # rows 0 and 1: (0.04 + 0.01)/2; rows 0 and 2: (0.04 + 0.16)/2
    assert dict(result.by_domain) == pytest.approx({0: 0.025, 1: 0.1})
    assert result.overall == pytest.approx(1.82 / 6)


def test_weights_are_frequencies_in_every_domain():
    result = cc.per_domain(cc.brier, Y, P, domains=COUNTRY, sample_weight=[1, 3, 0, 0, 1, 0])
    # Sweden: (0.04 + 3·0.01)/4; UK: 0.64; overall (0.07 + 0.64)/5
    assert dict(result.by_domain) == pytest.approx({"Sweden": 0.07 / 4, "UK": 0.64})
    assert result.overall == pytest.approx(0.71 / 5)


def test_wilson_intervals_and_the_worst_of_two_by_hand():
    y, p, domains = [1] * 10 + [1] * 4 + [0] * 6, [0.9] * 20, ["A"] * 10 + ["B"] * 10
    result = cc.per_domain(cc.accuracy, y, p, domains=domains, ci=0.9)

    def wilson(hits, n, z):
        centre, half = (hits + z * z / 2) / (n + z * z), z / (n + z * z) * math.sqrt(hits * (1 - hits / n) + z * z / 4)
        return centre - half, min(centre + half, 1.0)

    own, both = 1.6448536269514722, 1.959963984540054  # two-sided 90%, and 95%: two domains share the 10%
    assert result.intervals["A"] == pytest.approx(wilson(10, 10, own))
    assert result.intervals["B"] == pytest.approx(wilson(4, 10, own))
    assert result.simultaneous_intervals["B"] == pytest.approx(wilson(4, 10, both))
    assert result.overall_interval == pytest.approx(wilson(14, 20, own))
    # lower: no domain is below the lowest of the own lower limits; upper: corrected, for it was picked as the lowest
    assert result.worst_interval == pytest.approx((wilson(4, 10, own)[0], wilson(4, 10, both)[1]))


# -------------------------------------------------------------------------------------------- labels of every kind


STRINGS = ["b", "a", "b", "c", "a", "b"]
INTEGERS = [7, -3, 7, 0, 0, 7]

STRING_KINDS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "numpy object": lambda d: np.array(d, object),
    "numpy string": lambda d: np.array(d, np.dtypes.StringDType()),
    "pandas": lambda d: pd.Series(d, index=[5] * len(d)),
    "pandas object": lambda d: pd.Series(d, dtype=object),
    "pandas string": lambda d: pd.Series(d, dtype="string"),
    "pandas pyarrow": lambda d: pd.Series(d, dtype=pd.ArrowDtype(pa.string())),
    "pandas category": lambda d: pd.Series(d, dtype="category", index=range(len(d), 0, -1)),
    "pandas Categorical": pd.Categorical,
    "pandas CategoricalIndex": pd.CategoricalIndex,
    "polars": lambda d: pl.Series(d, dtype=pl.String),
    "polars Categorical": lambda d: pl.Series(d, dtype=pl.Categorical),
    "polars Enum": lambda d: pl.Series(d, dtype=pl.Enum(sorted(set(d)))),
    "pyarrow": pa.array,
    "pyarrow dictionary": lambda d: pa.array(d).dictionary_encode(),
}

INTEGER_KINDS = {
    "list": list,
    "numpy": np.array,
    "numpy object": lambda d: np.array(d, object),
    "pandas": lambda d: pd.Series(d, index=[5] * len(d)),
    "pandas Int64": lambda d: pd.Series(d, dtype="Int64"),
    "pandas pyarrow": lambda d: pd.Series(d, dtype="int64[pyarrow]"),
    "pandas category": lambda d: pd.Series(d, dtype="category"),
    "polars": lambda d: pl.Series(d, dtype=pl.Int64),
    "pyarrow": lambda d: pa.array(d, pa.int64()),
}


def assert_same_as_numpy_unique(built, labels):
    values, codes = np.unique(np.array(labels), return_inverse=True)
    assert list(built.names) == values.tolist()
    np.testing.assert_array_equal(built.codes, codes)
    assert built.codes.dtype == np.intp
    assert built.n_rows == len(labels)
    assert built.partition
    assert built.rows_in_no_domain == 0


# numpy drops a text's trailing NUL, and a lone surrogate is no text to arrow
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)


@pytest.mark.parametrize("kind", STRING_KINDS)
@settings(max_examples=15, deadline=None)
@given(labels=st.lists(TEXTS, min_size=1, max_size=12))
def test_text_labels_of_every_kind_are_factorised_as_numpy_does(kind, labels):
    assert_same_as_numpy_unique(cc.Domains.from_labels(STRING_KINDS[kind](labels)), labels)


@pytest.mark.parametrize("kind", INTEGER_KINDS)
@settings(max_examples=15, deadline=None)
@given(labels=st.lists(st.integers(-5, 5) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12))
def test_integer_labels_of_every_kind_are_factorised_as_numpy_does(kind, labels):
    assert_same_as_numpy_unique(cc.Domains.from_labels(INTEGER_KINDS[kind](labels)), labels)


@settings(deadline=None)
@given(labels=hnp.arrays(hnp.integer_dtypes() | hnp.unsigned_integer_dtypes() | st.just(bool), st.integers(1, 12)))
def test_labels_of_every_width_of_integer_are_factorised_as_numpy_does(labels):
    assert_same_as_numpy_unique(cc.Domains.from_labels(labels), labels)


@pytest.mark.parametrize("kind", STRING_KINDS)
def test_a_metric_does_not_depend_on_the_kind_of_text_labels(kind):
    expected = {"a": 0.5 * (0.1**2 + 0.8**2), "b": (0.2**2 + 0.4**2 + 0.9**2) / 3, "c": 0.4**2}
    result = cc.per_domain(cc.brier, Y, P, domains=STRING_KINDS[kind](STRINGS))
    assert dict(result.by_domain) == pytest.approx(expected)


@pytest.mark.parametrize("kind", INTEGER_KINDS)
def test_a_metric_does_not_depend_on_the_kind_of_integer_labels(kind):
    expected = {-3: 0.1**2, 0: 0.5 * (0.4**2 + 0.8**2), 7: (0.2**2 + 0.4**2 + 0.9**2) / 3}
    result = cc.per_domain(cc.brier, Y, P, domains=INTEGER_KINDS[kind](INTEGERS))
    assert dict(result.by_domain) == pytest.approx(expected)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Categorical(STRINGS, categories=["c", "unused", "b", "a"]),
        pd.Series(pd.Categorical(STRINGS, categories=["c", "unused", "b", "a"])),
        pl.Series(STRINGS, dtype=pl.Enum(["c", "unused", "b", "a"])),
    ],
    ids=["pandas Categorical", "pandas category", "polars Enum"],
)
def test_declared_categories_keep_their_order_and_unused_ones_are_no_domains(labels):
    built = cc.Domains.from_labels(labels)
    assert built.counts == {"c": 1, "b": 3, "a": 2}
    assert list(built.names) == ["c", "b", "a"]
    assert built.codes.tolist() == [1, 2, 1, 0, 2, 1]


def test_truth_values_real_numbers_and_dates_are_labels_too():
    assert cc.Domains.from_labels([True, False, True]).counts == {False: 1, True: 2}
    assert cc.Domains.from_labels([2.5, 0.5, 2.5]).counts == {0.5: 1, 2.5: 2}
    days = [datetime.date(2021, 1, 1), datetime.date(2020, 1, 1)]
    assert cc.Domains.from_labels(np.array(days, "datetime64[D]")).counts == {days[1]: 1, days[0]: 1}
    assert cc.Domains.from_labels(pl.Series(days)).counts == {days[1]: 1, days[0]: 1}


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_moments_of_any_precision_have_readable_names(unit):
    moments = np.array(["2021-01-01T12:00", "2020-01-01T12:00"], f"datetime64[{unit}]")
    expected = (datetime.datetime(2020, 1, 1, 12), datetime.datetime(2021, 1, 1, 12))
    assert cc.Domains.from_labels(moments).names == expected
    assert cc.Domains.from_labels(moments - moments[1]).names[0] == datetime.timedelta(0)


def test_labels_beyond_the_signed_integers_are_labels_too():
    hashed = 2**64 - 3
    assert cc.Domains.from_labels(np.array([hashed, hashed], np.uint64)).counts == {hashed: 2}
    assert cc.Domains.from_labels(np.array([hashed, 5, hashed + 1], np.uint64)).names == (5, hashed, hashed + 1)


def test_labels_of_several_types_are_kept_apart():
    assert cc.Domains.from_labels([1, "1", 2, "a"]).counts == {1: 1, 2: 1, "1": 1, "a": 1}
    assert cc.Domains.from_labels(np.array([1, "1", 2, "a"], object)).counts == {1: 1, 2: 1, "1": 1, "a": 1}


def test_intervals_of_a_number_are_labels_too():
    age = pd.cut(pd.Series([15, 44, 80, 30]), [0, 18, 65, 120], labels=None)
    assert [str(name) for name in cc.Domains.from_labels(age).names] == ["(0, 18]", "(18, 65]", "(65, 120]"]


def test_more_labels_than_a_chunk_are_factorised_as_numpy_does():
    labels = np.repeat(["z", "b", "a"], [140_000, 130_000, 30_000])  # "a" is first seen in the third chunk
    assert_same_as_numpy_unique(cc.Domains.from_labels(labels), labels)


# ----------------------------------------------------------------------------------------------------- missing labels

MISSING = {
    "list with None": (["a", None, "b", None], 2),
    "list with NaN": (["a", math.nan, "b"], 1),
    "list of integers with None": ([1, None, 2], 1),
    "list of reals with NaN": ([1.0, math.nan, 2.0], 1),
    "only None": ([None, None], 2),
    "numpy": (np.array([1.0, math.nan, math.nan]), 2),
    "numpy object": (np.array(["a", None, math.nan], object), 2),
    "numpy NaT": (np.array(["2020-01-01", "NaT"], "datetime64[D]"), 1),
    "numpy NaT in nanoseconds": (np.array(["2020-01-01", "NaT"], "datetime64[ns]"), 1),
    "numpy masked": (np.ma.array([1, 2, 3], mask=[False, True, True]), 2),
    "pandas": (pd.Series(["a", None, "b"], index=[7, 7, 7]), 1),
    "pandas object": (pd.Series(["a", math.nan, pd.NA, None], dtype=object), 3),
    "pandas string": (pd.Series(["a", pd.NA], dtype="string"), 1),
    "pandas pyarrow": (pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string())), 1),
    "pandas Int64": (pd.Series([1, None], dtype="Int64"), 1),
    "pandas boolean": (pd.Series([True, None], dtype="boolean"), 1),
    "pandas category": (pd.Series(["a", None, "a"], dtype="category"), 1),
    "pandas datetime": (pd.Series(pd.to_datetime(["2020-01-01", None])), 1),
    "polars": (pl.Series(["a", None, None]), 2),
    "polars integers": (pl.Series([1, None]), 1),
    "polars Categorical": (pl.Series(["a", None], dtype=pl.Categorical), 1),
    "polars Enum": (pl.Series(["a", None, "b", None], dtype=pl.Enum(["b", "a"])), 2),
    "polars date": (pl.Series([datetime.date(2020, 1, 1), None]), 1),
    "pyarrow": (pa.array(["a", None]), 1),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_labels_of_every_kind_are_counted_and_refused(kind):
    labels, count = MISSING[kind]
    first = 0 if kind == "only None" else 1
    assert message(lambda: cc.Domains.from_labels(labels)) == (
        f"domains at row {first} is missing, as in {count} of {len(labels)} rows; "
        "fill them in or drop those rows (a membership matrix may leave rows in no domain)."
    )


def test_text_that_reads_like_missing_is_a_name():
    assert cc.Domains.from_labels(["nan", "None", ""]).counts == {"": 1, "None": 1, "nan": 1}


# --------------------------------------------------------------------------------------------------------- membership

MEMBERSHIP = [[1, 1], [0, 1], [0, 0], [0, 1]]
FRAME = pd.DataFrame(MEMBERSHIP, columns=["female", "muslim"], index=[4, 4, 1, 0])

NAMED_MEMBERSHIPS = {
    "pandas": FRAME,
    "pandas bool": FRAME.astype(bool),
    "pandas boolean": FRAME.astype("boolean"),
    "pandas Int64": FRAME.astype("Int64"),
    "pandas pyarrow": FRAME.astype("int64[pyarrow]"),
    "pandas object": FRAME.astype(object),
    "pandas of two types": FRAME.astype({"female": bool, "muslim": float}),
    "polars": pl.from_pandas(FRAME),
    "polars Boolean": pl.from_pandas(FRAME.astype(bool)),
    "polars of two types": pl.from_pandas(FRAME.astype({"female": bool})),
    "pyarrow": pa.table({"female": [1, 0, 0, 0], "muslim": [1, 1, 0, 1]}),
}

NAMELESS_MEMBERSHIPS = {
    "list": MEMBERSHIP,
    "tuples": tuple(map(tuple, MEMBERSHIP)),
    "list of arrays": [np.array(row) for row in MEMBERSHIP],
    "numpy": np.array(MEMBERSHIP),
    "numpy bool": np.array(MEMBERSHIP, bool),
    "numpy float32": np.array(MEMBERSHIP, np.float32),
}


@pytest.mark.parametrize("kind", NAMED_MEMBERSHIPS)
def test_the_columns_of_a_table_are_the_names(kind):
    built = cc.Domains.of(NAMED_MEMBERSHIPS[kind], 4)
    assert built.counts == {"female": 1, "muslim": 3}
    assert (built.rows.tolist(), built.codes.tolist()) == ([0, 0, 1, 3], [0, 1, 1, 1])
    assert built.rows_in_no_domain == 1
    assert not built.partition


@pytest.mark.parametrize("kind", NAMELESS_MEMBERSHIPS)
def test_the_columns_of_a_matrix_are_numbered_or_named(kind):
    assert cc.Domains.of(NAMELESS_MEMBERSHIPS[kind], 4).counts == {0: 1, 1: 3}
    named = cc.Domains.from_membership(NAMELESS_MEMBERSHIPS[kind], names=("female", "muslim"))
    assert named.counts == {"female": 1, "muslim": 3}


def test_given_names_go_before_the_columns():
    assert cc.Domains.from_membership(FRAME, names=["f", "m"]).names == ("f", "m")


@settings(deadline=None)
@given(hnp.arrays(np.int8, st.tuples(st.integers(1, 8), st.integers(1, 4)), elements=st.integers(0, 1)))
def test_split_lists_the_rows_of_every_column(matrix):
    matrix[0] = 1  # no empty domain
    built = cc.Domains.from_membership(matrix)
    for name, rows in built.split():
        assert rows.tolist() == np.flatnonzero(matrix[:, name]).tolist()
    assert built.rows_in_no_domain == int((matrix.sum(axis=1) == 0).sum())
    first = [next((k for k, inside in enumerate(row) if inside), matrix.shape[1]) for row in matrix]
    assert built.primary_codes.tolist() == first
    assert built.counts == dict(enumerate(matrix.sum(axis=0).tolist()))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_split_partitions_the_rows_of_labels(labels):
    built = cc.Domains.from_labels(labels)
    parts = dict(built.split())
    assert list(parts) == sorted(set(labels))
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(len(labels)))
    for name, rows in parts.items():
        assert rows.tolist() == [row for row, label in enumerate(labels) if label == name]
    assert built.counts == {name: len(rows) for name, rows in parts.items()}


def test_domains_once_built_are_taken_as_they_are():
    built = cc.Domains.from_labels(COUNTRY)
    assert cc.Domains.of(built, 6) is built
    assert cc.per_domain(cc.ece, Y, P, domains=built) == cc.per_domain(cc.ece, Y, P, domains=COUNTRY)


def test_a_table_without_domains_has_the_overall_value_alone():
    pooled = cc.Domains.pooled(3)
    assert (pooled.names, pooled.n_rows, pooled.rows_in_no_domain) == ((), 3, 3)
    assert list(pooled.split()) == []


# --------------------------------------------------------------------------------------------------------------- laws

METRICS = [cc.ece, cc.mmce, cc.accuracy, cc.brier, cc.log_loss, cc.irm_penalty, cc.regression_calibration]
METRICS.append(mean_squared_error)
UPPER_BOUND = {cc.ece: 1.0, cc.mmce: 1.0, cc.accuracy: 1.0, cc.brier: 1.0}


@pytest.mark.parametrize("metric", [*METRICS, own_brier], ids=lambda metric: metric.__name__)
def test_one_hot_membership_is_the_same_as_labels(metric):
    y, p = perfect_model(200)
    labels = np.arange(200) % 3
    weight = np.arange(200) % 4
    by_label = cc.per_domain(metric, y, p, domains=labels, sample_weight=weight)
    by_column = cc.per_domain(metric, y, p, domains=labels[:, None] == np.arange(3), sample_weight=weight)
    assert dict(by_label.by_domain) == pytest.approx(dict(by_column.by_domain), abs=1e-14)
    assert by_label.overall == pytest.approx(by_column.overall, abs=1e-14)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_each_value_is_the_metric_of_the_domains_rows(metric):
    y, p = perfect_model(200)
    membership = np.random.default_rng(1).integers(0, 2, size=(200, 3))
    result = cc.per_domain(metric, y, p, domains=membership)
    for column in range(3):
        rows = membership[:, column] == 1
        assert result.by_domain[column] == pytest.approx(metric(y[rows], p[rows]), rel=1e-9, abs=1e-14)
    assert result.overall == pytest.approx(metric(y, p))
    assert result.metric == metric.__name__
    assert not result.intervals
    assert not result.simultaneous_intervals
    assert result.overall_interval is None
    assert result.worst_interval is None


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.__name__)
def test_one_domain_is_the_same_as_all_rows(metric):
    y, p = perfect_model(100)
    result = cc.per_domain(metric, y, p, domains=np.zeros(100, int), ci=0.9, rng=0)
    assert result.by_domain[0] == result.worst == result.mean == pytest.approx(result.overall)
    assert result.gap == 0
    assert result.simultaneous_intervals == result.intervals


def test_options_reach_the_metric():
    y, p = perfect_model(300)
    labels = np.arange(300) % 2
    result = cc.per_domain(cc.ece, y, p, domains=labels, bins=5, norm="l2")
    assert result.by_domain[1] == pytest.approx(cc.ece(y[1::2], p[1::2], bins=5, norm="l2"))
    assert result.by_domain[1] != pytest.approx(cc.ece(y[1::2], p[1::2]))


# ---------------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize("metric", [*METRICS, own_brier], ids=lambda metric: metric.__name__)
def test_intervals_are_ordered_in_range_nested_and_reproducible(metric):
    y, p = perfect_model(600)
    domains = np.repeat(["A", "B", "C"], [100, 200, 300])
    result, wider = (cc.per_domain(metric, y, p, domains=domains, ci=ci, resamples=400, rng=0) for ci in (0.8, 0.99))
    assert result == cc.per_domain(metric, y, p, domains=domains, ci=0.8, resamples=400, rng=0)
    assert list(result.intervals) == list(result.simultaneous_intervals) == ["A", "B", "C"]
    upper = UPPER_BOUND.get(metric, math.inf)
    pairs = [*result.intervals.values(), *result.simultaneous_intervals.values()]
    for low, high in [*pairs, result.overall_interval, result.worst_interval]:
        assert 0 <= low <= high <= upper
        assert math.isfinite(high)
    for name, (low, high) in result.intervals.items():
        below, above = result.simultaneous_intervals[name]
        assert below <= low <= high <= above
        farther_below, farther_above = wider.intervals[name]
        assert farther_below <= low + 1e-3
        assert farther_above > high

    assert result.worst_interval[0] <= result.worst_interval[1] < wider.worst_interval[1]


@pytest.mark.parametrize("metric", [cc.ece, cc.mmce, cc.regression_calibration, own_brier])
def test_another_seed_simulates_other_tables(metric):
    y, p = perfect_model(300)
    domains = np.arange(300) % 2
    first, second = (cc.per_domain(metric, y, p, domains=domains, ci=0.9, resamples=50, rng=rng) for rng in (0, 1))
    assert first.intervals != second.intervals
    again = cc.per_domain(metric, y, p, domains=domains, ci=0.9, resamples=50, rng=np.random.default_rng(1))
    assert again == second
    assert first.by_domain == second.by_domain


def test_a_perfect_models_interval_covers_zero_where_a_plain_bootstrap_does_not():
    def own_ece(y, p):
        return cc.ece(y, p)

    y, p = perfect_model(20 * 500)
    domains = np.repeat(np.arange(20), 500)
    aware = cc.per_domain(cc.ece, y, p, domains=domains, ci=0.95, resamples=400, rng=0)
    naive = cc.per_domain(own_ece, y, p, domains=domains, ci=0.95, resamples=100, rng=0)
    assert dict(aware.by_domain) == pytest.approx(dict(naive.by_domain))
    # 20 intervals that each cover 0 with probability 0.975 at least: fewer than 17 do once in 700 tables
    assert sum(low == 0 for low, _ in aware.intervals.values()) >= 17
    assert aware.worst_interval[0] == 0
    assert min(low for low, _ in naive.intervals.values()) > 0.02


def test_the_worst_of_fifty_perfect_domains_looks_bad_and_is_not_believed():
    y, p = perfect_model(50 * 200)
    result = cc.per_domain(cc.ece, y, p, domains=np.repeat(np.arange(50), 200), ci=0.9, resamples=200, rng=0)
    assert result.worst > 0.08
    assert result.worst_interval[0] == 0.0
    assert result.worst_interval[1] > 0.02


def test_a_bad_domain_is_believed():
    y, p = perfect_model(5000)
    domains = np.repeat(np.arange(5), 1000)
    p = np.where(domains == 3, p**3, p)  # E|P − P³| of a uniform P is 1/4
    result = cc.per_domain(cc.ece, y, p, domains=domains, ci=0.95, rng=0)
    assert result.worst_domain == 3
    assert 0.17 < result.worst_interval[0] < 0.25
    assert 0.24 < result.worst_interval[1] < 0.3


@pytest.mark.parametrize("metric", [cc.ece, cc.accuracy, own_brier], ids=lambda metric: metric.__name__)
def test_the_worst_interval_corrects_the_side_that_was_searched(metric):
    y, p = perfect_model(300)
    result = cc.per_domain(metric, y, p, domains=np.arange(300) % 3, ci=0.9, resamples=200, rng=0)
    own_low, own_high = zip(*result.intervals.values(), strict=True)
    all_low, all_high = zip(*result.simultaneous_intervals.values(), strict=True)
    if result.higher_is_better:
        assert result.worst_interval == (min(own_low), min(all_high))
    else:
        assert result.worst_interval == (max(all_low), max(own_high))


def test_the_worst_interval_covers_the_true_worst_as_often_as_it_says():
    rng = np.random.default_rng(0)
    truth = np.array([0.9, 0.8, 0.8, 0.8])  # three domains tie for the worst
    domains = np.repeat(np.arange(4), 150)
    covered = 0
    for _ in range(400):
        right = rng.uniform(size=600) < truth[domains]
        result = cc.per_domain(cc.accuracy, right.astype(int), np.full(600, 0.9), domains=domains, ci=0.9)
        covered += result.worst_interval[0] <= 0.8 <= result.worst_interval[1]
    assert 0.88 < covered / 400 <= 0.99  # 3 standard errors of 0.9 below; searching makes it a little wide


def test_domains_of_one_row_have_intervals():
    for metric in METRICS:
        result = cc.per_domain(metric, Y, P, domains=range(6), ci=0.9, resamples=50, rng=0)
        for name, (low, high) in result.intervals.items():
            assert low - 1e-15 <= result.by_domain[name] <= high + 1e-15, metric


# --------------------------------------------------------------------------------------------------- your own metrics


def test_a_metric_of_your_own_gets_the_rows_of_each_domain():
    seen = []

    def mean_prediction(y, p):
        seen.append((y.tolist(), p.tolist()))
        return p.mean()

    result = cc.per_domain(mean_prediction, pd.Series(Y), pl.Series(P), domains=COUNTRY)
    assert seen == [(Y[:4], P[:4]), (Y[4:], P[4:]), (Y, P)]
    assert dict(result.by_domain) == pytest.approx({"Sweden": 2.1 / 4, "UK": 0.45})
    assert result.overall == pytest.approx(0.5)
    assert result.metric == "mean_prediction"
    assert result.worst_domain == "Sweden"


def test_a_metric_of_your_own_gets_its_options_and_the_weights():
    result = cc.per_domain(own_brier, Y, P, domains=COUNTRY, power=1, sample_weight=[1, 3, 0, 0, 1, 1])
    # Sweden: (0.2 + 3·0.1)/4; UK: (0.8 + 0.9)/2
    assert dict(result.by_domain) == pytest.approx({"Sweden": 0.125, "UK": 0.85})


def test_a_metric_of_your_own_without_weights_cannot_be_given_them():
    with pytest.raises(TypeError, match="sample_weight"):
        cc.per_domain(lambda y, p: 0.0, Y, P, domains=COUNTRY, sample_weight=np.ones(6))


def test_a_metric_of_your_own_may_be_better_when_higher():
    def hit_rate(y, p):
        return np.mean((p > 0.5) == y)

    assert cc.per_domain(hit_rate, Y, P, domains=COUNTRY).worst_domain == "Sweden"
    result = cc.per_domain(hit_rate, Y, P, domains=COUNTRY, higher_is_better=True, ci=0.9, resamples=20, rng=0)
    assert (result.worst_domain, result.worst) == ("UK", 0.0)
    assert result.worst_interval == (0.0, 0.0)


def test_a_metric_of_your_own_may_take_several_columns_and_any_labels():
    def disagreement(y, p):
        return float(np.mean(y != p[:, 0]))

    result = cc.per_domain(disagreement, ["cat", "dog"], [["cat", "x"], ["cat", "y"]], domains=[0, 1])
    assert dict(result.by_domain) == {0: 0.0, 1: 1.0}


def test_a_partial_metric_is_a_metric_of_your_own():
    result = cc.per_domain(functools.partial(cc.ece, bins=1), Y, P, domains=COUNTRY)
    # one bin: |mean(y) − mean(p)|
    assert result.by_domain["Sweden"] == pytest.approx(abs(2 / 4 - 2.1 / 4))
    assert result.metric == "partial"


def test_the_bootstrap_draws_the_domains_own_rows():
    def mean_prediction(y, p):
        return float(p.mean())

    p = np.concatenate([np.full(50, 0.2), np.full(50, 0.7)])
    result = cc.per_domain(
        mean_prediction, np.zeros(100), p, domains=np.repeat([0, 1], 50), ci=0.9, resamples=50, rng=0
    )
    assert dict(result.intervals) == {0: pytest.approx((0.2, 0.2)), 1: pytest.approx((0.7, 0.7))}
    low, high = result.overall_interval
    assert 0.3 < low < 0.45 < high < 0.6


def test_the_bootstrap_agrees_with_the_normal_limit():
    y, p = perfect_model(2000)
    result = cc.per_domain(own_brier, y, p, domains=np.zeros(2000), ci=0.9, resamples=2000, rng=0)
    squares = (y - p) ** 2
    half = 1.6449 * squares.std() / math.sqrt(2000)
    assert result.overall_interval == pytest.approx((squares.mean() - half, squares.mean() + half), abs=half / 10)


def test_a_registered_metric_is_prepared_once_with_every_default():
    prepared = []

    def metric(y, p, *, bins=10, sample_weight=None):
        raise AssertionError("never called: the prepared estimator is")

    class Constant:
        n_rows = 6

        def values(self, domains):
            return np.arange(len(domains.names) + 1.0)

    def prepare(rows, **options):
        prepared.append((rows.task, rows.y.tolist(), options))
        return Constant()

    cc.register_metric(metric, prepare, higher_is_better=True)
    result = cc.per_domain(metric, Y, P, domains=COUNTRY)
    assert prepared == [("binary", Y, {"bins": 10})]
    assert "metric" in metric_names("classification")
    assert cc.per_domain("metric", Y, P, domains=COUNTRY) == result
    assert (dict(result.by_domain), result.overall) == ({"Sweden": 0.0, "UK": 1.0}, 2.0)
    assert result.worst_domain == "Sweden"
    assert pooled_value(Constant()) == 0.0


def test_a_registered_metric_is_for_one_kind_of_rows():
    with pytest.raises(cc.InputError, match=r"y at row 0 is 0\.5; code the labels as 0 and 1"):
        cc.per_domain("ece", [0.5] * 6, P, domains=COUNTRY)
    assert cc.per_domain("mean_squared_error", [0.5] * 6, P, domains=COUNTRY).worst > 0


def test_a_name_that_is_taken_is_refused():
    def ece(y, p, *, sample_weight=None):
        return 0.0

    with pytest.raises(cc.InputError, match=r"metric is named 'ece', as one of clovecal\.metrics\._ece is; rename it"):
        cc.register_metric(ece, lambda rows: None, higher_is_better=False)


def test_a_result_cannot_be_changed():
    result = cc.per_domain(cc.brier, Y, P, domains=COUNTRY, ci=0.9, rng=0)
    with pytest.raises(AttributeError):
        result.overall = 0.0
    for mapping in (result.by_domain, result.intervals, result.simultaneous_intervals):
        with pytest.raises(TypeError):
            mapping["UK"] = 0.0


# ------------------------------------------------------------------------------------------------- the error messages

NOT_BINARY = "pass 0 and 1 only, or one label per row instead."

DOMAIN_ERRORS = {
    "None": (lambda: cc.Domains.of(None, 3), "domains is None; pass one label per row or an n×k membership matrix."),
    "a column's name": (
        lambda: cc.Domains.of("country", 3),
        "domains is a single value ('country'); pass an array-like with one entry per row.",
    ),
    "too few": (
        lambda: cc.Domains.of(["a", "b"], 3),
        "domains has 2 rows but y has 3; pass arguments aligned row by row.",
    ),
    "too few members": (
        lambda: cc.Domains.of([[1, 0], [0, 1]], 3),
        "domains has 2 rows but y has 3; pass arguments aligned row by row.",
    ),
    "built for another table": (
        lambda: cc.Domains.of(cc.Domains.from_labels(["a", "b"]), 3),
        "domains has 2 rows but y has 3; pass arguments aligned row by row.",
    ),
    "empty": (lambda: cc.Domains.of([], 0), "domains is empty; pass at least one row."),
    "three axes": (
        lambda: cc.Domains.of(np.ones((2, 2, 2)), 2),
        "domains has shape (2, 2, 2); pass one label per row or an n×k membership matrix.",
    ),
    "membership of one axis": (
        lambda: cc.Domains.from_membership([1, 0]),
        "domains has shape (2,); pass an n×k matrix of 0 and 1.",
    ),
    "ragged": (
        lambda: cc.Domains.of([[1, 0], [1]], 2),
        "domains has rows of different lengths; pass a rectangular array.",
    ),
    "labels that cannot be names": (
        lambda: cc.Domains.from_labels(np.array(["a", {"b": 1}], object)),
        "domains at row 1 holds a dict ({'b': 1}); pass strings or integers.",
    ),
    "a late label that cannot be a name": (
        lambda: cc.Domains.from_labels(np.array(["a"] * 140_000 + [{"b": 1}], object)),
        "domains at row 140000 holds a dict ({'b': 1}); pass strings or integers.",
    ),
    "names of other columns": (
        lambda: cc.Domains.from_membership(MEMBERSHIP, names=["a", "b", "c"]),
        "domains has 2 columns but names has 3 different entries; pass one distinct name per column.",
    ),
    "no names": (
        lambda: cc.Domains.from_membership(MEMBERSHIP, names=[]),
        "domains has 2 columns but names has 0 different entries; pass one distinct name per column.",
    ),
    "a name twice": (
        lambda: cc.Domains.of(pd.DataFrame(MEMBERSHIP, columns=["a", "a"]), 4),
        "domains has 2 columns but names has 1 different entries; pass one distinct name per column.",
    ),
    "membership of 2": (
        lambda: cc.Domains.of([[1, 0], [0, 2], [3, 0]], 3),
        f"domains at row 1 has an entry other than 0 and 1 (2); {NOT_BINARY}",
    ),
    "membership of ½": (
        lambda: cc.Domains.of(np.array([[1, 0], [0.5, 2]]), 2),
        f"domains at row 1 has an entry other than 0 and 1 (0.5); {NOT_BINARY}",
    ),
    "membership of NaN": (
        lambda: cc.Domains.of(np.array([[1, 0], [1, math.nan]]), 2),
        f"domains at row 1 has an entry other than 0 and 1 (nan); {NOT_BINARY}",
    ),
    "membership missing in pandas": (
        lambda: cc.Domains.of(pd.DataFrame({"a": [1, None], "b": [0, 1]}, dtype="Int64"), 2),
        f"domains at row 1 has an entry other than 0 and 1 (<NA>); {NOT_BINARY}",
    ),
    "membership missing in polars": (
        lambda: cc.Domains.of(pl.DataFrame({"a": [True, None], "b": [0, 1]}), 2),
        f"domains at row 1 has an entry other than 0 and 1 (None); {NOT_BINARY}",
    ),
    "labels in a table": (
        lambda: cc.Domains.of(pd.DataFrame({"country": COUNTRY}), 6),
        f"domains at row 0 has an entry other than 0 and 1 (Sweden); {NOT_BINARY}",
    ),
    "a domain with no rows": (
        lambda: cc.Domains.of(pd.DataFrame({"a": [1, 1], "b": [0, 0]}), 2),
        "domain 'b' has no rows; drop its column from domains.",
    ),
    "one domain where two are needed": (
        lambda: cc.Domains.from_labels(["a", "a"]).require_two(),
        "domains has only 'a'; this needs at least two domains to compare.",
    ),
    "no domain where two are needed": (
        lambda: cc.Domains.pooled(2).require_two(),
        "domains has none; this needs at least two domains to compare.",
    ),
}


@pytest.mark.parametrize("case", DOMAIN_ERRORS)
def test_domains_that_cannot_be_used_are_refused_in_one_sentence(case):
    call, expected = DOMAIN_ERRORS[case]
    assert message(call) == expected


def test_two_domains_are_enough_where_two_are_needed():
    built = cc.Domains.from_labels(["a", "b"])
    assert built.require_two() is built


PER_DOMAIN_ERRORS = {
    "no metric": ((None,), {}, "metric is None; pass a function such as clovecal.ece, or a metric's name."),
    "no y": ((cc.ece, None), {}, "y is None; pass an array-like with one entry per row."),
    "no p": ((cc.ece, Y, None), {}, "p is None; pass an array-like with one entry per row."),
    "p longer than y": ((own_brier, Y, [*P, 0.5]), {}, "p has 7 rows but y has 6; pass arguments aligned row by row."),
    "p shorter than y": ((own_brier, Y, P[:5]), {}, "p has 5 rows but y has 6; pass arguments aligned row by row."),
    "f shorter than y": (
        (cc.regression_calibration, Y, P[:5]),
        {},
        "p has 5 rows but y has 6; pass arguments aligned row by row.",
    ),
    "labels": ((cc.ece, [0, 1, 2, 0, 0, 1]), {}, "y at row 2 is 2; code the labels as 0 and 1."),
    "no domains": (
        (cc.ece,),
        {"domains": None},
        "domains is None; pass one label per row or an n×k membership matrix.",
    ),
    "no column of domains": (
        (cc.ece,),
        {"domains": np.empty((6, 0))},
        "domains has no domain; pass one label per row or an n×k membership matrix.",
    ),
    "unknown option": (
        (cc.ece,),
        {"bin": 5},
        "ece has no option 'bin'; it has bins, binning, norm, of, debias, sample_weight.",
    ),
    "option of another metric": ((cc.brier,), {"bins": 5}, "brier has no option 'bins'; it has sample_weight."),
    "wrong direction": (
        (cc.accuracy,),
        {"higher_is_better": False},
        "higher_is_better is False; choose one of None, True.",
    ),
    "percent": ((cc.ece,), {"ci": 95}, "ci is 95; pass a number between 0 and 1 (write 0.95 for 95%)."),
    "resamples": (
        (own_brier,),
        {"ci": 0.9, "resamples": 0},
        "resamples is 0; pass a whole number of at least 1.",
    ),
    "rng": ((cc.ece,), {"ci": 0.9, "rng": "x"}, "rng is 'x'; pass a seed, a numpy Generator or None."),
    "negative weight": (
        (own_brier,),
        {"sample_weight": [1, 1, -1, 1, 1, 1]},
        "sample_weight at row 2 is negative (-1.0); weights are frequencies, 0 or more.",
    ),
    "a domain without weight": (
        (cc.accuracy,),
        {"sample_weight": [1, 1, 1, 1, 0, 0]},
        "sample_weight is zero in every row of domain 'UK'; leave that domain out.",
    ),
    "an overlapping domain without weight": (
        (own_brier,),
        {"sample_weight": [1, 0, 1, 0, 1, 1], "domains": [[1, 0], [1, 1], [0, 0], [0, 1], [1, 0], [1, 0]]},
        "sample_weight is zero in every row of domain 1; leave that domain out.",
    ),
}


@pytest.mark.parametrize("case", PER_DOMAIN_ERRORS)
def test_what_per_domain_cannot_use_is_refused_in_one_sentence(case):
    positional, options, expected = PER_DOMAIN_ERRORS[case]
    arguments = [*positional, *(None, Y, P)[len(positional) :]]
    assert message(lambda: cc.per_domain(*arguments, **{"domains": COUNTRY, **options})) == expected


def test_a_direction_that_is_right_may_be_said():
    said = cc.per_domain(cc.accuracy, Y, P, domains=COUNTRY, higher_is_better=True)
    assert said == cc.per_domain(cc.accuracy, Y, P, domains=COUNTRY)
