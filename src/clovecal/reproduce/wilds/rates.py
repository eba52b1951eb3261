"""How fast one GPU trains and predicts with each WILDS table's network, for an estimate of its hours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Rates:
    """Rows per second of a data set's own network.

    Attributes
    ----------
    training, predicting
        As ``benchmarks/bench_densenet.py`` prints them, or its "decoding alone" where that is lower.
    source
        Where they are known from; ends a sentence.
    """

    training: float
    predicting: float
    source: str


_MEASURED = "measured on one H200 with 16 processors"  # benchmarks/results/densenet.jsonl
RATES: Mapping[str, Rates] = MappingProxyType(
    {
        "camelyon17": Rates(484, 5052, _MEASURED),
        "fmow": Rates(876, 4353, _MEASURED),
        "poverty": Rates(1213, 1213, _MEASURED),  # its files are large: reading them takes longer than the network
        "civilcomments": Rates(332, 737, _MEASURED),  # of texts as long as they may be
        "amazon": Rates(156, 444, _MEASURED),
    }
)
