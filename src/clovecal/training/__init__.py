"""Training for calibration in every domain: CLOvE and its rivals (needs the ``train`` extra).

Three ways in: `losses`, pure functions for a loop of one's own; `fit` with an objective, for any torch model;
`CloveClassifier`, a scikit-learn estimator on frozen features. `train_ensemble` trains hundreds of models at once.
"""

from clovecal.training import losses
from clovecal.training.data import TrainingData
from clovecal.training.ensemble.training import Member, TrainedEnsemble, train_ensemble
from clovecal.training.head.classifier import CloveClassifier
from clovecal.training.head.files import load_head
from clovecal.training.loop.fitting import FitResult, TrainingWarning, fit
from clovecal.training.loop.predicting import predict_logits
from clovecal.training.loop.stopping import EarlyStopping
from clovecal.training.mlp import MLP
from clovecal.training.objectives import CORAL, ERM, IRM, CLOvE, GroupDRO, Loss, Objective

__all__ = [
    "CORAL",
    "ERM",
    "IRM",
    "MLP",
    "CLOvE",
    "CloveClassifier",
    "EarlyStopping",
    "FitResult",
    "GroupDRO",
    "Loss",
    "Member",
    "Objective",
    "TrainedEnsemble",
    "TrainingData",
    "TrainingWarning",
    "fit",
    "load_head",
    "losses",
    "predict_logits",
    "train_ensemble",
]
