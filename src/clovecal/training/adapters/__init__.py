"""Objectives in the shapes that other people's training scripts expect: DomainBed's and WILDS' algorithms.

None of their packages is imported; a class of a few lines, beside theirs, gives an objective a name there.
"""

from typing import TYPE_CHECKING

from clovecal.errors import needs
from clovecal.training._lazily import lazily

needs("torch", "train", __name__)  # before its modules import it, so that what is said is one sentence

if TYPE_CHECKING:
    from clovecal.training.adapters.domainbed import DomainBedAlgorithm
    from clovecal.training.adapters.wilds import WildsAlgorithm

__all__ = ["DomainBedAlgorithm", "WildsAlgorithm"]

__getattr__ = lazily(__name__, {"DomainBedAlgorithm": f"{__name__}.domainbed", "WildsAlgorithm": f"{__name__}.wilds"})
