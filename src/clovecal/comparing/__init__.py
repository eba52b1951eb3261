"""Did calibrating help, and what would each method be in a new domain? Paired differences, with intervals."""

from clovecal.comparing._after_labels import AfterLabelsOfDomain, MethodAdapted
from clovecal.comparing._before_and_after import Comparison, DomainComparison, compare
from clovecal.comparing._differences import FINDINGS, Difference
from clovecal.comparing._judging import Judged
from clovecal.comparing._left_out import DomainLeftOut, LeftOutComparison, MethodLeftOut

__all__ = [
    "FINDINGS",
    "AfterLabelsOfDomain",
    "Comparison",
    "Difference",
    "DomainComparison",
    "DomainLeftOut",
    "Judged",
    "LeftOutComparison",
    "MethodAdapted",
    "MethodLeftOut",
    "compare",
]
