"""Training for calibration in every domain: CLOvE and its rivals (needs the ``train`` extra).

Three ways in: `losses`, pure functions for a loop of your own; `fit` with an objective, for any torch model;
`CloveClassifier`, a scikit-learn estimator on frozen features. `train_ensemble` trains hundreds of models at once, and
`export` trains a whole network on images or texts and writes it with tables of its predictions.
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
    from clovecal.training.loop.averaging import Averaging
    from clovecal.training.loop.fitting import FitResult, TrainingWarning, fit
    from clovecal.training.loop.parts import backward_in_parts
    from clovecal.training.loop.predicting import predict_logits
    from clovecal.training.loop.stopping import EarlyStopping
    from clovecal.training.mlp import MLP
    from clovecal.training.network.backbones import (
        BACKBONES,
        Backbone,
        FeatureClassifier,
        Pixels,
        register_backbone,
    )
    from clovecal.training.network.exporting import export
    from clovecal.training.network.folder import load_network
    from clovecal.training.network.recipe import Recipe, default_recipe
    from clovecal.training.network.training import Resources
    from clovecal.training.objectives import (
        CORAL,
        ERM,
        IRM,
        CLOvE,
        Fishr,
        GroupDRO,
        Loss,
        Objective,
        PenalisedObjective,
        VREx,
    )

__all__ = [
    "BACKBONES",
    "CORAL",
    "ERM",
    "IRM",
    "MLP",
    "OBJECTIVES",
    "Averaging",
    "Backbone",
    "BatchDomains",
    "CLOvE",
    "CloveClassifier",
    "EarlyStopping",
    "FeatureClassifier",
    "Fishr",
    "FitResult",
    "GroupDRO",
    "Loss",
    "Member",
    "Objective",
    "PenalisedObjective",
    "Pixels",
    "Recipe",
    "Resources",
    "TrainedEnsemble",
    "TrainingData",
    "TrainingWarning",
    "VREx",
    "backward_in_parts",
    "default_recipe",
    "export",
    "fit",
    "load_head",
    "load_network",
    "losses",
    "make_objective",
    "predict_logits",
    "register_backbone",
    "register_objective",
    "train_ensemble",
]

_HOMES = {
    "batch_domains": ["BatchDomains"],
    "data": ["TrainingData"],
    "ensemble": ["Member", "TrainedEnsemble", "train_ensemble"],
    "head.classifier": ["CloveClassifier"],
    "head.files": ["load_head"],
    "loop.averaging": ["Averaging"],
    "loop.fitting": ["FitResult", "TrainingWarning", "fit"],
    "loop.parts": ["backward_in_parts"],
    "loop.predicting": ["predict_logits"],
    "loop.stopping": ["EarlyStopping"],
    "losses": ["losses"],
    "mlp": ["MLP"],
    "network.backbones": ["BACKBONES", "Backbone", "FeatureClassifier", "Pixels", "register_backbone"],
    "network.exporting": ["export"],
    "network.folder": ["load_network"],
    "network.recipe": ["Recipe", "default_recipe"],
    "network.training": ["Resources"],
    "objectives": [
        "CORAL",
        "ERM",
        "IRM",
        "CLOvE",
        "Fishr",
        "GroupDRO",
        "Loss",
        "Objective",
        "PenalisedObjective",
        "VREx",
    ],
}

__getattr__ = lazily(__name__, {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names})
