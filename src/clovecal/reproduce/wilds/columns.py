"""The columns of the WILDS tables: what is done to a network's predictions, and how they do afterwards."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import clovecal as cc
from clovecal.calibrators import CALIBRATORS
from clovecal.datasets import LazyDataset
from clovecal.datasets.wilds import evaluate
from clovecal.reproduce.wilds.settings import HEADS, STRONGEST, Config
from clovecal.training import CloveClassifier
from clovecal.training.network.training import Outputs

_Scores = npt.NDArray[np.float64]
_MOST_DOMAINS = 40  # that a record lists one by one


@dataclass(frozen=True, eq=False)
class PredictedRows:
    """Rows and the network's outputs for them."""

    rows: LazyDataset
    outputs: Outputs

    @property
    def scores(self) -> _Scores:
        """Probabilities, or values of a regression."""
        return self.outputs.scores(self.rows.task)


def outcome(config: Config, parts: Mapping[str, PredictedRows], *, device: str | None) -> dict[str, Any]:
    """Fit a column on the validation rows and return how it does in and outside the domains seen."""
    started = time.perf_counter()
    changed, details = _column(config, parts, device)
    measured = {name: _measured(parts[name].rows, p) for name, p in changed.items()}
    return {**measured, "details": details, "seconds": round(time.perf_counter() - started, 3)}


def _column(
    config: Config, parts: Mapping[str, PredictedRows], device: str | None
) -> tuple[dict[str, _Scores], dict[str, Any]]:
    fit, judged = parts["fit"], {name: parts[name] for name in ("id", "ood")}
    if config.column == "original":
        return {name: part.scores for name, part in judged.items()}, {}
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
