"""Platt, Temperature and Beta against scikit-learn's sigmoid and temperature, and netcal's three.

scikit-learn's two classes are private: its public door, CalibratedClassifierCV, would want a fitted model around them.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

import clovecal as cc

# maps are looked at far outside what they were fitted on
pytestmark = [
    pytest.mark.filterwarnings("ignore::clovecal.scores.ScoreRangeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # inside netcal
]

sklearn_calibration = pytest.importorskip("sklearn.calibration")
netcal = pytest.importorskip("netcal.scaling", reason="pip install 'clovecal[oracles]'")

GRID = np.linspace(0.001, 0.999, 200)


def scored(seed, n=3000):
    """Draw scores on the logit, and labels of which the scores are too sure."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=1.5, size=n)
    return scores, (rng.random(n) < expit(0.6 * scores - 0.4)).astype(int)


def classes(seed, n=2000, c=4):
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=2, size=(n, c))
    return logits, np.array([rng.choice(c, p=row) for row in softmax(0.5 * logits, axis=1)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [20, 3000])
def test_sigmoid_of_scikit_learn_is_platt_on_its_smoothed_labels(seed, n):
    # Its label 1 counts as (N₁ + 1)/(N₁ + 2) of a 1 and the rest of a 0: here each row comes once with either label.
    scores, y = scored(seed, n)
    theirs = sklearn_calibration._SigmoidCalibration().fit(scores, y)
    ones = y.sum()
    t = np.where(y == 1, (ones + 1) / (ones + 2), 1 / (n - ones + 2))
    ours = cc.Platt().fit(np.tile(scores, 2), np.repeat([1, 0], n), sample_weight=np.concatenate([t, 1 - t]))
    assert ours.slopes_[0, 0] == pytest.approx(-theirs.a_, abs=1e-4)
    assert ours.predict(logit(GRID)) == pytest.approx(theirs.predict(logit(GRID)), abs=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_temperature_of_scikit_learn(seed):
    logits, y = classes(seed)
    theirs = sklearn_calibration._TemperatureScaling().fit(logits, y)
    assert cc.Temperature().fit(logits, y).inverse_temperature_ == pytest.approx(theirs.beta_, abs=2e-5)
    p = softmax(logits, axis=1)
    assert cc.Temperature().fit(p, y).predict(p) == pytest.approx(theirs.predict(logits), abs=1e-5)
    # Of one column of scores its logits are (−x, x), twice as far apart.
    scores, y = scored(seed)
    theirs = sklearn_calibration._TemperatureScaling().fit(scores, y)
    assert cc.Temperature().fit(scores, y).inverse_temperature_ == pytest.approx(2 * theirs.beta_, abs=2e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (cc.Platt(), netcal.LogisticCalibration),
        (cc.Temperature(), netcal.TemperatureScaling),
        (cc.Beta(), netcal.BetaCalibration),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_netcals_three_on_probabilities(ours, theirs, seed):
    scores, y = scored(seed)
    p = expit(scores)
    other = theirs().fit(p, y)
    assert ours.fit(p, y).predict(GRID) == pytest.approx(other.transform(GRID), abs=2e-3)


def test_temperature_of_netcal_on_real_softmax_outputs(softmax_dump):
    y, p = softmax_dump.y[:2000], softmax_dump.p[:2000]
    other = netcal.TemperatureScaling().fit(p, y).transform(p)
    assert cc.Temperature().fit(p, y).predict(p) == pytest.approx(other, abs=5e-3)
