"""Calibrators by name: what is registered, what registering does, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc
from clovecal.calibrators import CALIBRATORS, Calibrator, MonotoneCalibrator, MonotoneSteps, register_calibrator

pytestmark = pytest.mark.usefixtures("registries_restored")


class Half(MonotoneCalibrator):
    """Half of every score from 0 to 1."""

    def __init__(self, *, interpolation="linear"):
        self.interpolation = interpolation

    def _fit_maps(self, rows):
        return tuple(MonotoneSteps(np.array([0.0, 1.0]), np.array([0.0, 0.5])) for _ in range(rows.n_problems))


def named(name):
    """Return a new class of this name."""
    return type(name, (Half,), {"__module__": "elsewhere"})


NAMES = ["naive", "platt", "temperature", "beta", "robust", "robust-regret", "hierarchical", "auto"]


def refused(call):
    with pytest.raises(cc.InputError) as caught:
        call()
    return caught.value


def test_the_built_in_ones_are_listed_from_the_simplest():
    assert list(CALIBRATORS) == NAMES
    assert [one.title for one in CALIBRATORS.values()] == [
        *NAMES[:4],
        "robust (risk)",
        "robust (regret)",
        "hierarchical",
        "auto",
    ]
    assert [type(one.make()) for one in CALIBRATORS.values()] == [one.calibrator_class for one in CALIBRATORS.values()]
    assert CALIBRATORS["robust-regret"].make().objective == "regret"


def test_a_quick_one_differs_in_tolerance_and_folds_alone():
    assert CALIBRATORS["robust"].make_quick().get_params() == cc.RobustIsotonic(tol=1e-6).get_params()
    assert CALIBRATORS["robust-regret"].make_quick().get_params() == cc.RobustIsotonic("regret", tol=1e-6).get_params()
    assert CALIBRATORS["auto"].make_quick().get_params() == cc.AutoCalibrator(max_folds=5).get_params()


def test_every_fitted_one_needs_as_many_domains_as_it_says():
    rng = np.random.default_rng(0)
    scores, y = rng.random(60), rng.integers(0, 2, 60)
    for entry in CALIBRATORS.values():
        needed = entry.make().domains_needed
        ways = [None, np.zeros(60), np.arange(60) % 2]
        for given, domains in enumerate(ways):
            if given < needed:
                assert refused(lambda e=entry, d=domains: e.make().fit(scores, y, domains=d)).argument == "domains"
            else:
                entry.make().fit(scores, y, domains=domains)


def test_a_name_registered_again_is_replaced():
    register_calibrator("half", Half, meaning="half")
    register_calibrator("half", Half, meaning="half of every score", title="a half")
    assert (CALIBRATORS["half"].meaning, CALIBRATORS["half"].title) == ("half of every score", "a half")
    assert list(CALIBRATORS)[-1] == "half"


def test_one_class_may_have_several_names(tmp_path):
    register_calibrator("half", Half, meaning="half")
    register_calibrator("half-steps", lambda: Half(interpolation="step"), meaning="all or nothing")
    CALIBRATORS["half-steps"].make().fit([1], [1]).save(tmp_path / "cal.json")
    assert cc.load_calibrator(tmp_path / "cal.json").predict([0.6, 1]).tolist() == [0, 0.5]


def test_what_would_be_taken_for_another_is_refused():
    register_calibrator("half", Half, meaning="half")
    taken = refused(lambda: register_calibrator("naive", Half, meaning="another"))
    assert str(taken) == "name is 'naive', which is taken by NaiveIsotonic; choose another name."
    twin = refused(lambda: register_calibrator("twin", named("NaiveIsotonic"), meaning="another"))
    assert str(twin) == "make makes a NaiveIsotonic, a name that another class has; rename the class."
    assert list(CALIBRATORS) == [*NAMES, "half"]


def test_only_calibrators_are_registered():
    class Stranger:
        pass

    error = refused(lambda: register_calibrator("stranger", Stranger, meaning="no calibrator"))
    assert (error.argument, error.problem) == ("make", "makes a Stranger")
    assert refused(lambda: register_calibrator("stranger", lambda: 3, meaning="a number")).argument == "make"


def test_a_class_without_a_fit_says_so():
    class Empty(Calibrator):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no _fit\(rows\)"):
        Empty().fit([1], [1])


def test_a_candidate_of_ones_own_is_tried_by_auto():
    # Half of the scores is what the rates are: nothing else can do better on the domain left out.
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    y, domain = (rng.random(3000) < p / 2).astype(int), np.arange(3000) % 4
    before = cc.AutoCalibrator().fit(p, y, domains=domain)
    register_calibrator("half", Half, meaning="half", candidates=lambda auto: {"a half": Half()})
    auto = cc.AutoCalibrator().fit(p, y, domains=domain)
    assert [one.name for one in auto.table_] == [*(one.name for one in before.table_), "a half"]
    assert auto.best_ == "a half"
    assert auto.table_[-1].mean == pytest.approx(
        np.mean([np.mean((p[domain == e] / 2 - y[domain == e]) ** 2) for e in range(4)])
    )
    assert [one.mean for one in auto.table_[:-1]] == [one.mean for one in before.table_]
