"""A classifier on frozen features that is trained to be calibrated in every domain (paper: section 5.3, appendix B)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from clovecal._checks import AnyArray, FloatArray, IntArray
from clovecal.domains import Domains
from clovecal.progress import SILENT, Progress, within
from clovecal.training.data import TrainingData
from clovecal.training.head.choice import HeldOutLogits, TriedPenalty, choose, objective_of_strength, penalties_to_try
from clovecal.training.head.inputs import (
    check_device,
    check_parameters,
    checked_features,
    checked_rows,
    require_two_held_out,
    seed_of,
)
from clovecal.training.head.network import HeadNetwork, check_linear_head, held_out_rows, moments
from clovecal.training.loop.fitting import FitResult, TrainingWarning, fit
from clovecal.training.loop.predicting import predict_logits
from clovecal.training.loop.stopping import EarlyStopping, probabilities
from clovecal.training.losses import MmceOptions

# Steps between two looks at the held-out rows: an epoch, but no fewer and no more than this; and the steps that it
# waits at least for an improvement, as a penalty makes training slow and uneven.
_LOOK_EVERY = (5, 500)
_LEAST_WAIT = 200


class CloveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A perceptron on frozen features, trained with a penalty on miscalibration in every domain.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; the paper has three and does not say how wide.
    objective
        What is minimised: "clove" is the paper's, `clovecal.training.objectives.objective_names` has the others.
    penalty
        Weight λ of the penalty; several to choose among; or "auto", a grid with 0 in it (for CLOvE 0, 3, 10, 30 with
        two classes and 0, 100, 300, 1000 with more). "erm" and "group-dro" have none.
    criterion
        A strength is chosen by the lowest sum over domains, on held-out rows, of a criterion of `clovecal.select`
        (without recalibration, as a head is used as it is) or of "log-loss" …
    accuracy_tolerance
        … among those whose held-out accuracy is at most this much below the best: calibration alone would choose a
        constant.
    mmce_options
        ``kernel``, ``gamma``, ``width``, ``of``, ``squared``, ``unbiased`` of `losses.mmce` for CLOvE; None: RBF with
        γ = 10, of the positive class for two classes and of the confidence for more (the paper's: γ = 2.5, confidence).
    learning_rate, weight_decay
        Of Adam, with the decay apart from the gradient (AdamW); the paper has Adam.
    batch_size
        Rows per batch, the same number from each domain; None: all rows. The paper has 64.
    max_steps, patience
        Most steps, and epochs without improvement of the held-out log-loss before training stops (but at least 200
        steps; an epoch counts as no fewer than 5 and no more than 500). The best state is kept.
    validation_fraction
        Share of each domain's rows that is held out for stopping and for choosing the strength.
    clip
        Features are standardised, then cut off at ± this many standard deviations: what is rare in every training
        domain may be common in a new one.
    linear_head
        ``(coef_, intercept_)`` of a fitted linear classifier of the same features and classes, to start from: before
        the first step the head predicts what that predicts.
    device
        Where to train and predict; None: a GPU if there is one.
    random_state
        Seed of the held-out rows, the initial weights and the batches.

    Attributes
    ----------
    classes_
        The labels, in the order of the columns of ``predict_proba``.
    penalty_
        The strength that was chosen.
    candidates_
        The strengths that were tried: accuracy, log-loss and criterion on held-out rows, and how training ended.
    message_
        How the training of the chosen one ended.
    held_out_
        Which rows were held out, (n,); not saved.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    All strengths start from the same weights and see the same batches. The chosen head is kept as it is: trained
    again on all rows it would have no rows left to be stopped by. Rows in no domain count in the risk, not in the
    penalty, the stopping or the choice.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(600, 4)), np.repeat(["A", "B", "C"], 200)
    >>> y = np.where(X[:, 0] + rng.normal(size=600) > 0, "sick", "well")
    >>> head = CloveClassifier(hidden=(8, 8, 8), max_steps=100).fit(X, y, domains=site)
    >>> head.predict_proba(X).shape, head.classes_.tolist()
    ((600, 2), ['sick', 'well'])
    """

    classes_: AnyArray
    penalty_: float
    candidates_: tuple[TriedPenalty, ...]
    message_: str
    held_out_: AnyArray
    n_features_in_: int
    mean_: FloatArray
    scale_: FloatArray
    network_: HeadNetwork

    def __init__(
        self,
        hidden: Sequence[int] = (128, 128, 128),
        *,
        objective: str = "clove",
        penalty: str | float | Sequence[float] = "auto",
        criterion: str = "ece",
        accuracy_tolerance: float = 0.02,
        mmce_options: MmceOptions | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.5,
        batch_size: int | None = 256,
        max_steps: int = 5000,
        patience: int = 10,
        validation_fraction: float = 0.2,
        clip: float = 5.0,
        linear_head: tuple[Any, Any] | None = None,
        device: str | torch.device | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.hidden = hidden
        self.objective = objective
        self.penalty = penalty
        self.criterion = criterion
        self.accuracy_tolerance = accuracy_tolerance
        self.mmce_options = mmce_options
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.clip = clip
        self.linear_head = linear_head
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, domains: Any, progress: Progress | None = None) -> Self:
        """Train the head, choosing the strength of the penalty where there is a choice.

        Parameters
        ----------
        X
            (n, d) features: an array, a tensor, a data frame.
        y
            n labels of any kind, of two classes or more.
        domains
            n labels, an n×k membership matrix or a `Domains`.
        progress
            Where to say how many steps are done, such as what ``clovecal.progress.on_terminal()`` yields.
        """
        check_parameters(self)
        check_device(self.device)
        seed = seed_of(self.random_state)
        features, self.classes_, numbers = checked_rows(self, X, y)
        penalties = penalties_to_try(self.objective, self.penalty, binary=len(self.classes_) == 2)
        members = Domains.of(domains, len(features))
        if len(penalties) > 1:
            members.require_two()
        self.held_out_ = held_out_rows(
            members.primary_codes, numbers, fraction=self.validation_fraction, rng=np.random.default_rng(seed)
        )
        if len(penalties) > 1:
            require_two_held_out(members, self.held_out_)
        self.mean_, self.scale_ = moments(features[~self.held_out_])
        training, validation = self._rows(features, numbers, members)
        networks: list[HeadNetwork] = []
        results, tried = [], []
        task = (progress or SILENT).task("Training", len(penalties) * self.max_steps)
        for penalty in penalties:
            network = self._network(seed)
            part = within(task, before=len(networks) * self.max_steps)
            results.append(self._train(network, penalty, training, validation, seed, part))
            logits = predict_logits(network, validation.inputs, device=self.device)
            tried.append(HeldOutLogits(penalty, logits, results[-1].message))
            networks.append(network)
        chosen, self.candidates_ = choose(
            tried, validation, criterion=self.criterion, tolerance=self.accuracy_tolerance
        )
        self.network_, self.penalty_, self.message_ = networks[chosen], penalties[chosen], tried[chosen].message
        if results[chosen].stopped == "diverged":
            warnings.warn(self.message_, TrainingWarning, stacklevel=2)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return class probabilities, a column per entry of ``classes_``."""
        check_is_fitted(self)
        check_device(self.device)
        inputs = self._standardised(checked_features(self, X))
        p: FloatArray = probabilities(predict_logits(self.network_, inputs, device=self.device))
        return np.column_stack((1 - p, p)) if p.ndim == 1 else p

    def predict(self, X: Any) -> AnyArray:
        """Return the most probable label."""
        check_is_fitted(self)
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted head to one safetensors file, which `load_head` reads; no pickle.

        Parameters
        ----------
        path
            Where to.
        overwrite
            Whether an existing file may be replaced.
        """
        from clovecal.training.head.files import save  # which needs this class

        check_is_fitted(self)
        save(self, path, overwrite=overwrite)

    def _train(
        self,
        network: HeadNetwork,
        penalty: float,
        training: TrainingData,
        validation: TrainingData,
        seed: int,
        progress: Progress,
    ) -> FitResult:
        objective = objective_of_strength(
            self.objective,
            penalty,
            n_domains=len(training.names),
            binary=len(self.classes_) == 2,
            mmce_options=self.mmce_options,
        )
        size = len(training) if self.batch_size is None else min(self.batch_size, len(training))
        every = int(np.clip(len(training) // size, *_LOOK_EVERY))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # only what becomes of the chosen one matters
            return fit(
                network,
                training,
                objective,
                steps=self.max_steps,
                batch_size=self.batch_size,
                optimizer=partial(torch.optim.AdamW, lr=self.learning_rate, weight_decay=self.weight_decay),
                validation=validation,
                stopping=EarlyStopping(patience=max(self.patience, _LEAST_WAIT // every), every=every),
                device=self.device,
                seed=seed,
                log_every=every,
                progress=progress,
            )

    def _network(self, seed: int = 0) -> HeadNetwork:
        """Return a network of the right shape before training."""
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        linear = None
        if self.linear_head is not None:
            linear = check_linear_head(self.linear_head, n_features=self.n_features_in_, n_outputs=outputs)
        network = HeadNetwork(
            self.n_features_in_,
            hidden=tuple(self.hidden),
            n_outputs=outputs,
            clip=self.clip,
            linear=linear is not None,
            seed=seed,
        )
        if linear is not None:
            network.start_from(*linear, self.mean_, self.scale_)
        return network

    def _rows(self, features: FloatArray, numbers: IntArray, members: Domains) -> tuple[TrainingData, TrainingData]:
        """Return the rows to train on and those held out, with the same domains."""
        whole = TrainingData.of(self._standardised(features), torch.as_tensor(numbers), domains=members)
        return whole.select(~self.held_out_), whole.select(self.held_out_)

    def _standardised(self, features: FloatArray) -> torch.Tensor:
        return torch.as_tensor((features - self.mean_) / self.scale_, dtype=torch.float32)
