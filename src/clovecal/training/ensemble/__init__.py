"""Hundreds of small models trained at once, as one stack of matrices."""

from typing import TYPE_CHECKING

from clovecal.training._lazily import lazily

if TYPE_CHECKING:
    from clovecal.training.ensemble.training import Member, TrainedEnsemble, train_ensemble

__all__ = ["Member", "TrainedEnsemble", "train_ensemble"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, f"{__name__}.training"))
