"""A figure shows the numbers of the result it is given, on the axes it is given."""

from __future__ import annotations

import re

import numpy as np
import pytest
from matplotlib.figure import Figure  # saved as PNG by Agg, whatever the display

import clovecal as cc
from clovecal import plots


@pytest.fixture
def ax():
    """Return axes whose figure is drawn afterwards, so that what cannot be drawn fails."""
    figure = Figure()
    axes = figure.add_subplot()
    yield axes
    figure.savefig("/dev/null", format="png")


def table(k=3, rows=600, seed=0):
    rng = np.random.default_rng(seed)
    p, domain = rng.uniform(size=k * rows), np.repeat([f"site {i}" for i in range(k)], rows)
    truth = p ** (1 + 0.5 * np.repeat(np.arange(k), rows))  # the last is the worst
    return (rng.uniform(size=k * rows) < truth).astype(int), p, domain


@pytest.fixture(scope="module")
def audit():
    y, p, domain = table()
    return cc.audit(y, p, domains=domain, resamples=50)


@pytest.fixture(scope="module")
def selection():
    y, p, domain = table()
    noise = np.random.default_rng(1).uniform(size=len(p))
    candidates = {"right": p, "half": (p + noise) / 2, "constant": np.full(len(p), 0.3)}
    return cc.select(candidates, y, domains=domain, criterion="ece")


