"""Domains of the rows, and any metric computed in each of them.

The paper (section 2.1) calls them environments; here the word is domain throughout.
"""

from clovecal.domains._domains import Domains, Interval
from clovecal.domains._factorize import Name
from clovecal.domains._per_domain import DomainEstimator, DomainResult, per_domain, pooled_value, register_metric

__all__ = [
    "DomainEstimator",
    "DomainResult",
    "Domains",
    "Interval",
    "Name",
    "per_domain",
    "pooled_value",
    "register_metric",
]
