"""How a network is trained, WILDS' way (paper: appendix B), and default hyperparameters for your own data.

A `Recipe` is turned into an objective, an optimizer and a schedule here, and into a trained network by
`clovecal.training.network.training`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, StepLR

from clovecal._checks import check_choice, check_count, check_positive
from clovecal.errors import InputError
from clovecal.training.network.backbones import backbone as known_backbone
from clovecal.training.objectives import OBJECTIVES, Objective, objective_names, registry

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = (None, "step", "linear")
CLASS_WEIGHTS = (None, "balanced")
# What `prepared_recipe` changes.
PREPARED = (
    "objective",
    "penalty",
    "anneal",
    "ramp",
    "accumulate",
    "batch_size",
    "domains_per_batch",
)
_MOMENTUM = 0.9
_DECAY_PER_EPOCH = 0.96
_ROWS_FOR_CLOVE = 4  # times as many: only many rows of a domain show how far predictions are from calibrated
# Of a penalty that was chosen: with 32 rows of a domain IRM still fits noise, and more domains than these leave too few
# steps of a network's epochs (decision 0024).
_DOMAINS_IN_BATCH, _ROWS_OF_DOMAIN = 4, 64
_WARM_UP, _RAMP = (
    4,
    10,
)  # parts of the steps: one of 4 before such a penalty, one of 10 until the learning rate is whole


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes
    ----------
    backbone
        One of `clovecal.training.network.backbones.BACKBONES`, which `register_backbone` adds to.
    objective
        One of `clovecal.training.OBJECTIVES`, which `register_objective` adds to. Of IRM there are two: "irm" (the
        square of each domain's gradient) and "irm-halves" (WILDS': the product of the gradients of two halves). All
        but "erm" see as many rows of each domain in a batch.
    domains_per_batch
        Domains per batch, for all objectives but "erm", drawn anew for each batch; None, or more than there are:
        all.
    epochs
        Passes over the rows: training sees this many times as many rows as there are, whatever the objective.
    batch_size, learning_rate, weight_decay
        As their names say; the decay of "adamw" spares biases and norms, as in WILDS.
    optimizer
        "sgd" with momentum 0.9, "adam" or "adamw".
    schedule
        None, "step" (times 0.96 after each epoch) or "linear" (down to 0 at the end).
    clip_norm
        Largest norm of the gradient, or None.
    penalty, anneal
        Weight of the penalty of IRM, CORAL and CLOvE, and the number of steps before, during which it is 1.
    class_weight
        "balanced": every class weighs the same in the risk, however many rows it has, and the kept epoch is that of the
        highest mean of the classes' own accuracies; None: every row.
    pretrained
        Whether to start from pretrained weights.
    flips
        Whether images are mirrored at random.
    max_tokens
        How many tokens of a text BERT reads.
    precision
        None, "bf16" or "fp16".
    """

    backbone: str
    objective: str = "erm"
    domains_per_batch: int | None = None
    epochs: int = 5
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    optimizer: str = "adam"
    schedule: str | None = None
    clip_norm: float | None = None
    penalty: float = 1.0
    anneal: int = 0
    class_weight: str | None = None
    pretrained: bool = False
    flips: bool = False
    max_tokens: int = 300
    precision: str | None = None

    def __post_init__(self) -> None:
        known_backbone(self.backbone)
        check_choice(self.objective, "objective", objective_names())
        check_choice(self.optimizer, "optimizer", OPTIMIZERS)
        check_choice(self.schedule, "schedule", SCHEDULES)
        check_choice(self.class_weight, "class_weight", CLASS_WEIGHTS)
        check_count(self.epochs, "epochs")
        check_count(self.batch_size, "batch_size")
        check_positive(self.learning_rate, "learning_rate")
        if self.domains_per_batch is not None and not 1 <= self.domains_per_batch <= self.batch_size:
            raise InputError(
                "batch_size",
                f"is {self.batch_size} and a batch has {self.domains_per_batch} domains",
                "pass at least one row per domain",
            )

    @property
    def balanced(self) -> bool:
        """Whether every batch has as many rows of each domain."""
        return self.objective != "erm"

    def rows_per_batch(self, n_rows: int, n_domains: int) -> int:
        """Return how many rows a batch has: as many of each of its domains, so at most ``batch_size``.

        Parameters
        ----------
        n_rows, n_domains
            Of the rows to train on; those in no domain count as one more domain.

        Examples
        --------
        >>> Recipe("tiny-image", "coral", batch_size=32).rows_per_batch(1000, 20)
        20
        """
        size = min(self.batch_size, n_rows)
        if not self.balanced:
            return size
        drawn = n_domains if self.domains_per_batch is None else min(self.domains_per_batch, n_domains)
        return drawn * max(1, size // drawn)

    def steps_of(self, epochs: int, n_rows: int, n_domains: int) -> int:
        """Return in how many steps training sees this many times as many rows as there are, to half a batch.

        Parameters
        ----------
        epochs
            How many times.
        n_rows, n_domains
            As in `rows_per_batch`.

        Notes
        -----
        Unbalanced batches deal every row once in an epoch, the last batch of which is smaller. WILDS drops what does
        not fill a balanced batch in each epoch.

        Examples
        --------
        >>> [Recipe("tiny-image", one, batch_size=32).steps_of(2, 1000, 20) for one in ("coral", "erm")]
        [100, 64]
        """
        size = self.rows_per_batch(n_rows, n_domains)
        return round(epochs * n_rows / size) if self.balanced else epochs * math.ceil(n_rows / size)


@dataclass(frozen=True)
class PreparedRecipe(Recipe):
    """How a network is trained with a penalty that heads have chosen; `prepared_recipe` makes one.

    Attributes
    ----------
    ramp
        Steps at the beginning in which the learning rate rises to its value.
    accumulate
        Parts that a batch is seen in, where the whole does not fit in memory; the loss is that of the whole.

    Notes
    -----
    The loss is divided by a weight above 1 where the objective can, so that the gradient keeps its size.
    """

    ramp: int = 0
    accumulate: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count(self.ramp, "ramp", at_least=0)
        check_count(self.accumulate, "accumulate")


def recipe_of(values: Mapping[str, Any]) -> Recipe:
    """Return the recipe of these values, a `PreparedRecipe` of those of one."""
    return PreparedRecipe(**values) if "ramp" in values else Recipe(**values)


def default_recipe(
    backbone: str,
    n_rows: int,
    *,
    n_domains: int = 1,
    objective: str = "erm",
    pretrained: bool = False,
    penalty: float | None = None,
    warm_up: int | None = None,
    **changes: Any,
) -> Recipe:
    """Return sensible hyperparameters for your own data, by family of network, following WILDS.

    Parameters
    ----------
    backbone
        One of `BACKBONES`.
    n_rows, n_domains
        Of the rows to train on: in how many steps an epoch of the warm-up is.
    objective, pretrained
        As in `Recipe`; BERT is always pretrained.
    penalty
        Weight of the penalty of IRM, CORAL or CLOvE; None: 1, 1 and 100.
    warm_up
        Epochs before the penalty has its full weight; None: a fifth of them for IRM and CLOvE, which need something
        learnt first, and 0 for CORAL.
    **changes
        Other values of `Recipe`; None leaves the default.

    Examples
    --------
    >>> recipe = default_recipe("tiny-image", 640, objective="irm", epochs=10)
    >>> recipe.penalty, recipe.anneal  # 2 epochs of 640 / 32 steps
    (1.0, 40)
    """
    known = known_backbone(backbone)
    pretrained = pretrained or known.weights == "required"
    values = {**known.defaults, **(known.pretrained_defaults if pretrained else {})}
    if objective == "clove":
        rows = _ROWS_FOR_CLOVE * values.get("batch_size", Recipe.batch_size)
        values["batch_size"] = rows if known.largest_batch is None else min(rows, known.largest_batch)
    values |= {name: value for name, value in changes.items() if value is not None}
    recipe = Recipe(backbone, objective=objective, pretrained=pretrained, **values)
    known_objective = OBJECTIVES[objective]
    if not known_objective.penalised:
        for name, value in (("penalty", penalty), ("warm_up", warm_up)):
            if value is not None:
                raise InputError(name, f"is {value:g}, but {objective} has none", "leave it out")
        return recipe
    if warm_up is None:
        warm_up = round(known_objective.warm_up * recipe.epochs)
    if not 0 <= warm_up <= recipe.epochs:
        raise InputError("warm_up", f"is {warm_up} of {recipe.epochs} epochs", "pass fewer")
    return replace(
        recipe,
        penalty=known_objective.network_penalty if penalty is None else penalty,
        anneal=recipe.steps_of(warm_up, n_rows, n_domains),
    )


def prepared_recipe(recipe: Recipe, objective: str, penalty: float, *, n_rows: int, n_domains: int) -> Recipe:
    """Return how to train with a penalty of a strength that heads have chosen, from where ERM has ended.

    Parameters
    ----------
    recipe
        How to train otherwise.
    objective, penalty
        What was chosen; 0 is plain risk minimisation.
    n_rows, n_domains
        As in `Recipe.rows_per_batch`.

    Notes
    -----
    As heads are trained (decisions 0020 and 0024): the whole weight at once, with a new optimizer whose learning rate
    rises during the first tenth of the steps, and the loss divided by the weight. Penalties compare domains and need
    rows for it: a batch has at least 64 rows of each of four domains (or of all, where there are fewer), drawn anew for
    each batch, and is seen in parts where a backbone says how many rows fit.

    Examples
    --------
    >>> recipe = prepared_recipe(Recipe("tiny-image", epochs=20), "v-rex", 100.0, n_rows=640, n_domains=2)
    >>> recipe.batch_size, recipe.ramp, recipe.penalty  # of 100 steps
    (128, 10, 100.0)
    """
    known = OBJECTIVES[objective]
    values = {one.name: getattr(recipe, one.name) for one in fields(Recipe)} | {"anneal": 0}
    if not known.penalised or penalty == 0:
        return Recipe(**{**values, "objective": "erm", "penalty": Recipe.penalty})
    drawn = min(recipe.domains_per_batch or _DOMAINS_IN_BATCH, n_domains)
    rows, most = max(recipe.batch_size, _ROWS_OF_DOMAIN * drawn), known_backbone(recipe.backbone).largest_batch
    values |= {"objective": objective, "penalty": penalty, "batch_size": rows, "domains_per_batch": drawn}
    made = PreparedRecipe(**values, accumulate=1 if most is None else math.ceil(rows / most))
    return replace(made, ramp=made.steps_of(recipe.epochs, n_rows, n_domains) // _RAMP)


def make_objective(recipe: Recipe, *, n_domains: int, task: str) -> Objective:
    """Return what a recipe minimises on a "binary", "multiclass" or "regression" task."""
    loss = "squared" if task == "regression" else "cross-entropy"
    known = OBJECTIVES[recipe.objective]
    options = {**known.task_options.get(task, {}), **known.network_options}
    if known.penalised:
        options |= {"penalty": recipe.penalty, "anneal": recipe.anneal}
    if isinstance(recipe, PreparedRecipe) and "rescale" in known.options:
        options["rescale"] = True
    return registry.make_objective(recipe.objective, n_domains=n_domains, loss=loss, **options)


def make_optimizer(recipe: Recipe, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    """Return a recipe's optimizer of these parameters."""
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=recipe.learning_rate, momentum=_MOMENTUM, weight_decay=recipe.weight_decay
        )
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    every = list(parameters)
    matrices, vectors = [one for one in every if one.ndim > 1], [one for one in every if one.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate)


def has_schedule(recipe: Recipe) -> bool:
    """Return whether a recipe's learning rate changes in training."""
    return recipe.schedule is not None or isinstance(recipe, PreparedRecipe)


def make_schedule(recipe: Recipe, optimizer: torch.optim.Optimizer, steps: int) -> LRScheduler:
    """Return how a recipe's learning rate changes in training of this many steps."""
    size = max(1, round(steps / recipe.epochs))
    if recipe.schedule == "step" and not isinstance(recipe, PreparedRecipe):
        return StepLR(optimizer, step_size=size, gamma=_DECAY_PER_EPOCH)
    ramp = recipe.ramp if isinstance(recipe, PreparedRecipe) else 0

    def share(step: int) -> float:
        usual = {"step": _DECAY_PER_EPOCH ** (step // size), "linear": max(0.0, 1 - step / steps), None: 1.0}
        return usual[recipe.schedule] * min(1.0, (step + 1) / (ramp + 1))

    return LambdaLR(optimizer, share)
