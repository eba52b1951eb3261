"""A table that is put together gives the audits and fits that its rows give."""

from __future__ import annotations

import functools

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import clovecal as cc
from clovecal.domains.sums import equal_width_bins
from clovecal.tables import formats, read_predictions
from clovecal.tables.reduction import CELLS, CellCounts, cells_of_scores, distinct_atoms, within_cells

audit = functools.partial(cc.audit, resamples=20)


def frame(n=3000, decimals=None, seed=0, weighted=False):
    rng = np.random.default_rng(seed)
    p = np.concatenate(
        (rng.beta(0.3, 0.3, n - 40), 10.0 ** -rng.uniform(4, 15, 20), 1 - 10.0 ** -rng.uniform(4, 15, 20))
    )
    p = p if decimals is None else p.round(decimals)
    y = (rng.uniform(size=n) < p**1.5).astype(int)
    columns = {"y": y, "p": p, "domain": rng.choice(["north", "south", "east"], n)}
    return pl.DataFrame({**columns, **({"weight": rng.integers(1, 4, n)} if weighted else {})})


def written(table, tmp_path, rows_a_batch, monkeypatch):
    """Write the table where it is read in several batches."""
    monkeypatch.setattr(formats, "BATCH_ROWS", rows_a_batch)
    table.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def arrays(table):
    weight = table["weight"].to_numpy() if "weight" in table.columns else None
    return (
        table["y"].to_numpy(),
        table["p"].to_numpy(),
        {"domains": table["domain"].to_numpy(), "sample_weight": weight},
    )


# --------------------------------------------------------------------------------------------------- computed by hand


def test_rows_of_one_domain_score_and_label_become_one():
    y, p, members = (
        np.array([1.0, 0, 1, 1, 1]),
        np.array([[0.5], [0.5], [0.5], [0.25], [0.5]]),
        np.array([0, 0, 0, 0, 1]),
    )
    atoms = distinct_atoms(y, p, members, np.array([1.0, 2, 3, 4, 5]))
    assert [one.ravel().tolist() for one in atoms] == [[1, 0, 1, 1], [0.25, 0.5, 0.5, 0.5], [0, 0, 0, 1], [4, 2, 4, 5]]


def test_a_cell_stands_at_the_mean_of_its_scores():
    counts = CellCounts()
    counts.add(
        np.array([1.0, 1, 0]), np.array([0.50001, 0.50009, 0.50002]), np.zeros(3, dtype=int), np.array([1.0, 3, 2])
    )
    counts.add(np.array([1.0]), np.array([0.5]), np.array([1]), None)
    y, p, members, weight = counts.atoms()
    assert (y.tolist(), members.tolist(), weight.tolist()) == ([0, 1, 1], [0, 0, 1], [2, 4, 1])
    assert p[:, 0] == pytest.approx([0.50002, (0.50001 + 3 * 0.50009) / 4, 0.5], abs=1e-15)


def test_cells_are_closed_on_the_right_and_finer_at_both_ends():
    cell = cells_of_scores(np.array([0.5, 0.5 + 1e-9, 0.5 + 1 / CELLS]))[0]
    assert np.diff(cell).tolist() == [1, 0]
    low, number = cells_of_scores(np.array([0.0, 2.0**-60, 2.0**-40, 2.0**-39, 2.0**-20, 1 / CELLS]))
    assert (np.diff(low) >= 0).all()
    assert len(set(low[1:].tolist())) == 5
    high = cells_of_scores(np.array([1 - 1 / CELLS, 1 - 2.0**-20, 1 - 2.0**-39, 1 - 2.0**-40, 1.0]))[0]
    assert (np.diff(high) > 0).all()
    assert 0 <= low.min() <= high.max() < number


# ------------------------------------------------------------------------------------------------------- bins and edges


