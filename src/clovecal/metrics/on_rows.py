"""The metrics of rows that are checked already, for callers who compute several of the same `clovecal.rows.Rows`.

Each function is named like the one that takes labels and predictions, and gives the same; `p_values_above` and
`check_options` are here alone.
"""

from clovecal.metrics._brier_decomposition import brier_decomposition_of as brier_decomposition
from clovecal.metrics._class_shares import class_shares_of as class_shares
from clovecal.metrics._effective_sizes import effective_sizes_of as effective_sizes
from clovecal.metrics._exceeding import PValuesAbove, p_values_above
from clovecal.metrics._invariance import invariance_test_of as invariance_test
from clovecal.metrics._per_domain import check_options
from clovecal.metrics._per_domain import per_domain_of as per_domain
from clovecal.metrics._per_domain import value_of as value
from clovecal.metrics._reliability import reliability_curves_of as reliability_curves
from clovecal.metrics._score_histograms import score_histograms_of as score_histograms

__all__ = [
    "PValuesAbove",
    "brier_decomposition",
    "check_options",
    "class_shares",
    "effective_sizes",
    "invariance_test",
    "p_values_above",
    "per_domain",
    "reliability_curves",
    "score_histograms",
    "value",
]
