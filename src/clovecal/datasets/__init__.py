"""Data sets whose rows know their domain: ``load_*`` real ones, ``make_*`` synthetic ones."""

from clovecal.datasets._base import DomainDataset
from clovecal.datasets._flights import load_flights

__all__ = ["DomainDataset", "load_flights"]
