"""Training for calibration in every domain: CLOvE and its rivals (needs the ``train`` extra).

Three ways in: `losses`, pure functions for a loop of one's own; `fit` with an objective, for any torch model;
`CloveClassifier`, a scikit-learn estimator on frozen features. `train_ensemble` trains hundreds of models at once.
"""

from typing import TYPE_CHECKING

from clovecal.training._lazily import lazily
from clovecal.training.objectives.registry import OBJECTIVES, make_objective, register_objective

if TYPE_CHECKING:
    from clovecal.training import losses
    from clovecal.training.batch_domains import BatchDomains
    from clovecal.training.data import TrainingData
    from clovecal.training.ensemble import Member, TrainedEnsemble, train_ensemble
    from clovecal.training.head.classifier import CloveClassifier
    from clovecal.training.head.files import load_head
    from clovecal.training.loop.fitting import FitResult, TrainingWarning, fit
    from clovecal.training.loop.predicting import predict_logits
    from clovecal.training.loop.stopping import EarlyStopping
    from clovecal.training.mlp import MLP
    from clovecal.training.objectives import (
        CORAL,
        ERM,
        IRM,
        CLOvE,
        GroupDRO,
        Loss,
        Objective,
        PenalisedObjective,
    )

__all__ = [
    "CORAL",
    "ERM",
    "IRM",
    "MLP",
    "OBJECTIVES",
    "BatchDomains",
    "CLOvE",
    "CloveClassifier",
    "EarlyStopping",
    "FitResult",
    "GroupDRO",
    "Loss",
    "Member",
    "Objective",
    "PenalisedObjective",
    "TrainedEnsemble",
    "TrainingData",
    "TrainingWarning",
    "fit",
    "load_head",
    "losses",
    "make_objective",
    "predict_logits",
    "register_objective",
    "train_ensemble",
]

_HOMES = {
    "batch_domains": ["BatchDomains"],
    "data": ["TrainingData"],
    "ensemble": ["Member", "TrainedEnsemble", "train_ensemble"],
    "head.classifier": ["CloveClassifier"],
    "head.files": ["load_head"],
    "loop.fitting": ["FitResult", "TrainingWarning", "fit"],
    "loop.predicting": ["predict_logits"],
    "loop.stopping": ["EarlyStopping"],
    "losses": ["losses"],
    "mlp": ["MLP"],
    "objectives": ["CORAL", "ERM", "IRM", "CLOvE", "GroupDRO", "Loss", "Objective", "PenalisedObjective"],
}

__getattr__ = lazily(__name__, {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names})
