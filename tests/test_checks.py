"""Every kind of input becomes the same checked arrays, and every input error says what to do in one sentence."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import clovecal as cc
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.rows import Rows

# Exact in single precision, so that every kind must give the very same numbers.
Y = [0, 1, 1, 0, 1]
P = [0.25, 0.875, 0.5, 0.375, 1.0]
P2 = [[0.75, 0.25], [0.125, 0.875], [0.5, 0.5], [0.625, 0.375], [0.0, 1.0]]
ROWS = [9, 9, 2, 0, 5]  # an index that is neither sorted nor unique, and that must not matter


class FakeTensor:
    """What numpy sees of a torch tensor: no conversion before detach, none from bfloat16, none from a device."""

    def __init__(self, values, *, dtype="torch.float32", attached=True):
        self.values, self.dtype, self.attached = np.asarray(values), dtype, attached
        self.device = SimpleNamespace(type="cpu")

    def detach(self):
        return FakeTensor(self.values, dtype=self.dtype, attached=False)

    def float(self):
        return FakeTensor(self.values.astype(np.float32), attached=self.attached)

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        if self.attached:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values if dtype is None else self.values.astype(dtype)


class Device:
    """A torch device: its type is 'cuda', its text 'cuda:0'."""

    type = "cuda"

    def __str__(self):
        return "cuda:0"


def real_tensor(values, dtype="float32"):
    torch = pytest.importorskip("torch", reason="torch is optional; the fake tensor stands in for it")
    floating = dtype.startswith(("float", "bfloat"))
    return torch.tensor(values, dtype=getattr(torch, dtype), requires_grad=floating)


LABEL_KINDS = {
    "list": list,
    "tuple": tuple,
    "list of bools": lambda y: [bool(one) for one in y],
    "numpy int8": lambda y: np.array(y, np.int8),
    "numpy uint8": lambda y: np.array(y, np.uint8),
    "numpy bool": lambda y: np.array(y, bool),
    "numpy float32": lambda y: np.array(y, np.float32),
    "numpy object": lambda y: np.array(y, object),
    "numpy column": lambda y: np.array(y)[:, None],
    "numpy masked, nothing hidden": lambda y: np.ma.array(y),
    "pandas": lambda y: pd.Series(y, index=ROWS),
    "pandas Int64": lambda y: pd.Series(y, index=ROWS, dtype="Int64"),
    "pandas boolean": lambda y: pd.Series(y, dtype="boolean"),
    "pandas boolean array": lambda y: pd.array(y, dtype="boolean"),
    "pandas category": lambda y: pd.Series(y, dtype="category"),
    "pandas pyarrow": lambda y: pd.Series(y, dtype="int64[pyarrow]"),
    "pandas pyarrow bool": lambda y: pd.Series([bool(one) for one in y], dtype="bool[pyarrow]"),
    "pandas DataFrame": lambda y: pd.DataFrame({"y": y}, index=ROWS),
    "polars Int8": lambda y: pl.Series(y, dtype=pl.Int8),
    "polars Boolean": lambda y: pl.Series([bool(one) for one in y]),
    "polars DataFrame": lambda y: pl.DataFrame({"y": y}),
    "pyarrow": pa.array,
    "torch (fake)": lambda y: FakeTensor(y, dtype="torch.int64"),
    "torch int64": lambda y: real_tensor(y, "int64"),
    "torch bool": lambda y: real_tensor(y, "bool"),
}

PROBABILITY_KINDS = {
    "list": list,
    "tuple": tuple,
    "numpy float16": lambda p: np.array(p, np.float16),
    "numpy float32": lambda p: np.array(p, np.float32),
    "numpy float64": lambda p: np.array(p, np.float64),
    "numpy object": lambda p: np.array(p, object),
    "numpy strided": lambda p: np.repeat(np.array(p), 2)[::2],
    "numpy column": lambda p: np.array(p)[:, None],
    "decimals": lambda p: [decimal.Decimal(one) for one in p],
    "fractions": lambda p: [fractions.Fraction(one) for one in p],
    "pandas": lambda p: pd.Series(p, index=ROWS),
    "pandas Float64": lambda p: pd.Series(p, dtype="Float64"),
    "pandas pyarrow": lambda p: pd.Series(p, index=ROWS, dtype="double[pyarrow]"),
    "pandas pyarrow float": lambda p: pd.Series(p, dtype="float[pyarrow]"),
    "polars": pl.Series,
    "polars Float32": lambda p: pl.Series(p, dtype=pl.Float32),
    "pyarrow": pa.array,
    "torch (fake)": FakeTensor,
    "torch (fake) bfloat16": lambda p: FakeTensor(p, dtype="torch.bfloat16"),
    "torch float32": real_tensor,
    "torch bfloat16": lambda p: real_tensor(p, "bfloat16"),
}

MATRIX_KINDS = {
    "list": list,
    "list of arrays": lambda p: [np.array(row) for row in p],
    "numpy float32": lambda p: np.array(p, np.float32),
    "numpy Fortran": lambda p: np.array(p, order="F"),
    "pandas": lambda p: pd.DataFrame(p, columns=["no", "yes"], index=ROWS),
    "pandas Float64": lambda p: pd.DataFrame(p).astype("Float64"),
    "pandas of two types": lambda p: pd.DataFrame(p).astype({0: "Float64", 1: "double[pyarrow]"}),
    "polars": lambda p: pl.DataFrame(p, schema=["no", "yes"], orient="row"),
    "torch (fake)": FakeTensor,
    "torch float32": real_tensor,
}


def checked_rows(y, p, sample_weight=None):
    return Rows.without_domains(y, p, sample_weight=sample_weight, task="classification")


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    assert "; " in text or "pass " in text, f"does not say what to do: {text}"
    return text


# ------------------------------------------------------------------------------------------- all kinds of input agree


@pytest.mark.parametrize("kind", LABEL_KINDS)
def test_labels_of_every_kind_are_the_same_labels(kind):
    checked = checked_rows(LABEL_KINDS[kind](Y), P)
    np.testing.assert_array_equal(np.asarray(checked.y, dtype=np.float64), Y)
    assert checked.y.shape == (5,)


@pytest.mark.parametrize("kind", PROBABILITY_KINDS)
def test_probabilities_of_every_kind_are_the_same_numbers(kind):
    checked = checked_rows(Y, PROBABILITY_KINDS[kind](P))
    np.testing.assert_array_equal(checked.p, P)
    assert checked.p.dtype == np.float64
    assert checked.p.shape == (5,)
    assert not checked.multiclass


@pytest.mark.parametrize("kind", MATRIX_KINDS)
def test_class_probabilities_of_every_kind_are_the_same_numbers(kind):
    checked = Rows.without_domains(Y, MATRIX_KINDS[kind](P2), task="multiclass")
    np.testing.assert_array_equal(checked.p, P2)
    assert checked.p.dtype == np.float64
    assert checked.y.dtype == np.intp
    assert checked.multiclass


@pytest.mark.parametrize("kind", PROBABILITY_KINDS)
def test_weights_of_every_kind_are_the_same_numbers(kind):
    np.testing.assert_array_equal(checked_rows(Y, P, PROBABILITY_KINDS[kind](P)).weight, P)


@pytest.mark.parametrize("label_kind", ["numpy bool", "numpy int8", "pandas Int64", "polars Boolean", "torch (fake)"])
@pytest.mark.parametrize("metric", [cc.ece, cc.mmce, cc.accuracy, cc.brier, cc.log_loss, cc.irm_penalty])
def test_a_metric_does_not_depend_on_the_kind_of_its_input(metric, label_kind):
    expected = metric(Y, P, sample_weight=[1, 2, 1, 3, 1])
    weight = pd.Series([1, 2, 1, 3, 1], index=ROWS, dtype="Int64")
    assert metric(LABEL_KINDS[label_kind](Y), np.array(P, np.float32), sample_weight=weight) == expected
    assert metric(LABEL_KINDS[label_kind](Y), pl.Series(P), sample_weight=weight) == expected


def test_checked_input_is_not_copied_or_changed():
    y, p = np.array(Y), np.array(P)
    checked = checked_rows(y, p)
    assert checked.p is p
    assert checked.y is y
    assert y.tolist() == Y
    assert p.tolist() == P


def test_no_weights_stay_no_weights():
    assert checked_rows(Y, P).weight is None


def test_class_labels_become_indices():
    labels = checked_rows([2.0, 0.0, 1.0], np.eye(3)).y
    assert labels.dtype == np.intp
    assert labels.tolist() == [2, 0, 1]


def test_a_single_column_is_a_column():
    checked = Rows.without_domains([[1.5], [2.5]], [[1.5], [3.5]], task="regression")
    assert (checked.y.tolist(), checked.p.tolist()) == ([1.5, 2.5], [1.5, 3.5])
    assert cc.NaiveIsotonic().fit([[1.5], [2.5]], [0, 1]).predict([[2.5], [1.5]]).tolist() == [1.0, 0.0]


def test_half_precision_softmax_rows_count_as_summing_to_one():
    p = np.random.default_rng(0).dirichlet(np.ones(10), size=50).astype(np.float16)
    assert np.abs(p.astype(np.float64).sum(axis=1) - 1).max() > 1e-5  # or this test says nothing
    assert checked_rows(np.zeros(50, int), p).p.shape == (50, 10)


def test_finite_numbers_whose_sum_overflows_are_not_called_infinite(refusal):
    said = refusal(Rows.without_domains, [0.5, 1.5], [1e308, 1e308], task="regression")
    assert said == "p at row 0 is 1e+308 in size, too large for sums of squares; repair such rows."


def test_the_edges_of_the_unit_interval_are_probabilities():
    assert checked_rows([0, 1], [0, 1]).p.tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", [None, math.nan, np.nan, pd.NA, pd.NaT, np.datetime64("NaT")])
def test_a_missing_label_is_known_as_missing(value):
    with pytest.raises(InputError) as caught:
        Domains.from_labels(np.array(["Oslo", value], object))
    assert (caught.value.argument, caught.value.row) == ("domains", 1)
    assert "missing" in caught.value.problem


@pytest.mark.parametrize("value", ["", "nan", 0, False, "None"])
def test_a_label_that_only_looks_empty_is_not_missing(value):
    assert Domains.from_labels(np.array([value, value], object)).names == (value,)


# ------------------------------------------------------------------------------------------- what is missing is found


MISSING_NUMBERS = {
    "list with None": [0.0, 1.0, None, 1.0],
    "list with NaN": [0.0, 1.0, math.nan, 1.0],
    "numpy object": np.array([0, 1, None, 1], object),
    "numpy masked": np.ma.array([0, 1, 1, 1], mask=[False, False, True, False]),
    "pandas": pd.Series([0, 1, None, 1], index=[3, 3, 3, 3]),
    "pandas Int64": pd.Series([0, 1, None, 1], dtype="Int64"),
    "pandas Int64 array": pd.array([0, 1, None, 1], dtype="Int64"),
    "pandas Float64": pd.Series([0, 1, None, 1], dtype="Float64"),
    "pandas boolean": pd.Series([False, True, None, True], dtype="boolean"),
    "pandas object": pd.Series([0, 1, pd.NA, 1], dtype=object),
    "pandas pyarrow": pd.Series([0, 1, None, 1], dtype="int64[pyarrow]"),
    "polars": pl.Series([0, 1, None, 1]),
    "polars Boolean": pl.Series([False, True, None, True]),
    "pyarrow": pa.array([0, 1, None, 1]),
}


@pytest.mark.parametrize("kind", MISSING_NUMBERS)
@pytest.mark.parametrize("argument", ["y", "p", "sample_weight"])
def test_a_missing_number_is_an_error_that_names_its_row(kind, argument):
    arguments = {"y": [0, 1, 1, 1], "p": [0.5] * 4, "sample_weight": [1] * 4, argument: MISSING_NUMBERS[kind]}
    text = message(lambda: checked_rows(**arguments))
    assert text == (f"{argument} at row 2 is missing or infinite (nan); drop or repair that row.")


@given(
    n=st.integers(1, 40),
    bad=st.sampled_from([math.nan, math.inf, -math.inf, 1.5, -0.25, 1e300]),
    data=st.data(),
)
def test_the_first_bad_probability_is_the_one_that_is_named(n, bad, data):
    p = np.linspace(0, 1, n)
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    p[rows] = bad
    assert re.search(rf"\brow {min(rows)}\b", message(lambda: checked_rows(np.zeros(n), p)))


@given(n=st.integers(1, 40), bad=st.sampled_from([2, -1, 127]), data=st.data())
def test_the_first_bad_label_is_the_one_that_is_named(n, bad, data):
    y = np.zeros(n, dtype=np.int8)
    rows = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3))
    y[rows] = bad
    expected = f"y at row {min(rows)} is {bad}; code the labels as 0 and 1."
    assert message(lambda: checked_rows(y, np.full(n, 0.5))) == expected


# ------------------------------------------------------------------------------------------------- the error messages

DATES = np.array(["2020-01-01"] * 2, "datetime64[D]")
SHAPE_OF_P = "pass (n,) probabilities of label 1 or (n, C) with C classes."
LOGITS = "apply a sigmoid or softmax to logits, or calibrate raw scores first."
ENTRY = "pass an array-like with one entry per row."

PREDICTION_ERRORS = {
    # what is not an array
    "y is None": ((None, P), f"y is None; {ENTRY}"),
    "p is a number": (([0], 0.5), f"p is a single value (0.5); {ENTRY}"),
    "p is a name": (([0], "score"), f"p is a single value ('score'); {ENTRY}"),
    "p is a lazy frame": (([0], pl.LazyFrame({"p": [0.5]})), f"p is a single value (LazyFrame); {ENTRY}"),
    "y is a generator": (((one for one in Y), P), f"y is a single value (generator); {ENTRY}"),
    "p is ragged": (([0, 1], [[0.5, 0.5], [1.0]]), "p has rows of different lengths; pass a rectangular array."),
    # what is not a number
    "p is text": (([0, 1], ["low", "high"]), "p at row 0 holds text ('low'); pass numbers."),
    "p is bytes": (([0, 1], [b"low", b"high"]), "p at row 0 holds text (b'low'); pass numbers."),
    "p has text": (([0, 1], [0.5, "n/a"]), "p at row 1 holds text ('n/a'); pass numbers."),
    "p is numbers as text": (([0, 1], ["0.5", "0.5"]), "p at row 0 holds text ('0.5'); pass numbers."),
    "p has a number as text": (
        ([0, 1], np.array([0.5, "0.5"], object)),
        "p at row 1 holds text ('0.5'); pass numbers.",
    ),
    "p has text in a later column": (
        ([0, 1, 0], np.array([[0.5, 0.5], [0.5, "half"], [0.5, "?"]], object)),
        "p at row 1 holds text ('half'); pass numbers.",
    ),
    "p is dates": (([0, 1], DATES), "p at row 0 holds dates (datetime.date(2020, 1, 1)); pass numbers."),
    "p is time spans": (
        ([0, 1], np.array([1, 2], "m8[s]")),
        "p at row 0 holds time spans (datetime.timedelta(seconds=1)); pass numbers.",
    ),
    "p is complex": (([0, 1], [1j, 0j]), "p at row 0 holds complex numbers (1j); pass numbers."),
    "p has a date among numbers": (
        ([0, 1], np.array([0.5, datetime.date(2020, 1, 1)], object)),
        "p at row 1 holds objects of type date (datetime.date(2020, 1, 1)); pass numbers.",
    ),
    "p has an array in each cell": (
        ([0, 1], pl.Series([[0.5, 0.5], [1.0]])),
        "p at row 0 holds objects of type ndarray (array([0.5, 0.5])); pass numbers.",
    ),
    # empty, or of another shape
    "p is empty": (([], []), "p is empty; pass at least one row."),
    "p is empty text": (([0], np.array([], "U3")), "p is empty; pass at least one row."),
    "p is empty dates": (([0], DATES[:0]), "p is empty; pass at least one row."),
    "y is empty": (([], [0.5]), "y is empty; pass at least one row."),
    "p has three axes": (([0], np.full((1, 2, 2), 0.5)), f"p has shape (1, 2, 2); {SHAPE_OF_P}"),
    "p has no columns": (([0], np.empty((1, 0))), f"p has shape (1, 0); {SHAPE_OF_P}"),
    "y has two columns": (([[0, 1]], [0.5]), "y has shape (1, 2); pass one label per row."),
    "y is shorter": ((Y[:3], P), "p has 5 rows but y has 3; pass arguments aligned row by row."),
    "p is shorter": ((Y, P[:1]), "p has 1 row but y has 5; pass arguments aligned row by row."),
    # NaN and infinity
    "p has NaN": (
        ([0, 1, 1], [0.5, math.nan, math.nan]),
        "p at row 1 is missing or infinite (nan), the first of 2 such rows; drop or repair those rows.",
    ),
    "p has both infinities": (
        ([0, 1, 1], [0.5, -math.inf, math.inf]),
        "p at row 1 is missing or infinite (-inf), the first of 2 such rows; drop or repair those rows.",
    ),
    "p has infinity in a later column": (
        ([0, 1, 1], [[1, 0], [0.5, math.inf], [math.nan, 0]]),
        "p at row 1 is missing or infinite (inf), the first of 2 such rows; drop or repair those rows.",
    ),
    "y has NaN": (
        ([0, 1, math.nan], P[:3]),
        "y at row 2 is missing or infinite (nan); drop or repair that row.",
    ),
    # not probabilities
    "p is percent": ((Y, [0, 87.5, 50, 37.5, 100]), "p at row 1 is 87.5, outside [0, 1]; divide percentages by 100."),
    "p is logits": ((Y, [0.5, 2.0, -1.5, 0.5, 3.0]), f"p at row 1 is 2, outside [0, 1]; {LOGITS}"),
    "p is scores": ((Y, [0.5, 0.5, 300, 0.5, 3.0]), f"p at row 2 is 300, outside [0, 1]; {LOGITS}"),
    "p is off by rounding": (
        (Y, [0.5, 1 + 2**-23, 0.5, 0.5, 1.0]),
        "p at row 1 is 1.0000001192092896, outside [0, 1]; clip what rounding has put outside.",
    ),
    "p is below 0 by rounding": (
        (Y, [0.5, 0.5, 0.5, -1e-17, 1.0]),
        "p at row 3 is -1e-17, outside [0, 1]; clip what rounding has put outside.",
    ),
    "p has logits in a later column": (
        ([0, 1], [[0.5, 0.5], [0.5, -4.0]]),
        f"p at row 1 is -4, outside [0, 1]; {LOGITS}",
    ),
    "p has rows that do not sum to 1": (
        ([0, 1, 0], [[0.5, 0.5, 0], [0.5, 0.25, 0], [1, 1, 1]]),
        "p at row 1 sums to 0.75 over its 3 classes, not 1; pass class probabilities (a softmax of logits).",
    ),
    # not labels
    "y is text": ((["no", "yes"], P[:2]), "y at row 0 holds text ('no'); code the labels as 0 and 1."),
    "y is a text category": (
        (pd.Series(["no", "yes"], dtype="category"), P[:2]),
        "y at row 0 holds text ('no'); code the labels as 0 and 1.",
    ),
    "y is numbers as text": ((["0", "1"], P[:2]), "y at row 0 holds text ('0'); code the labels as 0 and 1."),
    "y has text": (([0, 1, "yes"], P[:3]), "y at row 2 holds text ('yes'); code the labels as 0 and 1."),
    "y has text after a missing value": (
        (np.array([None, "yes"], object), P[:2]),
        "y at row 1 holds text ('yes'); code the labels as 0 and 1.",
    ),
    "y is class names": (
        (["cat", "dog"], [[0.5, 0.5], [0.5, 0.5]]),
        "y at row 0 holds text ('cat'); code the labels as 0 and 1.",
    ),
    "y is dates": ((DATES, P[:2]), "y at row 0 holds dates (datetime.date(2020, 1, 1)); pass numbers."),
    "y counts from 1": (([1, 2], P[:2]), "y at row 1 is 2; code the labels as 0 and 1."),
    "y is −1 and 1": (([1, -1], P[:2]), "y at row 1 is -1; code the labels as 0 and 1."),
    "y is between 0 and 1": (([1, 0.5], P[:2]), "y at row 1 is 0.5; code the labels as 0 and 1."),
    "y is nearly 1": (([0, 1.0000000001], P[:2]), "y at row 1 is 1.0000000001; code the labels as 0 and 1."),
    "y is an unsigned −1": ((np.array([0, 255], np.uint8), P[:2]), "y at row 1 is 255; code the labels as 0 and 1."),
    "y is beyond the classes": (
        ([0, 3], [[0.5, 0.25, 0.25], [0, 0, 1]]),
        "y at row 1 is 3; code the labels as whole numbers 0 to 2, one per column of p.",
    ),
    "y is between two classes": (
        ([0, 1.5], [[0.5, 0.25, 0.25], [0, 0, 1]]),
        "y at row 1 is 1.5; code the labels as whole numbers 0 to 2, one per column of p.",
    ),
    # not weights
    "weights are too few": ((Y, P, [1, 2]), "sample_weight has 2 rows but y has 5; pass one weight per row."),
    "one weight": ((Y, P, [1]), "sample_weight has 1 row but y has 5; pass one weight per row."),
    "weight is a number": ((Y, P, 2), f"sample_weight is a single value (2); {ENTRY}"),
    "weights are negative": (
        (Y, P, [1, 1, -0.5, -2, 1]),
        "sample_weight at row 2 is negative (-0.5); a weight is 0 or more.",
    ),
    "weights are all zero": (
        (Y, P, [0] * 5),
        "sample_weight is zero in every row; give at least one row a positive weight.",
    ),
    "weights have two columns": ((Y, P, np.ones((5, 2))), "sample_weight has shape (5, 2); pass one number per row."),
    "weights are infinite": (
        (Y, P, [1, 1, 1, math.inf, 1]),
        "sample_weight at row 3 is missing or infinite (inf); drop or repair that row.",
    ),
    "weights are text": ((Y, P, ["1", "a", "1", "1", "1"]), "sample_weight at row 1 holds text ('a'); pass numbers."),
    "weights are empty": ((Y, P, []), "sample_weight is empty; pass at least one row."),
}


@pytest.mark.parametrize("case", PREDICTION_ERRORS)
def test_predictions_that_cannot_be_used_are_refused_in_one_sentence(case):
    arguments, expected = PREDICTION_ERRORS[case]
    assert message(lambda: checked_rows(*arguments)) == expected


@pytest.mark.parametrize("name", ["y", "p"])
def test_a_tensor_on_a_device_is_refused_with_the_way_home(name):
    tensor = FakeTensor(P)
    tensor.device = Device()
    arguments = {"y": Y, "p": P, name: tensor}
    expected = f"{name} is a tensor on cuda:0; move it to the CPU with .cpu() first."
    assert message(lambda: checked_rows(**arguments)) == expected


def intervals_of(**options):
    return cc.per_domain(cc.ece, Y, P, domains=["Oslo"] * 5, **options)


def isotonic_of(scores):
    return cc.NaiveIsotonic().fit(scores, [0, 1])


OTHER_ERRORS = {
    "real with columns": (
        lambda: Rows.without_domains([0.5, 1.5], np.ones((2, 3)), task="regression"),
        "p has shape (2, 3); pass one number per row.",
    ),
    "scores with three axes": (
        lambda: isotonic_of(np.ones((2, 3, 1))),
        "scores has shape (2, 3, 1); pass one score per row, or a column per class.",
    ),
    "scores without columns": (
        lambda: isotonic_of(np.ones((2, 0))),
        "scores has shape (2, 0); pass one score per row, or a column per class.",
    ),
    "scores with NaN": (
        lambda: isotonic_of([[0.0, 1.0], [0.0, math.nan]]),
        "scores at row 1 is missing or infinite (nan); drop or repair that row.",
    ),
    "no rows": (
        lambda: Rows.without_domains([], [], task="regression"),
        "y is empty; pass at least one row.",
    ),
    "choice": (lambda: cc.ece(Y, P, norm="L1"), "norm is 'L1'; choose one of 'l1', 'l2', 'max'."),
    "choice of a list": (lambda: cc.ece(Y, P, norm=["l1"]), "norm is ['l1']; choose one of 'l1', 'l2', 'max'."),
    "choice of an array": (
        lambda: cc.ece(Y, P, norm=np.array([1, 2])),
        "norm is array([1, 2]); choose one of 'l1', 'l2', 'max'.",
    ),
    "count of 0": (lambda: cc.ece(Y, P, bins=0), "bins is 0; pass a whole number of at least 1."),
    "count of 1": (
        lambda: cc.AutoCalibrator(max_folds=1).fit(P, Y, domains=list("AABBB")),
        "max_folds is 1; pass a whole number of at least 2.",
    ),
    "count of a float": (lambda: cc.ece(Y, P, bins=10.0), "bins is 10.0; pass a whole number of at least 1."),
    "count of a truth": (lambda: cc.ece(Y, P, bins=True), "bins is True; pass a whole number of at least 1."),
    "count of text": (lambda: cc.ece(Y, P, bins="10"), "bins is '10'; pass a whole number of at least 1."),
    "positive 0": (lambda: cc.mmce(Y, P, gamma=0), "gamma is 0; pass a positive number."),
    "positive NaN": (lambda: cc.mmce(Y, P, gamma=np.float64("nan")), "gamma is nan; pass a positive number."),
    "positive infinity": (lambda: cc.mmce(Y, P, gamma=math.inf), "gamma is inf; pass a positive number."),
    "positive text": (lambda: cc.mmce(Y, P, gamma="1"), "gamma is '1'; pass a positive number."),
    "positive truth": (lambda: cc.mmce(Y, P, gamma=True), "gamma is True; pass a positive number."),
    "fraction 0": (lambda: intervals_of(ci=0.0), "ci is 0.0; pass a number between 0 and 1."),
    "fraction 1": (lambda: intervals_of(ci=1), "ci is 1; pass a number between 0 and 1."),
    "fraction text": (lambda: intervals_of(ci="0.9"), "ci is '0.9'; pass a number between 0 and 1."),
    "fraction NaN": (lambda: intervals_of(ci=math.nan), "ci is nan; pass a number between 0 and 1."),
    "fraction truth": (lambda: intervals_of(ci=True), "ci is True; pass a number between 0 and 1."),
    "percent": (
        lambda: intervals_of(ci=np.int64(95)),
        "ci is 95; pass a number between 0 and 1 (write 0.95 for 95%).",
    ),
    "seed of text": (
        lambda: intervals_of(ci=0.95, rng="seed"),
        "rng is 'seed'; pass a seed, a numpy Generator or None.",
    ),
    "seed below 0": (lambda: intervals_of(ci=0.95, rng=-1), "rng is -1; pass a seed, a numpy Generator or None."),
}


@pytest.mark.parametrize("case", OTHER_ERRORS)
def test_other_arguments_that_cannot_be_used_are_refused_in_one_sentence(case):
    call, expected = OTHER_ERRORS[case]
    assert message(call) == expected


def test_an_input_error_is_a_value_error():
    assert issubclass(cc.InputError, ValueError)
    assert cc.InputError is InputError


# ----------------------------------------------------------------------------------------------------- what is allowed


def test_options_of_numpy_types_are_accepted():
    assert cc.ece(Y, P, bins=np.int32(3)) == cc.ece(Y, P, bins=3)
    assert cc.mmce(Y, P, gamma=np.float32(0.5)) == cc.mmce(Y, P, gamma=0.5)
    assert intervals_of(ci=np.float32(0.5), rng=0).intervals == intervals_of(ci=0.5, rng=0).intervals


def test_a_seed_a_generator_and_nothing_make_random_numbers():
    seeded = intervals_of(ci=0.95, rng=7).intervals
    assert intervals_of(ci=0.95, rng=np.random.default_rng(7)).intervals == seeded
    assert intervals_of(ci=0.95).intervals.keys() == seeded.keys()


@pytest.mark.parametrize("factor", [1e-300, 1e-323, 1e300])
@pytest.mark.parametrize("metric", ["ece", "brier", "mmce", "smooth_ece", "calibration_slope"])
def test_the_scale_of_weights_changes_no_estimate_however_extreme(metric, factor):
    rng = np.random.default_rng(0)
    p, weight = rng.uniform(size=300), rng.integers(1, 5, size=300).astype(float)
    y = rng.uniform(size=300) < p**2
    value = getattr(cc, metric)
    expected = value(y, p, sample_weight=weight)
    assert value(y, p, sample_weight=weight * factor) == pytest.approx(expected, rel=1e-9)


def test_weights_too_far_apart_for_one_sum_are_refused_with_the_row(refusal):
    said = refusal(cc.brier, [0, 1, 1], [0.2, 0.9, 0.6], sample_weight=[1e200, 1e-200, 0])
    assert said == (
        "sample_weight at row 1 is 1e-200 where the largest is 1e+200; leave out rows that count for nothing, or weigh "
        "rows more alike."
    )


def test_numbers_of_rows_beyond_all_counting_have_intervals():
    y, p, domains = [0, 1, 1, 0] * 10, [0.2, 0.9, 0.6, 0.4] * 10, ["a", "b"] * 20
    found = cc.per_domain(cc.ece, y, p, domains=domains, sample_weight=np.full(40, 1e300), ci=0.9, rng=0)
    assert all(np.isfinite(one).all() for one in found.intervals.values())


def test_small_sampling_weights_keep_their_digits():
    weight = np.array([1.0, 1.2345678e-9, 2.3456789e-9, 1.0])
    rows = Rows.of([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4], sample_weight=weight, weights="sampling", domains=list("aabb"))
    assert rows.weight / rows.weight[0] == pytest.approx(weight, rel=1e-11)


@pytest.mark.parametrize("value", [1e101, -1e300])
def test_numbers_too_large_to_square_are_refused_with_their_row(refusal, value):
    said = refusal(Rows.of, [0.5, 1.5, 2.5], [0.5, value, 2.5], domains=list("aab"), task="regression")
    assert said == f"p at row 1 is {abs(value):g} in size, too large for sums of squares; repair such rows."
