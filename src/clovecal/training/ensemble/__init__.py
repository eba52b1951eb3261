"""Hundreds of small models trained at once, as one stack of matrices."""

from clovecal.training.ensemble.training import Member, TrainedEnsemble, train_ensemble

__all__ = ["Member", "TrainedEnsemble", "train_ensemble"]
