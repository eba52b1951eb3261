"""Choice among trained models by calibration in every training domain (paper: section 5.1 and appendix C.2)."""

from clovecal.selection._criteria import CRITERIA, Criterion, register_criterion
from clovecal.selection._ranking import PREPARE_FOR, CurvePoint, Price, RankedCandidate, Selection, rank
from clovecal.selection._select import select

__all__ = [
    "CRITERIA",
    "PREPARE_FOR",
    "Criterion",
    "CurvePoint",
    "Price",
    "RankedCandidate",
    "Selection",
    "rank",
    "register_criterion",
    "select",
]
