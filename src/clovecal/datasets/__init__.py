"""Data sets whose rows know their domain: ``load_*`` real ones, ``make_*`` synthetic ones; and digits to colour."""

from clovecal.datasets._base import DomainDataset
from clovecal.datasets._colored import colored_digits
from clovecal.datasets._flights import load_flights
from clovecal.datasets._lazy import Files, Inputs, LazyDataset, Texts, combined
from clovecal.datasets._mnist import Digits, load_digits, load_mnist

__all__ = [
    "Digits",
    "DomainDataset",
    "Files",
    "Inputs",
    "LazyDataset",
    "Texts",
    "colored_digits",
    "combined",
    "load_digits",
    "load_flights",
    "load_mnist",
]
