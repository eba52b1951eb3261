"""A classifier on frozen features that is trained to be calibrated in every domain (paper: section 5.3, appendix B)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from clovecal._checks import AnyArray, FloatArray, IntArray, check_choice
from clovecal.domains import Domains
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress, within
from clovecal.selection import PREPARE_FOR
from clovecal.training.data import TrainingData
from clovecal.training.head.choice import (
    HeadCandidate,
    HeadObjective,
    HeadPrice,
    HeldOutLogits,
    choose,
    made_objective,
    objectives_to_try,
)
from clovecal.training.head.inputs import (
    check_device,
    check_parameters,
    checked_features,
    checked_rows,
    require_two_held_out,
    seed_of,
)
from clovecal.training.head.network import HeadNetwork, check_linear_head, held_out_rows, moments, recalibrate
from clovecal.training.head.stopping import LowestObjective
from clovecal.training.loop.fitting import FitResult, TrainingWarning, fit
from clovecal.training.loop.predicting import predict_logits
from clovecal.training.loop.stopping import EarlyStopping, probabilities
from clovecal.training.losses import MmceOptions
from clovecal.training.objectives import Objective

# Steps between two looks at the held-out rows: an epoch, but no fewer and no more than this; and the steps that it
# waits at least for an improvement, as a penalty makes training slow and uneven.
_LOOK_EVERY = (5, 500)
_LEAST_WAIT = 200
# Of the training with a penalty, which starts from the head without one.
_PENALISED_STEPS = 400
_PENALISED_ROWS = 2048  # in a batch: penalties compare domains, and need rows for it
_PENALISED_RATE = 0.005  # at first, or less or more: 1 to 5 times the learning rate; it falls to 1/50 of that
_LAST_SHARE = 0.02
_LOOKS = 10  # at the held-out rows, of which the first is too early


class CloveClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A perceptron on frozen features, trained with a penalty on miscalibration in every domain.

    Parameters
    ----------
    hidden
        Widths of the hidden layers; the paper has three and does not say how wide.
    prepare_for
        Which of the trained heads to predict with. "unstable": what visibly varies among the known domains may vary
        further in a new one, or reverse; a head that is trained to be calibrated alike in all of them. "similar": new
        domains come from where the known ones came; the head of the lowest log-loss on held-out rows. Both are kept,
        `choose` changes from one to the other, and ``price_`` says what each costs. "unstable" is the default, because
        plain ERM, which "similar" nearly always is, needs no class of its own (decision 0020 has its price on tables).
    objective
        What is minimised. "auto": the risk alone (ERM), V-REx of two strengths and IRM, each to be a candidate; or one
        by its name in `clovecal.training.objectives.objective_names`: "clove" is the paper's.
    penalty
        Weight λ of the penalty of an objective that is named; several to choose among; or "auto", a grid with 0 in it.
        "erm" and "group-dro" have none.
    mmce_options
        ``kernel``, ``gamma``, ``width``, ``of``, ``squared``, ``unbiased`` of `losses.mmce` for CLOvE; None: RBF with
        γ = 10, of the positive class for two classes and of the confidence for more (the paper's: γ = 2.5, confidence).
    learning_rate, weight_decay
        Of Adam, with the decay apart from the gradient (AdamW); the paper has Adam.
    batch_size
        Rows per batch, the same number from each domain; None: all rows. The paper has 64.
    max_steps, patience
        Most steps without a penalty, and epochs without improvement of the held-out log-loss before that training
        stops (but at least 200 steps; an epoch counts as no fewer than 5 and no more than 500). The best state is kept.
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
    candidates_
        The heads that were trained: accuracy, log-loss and departure between domains on held-out rows.
    choices_
        Names of the candidates for "unstable" and for "similar" domains.
    price_
        What each of the two costs by the measure of the other, in words when printed; None where both are one head.
    chosen_
        Name of the one that predicts.
    penalty_
        Weight of its penalty.
    message_
        How the training of the chosen one ended.
    held_out_
        Which rows were held out, (n,); not saved.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    First a head is trained without a penalty and stopped by the held-out log-loss. Each penalised candidate starts from
    it, with a new optimizer and the whole weight of its penalty at once: the annealing of Arjovsky et al., with a
    warm-up as long as it needs. It takes 400 steps on batches of 2,048 rows (or ``batch_size``, if that is more) with a
    learning rate that begins at .005 (but at 1 to 5 times ``learning_rate``) and falls. Of its later states the one is
    kept that has the lowest objective, penalty and all, on the held-out rows: the log-loss alone would lead back to
    where it began. Last, its log-odds (with more classes, its logits) are scaled and moved to fit the held-out rows of
    all domains together, a map that becomes part of its last layer: a penalty leaves a head that is calibrated alike in
    all domains, but not calibrated.

    The heads are kept as they are: trained again on all rows they would have no rows left to be judged by. Rows in no
    domain count in the risk, not in the penalty, the stopping or the choice. What "unstable" protects against is what
    shows between the known domains, and nothing else.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, site = rng.normal(size=(600, 4)), np.repeat(["A", "B", "C"], 200)
    >>> y = np.where(X[:, 0] + rng.normal(size=600) > 0, "sick", "well")
    >>> head = CloveClassifier(hidden=(8, 8, 8), max_steps=100).fit(X, y, domains=site)
    >>> head.predict_proba(X).shape, head.classes_.tolist()
    ((600, 2), ['sick', 'well'])
    >>> head.choose("similar").chosen_ == head.choices_["similar"]
    True
    """

    classes_: AnyArray
    candidates_: tuple[HeadCandidate, ...]
    choices_: Mapping[str, str]
    price_: HeadPrice | None
    chosen_: str
    penalty_: float
    message_: str
    held_out_: AnyArray
    n_features_in_: int
    mean_: FloatArray
    scale_: FloatArray
    network_: HeadNetwork
    networks_: Mapping[str, HeadNetwork]

    def __init__(
        self,
        hidden: Sequence[int] = (128, 128, 128),
        *,
        prepare_for: str = "unstable",
        objective: str = "auto",
        penalty: str | float | Sequence[float] = "auto",
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
        self.prepare_for = prepare_for
        self.objective = objective
        self.penalty = penalty
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
        """Train the candidates, and choose among them for what is to be prepared for.

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
        to_try = objectives_to_try(self.objective, self.penalty, binary=len(self.classes_) == 2)
        members = Domains.of(domains, len(features))
        if len(to_try) > 1:
            members.require_two()
        self.held_out_ = held_out_rows(
            members.primary_codes, numbers, fraction=self.validation_fraction, rng=np.random.default_rng(seed)
        )
        if len(to_try) > 1:
            require_two_held_out(members, self.held_out_)
        self.mean_, self.scale_ = moments(features[~self.held_out_])
        training, validation = self._rows(features, numbers, members)
        networks, tried = self._trained(to_try, training, validation, seed, progress or SILENT)
        chosen = choose(tried, validation)
        places = {"unstable": chosen.unstable, "similar": chosen.similar}
        self.candidates_, self.price_ = chosen.candidates, chosen.price
        self.choices_ = {aim: tried[place].trained_with.name for aim, place in places.items()}
        self.networks_ = {tried[place].trained_with.name: networks[place] for place in places.values()}
        self.choose(self.prepare_for)
        if self.message_.startswith("Training diverged"):
            warnings.warn(self.message_, TrainingWarning, stacklevel=2)
        return self

    def choose(self, prepare_for: str) -> Self:
        """Predict with the head for "unstable" or for "similar" domains from now on; nothing is trained again.

        Parameters
        ----------
        prepare_for
            Which; it becomes the parameter of this name too.
        """
        check_is_fitted(self)
        check_choice(prepare_for, "prepare_for", PREPARE_FOR)
        if not self.choices_:
            raise InputError("the head", "was saved with one network alone", "train it again")
        name = self.choices_[prepare_for]
        one = next(one for one in self.candidates_ if one.name == name)
        self.prepare_for, self.chosen_ = prepare_for, name
        self.network_, self.penalty_, self.message_ = self.networks_[name], one.penalty, one.message
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

    def _trained(
        self,
        to_try: Sequence[HeadObjective],
        training: TrainingData,
        validation: TrainingData,
        seed: int,
        progress: Progress,
    ) -> tuple[list[HeadNetwork], list[HeldOutLogits]]:
        """Train a head for each objective: those with a penalty from the one without."""
        plain = [one for one in to_try if one.penalty == 0]
        start = plain[0] if plain else HeadObjective.of("erm", 0.0)
        penalised = min(_PENALISED_STEPS, self.max_steps)
        task = progress.task("Training", self.max_steps + penalised * (len(to_try) - len(plain)))
        first = self._network(seed)
        message = self._without_penalty(first, start, training, validation, seed, within(task, before=0)).message
        networks, tried, done = [], [], self.max_steps
        for one in to_try:
            network = first
            if one.penalty:
                network = deepcopy(first)
                message = self._with_penalty(
                    network, one, training, validation, seed, within(task, before=done)
                ).message
                done += penalised
            logits = predict_logits(network, validation.inputs, device=self.device)
            if one.penalty and bool(torch.isfinite(logits).all()):
                logits = recalibrate(network, logits, validation)
            tried.append(HeldOutLogits(one, logits, message))
            networks.append(network)
        return networks, tried

    def _without_penalty(
        self,
        network: HeadNetwork,
        one: HeadObjective,
        training: TrainingData,
        validation: TrainingData,
        seed: int,
        progress: Progress,
    ) -> FitResult:
        size = len(training) if self.batch_size is None else min(self.batch_size, len(training))
        every = int(np.clip(len(training) // size, *_LOOK_EVERY))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # only what becomes of the chosen one matters
            return fit(
                network,
                training,
                self._objective(one, training),
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

    def _with_penalty(
        self,
        network: HeadNetwork,
        one: HeadObjective,
        training: TrainingData,
        validation: TrainingData,
        seed: int,
        progress: Progress,
    ) -> FitResult:
        """Train with a penalty, and keep the state of the lowest objective on the held-out rows."""
        objective = self._objective(one, training)
        steps = min(_PENALISED_STEPS, self.max_steps)
        size = None if self.batch_size is None else max(self.batch_size, _PENALISED_ROWS)
        rate = float(np.clip(_PENALISED_RATE, self.learning_rate, 5 * self.learning_rate))
        best = LowestObjective(network, self._objective(one, training), validation, every=max(1, steps // _LOOKS))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)
            ended = fit(
                network,
                training,
                objective,
                steps=steps,
                batch_size=size if size is not None and size < len(training) else None,
                optimizer=partial(torch.optim.AdamW, lr=rate, weight_decay=self.weight_decay),
                schedule=lambda optimizer: torch.optim.lr_scheduler.LambdaLR(
                    optimizer, lambda step: max(_LAST_SHARE, 1 - step / steps)
                ),
                device=self.device,
                seed=seed,
                log_every=steps,
                progress=best.watching(progress),
            )
        best.restore()
        return ended

    def _objective(self, one: HeadObjective, training: TrainingData) -> Objective:
        return made_objective(
            one,
            n_domains=len(training.names),
            binary=len(self.classes_) == 2,
            mmce_options=self.mmce_options,
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
