"""Domains of rows from every kind of input, and metrics computed in each of them."""

from __future__ import annotations

import datetime
import itertools
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


# -------------------------------------------------------------------------------------------------- computed by hand


def test_the_first_domain_of_each_row_by_hand():
    overlapping = cc.Domains.from_membership([[0, 1, 1], [0, 0, 0], [1, 0, 1], [0, 0, 1]])
    assert overlapping.primary_codes.tolist() == [1, 3, 0, 2]  # 3: in none of the three
    assert cc.Domains.from_labels(["b", "a", "b"]).primary_codes.tolist() == [1, 0, 1]
    assert cc.Domains.pooled(2).primary_codes.tolist() == [0, 0]


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


# numpy drops a text's trailing NUL, and a lone surrogate is not text to arrow
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


def test_crossing_has_each_value_and_each_pair_of_values():
    rng = np.random.default_rng(0)
    columns = {
        "state": rng.choice(["TX", "NY", "CA"], 300),
        "sex": rng.choice(["f", "m"], 300),
        "year": rng.integers(2, size=300),
    }
    built = cc.Domains.crossing(columns)
    expected = {}
    for column, labels in columns.items():
        expected |= {f"{column}={value}": labels == value for value in np.unique(labels)}
    for (first, a), (second, b) in itertools.combinations(columns.items(), 2):
        for x, z in itertools.product(np.unique(a), np.unique(b)):
            expected[f"{first}={x}, {second}={z}"] = (a == x) & (b == z)
    assert built.counts == {name: int(rows.sum()) for name, rows in expected.items()}
    for name, rows in built.split():
        np.testing.assert_array_equal(rows, np.flatnonzero(expected[name]))


def test_crossing_leaves_out_a_pair_that_is_one_of_its_values():
    built = cc.Domains.crossing({"ward": ["a", "a", "b", "b"], "hospital": ["x", "x", "x", "z"]})
    assert set(built.names) == {"ward=a", "ward=b", "hospital=x", "hospital=z", "ward=b, hospital=x"}


def test_crossing_is_refused_without_columns_or_with_unequal_ones():
    with pytest.raises(cc.InputError, match="columns is empty"):
        cc.Domains.crossing({})
    with pytest.raises(cc.InputError, match="columns have 2 and 3 rows"):
        cc.Domains.crossing({"a": ["x", "y"], "b": ["x", "y", "z"]})
