"""Observed and predicted shares of classes, against counting, and Wilson's interval by hand."""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc
from clovecal.metrics import class_shares


def test_shares_are_counts_and_means_in_every_domain():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 2, 3], size=90)
    y, domain = np.append(rng.integers(0, 3, 89), 2), np.repeat(["A", "B", "C"], 30)
    weight = rng.integers(1, 4, 90)
    for sample_weight in (None, weight):
        shares = class_shares(y, p, domains=domain, sample_weight=sample_weight)
        assert [one.label for one in shares] == [0, 1, 2]
        for one in shares:
            assert one.observed.overall == pytest.approx(np.average(y == one.label, weights=sample_weight))
            assert one.predicted.overall == pytest.approx(np.average(p[:, one.label], weights=sample_weight))
            for name in "ABC":
                rows = domain == name
                w = None if sample_weight is None else sample_weight[rows]
                assert one.observed.by_domain[name] == pytest.approx(np.average((y == one.label)[rows], weights=w))
                assert one.predicted.by_domain[name] == pytest.approx(np.average(p[rows, one.label], weights=w))


def test_a_class_that_never_happens_may_still_be_frequent():
    # Wilson's upper limit of 0 of 7 at 95% is z²/(7 + z²) with z² = 3.8415
    shares = class_shares([0] * 7, [[0.6, 0.3, 0.1]] * 7, domains=["A"] * 7)
    assert shares[2].observed.intervals["A"] == pytest.approx((0, 3.841459 / 10.841459))


def test_an_audit_of_several_classes_shows_them_and_their_classwise_error():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([2, 2, 2], size=600)
    y = np.array([rng.choice(3, p=row) for row in p])
    audit = cc.audit(y, p, domains=np.repeat(["A", "B"], 300), resamples=50)
    assert audit.by_class == class_shares(y, p, domains=np.repeat(["A", "B"], 300))
    classwise = audit.metrics["classwise_ece"]
    assert classwise.overall == pytest.approx(cc.ece(y, p, of="classwise"))
    assert classwise.by_domain["A"] == pytest.approx(cc.ece(y[:300], p[:300], of="classwise"))
    assert cc.audit([0, 1], [0.2, 0.7], domains=["A", "B"], resamples=20).by_class == ()


def test_a_binary_model_has_no_classes_to_tell_apart():
    with pytest.raises(cc.InputError, match="task is 'multiclass' but p has one column"):
        class_shares([0, 1], [0.2, 0.7], domains=["A", "B"])
