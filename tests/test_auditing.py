"""An audit says, in words, in a table and as JSON, what each metric says of each domain."""

from __future__ import annotations

import functools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import clovecal as cc
from clovecal.metrics import mean_squared_error

# The intervals need few simulated tables here: effects are many standard errors large, or nil.
audit = functools.partial(cc.audit, resamples=200)


def message(call):
    """Return the one sentence that the call is refused with."""
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), f"more than one sentence: {text}"
    return text


def binary_table(truth, *, k=3, rows=1000, seed=0):
    """Return y, p and k domains of n rows, where P(y=1) is truth(p, domain)."""
    rng = np.random.default_rng(seed)
    p, domain = rng.uniform(size=k * rows), np.repeat(np.arange(k), rows)
    return (rng.uniform(size=k * rows) < truth(p, domain)).astype(int), p, domain


def multiclass_table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([1, 1, 1], size=n)
    y = (rng.uniform(size=(n, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    return y, p, np.array(["A", "B"])[np.arange(n) % 2]


def regression_table(n=600, seed=0):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    return f + rng.normal(size=n), f, np.array(["A", "B"])[np.arange(n) % 2]


def as_json(result):
    """Return what JSON keeps of an audit, NaN and infinity being errors."""
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


# --------------------------------------------------------------------------------------------------- computed by hand


def test_every_figure_of_a_small_table():
    y, p = [0, 1, 1, 0, 0, 1], [0.2, 0.9, 0.6, 0.4, 0.8, 0.1]
    result = audit(y, p, domains=["Sweden"] * 4 + ["UK"] * 2)
    assert (result.task, result.n_rows, result.rows_in_no_domain) == ("binary", 6, 0)
    assert dict(result.rows) == {"Sweden": 4, "UK": 2}
    assert dict(result.observed) == {"Sweden": 0.5, "UK": 0.5}
    assert dict(result.predicted) == pytest.approx({"Sweden": 2.1 / 4, "UK": 0.9 / 2})
    assert list(result.metrics) == [
        *("ece", "mmce", "accuracy", "brier", "log_loss", "auc"),
        *("calibration_intercept", "calibration_slope", "observed_expected"),
    ]
    # Sweden's four bins hold one row each: (0.2 + 0.1 + 0.4 + 0.4)/4; the UK's two: (0.8 + 0.9)/2
    assert dict(result.calibration.by_domain) == pytest.approx({"Sweden": 0.275, "UK": 0.85})
    assert dict(result.metrics["accuracy"].by_domain) == {"Sweden": 1.0, "UK": 0.0}
    assert result.metrics["brier"].overall == pytest.approx((0.04 + 0.01 + 0.16 + 0.16 + 0.64 + 0.81) / 6)
    assert result.decomposition.score == pytest.approx(result.metrics["brier"].overall)
    assert result.curve.count.tolist() == [1, 1, 0, 1, 0, 1, 0, 1, 1, 0]
    assert result.curve_by_domain["UK"].count.tolist() == [1, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    assert result.curve_by_domain["UK"].frequency[[0, 7]].tolist() == [1.0, 0.0]
    assert (result.ci, result.tolerance.odds_ratio, result.tolerance.absolute) == (0.95, 1.25, None)


def test_an_audit_is_what_its_metrics_say():
    y, p, domain = binary_table(lambda p, d: p**2)
    result = audit(y, p, domains=domain, bins=15)
    for metric in (cc.ece, cc.mmce, cc.accuracy, cc.brier, cc.log_loss):
        options = {"bins": 15} if metric is cc.ece else {}
        expected = cc.per_domain(metric, y, p, domains=domain, **options)
        assert result.metrics[metric.__name__].by_domain == expected.by_domain
        assert result.metrics[metric.__name__].overall == expected.overall
        assert set(result.metrics[metric.__name__].intervals) == {0, 1, 2}
    assert result.calibration is result.metrics["ece"]
    assert result.decomposition == cc.brier_decomposition(y, p, by="isotonic")
    np.testing.assert_array_equal(result.curve.frequency, cc.reliability_curve(y, p, bins=15).frequency)
    rows = domain == 1
    expected = cc.reliability_curve(y[rows], p[rows], bins=15).low
    np.testing.assert_array_equal(result.curve_by_domain[1].low, expected)
    assert result.invariance.statistic == pytest.approx(cc.invariance_test(y, p, domains=domain).statistic)


# -------------------------------------------------------------------------------------------------- guessing the task

BINARY = ([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4])
THREE_CLASSES = ([0, 1, 2, 0], [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])

TASKS = {
    "0 and 1": (*BINARY, "binary"),
    "0.0 and 1.0": ([0.0, 1.0, 1.0, 0.0], BINARY[1], "binary"),
    "truth values": (np.array([False, True, True, False]), BINARY[1], "binary"),
    "nullable": (pd.Series(BINARY[0], dtype="Int64"), pd.Series(BINARY[1], dtype="Float64"), "binary"),
    "polars": (pl.Series(BINARY[0]), pl.Series(BINARY[1]), "binary"),
    "a column each": (np.array(BINARY[0])[:, None], np.array(BINARY[1])[:, None], "binary"),
    "only ones": ([1, 1, 1, 1], BINARY[1], "binary"),
    "hard predictions": (BINARY[0], [0, 1, 0, 1], "binary"),
    "two columns": (BINARY[0], [[0.5, 0.5]] * 4, "binary"),
    "three classes": (*THREE_CLASSES, "multiclass"),
    "three classes as floats": ([0.0, 1.0, 2.0, 0.0], THREE_CLASSES[1], "multiclass"),
    "class frame": (pl.Series(THREE_CLASSES[0]), pl.DataFrame(THREE_CLASSES[1], orient="row"), "multiclass"),
    "fractions": ([0.5, 1.5, 2.0, 3.0], [0.2, 0.9, 0.6, 0.4], "regression"),
    "fractions between 0 and 1": ([0.5, 0.25, 0.75, 1.0], [0.2, 0.9, 0.6, 0.4], "regression"),
    "counts": ([3, 0, 12, 1], [2.5, 0.5, 11.0, 1.0], "regression"),
    "counts and whole predictions": ([3, 0, 12, 1], [2, 0, 11, 1], "regression"),
    "means and variances": ([0.5, 1.5, 2.0, 3.0], [[1.0, 2.0]] * 4, "regression"),
    "nullable fractions": (pd.Series([0.5, 1.5, 2, 3], dtype="Float64"), pl.Series([0.5, 1.0, 2.0, 3.0]), "regression"),
}


@pytest.mark.parametrize("case", TASKS)
def test_the_task_follows_from_the_values(case):
    y, p, task = TASKS[case]
    assert audit(y, p, domains=[0, 0, 1, 1], resamples=20).task == task


def test_the_task_may_be_said():
    assert audit(*BINARY, domains=[0, 0, 1, 1], task="regression", resamples=20).task == "regression"
    assert audit(*BINARY, domains=[0, 0, 1, 1], task="binary", resamples=20).task == "binary"
    counts = audit([0, 1, 2, 1], [0.2, 0.9, 0.6, 0.4], domains=[0, 0, 1, 1], task="regression", resamples=20)
    assert counts.calibration.overall == pytest.approx((0.2 + 0.1 + 1.4 + 0.6) / 4)


# ---------------------------------------------------------------------------------------------------------- the verdict


def test_the_verdict_when_every_domain_is_shown_to_be_calibrated():
    y, p, d = binary_table(lambda p, d: p, rows=6000)
    result = audit(y, p, domains=np.array(["A", "B", "C"])[d])
    assert set(result.within_tolerance) == {"A", "B", "C"}
    assert result.verdict.startswith(
        "Calibrated in every domain, within an odds ratio of 1.25. All rows together: within"
    )


def test_a_domain_that_is_not_shown_to_be_calibrated_is_not_called_so():
    y, p, d = binary_table(lambda p, d: p, rows=6000)
    lone = audit([*y, 0], [*p, 0.01], domains=[*np.array(["A", "B", "C"])[d], "tiny"])
    assert lone.findings["tiny"].label == "too few rows"
    assert "No domain is shown to be miscalibrated (beyond an odds ratio of 1.25); that is not proof" in lone.verdict
    assert "3 shown to be within tolerance and 1 with too few rows to show even doubled odds" in lone.verdict
    assert "Calibrated in every" not in lone.verdict


def test_the_verdict_when_some_domains_and_the_whole_are_off():
    y, p, d = binary_table(lambda p, d: np.where(d == 1, p**3, p))
    result = audit(y, p, domains=np.array(["Norway", "Sweden", "UK"])[d])
    assert result.miscalibrated == ("Sweden",)
    means = f"predicted {100 * result.predicted['Sweden']:.1f}%, happened {100 * result.observed['Sweden']:.1f}%"
    assert result.verdict.startswith(
        f"Miscalibrated beyond an odds ratio of 1.25 in 1 of 3 domains: 'Sweden' ({means}). The others: "
    )
    assert "All rows together are miscalibrated too (ECE" in result.verdict
    assert "percentage points apart (root mean square over the rows)." in result.verdict


def test_the_verdict_names_no_distance_that_is_lost_in_noise():
    y, p, d = binary_table(lambda p, d: np.where(d == 1, p**3, p))
    result = audit(y, p, domains=d, resamples=200)
    faint = replace(result, invariance=replace(result.invariance, shift=0.0))
    assert faint.verdict.endswith("(p = 0.005), but too little to put a size to it.")


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e4])
def test_the_verdict_of_a_regression_is_in_units_of_its_target(unit):
    rng = np.random.default_rng(0)
    f, d = rng.normal(size=1200), np.repeat(["A", "B", "C"], 400)
    y = f + rng.normal(size=1200) + 0.6 * (d == "B")
    result = audit(unit * y, unit * f, domains=d)
    error, (low, high) = result.calibration.overall, result.calibration.overall_interval
    said = re.search(r"All rows together.* \(error (\S+) \[(\S+), (\S+)\]\)", result.verdict)
    figures = [float(figure.replace(",", "")) for figure in said.groups()]
    np.testing.assert_allclose(figures, [error, low, high], rtol=1e-3)
    apart = re.search(r": (\S+) apart \(root mean square", result.verdict)
    assert float(apart[1].replace(",", "")) == pytest.approx(result.invariance.shift, rel=5e-3)


def test_the_verdict_on_a_rare_outcome_has_the_digits_of_the_table():
    rng = np.random.default_rng(0)
    p, d = rng.beta(1, 200, 40_000), np.repeat(["A", "B"], 20_000)
    result = audit(rng.uniform(size=40_000) < np.where(d == "A", p / 4, p), p, domains=d)
    _, table, _ = lines_of(result)
    error, low, high = re.search(r"All rows together.*\(ECE (\S+) \[(\S+), (\S+)\]\)", result.verdict).groups()
    assert f"{error}  [{low}, {high}]" in table[-1]
    assert len(error) >= len("0.0012")
    assert re.search(r": 0\.\d*[1-9]\d* percentage points apart", result.verdict)  # not 0.0 of them


def test_an_interval_above_the_tolerance_is_not_taken_for_a_finding():
    # Twelve domains, one of them off by as much as its own interval shows, but not as one of twelve.
    y, p, d = binary_table(lambda p, d: np.clip(p + 0.17 * (d == 0), 0, 1), k=12, rows=120, seed=8)
    result = audit(y, p, domains=d)
    assert result.miscalibrated == ()
    above = [name for name, one in result.findings.items() if result.calibration.intervals[name][0] > one.tolerance]
    assert above == [0]
    note = "An interval above what is tolerated is no finding by itself"
    assert note in " ".join(str(result).split())
    assert note not in " ".join(str(audit(y[:240], p[:240], domains=d[:240], odds_ratio=3)).split())


def test_the_verdict_when_errors_cancel_overall():
    y, p, d = binary_table(lambda p, d: 0.3 + 0.4 * p + np.array([0.2, -0.2])[d], k=2, rows=6000)
    p = 0.3 + 0.4 * p
    result = audit(y, p, domains=d)
    assert set(result.miscalibrated) == {0, 1}
    assert "in every domain: '" in result.verdict
    assert "All rows together: within tolerance (ECE" in result.verdict


def test_the_verdict_when_only_all_rows_together_can_tell():
    y, p, d = binary_table(lambda p, d: np.clip(p + 0.1, 0, 1), k=12, rows=80, seed=1)
    result = audit(y, p, domains=d)
    assert result.miscalibrated == ()
    assert "though no single domain has the rows to show it." in result.verdict


def test_the_verdict_names_four_domains_and_counts_the_others():
    slope = np.array([1.6, 3.0, 2.2, 2.6, 1.0, 4.0, 5.0, 2.0])
    y, p, d = binary_table(lambda p, d: p ** slope[d], k=8)
    result = audit(y, p, domains=np.array(list("abcdefgh"))[d])
    assert result.miscalibrated == ("g", "f", "b", "d", "c", "h", "a")  # the lower limits of their errors fall
    named = [re.search(rf"'{name}' \(predicted [\d.]+%, happened [\d.]+%\)", result.verdict) for name in "gfbd"]
    assert all(named)
    assert "in 7 of 8 domains: " in result.verdict
    assert " and 3 more. The others: 1 " in result.verdict


def test_one_domain_has_nothing_to_be_compared_with():
    y, p, _ = binary_table(lambda p, d: p**3, k=1)
    result = audit(y, p, domains=np.zeros(1000, int))
    assert result.invariance is None
    assert result.verdict.startswith("Miscalibrated beyond an odds ratio of 1.25 in the one domain: '0' (predicted")
    assert result.verdict.count(".") == result.verdict.count("1.25") + 3  # and the points of two percentages
    assert as_json(result)["invariance"] is None
    assert "all rows" in str(result)


def test_a_higher_tolerance_forgives():
    y, p, d = binary_table(lambda p, d: np.where(d == 1, p**3, p))
    assert audit(y, p, domains=d, tolerance=0.1).miscalibrated == (1,)
    assert audit(y, p, domains=d, tolerance=0.3).miscalibrated == ()
    assert audit(y, p, domains=d, odds_ratio=1.5).miscalibrated == (1,)
    assert audit(y, p, domains=d, odds_ratio=8).miscalibrated == ()


def test_domains_of_few_rows_are_put_together_on_request():
    y, p, d = binary_table(lambda p, d: p, k=4, rows=100)
    few = np.where(d < 2, d, 100 + np.arange(400) // 20)
    result = audit(y, p, domains=few, min_rows=50)
    assert dict(result.rows) == {0: 100, 1: 100, "10 domains of fewer than 50 rows": 200}


def test_noise_does_not_come_first():
    rng = np.random.default_rng(0)
    domain = np.concatenate([np.arange(200), np.full(3000, 200), np.full(3000, 201)])
    p = rng.beta(2, 5, len(domain))
    result = audit(rng.random(len(domain)) < np.where(domain == 200, p**1.5, p), p, domains=domain)
    assert result.calibration.worst_domain < 200  # a domain of one row, whose error is noise
    assert result.by_evidence[0] == 200
    assert set(result.by_evidence) == set(result.rows)


@pytest.mark.parametrize("ci", [0.8, 0.999])
def test_the_invariance_sentence_follows_the_confidence_level(ci):
    y, p, d = binary_table(lambda p, d: np.clip(p + 0.03 * d, 0, 1), k=2, seed=3)
    result = audit(y, p, domains=d, ci=ci)
    assert 0.001 < result.invariance.p_value < 0.2  # or this test says nothing
    assert bool(re.search(r"(evidence that t|T)he same score means different", result.verdict)) == (ci == 0.8)


# ------------------------------------------------------------------------------------------------------------ as text


def lines_of(result):
    verdict, *expected, table, notes = str(result).split("\n\n")
    assert len(expected) == (len(result.rows) > 1)
    return verdict.replace("\n", " "), table.splitlines(), " ".join(notes.split())


def cells(line):
    return re.split(r"\s{2,}", line.strip())


def test_the_table_shows_the_strongest_evidence_first_and_all_rows_last():
    y, p, d = binary_table(lambda p, d: p ** np.array([1, 4, 2])[d])
    result = audit(y, p, domains=np.array(["Norway", "Sweden", "UK"])[d], ci=0.9)
    verdict, table, notes = lines_of(result)
    assert verdict == result.verdict
    heads = ["domain", "rows", "observed", "predicted", "O:E", "ECE", "90% interval", "tolerated", "p", "finding"]
    assert cells(table[0]) == heads
    assert set(table[1]) == set(table[-2]) == {"-"}
    assert [cells(line)[0] for line in table[2:-2]] == ["Sweden", "UK", "Norway"]
    sweden, found = result.calibration.intervals["Sweden"], result.findings["Sweden"]
    assert cells(table[2]) == [
        "Sweden",
        "1,000",
        f"{result.observed['Sweden']:.3f}",
        f"{result.predicted['Sweden']:.3f}",
        f"{result.observed['Sweden'] / result.predicted['Sweden']:.2f}",
        f"{result.calibration.worst:.3f}",
        f"[{sweden[0]:.3f}, {sweden[1]:.3f}]",
        f"{found.tolerance:.3f}",
        "<0.001",
        "miscalibrated",
    ]
    assert "miscalibrated" not in table[4]
    whole = result.calibration.overall_interval
    assert cells(table[-1])[:2] == ["all rows", "3,000"]
    assert cells(table[-1])[5:7] == [f"{result.calibration.overall:.3f}", f"[{whole[0]:.3f}, {whole[1]:.3f}]"]
    assert "Tolerated: the ECE that an odds ratio of 1.25 makes." in notes
    assert "adjusted for 3 domains (Holm)" in notes
    assert "- miscalibrated: p is at most 0.1." in notes


def test_a_table_of_hundreds_of_domains_ends_and_counts_the_rest():
    y, p, d = binary_table(lambda p, d: p, k=300, rows=3)
    _, table, _ = lines_of(audit(y, p, domains=d))
    assert table[-3].startswith("… and 240 domains with less evidence: ")
    assert sum(map(int, re.findall(r"(\d+) (?:too few|cannot|within|right)", table[-3]))) == 240
    assert len(table) == 2 + 60 + 3


def test_rare_outcomes_are_written_with_digits_enough():
    p = np.full(40_000, 0.005)
    y = np.arange(40_000) % 200 == 0
    result = audit(y, p, domains=np.arange(40_000) // 20_000)
    _, table, _ = lines_of(result)
    assert cells(table[2])[2:4] == [f"{result.observed[0]:.4f}", "0.0050"]


def test_the_table_is_aligned_and_fits_its_rules():
    y, p, d = binary_table(lambda p, d: p ** np.array([1, 4, 2])[d], rows=400)
    _, table, _ = lines_of(audit(y, p, domains=np.array(["a", "a much longer name", "ccc"])[d]))
    ends = [line.index(cells(line)[1]) + len(cells(line)[1]) for line in (table[0], *table[2:-2], table[-1])]
    assert len(set(ends)) == 1  # numbers stand below each other
    assert len(table[1]) == len(table[-2]) == max(map(len, table))
    assert all(line == line.rstrip() for line in str(audit(y, p, domains=d)).splitlines())


def test_the_table_of_a_regression_has_no_ratio():
    y, f, domain = regression_table()
    _, table, notes = lines_of(audit(y, f, domains=domain))
    heads = ["domain", "rows", "observed", "predicted", "error", "95% interval", "tolerated", "p", "finding"]
    assert cells(table[0]) == heads
    assert "noise alone adds to the error" in notes


def test_rows_in_no_domain_are_mentioned():
    y, p, d = binary_table(lambda p, d: p, k=4, rows=600)
    membership = np.column_stack([d < 2, d == 1])
    result = audit(y, p, domains=pd.DataFrame(membership, columns=["adults", "women"]))
    assert (result.n_rows, result.rows_in_no_domain) == (2400, 1200)
    assert dict(result.rows) == {"adults": 1200, "women": 600}
    _, table, notes = lines_of(result)
    assert notes.endswith("1,200 rows are in no domain and count in 'all rows' only.")
    assert cells(table[-1])[1] == "2,400"
    assert result.observed["adults"] == pytest.approx(y[d < 2].mean())
    assert result.calibration.overall == pytest.approx(cc.ece(y, p))


# ------------------------------------------------------------------------------------------------------------- as JSON


def hidden_rows():
    membership = np.zeros((600, 3), bool)
    membership[:200, 0] = membership[100:300, 1] = membership[290:310, 2] = True
    return membership


BINARY_TABLE = binary_table(lambda p, d: p**2, k=2, rows=300)

AUDITS = {
    "binary": lambda: audit(*BINARY_TABLE[:2], domains=BINARY_TABLE[2]),
    "binary with empty bins": lambda: audit([0, 1, 1, 0], [0.5, 0.5, 0.9, 0.9], domains=["a", "a", "b", "b"]),
    "domains of one row": lambda: audit([0, 1, 1], [0.5, 0.5, 0.9], domains=[0, 1, 2]),
    "one domain": lambda: audit(*BINARY_TABLE[:2], domains=["only"] * 600),
    "overlapping": lambda: audit(*BINARY_TABLE[:2], domains=hidden_rows()),
    "weights": lambda: audit(*BINARY_TABLE[:2], domains=BINARY_TABLE[2], sample_weight=np.arange(600) % 4),
    "sampling weights": lambda: audit(
        *BINARY_TABLE[:2], domains=BINARY_TABLE[2], sample_weight=np.arange(600) % 4 + 0.3, weights="sampling"
    ),
    "dates": lambda: audit([0, 1, 1], [0.5, 0.5, 0.9], domains=np.array(["2020", "2021", "2020"], "M8[Y]")),
    "numpy options": lambda: audit(
        [0, 1, 1], [0.5, 0.5, 0.9], domains=[0, 1, 1], ci=np.float32(0.9), bins=np.int64(3), tolerance=np.float32(0.5)
    ),
    "multiclass": lambda: audit(*multiclass_table()[:2], domains=multiclass_table()[2]),
    "multiclass, one domain of one row": lambda: audit(*multiclass_table(5)[:2], domains=[0, 0, 0, 0, 1]),
    "regression": lambda: audit(*regression_table()[:2], domains=regression_table()[2]),
    "regression with variances": lambda: audit(
        regression_table()[0], np.column_stack([regression_table()[1], np.ones(600)]), domains=regression_table()[2]
    ),
    "regression, domains of one row": lambda: audit([0.5, 1.5, 2.5], [1.0, 1.0, 2.0], domains=[0, 1, 2]),
    "regression, overlapping, weights": lambda: audit(
        *regression_table()[:2], domains=hidden_rows(), sample_weight=1 + np.arange(600) % 3
    ),
}


@pytest.mark.parametrize("case", AUDITS)
def test_an_audit_is_plain_json_and_the_same_each_time(case):
    result = AUDITS[case]()
    content = as_json(result)
    assert content == as_json(AUDITS[case]())
    assert str(result) == str(AUDITS[case]())
    assert list(content)[:2] == ["verdict", "miscalibrated"]
    assert content["verdict"] == result.verdict
    assert content["miscalibrated"] == [str(name) for name in result.miscalibrated]
    names = [str(name) for name in result.rows]
    assert list(content["rows"]) == names
    assert sum(content["rows"].values()) == sum(result.rows.values())
    assert content["n_rows"] == result.n_rows
    for name, metric in result.metrics.items():
        entry = content["metrics"][name]
        assert list(entry["by_domain"]) == list(entry["intervals"]) == names
        if not metric.defined:  # the AUC where no domain has both labels
            assert (entry["mean"], entry["worst"], entry["worst_domain"], entry["gap"]) == (None, None, None, None)
            continue
        assert entry["worst_domain"] in names
        assert entry["worst"] == metric.worst == entry["by_domain"][entry["worst_domain"]]
        assert (entry["mean"], entry["gap"], entry["overall"]) == (metric.mean, metric.gap, metric.overall)
        assert len(entry["worst_interval"]) == len(entry["overall_interval"]) == 2
    assert content["task"] == case.split()[0].strip(",") or content["task"] == "binary"
    assert (content["curve"] is None) == (content["task"] == "regression")
    assert (content["decomposition"] is None) == (content["task"] == "regression")
    assert list(content["curve_by_domain"]) == ([] if content["task"] == "regression" else names)


def test_an_empty_bin_and_an_unbounded_interval_are_null():
    content = as_json(AUDITS["domains of one row"]())
    assert content["curve"]["frequency"] == [None] * 4 + [0.5] + [None] * 3 + [1.0, None]
    assert content["curve"]["count"][0] == 0.0
    assert content["metrics"]["log_loss"]["intervals"]["0"][1] is None  # one row knows no spread


def test_what_acting_on_a_threshold_does_is_shown_on_request():
    y, p, d = BINARY_TABLE
    result = audit(y, p, domains=d, threshold=0.3)
    for metric in (cc.sensitivity, cc.specificity, cc.net_benefit):
        expected = cc.per_domain(metric, y, p, domains=d, threshold=0.3)
        assert result.metrics[metric.__name__].by_domain == expected.by_domain
    text = str(result)
    assert "Acting above 0.3:" in text
    assert f"{result.metrics['net_benefit'].by_domain[0]:.3f} [" in text
    assert "net_benefit" not in audit(y, p, domains=d).metrics
    lone = audit([0, 1, 0], [0.1, 0.9, 0.4], domains=["a", "a", "b"], threshold=0.3)
    assert "not defined" in str(lone)  # the sensitivity of a domain without events


def test_the_net_benefit_of_a_rare_outcome_is_written_with_digits_enough_and_no_minus_zero():
    y, p = np.zeros(4000, int), np.full(4000, 0.003)
    y[:8], p[:8], p[-8:] = 1, 0.05, 0.05  # at .02: 8 of 4,000 are right, 8 are wrong, .002 − .002·(.02/.98)
    result = audit(y, p, domains=np.arange(4000) % 2, threshold=0.02)
    *_, last = (line for line in str(result).split("Acting above 0.02:")[1].splitlines() if line.startswith("all rows"))
    assert f"  {0.002 - 0.002 * 0.02 / 0.98:.5f} [" in last
    p, y = np.full(2000, 0.1), np.arange(2000) % 10 == 0
    p[1] = 0.21  # one false alarm of 2,000 rows: −(1/2,000)·(.2/.8) = −.000125
    few = str(audit(y, p, domains=np.arange(2000) % 2, threshold=0.2)).split("Acting above 0.2:")[1]
    assert " 0.000 [" in few
    assert not re.search(r"-0\.0+\b", few)


def test_sampling_weights_say_what_the_rows_are_worth():
    y, p, d = BINARY_TABLE
    weight = 1 + np.arange(600) % 4
    result = audit(y, p, domains=d, sample_weight=weight, weights="sampling")
    assert (result.n_rows, result.rows[0]) == (600, 300)
    assert "the 600 rows tell as much as about 500 of equal weight" in " ".join(str(result).split())  # (10)²/(4·30)·600
    again = audit(y, p, domains=d, sample_weight=7.3 * weight, weights="sampling")
    assert again.verdict == result.verdict
    assert again.findings == result.findings


def test_domain_names_of_any_type_are_text_in_json():
    assert list(as_json(AUDITS["dates"]())["rows"]) == ["2020-01-01", "2021-01-01"]
    assert list(as_json(AUDITS["binary"]())["invariance"]["shift_by_domain"]) == ["0", "1"]


def test_another_seed_gives_another_audit_of_the_same_table():
    y, p, d = BINARY_TABLE
    first, other = audit(y, p, domains=d), audit(y, p, domains=d, rng=1)
    assert first.calibration.by_domain == other.calibration.by_domain
    assert first.calibration.intervals != other.calibration.intervals
    assert as_json(other) == as_json(audit(y, p, domains=d, rng=np.random.default_rng(1)))


# -------------------------------------------------------------------------------------------------------- and as a page


def test_an_audit_writes_its_page_and_needs_nothing_else(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    result, path = AUDITS["binary"](), tmp_path / "page.html"
    result.report(path, title="By year", source="years.csv", notes=["A remark."])
    page = path.read_text(encoding="utf-8")
    assert all(words in page for words in ("By year", "years.csv", "A remark.", "clovecal.audit(y, p,"))
    with pytest.raises(cc.InputError, match="exists"):
        result.report(path)
    result.report(path, overwrite=True)


def test_the_page_says_the_bins_that_a_regression_was_audited_with(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("vl_convert")
    y, f, domain = regression_table()
    audit(y, f, domains=domain, bins=7).report(tmp_path / "page.html")
    assert "bins=7" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_an_audit_is_described_by_its_size_and_verdict():
    result = AUDITS["binary"]()
    assert repr(result) == f"Audit of {result.n_rows:,} rows in {len(result.rows)} domains: {result.verdict}"


# --------------------------------------------------------------------------------------------------- weights and tasks


def test_a_weight_of_two_is_a_row_twice():
    y, p, d = (column[::3] for column in BINARY_TABLE)
    weight = 1 + np.arange(len(y)) % 2
    weighted = audit(y, p, domains=d, sample_weight=weight)
    repeated = audit(np.repeat(y, weight), np.repeat(p, weight), domains=np.repeat(d, weight))
    for name, result in repeated.metrics.items():
        assert dict(weighted.metrics[name].by_domain) == pytest.approx(dict(result.by_domain))
        assert weighted.metrics[name].overall == pytest.approx(result.overall)
    assert dict(weighted.observed) == pytest.approx(dict(repeated.observed))
    assert dict(weighted.predicted) == pytest.approx(dict(repeated.predicted))
    np.testing.assert_allclose(weighted.curve.low, repeated.curve.low)
    np.testing.assert_allclose(weighted.curve_by_domain[1].count, repeated.curve_by_domain[1].count)
    assert weighted.decomposition.refinement == pytest.approx(repeated.decomposition.refinement)
    assert weighted.invariance.statistic == pytest.approx(repeated.invariance.statistic)
    assert dict(weighted.rows) == dict(repeated.rows) == {0: 150, 1: 150}
    assert weighted.n_rows == repeated.n_rows == 300


def test_a_multiclass_audit_is_of_the_top_label():
    y, p, domain = multiclass_table()
    result = audit(y, p, domains=domain)
    right = p.argmax(axis=1) == y
    for name in ("A", "B"):
        assert result.observed[name] == pytest.approx(right[domain == name].mean())
        assert result.predicted[name] == pytest.approx(p.max(axis=1)[domain == name].mean())
    assert result.calibration.overall == pytest.approx(cc.ece(y, p, of="confidence"))
    assert result.curve.count.sum() == 600
    assert result.decomposition.score == pytest.approx(cc.brier(y, p))
    assert result.invariance.statistic == pytest.approx(cc.invariance_test(y, p, domains=domain).statistic)


def test_two_columns_are_audited_as_the_binary_model_and_as_their_top_label_on_request():
    y, p, d = BINARY_TABLE
    both = np.column_stack([1 - p, p])
    assert audit(y, both, domains=d).to_dict(repairs=False) == audit(y, p, domains=d).to_dict(repairs=False)
    result = audit(y, both, domains=d, task="multiclass")
    assert result.task == "multiclass"
    assert result.calibration.overall == pytest.approx(cc.ece(y, p, of="confidence"))


def test_a_regression_audit_finds_the_domain_that_is_shifted():
    y, f, domain = regression_table()
    result = audit(np.where(domain == "B", y + 1, y), f, domains=domain, tolerance=0.1)
    assert list(result.metrics) == ["calibration", "mse", "mean_residual", "regression_slope"]
    assert result.miscalibrated == ("B",)
    assert result.calibration.by_domain["B"] == pytest.approx(1, abs=0.2)
    assert result.metrics["mse"].by_domain["A"] == pytest.approx(1, abs=0.2)
    assert "The same score means different things" in result.verdict
    # the two curves are 1 apart, so each is ½ from the one in between
    assert result.invariance.shift == pytest.approx(0.5, abs=0.1)
    assert result.curve is None
    assert result.decomposition is None
    assert not result.curve_by_domain


def test_a_regression_audit_agrees_with_its_metrics():
    y, f, domain = regression_table()
    result = audit(y, f, domains=domain, bins=7)
    assert result.calibration.overall == pytest.approx(cc.regression_calibration(y, f, bins=7))
    assert result.metrics["mse"].overall == pytest.approx(mean_squared_error(y, f))
    assert result.predicted["A"] == pytest.approx(f[domain == "A"].mean())
    assert result.observed["A"] == pytest.approx(y[domain == "A"].mean())


def test_predicted_variances_do_not_change_the_audit_of_the_means():
    y, f, domain = regression_table()
    alone = as_json(audit(y, f, domains=domain))
    both = as_json(audit(y, np.column_stack([f, np.full(600, 9.0)]), domains=domain))
    assert both["metrics"].pop("spread_calibration")["metric"] == "spread_calibration"
    assert both == alone
    assert as_json(audit(y, f[:, None], domains=domain)) == alone


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_columns_of_a_table_give_the_same_audit_as_arrays(frame):
    y, p, d = BINARY_TABLE
    table = frame({"y": y, "p": p, "d": np.array(["north", "south"])[d]})
    expected = as_json(audit(y, p, domains=np.array(["north", "south"])[d]))
    assert as_json(audit(table["y"], table["p"], domains=table["d"])) == expected


def test_an_audit_cannot_be_changed():
    result = AUDITS["binary with empty bins"]()
    with pytest.raises(AttributeError):
        result.tolerance = 1.0
    for mapping in (result.rows, result.observed, result.predicted, result.metrics, result.curve_by_domain):
        with pytest.raises(TypeError):
            mapping["a"] = None


# --------------------------------------------------------------------------------------------------- the error messages

ROWWISE = "pass arguments aligned row by row."

ERRORS = {
    "task": ({"task": "ranking"}, "task is 'ranking'; choose one of 'binary', 'multiclass', 'regression'."),
    "odds ratio 1": ({"odds_ratio": 1}, "odds_ratio is 1; pass a number above 1, such as 1.25."),
    "min_rows below 0": ({"min_rows": -1}, "min_rows is -1; pass a whole number of at least 0."),
    "tolerance below 0": ({"tolerance": -0.1}, "tolerance is -0.1; pass 0 or a positive calibration error, or None."),
    "tolerance NaN": ({"tolerance": math.nan}, "tolerance is nan; pass 0 or a positive calibration error, or None."),
    "tolerance infinite": (
        {"tolerance": math.inf},
        "tolerance is inf; pass 0 or a positive calibration error, or None.",
    ),
    "tolerance text": ({"tolerance": "1%"}, "tolerance is 1%; pass 0 or a positive calibration error, or None."),
    "percent": ({"ci": 95}, "ci is 95; pass a number between 0 and 1 (write 0.95 for 95%)."),
    "bins": ({"bins": 0}, "bins is 0; pass a whole number of at least 1."),
    "resamples": ({"resamples": 0}, "resamples is 0; pass a whole number of at least 1."),
    "rng": ({"rng": "x"}, "rng is 'x'; pass a seed, a numpy Generator or None."),
    "no y": ({"y": None}, "y is None; pass an array-like with one entry per row."),
    "no p": ({"p": None}, "p is None; pass an array-like with one entry per row."),
    "empty p": ({"p": []}, "p is empty; pass at least one row."),
    "empty y": ({"y": [], "p": [], "domains": []}, "domains is empty; pass at least one row."),
    "text": (
        {"y": ["no", "yes", "no", "no"]},
        "y holds the labels 'no' and 'yes'; say which of them counts as 1, for instance positive='yes'.",
    ),
    "labels 0, 1, 2 beside probabilities": ({"y": [0, 1, 2, 0]}, "y at row 2 is 2; code the labels as 0 and 1."),
    "missing y": (
        {"y": pd.Series([0.5, None, 2, 3], dtype="Float64")},
        "y at row 1 is missing or infinite (nan); drop or repair that row.",
    ),
    "logits": (
        {"p": [0.5, -2.0, 0.5, 1.5]},
        "p at row 1 is -2, outside [0, 1]; apply a sigmoid or softmax to logits, or calibrate raw scores first.",
    ),
    "a fraction in a binary task": (
        {"y": [0, 0.5, 1, 1], "task": "binary"},
        "y at row 1 is 0.5; code the labels as 0 and 1.",
    ),
    "lengths": ({"p": [0.5, 0.5]}, f"p has 2 rows but y has 4; {ROWWISE}"),
    "lengths in a regression": ({"y": [0.5, 1, 2, 3], "p": [0.5, 0.5]}, f"p has 2 rows but y has 4; {ROWWISE}"),
    "lengths of domains": ({"domains": ["a", "b"]}, f"domains has 2 rows but y has 4; {ROWWISE}"),
    "missing prediction in a regression": (
        {"y": [0.5, 1, 2, 3], "p": [0.5, 1.0, math.nan, 3.0]},
        "p at row 2 is missing or infinite (nan); drop or repair that row.",
    ),
    "three columns in a regression": (
        {"y": [0.5, 1, 2, 3], "p": np.ones((4, 3))},
        "p has shape (4, 3); pass one number per row.",
    ),
    "domains": ({"domains": None}, "domains is None; pass one label per row or an n×k membership matrix."),
    "no domain": (
        {"domains": np.empty((4, 0))},
        "domains has no domain; pass one label per row or an n×k membership matrix.",
    ),
    "missing domain": (
        {"domains": ["a", None, "b", "b"]},
        "domains at row 1 is missing, as in 1 of 4 rows; fill them in or drop those rows "
        "(a membership matrix may leave rows in no domain).",
    ),
    "weight": (
        {"sample_weight": [1, 1, 1, -1]},
        "sample_weight at row 3 is negative (-1.0); a weight is 0 or more.",
    ),
    "a domain without weight": (
        {"sample_weight": [1, 1, 0, 0]},
        "sample_weight is zero in every row of domain 'b'; leave that domain out.",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_an_audit_cannot_use_is_refused_in_one_sentence(case):
    options, expected = ERRORS[case]
    arguments = {"y": BINARY[0], "p": BINARY[1], "domains": ["a", "a", "b", "b"], **options}
    y, p = arguments.pop("y"), arguments.pop("p")
    assert message(lambda: audit(y, p, **arguments)) == expected
