"""Reproductions of the paper's figures and tables, each written to records and drawn from them (`STUDIES`)."""

from collections.abc import Mapping
from types import MappingProxyType

from clovecal.reproduce import colored_mnist, gaussian, two_bit, wilds
from clovecal.reproduce.study import Study

__all__ = ["STUDIES"]

# The one list of studies; importing their declarations brings neither numpy nor torch.
STUDIES: Mapping[str, Study] = MappingProxyType(
    {one.name: one for one in (two_bit.STUDY, gaussian.STUDY, colored_mnist.STUDY, wilds.STUDY)}
)
