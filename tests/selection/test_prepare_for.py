"""A model for unstable domains departs least between the known ones, one for similar domains has the lowest loss."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import clovecal as cc
from clovecal.selection import rank


def planted(n=6000, k=6, seed=0, reach=0.15):
    """Return labels, domains, a model that means the same everywhere, and one that leans on what varies by domain.

    A feature agrees with the label in 80% of the rows, ``reach`` more or less by domain; the leaning model takes it for
    80% everywhere and is the more accurate one.
    """
    rng = np.random.default_rng(seed)
    domain = np.arange(n) % k
    invariant = rng.uniform(0.1, 0.9, n)
    y = (rng.uniform(size=n) < invariant).astype(float)
    agrees = rng.uniform(size=n) < 0.8 + np.linspace(-reach, reach, k)[domain]
    odds = invariant / (1 - invariant) * np.where(agrees == (y == 1), 4.0, 0.25)
    return y, domain, invariant, odds / (1 + odds)


def as_it_is(y, p, domain, **options):
    """Return the only model, judged as it is."""
    return cc.select({"m": p}, y, domains=domain, recalibrate=None, **options).table[0]


def squares(one):
    """Return the squared departures of a model, with their signs."""
    roots = np.array(list(one.by_domain.values()))
    return np.sign(roots) * roots**2


# --------------------------------------------------------------------------------------------------- computed by hand


def of_rates(rates, n=50_000):
    """Return rows of two domains with scores .2 and .8, as frequent as each other, and these shares of labels 1."""
    y = np.concatenate([np.arange(n) < round(rate * n) for rate in rates]).astype(float)
    return y, np.repeat([0.2, 0.8, 0.2, 0.8], n), np.repeat(["a", "b"], 2 * n)


def test_the_departure_of_slopes_by_hand():
    # Log-odds of −log 4 and log 4 are x = −1 and 1. Domain a is as predicted, with slope log 4; b has ½ at both scores,
    # slope 0. The mean slope is log 2: both depart by log 2, all of it, and the noise of 100,000 rows is next to none.
    one = as_it_is(*of_rates([0.2, 0.8, 0.5, 0.5]))
    assert squares(one) == pytest.approx([1, 1], rel=1e-3)
    assert one.departure == one.criterion == pytest.approx(1, rel=1e-3)


def test_the_departure_of_intercepts_by_hand():
    # All log-odds are log 2 higher in a and lower in b: odds of ½ and 8, and of ⅛ and 2; slopes are log 4 = 2 log 2.
    one = as_it_is(*of_rates([1 / 3, 8 / 9, 1 / 9, 2 / 3]))
    assert squares(one) == pytest.approx([0.05 / 4, 0.05 / 4], rel=3e-3)


def test_the_scale_of_predictions_does_not_matter():
    y, domain, invariant, _ = planted()
    # x is standardised, and lines are of log-odds
    assert as_it_is(y, invariant**3 / (invariant**3 + (1 - invariant) ** 3), domain).criterion == pytest.approx(
        as_it_is(y, invariant, domain).criterion, abs=1e-9
    )


def test_a_departure_below_noise_is_zero_and_ranks_below_it():
    y, domain, invariant, _ = planted(k=2)
    one = as_it_is(np.tile(y[domain == 0], 2), np.tile(invariant[domain == 0], 2), np.repeat(list("ab"), 3000))
    # Domains of equal rows have equal lines, and half of the noise of each is taken off.
    assert one.criterion < one.departure == 0.0
    assert squares(one) == pytest.approx(np.full(2, -(one.criterion**2)))


def test_of_a_model_that_says_next_to_nothing_no_more_noise_is_taken_off_than_half_its_slope_squared():
    rng = np.random.default_rng(0)
    domain = np.arange(600) % 6
    lowest = [
        np.mean(squares(as_it_is(rng.integers(0, 2, 600).astype(float), rng.uniform(size=600), domain)))
        for _ in range(20)
    ]
    # slopes are 0 ± .2, and noise many times their mean squared
    assert min(lowest) > -0.5
    assert max(lowest) > 10


def test_a_constant_score_and_a_domain_of_one_label_have_departures_and_no_skill():
    y = np.array([1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 0])
    one = as_it_is(y, np.full(12, 0.5), np.repeat(list("abc"), 4))
    assert np.isfinite(one.criterion)
    assert one.log_loss == pytest.approx(np.log(2))
    assert (one.accuracy, one.skilled) == (pytest.approx(3 / 12), False)


def test_a_domain_of_few_rows_counts_little():
    sizes = {"large": 2000, "middle": 200, "small": 15}
    domain = np.repeat(list(sizes), list(sizes.values()))
    rng = np.random.default_rng(0)
    p = rng.uniform(size=len(domain))
    y = np.where(domain == "small", p < 0.5, rng.uniform(size=len(domain)) < p)
    one = as_it_is(y, p, domain)
    share = np.array([n**2 / (n**2 + 200**2) for n in sizes.values()])
    assert share == pytest.approx([0.990, 0.5, 0.0056], rel=2e-3)
    by_name = dict(zip(one.by_domain, squares(one), strict=True))
    expected = share @ [by_name[name] for name in sizes] / share.sum()
    assert np.sign(one.criterion) * one.criterion**2 == pytest.approx(expected)
    # "small" is reversed, and departs by far the most; it makes a hundredth of what it would as one of three
    assert by_name["small"] > 1 > 50 * abs(expected)
    similar = as_it_is(y, p, domain, prepare_for="similar")
    losses = [cc.log_loss(y[domain == name], p[domain == name]) for name in sizes]
    assert similar.log_loss == similar.criterion == pytest.approx(share @ losses / share.sum())
    assert similar.departure == one.departure


# -------------------------------------------------------------------------------------------------------- brute force


def naive_departures(y, p, domain, weight=None, held_out=None):
    """Return squared departures row by row, with lines by a general minimiser."""
    w = np.ones(len(y)) if weight is None else weight * weight.sum() / (weight**2).sum()

    def standardised(p):
        p = np.clip(p, 1 / (2 * len(y)), 1 - 1 / (2 * len(y)))
        z = np.log(p / (1 - p))
        centre = np.average(z, weights=w)
        return (z - centre) / np.sqrt(np.average((z - centre) ** 2, weights=w))

    def line(x, rows, believed):
        def objective(ab):
            eta = ab[0] + ab[1] * x[rows]
            return w[rows] @ (np.logaddexp(0, eta) - y[rows] * eta) + 0.125 * np.sum((ab - believed) ** 2)

        return minimize(objective, believed, method="BFGS", options={"gtol": 1e-9}).x

    def lines(x):
        common = line(x, np.arange(len(y)), np.zeros(2))
        found, variances = [], []
        for name in np.unique(domain):
            rows = np.flatnonzero(domain == name)
            own = line(x, rows, common)
            q = 1 / (1 + np.exp(-own[0] - own[1] * x[rows]))
            X = np.column_stack((np.ones(len(rows)), x[rows]))
            inverse = np.linalg.inv(X.T @ (X * (w[rows] * q * (1 - q))[:, None]) + np.eye(2) / 4)
            variances.append(np.diag(inverse @ (X.T @ (X * (w[rows] ** 2 * q * (1 - q))[:, None])) @ inverse))
            found.append(own)
        return np.array(found), np.array(variances)

    own, noise = lines(standardised(p))
    if held_out is not None:
        elsewhere, its_noise = lines(standardised(held_out))
        own[:, 1], noise[:, 1] = elsewhere[:, 1], its_noise[:, 1]
    n = np.array([w[domain == name].sum() ** 2 / (w[domain == name] ** 2).sum() for name in np.unique(domain)])
    share = n**2 / (n**2 + 200**2)
    share /= share.sum()
    counts, mean = np.array([0.05, 1]), share @ own
    size = max(mean[1], 0.03) ** 2
    taken_off = (1 - share) * (noise @ counts) / size
    taken_off *= min(1, 0.5 / (share @ taken_off))
    return ((own - mean) ** 2) @ counts / size - taken_off


@pytest.mark.parametrize("weighted", [False, True])
def test_departures_are_those_of_lines_that_a_general_minimiser_fits_row_by_row(weighted):
    rng = np.random.default_rng(4)
    p = rng.uniform(size=400).round(1)  # so few scores that the cells, in which rows are summed up, lose nothing
    y, domain = (rng.uniform(size=400) < p).astype(float), rng.choice(3, 400, p=[0.2, 0.3, 0.5])
    weight = rng.uniform(0.5, 3, 400) if weighted else None
    one = as_it_is(y, p, domain, sample_weight=weight)
    assert squares(one) == pytest.approx(naive_departures(y, p, domain, weight), abs=1e-5)
    # a tenth of the rows and predictions of others, whose noise is more than half of the squared slope
    few, other = slice(0, 40), rng.permutation(p[:40])
    weight = None if weight is None else weight[few]
    one = as_it_is(y[few], other, domain[few], sample_weight=weight)
    assert squares(one) == pytest.approx(naive_departures(y[few], other, domain[few], weight), rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0.01, 100))
def test_the_scale_of_weights_and_the_order_of_rows_do_not_matter(seed, scale):
    rng = np.random.default_rng(seed)
    p, domain, weight = rng.uniform(size=60).round(1), rng.choice(3, 60), rng.uniform(0.5, 2, 60)
    domain[:3] = 0, 1, 2
    y = (rng.uniform(size=60) < p).astype(float)
    order = rng.permutation(60)
    one = as_it_is(y, p, domain, sample_weight=weight)
    other = as_it_is(y[order], p[order], domain[order], sample_weight=scale * weight[order])
    assert dict(one.by_domain) == pytest.approx(dict(other.by_domain), abs=1e-7)
    assert (one.log_loss, one.skilled) == (pytest.approx(other.log_loss), other.skilled)


def test_the_squared_departure_is_without_bias_in_domains_of_a_hundred_rows():
    rng = np.random.default_rng(0)
    n, k = 40_000, 400
    x, domain = rng.normal(size=n), np.arange(n) % k
    p = 1 / (1 + np.exp(-x))
    alike = squares(as_it_is((rng.uniform(size=n) < p).astype(float), p, domain))
    error = alike.std() / np.sqrt(k)
    # (b − b̄)² is 1/(100·.2) = .05 of noise, and what is left of it is none of it
    assert abs(alike.mean()) < 3 * error < 0.03
    slope = 1 + 0.4 * (2 * (domain % 2) - 1)  # .6 or 1.4: .4² = .16
    departing = squares(as_it_is((rng.uniform(size=n) < 1 / (1 + np.exp(-slope * x))).astype(float), p, domain))
    assert departing.mean() == pytest.approx(0.16, abs=3 * departing.std() / np.sqrt(k))


def test_what_is_judged_is_the_mean_of_the_predictions_of_all_deals():
    y, domain, invariant, _ = planted(900)
    draw = np.random.default_rng(3)
    q = np.zeros(900)
    for _ in range(4):
        part = cc.domains.Domains.of(domain, 900).deal(2, draw)
        for out in (part == 0, part == 1):
            q[out] += cc.NaiveIsotonic().fit(invariant[~out], y[~out]).predict(invariant[out]) / 4
    one = cc.select({"m": invariant}, y, domains=domain, deals=4, rng=3).table[0]
    expected = as_it_is(y, q, domain)
    assert dict(one.by_domain) == pytest.approx(dict(expected.by_domain))
    assert one.accuracy == expected.accuracy
    losses = -np.log(np.maximum(np.where(y == 1, q, 1 - q), 1 / 1800))
    assert one.log_loss == pytest.approx(np.mean([losses[domain == name].mean() for name in range(6)]))


# ------------------------------------------------------------------------------------------------ choices and the price


@pytest.mark.parametrize("seed", range(3))
def test_each_choice_is_the_one_that_was_prepared_for(seed):
    y, domain, invariant, leaning = planted(seed=seed)
    candidates = {"leaning": leaning, "invariant": invariant**3}  # one common map makes it right
    unstable = cc.select(candidates, y, domains=domain)
    similar = cc.select(candidates, y, domains=domain, prepare_for="similar")
    assert (unstable.prepare_for, unstable.criterion, unstable.best) == ("unstable", "departure", "invariant")
    assert (similar.prepare_for, similar.criterion, similar.best) == ("similar", "log-loss", "leaning")
    assert unstable.choices == similar.choices == {"unstable": "invariant", "similar": "leaning"}
    assert unstable.price == similar.price
    assert cc.select(candidates, y, domains=domain, prepare_for="unstable") == unstable


def test_the_price_is_the_difference_of_the_two_models():
    y, domain, invariant, leaning = planted(3000)
    result = cc.select({"leaning": leaning, "invariant": invariant}, y, domains=domain, recalibrate=None)
    one, other = ({row.name: row for row in result.table}[name] for name in ("invariant", "leaning"))
    price = result.price
    assert (price.unstable, price.similar) == ("invariant", "leaning")
    assert price.log_loss == pytest.approx(one.log_loss - other.log_loss)
    assert price.accuracy == pytest.approx(other.accuracy - one.accuracy)
    assert price.accuracy > 0.05
    assert price.departures == (one.departure, other.departure)
    by_domain = [
        cc.log_loss(y[domain == name], invariant[domain == name])
        - cc.log_loss(y[domain == name], leaning[domain == name])
        for name in range(6)
    ]
    # domains of equal size: the jackknife's error is that of a mean
    assert price.log_loss_error == pytest.approx(np.std(by_domain, ddof=1) / np.sqrt(6))


def test_the_remarks_say_the_other_choice_and_what_it_costs():
    y, domain, invariant, leaning = planted(6000)
    candidates = {"leaning": leaning, "invariant": invariant}
    unstable = cc.select(candidates, y, domains=domain)
    price = unstable.price
    assert unstable.verdict.startswith("invariant departs least between domains from one calibration (it ")
    assert unstable.remarks[-1] == (
        f"Prepared for similar domains it would be leaning: this choice costs {price.log_loss:.4f} ± "
        f"{price.log_loss_error:.4f} (standard error over domains) in log-loss and has {100 * price.accuracy:.1f} "
        f"points of accuracy less, while leaning departs by {price.departures[1]:.4f} between domains where invariant "
        f"departs by {price.departures[0]:.4f}."
    )
    similar = cc.select(candidates, y, domains=domain, prepare_for="similar")
    assert similar.verdict.startswith("leaning has the lowest log-loss in the known domains (")
    assert similar.remarks[-1].startswith("Prepared for unstable domains it would be invariant, which departs by 0.")
    assert similar.remarks[0] == "No other model has as low a log-loss (90% confidence, over domains)."
    alone = cc.select({"invariant": invariant}, y, domains=domain)
    assert alone.price is None
    assert alone.remarks[-1] == "Prepared for similar domains it is the same."
    shown = str(unstable).splitlines()
    assert shown[: 1 + len(unstable.remarks)] == [unstable.verdict, *unstable.remarks]
    assert shown[4].split() == ["model", "departure", "log-loss", "accuracy"]


def test_with_two_domains_the_price_has_no_error_and_no_set():
    y, domain, invariant, leaning = planted(2000, k=2)
    result = cc.select({"leaning": leaning, "invariant": invariant}, y, domains=domain)
    assert np.isnan(result.price.log_loss_error)
    assert "±" not in result.remarks[-1]
    assert result.not_told_apart is None
    assert result.remarks[0] == "With so few domains there is no telling which models differ in departure."


def test_a_floor_holds_for_both_choices():
    y, domain, invariant, leaning = planted(6000)
    result = cc.select({"leaning": leaning, "invariant": invariant}, y, domains=domain, min_accuracy=0.75)
    by_name = {one.name: one for one in result.table}
    assert by_name["invariant"].accuracy < 0.75 < by_name["leaning"].accuracy
    assert (result.best, dict(result.choices)) == ("leaning", {"unstable": "leaning", "similar": "leaning"})
    assert [point.best for point in result.curve()] == ["invariant", "leaning"]


# ----------------------------------------------------------------------------------------------- what is not told apart


def naive_set(losses, rng, draws=1000):
    """Return the model confidence set with plain loops; domains count alike."""
    models, k = losses.shape
    counts = rng.multinomial(k, np.full(k, 1 / k), size=draws)
    left = list(range(models))
    while len(left) > 1:
        t_values, drawn = [], []
        for one in left:
            excess = losses[one].mean() - losses[left].mean()
            noise = [(count @ (losses[one] - losses[left].mean(axis=0))) / k - excess for count in counts]
            error = np.sqrt(np.mean(np.square(noise)))
            t_values.append(excess / error)
            drawn.append(np.array(noise) / error)
        if np.mean(np.max(drawn, axis=0) >= max(t_values)) >= 0.1:
            break
        del left[int(np.argmax(t_values))]
    return set(left)


@pytest.mark.parametrize("seed", range(4))
def test_the_models_that_cannot_be_told_apart_are_what_plain_loops_give(seed):
    rng = np.random.default_rng(seed)
    domain = np.arange(800) % 8
    p = rng.uniform(0.1, 0.9, 800)
    y = (rng.uniform(size=800) < p).astype(float)
    candidates = {f"m{i}": np.clip(p + rng.normal(0, 0.08 * i, 800), 0.01, 0.99) for i in range(5)}
    result = cc.select(candidates, y, domains=domain, prepare_for="similar", recalibrate=None, rng=seed)
    losses = np.array([list(one.by_domain.values()) for one in result.table])
    expected = naive_set(losses, np.random.default_rng(seed))
    assert set(result.not_told_apart) == {result.table[place].name for place in expected}
    assert result.best in result.not_told_apart


def test_equal_models_are_said_to_be_equal_and_a_worse_one_is_not():
    y, domain, invariant, leaning = planted(6000, k=10)
    candidates = {"one": invariant, "twin": invariant, "leaning": leaning}
    result = cc.select(candidates, y, domains=domain)
    assert set(result.not_told_apart) == {"one", "twin"}
    assert result.remarks[0].startswith("2 models cannot be told apart by departure (90% confidence, over domains): ")


# ----------------------------------------------------------------------------------------------------- domains left out


def test_predictions_in_domains_left_out_show_a_model_that_knows_the_domains():
    rng = np.random.default_rng(0)
    domain = np.arange(4000) % 8
    own = np.linspace(-1.5, 1.5, 8)[domain]  # of each domain, unknown in a new one
    x = rng.normal(size=4000)

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    y = (rng.uniform(size=4000) < sigmoid(x + own)).astype(float)
    known = {"plain": sigmoid(0.9 * x), "domains by heart": sigmoid(x + own)}
    held_out = {"plain": sigmoid(0.9 * x), "domains by heart": sigmoid(x + rng.permutation(own))}
    without = cc.select(known, y, domains=domain, prepare_for="similar")
    shown = cc.select(known, y, domains=domain, prepare_for="similar", held_out=held_out)
    # in the known domains it is better by every measure
    assert dict(without.choices) == {"unstable": "domains by heart", "similar": "domains by heart"}
    assert (shown.best, shown.left_out) == ("plain", True)
    assert "has the lowest log-loss in domains left out (" in shown.verdict
    for one in shown.table:
        expected = [cc.log_loss(y[domain == name], held_out[one.name][domain == name]) for name in range(8)]
        assert list(one.by_domain.values()) == pytest.approx(expected)


def test_slopes_are_those_of_predictions_in_domains_left_out():
    y, domain, invariant, leaning = planted(1200)
    options = {"domains": domain, "recalibrate": None, "held_out": {"m": leaning.round(2)}}
    one = cc.select({"m": invariant.round(1)}, y, **options).table[0]
    expected = naive_departures(y, invariant.round(1), domain, held_out=leaning.round(2))
    assert squares(one) == pytest.approx(expected, rel=0.01, abs=1e-3)  # cells hold scores of .01 apart
    assert one.departure > 2 * as_it_is(y, invariant.round(1), domain).departure


def test_several_classes_are_judged_by_their_top_label_and_their_labels_loss():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], size=900)
    y = (rng.uniform(size=(900, 1)) > np.cumsum(p, axis=1)).sum(axis=1)
    domain = np.arange(900) % 3
    result = cc.select({"right": p, "noise": rng.permutation(p)}, y, domains=domain, recalibrate=None)
    right = next(one for one in result.table if one.name == "right")
    top = (p.argmax(axis=1) == y).astype(float)
    expected = naive_departures(top, p.max(axis=1), domain)
    assert squares(right) == pytest.approx(expected, rel=0.05, abs=1e-3)  # 200 cells of 900 scores
    assert right.log_loss == pytest.approx(cc.log_loss(y, p))
    assert result.best == "right"
    assert result.table[-1].excluded == "not shown to predict better than a constant"


def test_ranking_leaves_out_a_model_without_skill():
    y, domain, invariant, leaning = planted(900)
    table = cc.select({"leaning": leaning, "invariant": invariant}, y, domains=domain).table
    again = rank([replace(one, skilled=one.name != "invariant") for one in table], criterion="departure")
    assert (again.best, again.prepare_for, again.remarks) == ("leaning", None, ())


# --------------------------------------------------------------------------------------------------------------- errors

ONE, AB = {"m": [0.1, 0.2]}, {"domains": ["a", "b"]}
REFUSED = {
    "prepare_for": ({**AB, "prepare_for": "both"}, r"^prepare_for is 'both'; .*'unstable'"),
    "two rules": (
        {**AB, "prepare_for": "similar", "criterion": "ece"},
        r"^prepare_for is 'similar' beside a crit",
    ),
    "among": ({**AB, "among": 3}, r"^among is 3 without a criterion; .*'mmce'"),
    "unused": ({**AB, "criterion": "ece", "held_out": ONE}, r"^held_out is given beside a criterion"),
    "absent": ({**AB, "held_out": {}}, r"^held_out lacks the model 'm';"),
    "unknown": ({**AB, "held_out": {**ONE, "n": [0.1, 0.2]}}, r"^held_out has 'n', which is no candidate;"),
    "logits": ({**AB, "held_out": {"m": [3.0, -2.0]}}, r"^held_out of 'm' at row 0 is 3"),
    "other rows": ({**AB, "held_out": {"m": [0.1]}}, r"^held_out of 'm' has 1 row but y has 2"),
    "no weight": ({**AB, "sample_weight": [1, 0]}, r"^sample_weight is zero in every row of domain 'b'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_with_the_reason(case):
    options, expected = REFUSED[case]
    with pytest.raises(cc.InputError) as caught:
        cc.select(ONE, [0, 1], **options)
    assert re.search(expected, str(caught.value))
