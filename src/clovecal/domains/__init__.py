"""`Domains`, which domain each row belongs to, and `DomainResult`, a metric's value in each of them.

The paper (section 2.1) calls them environments; here the word is domain throughout.
"""

from clovecal.domains._domains import Domains, Interval
from clovecal.domains._factorize import Name
from clovecal.domains._result import (
    DomainEstimator,
    DomainResult,
    Estimates,
    WithEstimates,
    domain_result,
    pooled_value,
)

__all__ = [
    "DomainEstimator",
    "DomainResult",
    "Domains",
    "Estimates",
    "Interval",
    "Name",
    "WithEstimates",
    "domain_result",
    "pooled_value",
]
