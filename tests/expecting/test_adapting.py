"""What adapting has changed: by hand, by the calibrators' own words, and what more labels would be worth."""

from __future__ import annotations

import numpy as np
import pytest

from clovecal import HierarchicalCalibrator, InputError, NaiveIsotonic
from clovecal.expecting import MeanChange, MoreLabels, what_labels_changed
from clovecal.progress import calling


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(0)
    hospital = np.repeat(np.arange(8), 400)
    logit = rng.normal(size=3200)
    y = rng.uniform(size=3200) < 1 / (1 + np.exp(-logit - rng.normal(0, 1, 8)[hospital]))
    p = 1 / (1 + np.exp(-logit))
    return HierarchicalCalibrator(NaiveIsotonic(), new_domain="base").fit(p, y, domains=hospital)


SCORES = np.linspace(0.05, 0.95, 40)
MANY_EVENTS = np.arange(40) % 4 > 0


def test_changes_are_the_two_maps_at_quantiles_of_the_scores(known):
    adapted = known.adapt(SCORES, MANY_EVENTS)
    found = what_labels_changed(known, adapted, SCORES, more=())
    at = [change.score for change in found.changes]
    # The nearest of 40 values to the quantiles .1, .25, .5, .75 and .9, at places 3.9, 9.75, 19.5, 29.25 and 35.1.
    np.testing.assert_allclose(at, SCORES[[4, 10, 20, 29, 35]])
    np.testing.assert_array_equal([change.before for change in found.changes], known.base_.predict(at))
    np.testing.assert_array_equal([change.after for change in found.changes], adapted.predict(at))
    assert found.labels == 40


def test_what_is_expected_is_what_the_calibrators_expect(known):
    adapted = known.adapt(SCORES, MANY_EVENTS)
    found = what_labels_changed(known, adapted, SCORES, more=(), expected_ci=0.8)
    assert found.expected_before == known.expect(SCORES, ci=0.8)
    assert found.expected_after == adapted.expect(SCORES, ci=0.8)


def test_more_labels_pay_while_little_is_known_and_hardly_later(known):
    few, many = (known.adapt(np.resize(SCORES, m), np.resize(MANY_EVENTS, m)) for m in (4, 4000))
    after_few, after_many = (what_labels_changed(known, one, SCORES, more=(20, 200)) for one in (few, many))
    assert after_few.worth.labels == 20
    assert after_few.more[1].change.value < after_few.more[0].change.value
    assert abs(after_many.more[0].change.value) < abs(after_few.more[0].change.value) / 10


def test_the_smallest_number_that_is_expected_to_pay_is_named(known):
    found = what_labels_changed(known, known.adapt(), SCORES, more=())
    assert found.worth is None
    pays, unclear = MeanChange(-0.2, -0.3, -0.1), MeanChange(-0.1, -0.3, 0.1)
    steps = tuple(MoreLabels(labels=n, change=one) for n, one in [(20, unclear), (50, pays), (100, pays)])
    assert type(found)(**{**vars(found), "more": steps}).worth.labels == 50


def test_progress_counts_the_domains_that_are_drawn(known):
    seen = []
    what_labels_changed(known, known.adapt(), SCORES, more=(5,), progress=calling(lambda *state: seen.append(state)))
    assert seen[-1] == (200, 200)


@pytest.mark.parametrize(
    ("options", "argument"), [({"more": (-1,)}, "more"), ({"ci": 0}, "ci"), ({"expected_ci": 2}, "expected_ci")]
)
def test_wrong_arguments_are_named(known, options, argument):
    with pytest.raises(InputError) as caught:
        what_labels_changed(known, known.adapt(), SCORES, **options)
    assert caught.value.argument == argument
