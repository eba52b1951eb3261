"""Choice among trained models by calibration in every training domain (paper: section 5.1 and appendix C.2)."""

from clovecal.selection._criteria import CRITERIA, Criterion, register_criterion
from clovecal.selection._ranking import PREPARE_FOR, CurvePoint, Price, RankedCandidate, Selection, rank
from clovecal.selection._select import select
from clovecal.selection._sweeps import DomainBedRuns, read_domainbed, read_wilds

__all__ = [
    "CRITERIA",
    "PREPARE_FOR",
    "Criterion",
    "CurvePoint",
    "DomainBedRuns",
    "Price",
    "RankedCandidate",
    "Selection",
    "rank",
    "read_domainbed",
    "read_wilds",
    "register_criterion",
    "select",
]
