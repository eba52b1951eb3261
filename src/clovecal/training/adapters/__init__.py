"""Objectives in the shapes that other people's training scripts expect: DomainBed's and WILDS' algorithms, and a log.

None of their packages is imported; a class of a few lines, beside theirs, gives an objective a name there. `DomainLog`
is for any loop; ``docs/examples`` has Lightning and the Trainer of transformers.
"""

from typing import TYPE_CHECKING

from clovecal.errors import needs
from clovecal.training._lazily import lazily

needs("torch", "train", __name__)  # before its modules import it, so that what is said is one sentence

if TYPE_CHECKING:
    from clovecal.training.adapters.domain_log import DomainLog
    from clovecal.training.adapters.domainbed import DomainBedAlgorithm
    from clovecal.training.adapters.wilds import WildsAlgorithm

__all__ = ["DomainBedAlgorithm", "DomainLog", "WildsAlgorithm"]

_HOMES = {"DomainBedAlgorithm": "domainbed", "DomainLog": "domain_log", "WildsAlgorithm": "wilds"}

__getattr__ = lazily(__name__, {name: f"{__name__}.{home}" for name, home in _HOMES.items()})