@pytest.mark.parametrize("bins", [1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100])
def test_no_cell_straddles_the_edge_of_a_bin(bins):
    edges = np.arange(bins + 1) / bins
    p = np.unique(np.clip(np.concatenate((edges, np.nextafter(edges, 2), np.nextafter(edges, -1))), 0, 1))
    bin_of_cell = {}
    for cell, number in zip(cells_of_scores(p)[0].tolist(), equal_width_bins(p, bins).tolist(), strict=True):
        assert bin_of_cell.setdefault(cell, number) == number


def test_rounding_does_not_take_a_mean_out_of_its_bin():
    counts = CellCounts()
    p = np.arange(11) / 10
    for batch in range(10):  # sums of many equal scores are off by about 1e-12
        counts.add(
            np.ones(1_100_000), np.repeat(p, 100_000), np.full(1_100_000, 0), np.full(1_100_000, 1.0 + batch % 2)
        )
    mean = counts.atoms()[1][:, 0]
    np.testing.assert_array_equal(equal_width_bins(mean, 10), equal_width_bins(p, 10))
    np.testing.assert_allclose(mean, p, atol=1e-9)


def test_a_mean_is_held_within_its_cell_from_both_sides():
    edges = np.array([1, 400, 400, CELLS])
    mean = np.array([-1e-18, 0.09975, 0.1 + 1e-12, 1 + 1e-12])
    held = within_cells(mean, edges)
    assert held[0] == 0
    assert held[1] > 399 / CELLS
    assert held[2:].tolist() == [0.1, 1.0]


# -------------------------------------------------------------------------------------------------- the same audits


@pytest.mark.parametrize("weighted", [False, True])
def test_distinct_scores_give_the_same_audit(tmp_path, monkeypatch, weighted):
    rows = frame(decimals=2, weighted=weighted)
    path = written(rows, tmp_path, 700, monkeypatch)
    table = read_predictions(path, max_rows=1300)
    assert (table.reduced, table.n_rows) == ("distinct scores", 3000)
    assert len(table.y) < 700
    y, p, options = arrays(rows)
    assert_same_audit(
        audit(table.y, table.p, domains=table.domains, sample_weight=table.sample_weight), audit(y, p, **options)
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("decimals", [None, 1, 3])
def test_score_cells_give_the_same_audit(tmp_path, monkeypatch, weighted, decimals):
    rows = frame(decimals=decimals, weighted=weighted)
    table = read_predictions(written(rows, tmp_path, 700, monkeypatch), max_rows=50)
    assert (table.reduced, table.n_rows) == ("score cells", 3000)
    y, p, options = arrays(rows)
    reduced = audit(table.y, table.p, domains=table.domains, sample_weight=table.sample_weight)
    assert_same_audit(reduced, audit(y, p, **options))


def assert_same_audit(reduced, whole):
    assert (reduced.n_rows, dict(reduced.rows)) == (whole.n_rows, dict(whole.rows))
    tolerance = {"ece": 1e-9, "accuracy": 1e-9, "brier": 1e-6, "log_loss": 1e-6, "mmce": 1e-6}
    for name, within in tolerance.items():
        one, other = reduced.metrics[name], whole.metrics[name]
        assert one.overall == pytest.approx(other.overall, abs=within)
        assert dict(one.by_domain) == pytest.approx(dict(other.by_domain), abs=within)
    np.testing.assert_allclose(reduced.curve.frequency, whole.curve.frequency, atol=1e-9)
    np.testing.assert_allclose(reduced.curve.count, whole.curve.count)


def test_a_domain_may_appear_after_the_reduction(tmp_path, monkeypatch):
    rows = frame(900).sort("domain")
    table = read_predictions(written(rows, tmp_path, 100, monkeypatch), max_rows=50)
    assert (table.reduced, table.domains.names) == ("score cells", ("east", "north", "south"))
    whole = dict(rows["domain"].value_counts().iter_rows())
    assert {name: table.sample_weight[members].sum() for name, members in table.domains.split()} == whole


# ------------------------------------------------------------------------------------------------------- the same fits


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "calibrator",
    [cc.NaiveIsotonic(), cc.RobustIsotonic(), cc.RobustIsotonic("regret")],
    ids=["naive", "risk", "regret"],
)
def test_a_fit_from_distinct_scores_is_the_fit_from_rows(tmp_path, monkeypatch, calibrator, weighted):
    rows = frame(2000, decimals=2, weighted=weighted)
    table = read_predictions(written(rows, tmp_path, 300, monkeypatch), max_rows=1300)
    assert table.reduced == "distinct scores"
    y, p, options = arrays(rows)
    grid = np.linspace(0, 1, 501)
    from_rows = clone(calibrator).fit(p, y, **options)
    from_counts = clone(calibrator).fit(table.p, table.y, domains=table.domains, sample_weight=table.sample_weight)
    # The sums are the same up to their order; the worst-domain solver stops within its tolerance of the optimum.
    naive = isinstance(calibrator, cc.NaiveIsotonic)
    np.testing.assert_allclose(from_counts.predict(grid), from_rows.predict(grid), atol=1e-14 if naive else 1e-6)
    if not naive:
        assert from_counts.certificate_.worst == pytest.approx(from_rows.certificate_.worst, rel=1e-8)