def labels(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def refusal(call):
    with pytest.raises(cc.InputError) as caught:
        call()
    text = str(caught.value)
    assert text.endswith(".")
    assert not re.search(r"[.!?]\s", text), text
    return text


# ------------------------------------------------------------------------------------------------- reliability diagram


def test_a_reliability_diagram_draws_the_audits_curves(audit, ax):
    assert plots.reliability_diagram(audit, ax) is ax
    assert labels(ax)[0] == "perfectly calibrated"
    assert any(f"all rows (ECE {audit.calibration.overall:.3f})" == label for label in labels(ax))
    worst = f"site 2 (ECE {audit.calibration.by_domain['site 2']:.3f})"
    assert worst in labels(ax)
    overall = next(line for line in ax.lines if line.get_label().startswith("all rows"))
    shown = audit.curve.count >= 10
    np.testing.assert_array_equal(overall.get_xdata(), audit.curve.confidence[shown])
    np.testing.assert_array_equal(overall.get_ydata(), audit.curve.frequency[shown])
    drawn = next(bars for bars in ax.containers if bars.get_label() == worst)
    np.testing.assert_array_equal(drawn.lines[0].get_ydata(), audit.curve_by_domain["site 2"].frequency)
    segments = np.array(drawn.lines[2][0].get_segments())
    np.testing.assert_allclose(
        segments[:, :, 1], np.stack((audit.curve_by_domain["site 2"].low, audit.curve_by_domain["site 2"].high), axis=1)
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("predicted probability", "observed frequency (bars: 95% interval)")


def test_the_domains_are_those_asked_for(audit, ax):
    plots.reliability_diagram(audit, ax, domains=["site 1"])
    assert [label.partition(" (")[0] for label in labels(ax)] == ["perfectly calibrated", "all rows", "site 1"]


def test_bins_of_few_rows_and_small_domains_are_left_out(ax):
    y, p, domain = table(k=2)
    small = cc.audit(
        np.append(y, [1] * 5), np.append(p, [0.05] * 5), domains=np.append(domain, ["tiny"] * 5), resamples=20
    )
    plots.reliability_diagram(small, ax)
    assert not any("tiny" in label for label in labels(ax))


def test_at_most_four_of_many_domains_are_shown_unasked(ax):
    y, p, domain = table(k=8, rows=200)
    plots.reliability_diagram(cc.audit(y, p, domains=domain, resamples=20), ax)
    assert len(labels(ax)) == 2 + 4


def test_a_table_with_too_few_rows_for_any_bin_still_draws(ax):
    plots.reliability_diagram(cc.audit([0, 1, 1, 0], [0.2, 0.9, 0.6, 0.4], domains=list("aabb"), resamples=20), ax)
    assert ax.get_xlim() == (0, 1)


def test_several_classes_have_a_diagram_of_confidence(ax):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 600)
    y = (rng.uniform(size=(600, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    plots.reliability_diagram(cc.audit(y, p, domains=np.arange(600) % 2, resamples=20), ax)
    assert ax.get_xlabel() == "confidence in the top label"


def test_a_diagram_that_cannot_be_drawn_is_refused(audit, ax):
    f = np.random.default_rng(0).normal(size=50)
    regression = cc.audit(f + 0.5, f, domains=["a", "b"] * 25, resamples=20)
    assert re.search(r"^audit is of a regression", refusal(lambda: plots.reliability_diagram(regression, ax)))
    many = [f"site {i}" for i in range(7)]
    assert re.search(
        r"^domains has 7 names; .* at most 6", refusal(lambda: plots.reliability_diagram(audit, ax, domains=many))
    )
    said = refusal(lambda: plots.reliability_diagram(audit, ax, domains=["site 9"]))
    assert re.search(r"^domains has 'site 9', which the audit does not; choose from \['site 0'", said)


# ----------------------------------------------------------------------------------------------------- error by domain


def test_the_worst_domain_is_on_top_with_its_interval(audit, ax):
    result = audit.calibration
    assert plots.error_by_domain(result, ax) is ax
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == sorted(result.by_domain, key=lambda name: result.by_domain[name])
    estimate = next(line for line in ax.lines if line.get_label() == "estimate")
    assert estimate.get_xdata().tolist() == [result.by_domain[name] for name in names]
    bars = ax.collections[0].get_segments()
    assert [tuple(bar[:, 0]) for bar in bars] == [result.intervals[name] for name in names]
    assert f"all rows: {result.overall:.3f}" in labels(ax)


def test_the_worst_accuracy_is_the_lowest(audit, ax):
    result = audit.metrics["accuracy"]
    plots.error_by_domain(result, ax, label="accuracy", max_domains=2)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == sorted(result.by_domain, key=lambda name: result.by_domain[name])[:2][::-1]
    assert ax.get_xlabel().startswith("accuracy (")


def test_an_interval_without_end_is_drawn_to_the_edge(ax):
    y, p, domain = table(k=2)
    lonely = cc.per_domain(cc.log_loss, np.append(y, 1), np.append(p, 0.4), domains=np.append(domain, "alone"), ci=0.95)
    assert not np.isfinite(lonely.intervals["alone"]).all()
    plots.error_by_domain(lonely, ax, label="log-loss")
    assert np.isfinite(ax.get_xlim()).all()


def test_intervals_are_asked_for(ax):
    y, p, domain = table(k=2)
    said = refusal(lambda: plots.error_by_domain(cc.per_domain(cc.ece, y, p, domains=domain), ax))
    assert said == "result has no intervals; call per_domain with ci=0.95."


# ---------------------------------------------------------------------------------------------------------- selections


def test_a_selections_curve_is_drawn(selection, ax):
    assert plots.selection_curve(selection, ax) is ax
    (line,) = ax.lines
    assert line.get_xdata().tolist() == [point.min_accuracy for point in selection.curve()]
    assert line.get_ydata().tolist() == [point.criterion for point in selection.curve()]
    assert line.get_drawstyle() == "steps-pre"
    assert ax.get_ylabel() == "ece of the chosen model, summed over domains"


def leaning_models():
    """Return labels, domains and models that lean more and more on a feature whose meaning varies by domain."""
    rng = np.random.default_rng(0)
    p, domain = rng.uniform(0.1, 0.9, 3000), np.arange(3000) % 3
    y = (rng.uniform(size=3000) < p).astype(int)
    agrees = rng.uniform(size=3000) < np.array([0.6, 0.8, 0.95])[domain]
    odds = p / (1 - p)
    candidates = {}
    for share in (0.0, 0.3, 1.0):
        leaning = odds * np.where(agrees == (y == 1), 4.0, 0.25) ** share
        candidates[f"leans {share:g}"] = leaning / (1 + leaning)
    noisy = np.clip(candidates["leans 1"] + rng.normal(0, 0.3, 3000), 0.01, 0.99)
    return y, domain, candidates | {"noisy": noisy, "constant": np.full(3000, 0.4)}


def test_losses_are_drawn_against_departures_with_the_models_that_none_beats_in_both(ax):
    y, domain, candidates = leaning_models()
    selection = cc.select(candidates, y, domains=domain)
    assert plots.loss_against_departure(selection, ax) is ax
    models, front, unstable, similar = ax.lines
    able = {one.name: (one.departure, one.log_loss) for one in selection.table if one.excluded is None}
    assert set(able) == {"leans 0", "leans 0.3", "leans 1", "noisy"}
    assert set(zip(*models.get_data(), strict=True)) == set(able.values())
    # "noisy" departs nearly as far as the model it was made of, and has the higher loss than one that departs less
    assert list(zip(*front.get_data(), strict=True)) == [able["leans 0"], able["leans 0.3"], able["leans 1"]]
    assert list(zip(*unstable.get_data(), strict=True)) == [able["leans 0"]]
    assert list(zip(*similar.get_data(), strict=True)) == [able["leans 1"]]
    assert labels(ax)[2:] == ["for unstable domains: leans 0", "for similar domains: leans 1"]
    assert ax.get_ylabel() == "log-loss in known domains"


def test_losses_of_predictions_in_domains_left_out_are_called_so(ax):
    y, domain, candidates = leaning_models()
    plots.loss_against_departure(cc.select(candidates, y, domains=domain, held_out=candidates), ax)
    assert ax.get_ylabel() == "log-loss in domains left out"


def test_a_selection_by_a_criterion_has_no_losses_to_draw(selection, ax):
    with pytest.raises(cc.InputError) as caught:
        plots.loss_against_departure(selection, ax)
    assert caught.value.argument == "selection"
    none = cc.select({"constant": [0.5] * 20}, [0, 1] * 10, domains=[*"ab"] * 10)
    with pytest.raises(cc.InputError, match="left out"):
        plots.loss_against_departure(none, ax)


def test_known_accuracies_elsewhere_are_drawn_instead(selection, ax):
    elsewhere = {"right": 0.7, "half": 0.6, "constant": 0.5}
    plots.selection_curve(selection, ax, ood_accuracy=elsewhere)
    marked, line = ax.lines
    assert line.get_ydata().tolist() == [elsewhere[point.best] for point in selection.curve()]
    best = max(selection.table, key=lambda one: one.accuracy)
    assert (marked.get_xdata()[0], marked.get_ydata()[0]) == (best.accuracy, elsewhere[best.name])
    said = refusal(lambda: plots.selection_curve(selection, ax, ood_accuracy={}))
    assert re.search(r"^ood_accuracy lacks the model '.*'; pass every model's accuracy", said)


def test_a_criterion_of_the_worst_domain_says_so(ax):
    y, p, domain = table(k=2, rows=50)
    worst = cc.select({"m": p}, y, domains=domain, criterion="worst-ece")
    plots.selection_curve(worst, ax)
    assert ax.get_ylabel() == "worst-ece of the chosen model, in its worst domain"
    plots.criterion_against_accuracy(worst, {"m": 0.7}, ax)
    assert (ax.get_xlabel(), ax.get_title()) == ("worst-ece, in its worst domain", "")


def test_criteria_are_drawn_against_accuracy_elsewhere(selection, ax):
    elsewhere = {"right": 0.7, "half": 0.6, "constant": 0.5}
    kinds = {"right": "good", "half": "bad", "constant": "bad"}
    assert plots.criterion_against_accuracy(selection, elsewhere, ax, kinds=kinds) is ax
    assert sorted(labels(ax)) == ["bad", "good"]
    drawn = np.concatenate([points.get_offsets() for points in ax.collections])
    expected = [(one.criterion, elsewhere[one.name]) for one in selection.table]
    assert sorted(map(tuple, drawn.tolist())) == sorted(expected)
    correlation = np.corrcoef(*zip(*expected, strict=True))[0, 1]
    assert ax.get_title() == f"Pearson correlation {correlation:.2f}"


def test_more_kinds_than_colours_are_refused_not_dropped(ax):
    y, p, domain = table(k=2, rows=50)
    names = [f"m{i}" for i in range(7)]
    selection = cc.select(dict.fromkeys(names, p), y, domains=domain)
    elsewhere = dict.fromkeys(names, 0.5)
    call = lambda: plots.criterion_against_accuracy(selection, elsewhere, ax, kinds={n: n for n in names})  # noqa: E731
    assert re.search(r"^kinds has more than 6 different kinds", refusal(call))
    plots.criterion_against_accuracy(selection, elsewhere, ax, kinds={"m0": "first"})
    assert sorted(labels(ax)) == ["first", "other"]


def test_drawing_needs_no_display_and_imports_no_pyplot(audit, ax):
    import sys

    before = "matplotlib.pyplot" in sys.modules
    plots.reliability_diagram(audit, ax)
    assert ("matplotlib.pyplot" in sys.modules) == before


@pytest.mark.parametrize("name", ["$\\frac{$", "US$ and CA$", "\x1b[2J", "_hidden"])
def test_a_name_is_no_formula_and_no_command(name, ax, tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, 400)
    y = (rng.uniform(size=400) < p).astype(int)
    audit = cc.audit(y, p, domains=np.array([name, "b"], dtype=object)[np.arange(400) % 2], resamples=50)
    ax = plots.reliability_diagram(audit, ax)
    ax.figure.savefig(tmp_path / "drawn.png")  # an unbalanced formula raises here
    drawn = [text.get_text().replace(r"\$", "$").strip() for text in ax.get_legend().get_texts()]
    shown = name.replace("\x1b", "\\x1b")
    assert any(text.startswith(f"{shown} (ECE ") for text in drawn)
    ax = plots.error_by_domain(audit.calibration, Figure().add_subplot())
    ax.figure.savefig(tmp_path / "drawn.png")
    assert shown in [tick.get_text().replace(r"\$", "$").strip() for tick in ax.get_yticklabels()]
