"""Did calibrating help? Predictions before and after it on the same rows, with an interval of the difference."""

from clovecal.comparing._before_and_after import Comparison, DomainComparison, compare
from clovecal.comparing._differences import FINDINGS, Difference

__all__ = ["FINDINGS", "Comparison", "Difference", "DomainComparison", "compare"]
