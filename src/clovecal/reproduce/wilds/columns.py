"""The columns of the WILDS tables: what is done to a network's predictions, and how they do afterwards."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import clovecal as cc
from clovecal.calibrators import CALIBRATORS
from clovecal.datasets import LazyDataset
from clovecal.datasets.wilds import evaluate
from clovecal.reproduce.wilds.settings import HEADS, STRONGEST, Config
from clovecal.reproduce.wilds.stages import rows_to_fit
from clovecal.training import MLP, CLOvE, CloveClassifier, TrainingData, predict_logits
from clovecal.training import fit as train
from clovecal.training.network.training import Outputs

_Scores = npt.NDArray[np.float64]
_MOST_DOMAINS = 40  # that a record lists one by one
_PAPERS_HIDDEN = (128, 128, 128)  # the paper says three hidden layers, not how wide
_PAPERS_BATCH = 64
_MOST_DOMAINS_PER_BATCH = 8  # of eight rows each: what a single row adds to MMCE is not its calibration


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows and the network's outputs for them."""

    rows: LazyDataset
    outputs: Outputs

    @property
    def scores(self) -> _Scores:
        """Probabilities, or values of a regression."""
        return self.outputs.scores(self.rows.task)

    def select(self, rows: npt.NDArray[np.intp]) -> PredictedRows:
        """Return the rows at these positions."""
        return PredictedRows(
            self.rows.select(rows), Outputs(logits=self.outputs.logits[rows], features=self.outputs.features[rows])
        )


def outcome(config: Config, parts: Mapping[str, PredictedRows], *, device: str | None) -> dict[str, Any]:
    """Fit a column on its validation rows and return how it does in and outside the domains seen."""
    started = time.perf_counter()
    fit = parts["fit"].select(rows_to_fit(parts["fit"].rows, config.fit_on))
    changed, details = _column(config, {**parts, "fit": fit}, device)
    details = {**details, "fit_rows": len(fit.rows), "fit_domains": len(fit.rows.as_domains().names)}
    measured = {name: _measured(parts[name].rows, p) for name, p in changed.items()}
    return {**measured, "details": details, "seconds": round(time.perf_counter() - started, 3)}


def _column(
    config: Config, parts: Mapping[str, PredictedRows], device: str | None
) -> tuple[dict[str, _Scores], dict[str, Any]]:
    fit, judged = parts["fit"], {name: parts[name] for name in ("id", "ood")}
    if config.column == "original":
        return {name: part.scores for name, part in judged.items()}, {}
    if config.column == "clove-paper":
        return _papers_head(config, fit, judged, device)
    if config.column in HEADS:
        return _head(config, fit, judged, device)
    calibrator: Any = CALIBRATORS[config.column].make()
    calibrator.fit(fit.scores, fit.rows.y, domains=fit.rows.as_domains())
    details = {"best": calibrator.best_} if config.column == "auto" else {}
    return {name: calibrator.predict(part.scores) for name, part in judged.items()}, details


def _head(
    config: Config, fit: PredictedRows, judged: Mapping[str, PredictedRows], device: str | None
) -> tuple[dict[str, _Scores], dict[str, Any]]:
    head = CloveClassifier(
        objective="clove",
        penalty="auto" if config.column == "clove" else STRONGEST[fit.rows.task],
        max_steps=config.head_steps,
        random_state=config.model.seed,
        device=device,
    )
    head.fit(fit.outputs.features, fit.rows.y, domains=fit.rows.as_domains())
    changed = {}
    for name, part in judged.items():
        p = head.predict_proba(part.outputs.features)
        if part.rows.task == "binary":
            changed[name] = p[:, 1]
        else:  # a class that the validation rows lack has probability 0
            changed[name] = np.zeros((len(p), len(part.rows.classes)))
            changed[name][:, head.classes_] = p
    return changed, {"penalty": head.penalty_, "message": head.message_}


def _papers_head(
    config: Config, fit: PredictedRows, judged: Mapping[str, PredictedRows], device: str | None
) -> tuple[dict[str, _Scores], dict[str, Any]]:
    """Train the head of appendix B: three hidden layers, Adam, batches of 64, Σ_e l^e + λ Σ_e MMCE²_e, RBF of γ = 2.5.

    Notes
    -----
    What the paper does not say is left as it is by default: the width (128), Adam's rate (.001), features as the
    network gives them. All rows that the columns are fitted on are trained on, for a given number of steps: nothing is
    held out, stopped, clipped or decayed. A batch of 64 has as many rows of each domain, of 8 domains at most; rows in
    no domain belong to none of the sums.
    """
    fit = fit.select(np.unique(np.concatenate([rows for _, rows in fit.rows.as_domains().split()])))
    domains = fit.rows.as_domains()
    labels, classes = fit.rows.y, max(len(fit.rows.classes), 2)
    features = torch.as_tensor(fit.outputs.features)
    network = MLP(
        features.shape[1],
        hidden=_PAPERS_HIDDEN,
        n_outputs=1 if fit.rows.task == "binary" else classes,
        seed=config.model.seed,
    )
    assert config.penalty is not None
    trained = train(
        network,
        TrainingData.of(features, labels, domains=domains),
        CLOvE(config.penalty, rescale=False, of="confidence", kernel="rbf", gamma=2.5),
        steps=config.head_steps,
        batch_size=_PAPERS_BATCH,
        domains_per_batch=min(len(domains.names), _MOST_DOMAINS_PER_BATCH),
        device=device,
        seed=config.model.seed,
        progress=False,
    )
    changed = {}
    for name, part in judged.items():
        logits = predict_logits(network, torch.as_tensor(part.outputs.features), device=device).double()
        p = torch.sigmoid(logits) if logits.ndim == 1 else torch.softmax(logits, dim=1)
        changed[name] = p.cpu().numpy()
    return changed, {"penalty": config.penalty, "message": trained.message}


def _measured(rows: LazyDataset, p: _Scores) -> dict[str, Any]:
    """Return the data set's own scores, and the calibration error in each domain."""
    metric: Callable[..., float] = cc.regression_calibration if rows.task == "regression" else cc.ece
    predicted = p
    if rows.task != "regression":
        predicted = (p > 0.5).astype(np.float64) if p.ndim == 1 else p.argmax(axis=1).astype(np.float64)
    errors = cc.per_domain(metric, rows.y, p, domains=rows.as_domains())
    found: dict[str, Any] = {name: _defined(value) for name, value in evaluate(rows, predicted).items()}
    found |= {"mean_ece": errors.mean, "worst_ece": errors.worst, "rows": len(rows)}
    if len(errors.by_domain) <= _MOST_DOMAINS:
        found["ece"] = {str(name): value for name, value in errors.by_domain.items()}
    return found


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
