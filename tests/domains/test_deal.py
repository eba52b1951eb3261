"""Rows are dealt into parts that each have every domain's share."""

from __future__ import annotations

import numpy as np

from clovecal.domains import Domains


def test_parts_are_dealt_evenly_within_every_domain():
    domain = np.repeat(list("abc"), [101, 50, 7])
    part = Domains.of(domain, 158).deal(3, np.random.default_rng(0))
    for name in "abc":
        counts = np.bincount(part[domain == name], minlength=3)
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(part, Domains.of(domain, 158).deal(3, np.random.default_rng(1)))


def test_rows_of_several_domains_are_dealt_with_the_first_and_rows_of_none_among_themselves():
    rng = np.random.default_rng(0)
    membership = rng.uniform(size=(400, 2)) < [0.3, 0.5]
    part = Domains.of(membership, 400).deal(2, np.random.default_rng(0))
    first = np.where(membership[:, 0], 0, np.where(membership[:, 1], 1, 2))
    for stratum in range(3):
        counts = np.bincount(part[first == stratum], minlength=2)
        assert abs(counts[0] - counts[1]) <= 1