def test_a_fit_from_cells_is_close_to_the_fit_from_rows(tmp_path, monkeypatch):
    rows = frame(20_000)
    table = read_predictions(written(rows, tmp_path, 5000, monkeypatch), max_rows=100)
    y, p, _ = arrays(rows)
    calibrated = [
        cc.NaiveIsotonic().fit(table.p, table.y, sample_weight=table.sample_weight).predict(p),
        cc.NaiveIsotonic().fit(p, y).predict(p),
    ]
    assert cc.brier(y, calibrated[0]) == pytest.approx(cc.brier(y, calibrated[1]), abs=1e-4)


# ---------------------------------------------------------------------------------------------------- what stays rows


def test_rows_stand_together_only_where_that_loses_nothing(tmp_path):
    rng = np.random.default_rng(0)
    base = {"y": rng.integers(0, 2, 60), "p": rng.uniform(size=60), "domain": ["a", "b"] * 30}
    kept_as_rows = {
        "logits": {**base, "p": rng.normal(size=60) * 9},
        "regression": {**base, "y": rng.normal(size=60)},
        "classes": {"y": base["y"], "p_0": base["p"], "p_1": 1 - base["p"], "domain": base["domain"]},
        "overlapping": {"y": base["y"], "p": base["p"], "group_a": [1] * 60, "group_b": base["y"]},
        "negative weight": {**base, "weight": [-1.0] + [1.0] * 59},
    }
    for name, columns in kept_as_rows.items():
        pl.DataFrame(columns).write_csv(tmp_path / "t.csv")
        table = read_predictions(tmp_path / "t.csv", max_rows=5)
        assert (table.reduced, len(table.y)) == (None, 60), name
    pl.DataFrame(base).write_csv(tmp_path / "t.csv")
    assert read_predictions(tmp_path / "t.csv", max_rows=60).reduced is None
    assert read_predictions(tmp_path / "t.csv", max_rows=59).reduced == "score cells"


@pytest.mark.parametrize("wrong", [{"p": 3.5}, {"y": 2}, {"weight": -1.0}])
def test_a_late_row_that_does_not_fit_is_refused(tmp_path, monkeypatch, wrong):
    rows = frame(600, weighted=True).cast({"weight": pl.Float64})
    ((column, value),) = wrong.items()
    late = rows.with_columns(pl.when(pl.int_range(pl.len()) == 599).then(value).otherwise(pl.col(column)).alias(column))
    path = written(late, tmp_path, 100, monkeypatch)
    with pytest.raises(cc.InputError, match=r"^columns 'y' and 'p' look like .* up to data row 500, but not after it"):
        read_predictions(path, max_rows=50)
