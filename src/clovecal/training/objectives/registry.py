"""The objectives by name: the one list of them, for heads, networks, sweeps, studies and commands.

It knows the package's own by where they are, so that reading the list needs no torch; `register_objective` adds one
from outside.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from clovecal._checks import check_choice
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.training.objectives._base import Objective

_MMCE_OPTIONS = ("kernel", "gamma", "width", "of", "squared", "unbiased")
_OWN_ARGUMENTS = ("self", "penalty", "anneal", "loss", "n_domains")


@dataclass(frozen=True, kw_only=True)
class RegisteredObjective:
    """An objective's entry in the registry: its name, its maker and its properties.

    Attributes
    ----------
    name
        What users call it.
    title
        What tables of results call it.
    maker
        Its class or a function that returns it, or where that is, as "module:name".
    penalised
        Whether it has a penalty, with a weight and an anneal step.
    options
        Names of further options that a user may set.
    state_per_domain
        Whether it keeps something for each domain, and is made with their number.
    losses
        Losses of a row that it takes: a regression needs "squared".
    for_heads
        Whether heads and sweeps offer it; False: networks alone.
    head_penalties
        Weights that a head chooses among, by task ("binary", "multiclass"); 0 is plain risk minimisation.
    network_penalty, warm_up
        A network's weight of the penalty, and the share of its epochs before the penalty has it.
    keeps_last_epoch
        Whether a network is kept as it is at the end: where the penalty costs accuracy in the domains seen, the most
        accurate epoch is one before it had worked.
    fixed
        Options of the maker that are always these.
    task_options
        Options by task that heads and networks use where their user sets none.
    network_options
        Options of networks alone.
    """

    name: str
    title: str
    maker: Callable[..., Objective] | str
    penalised: bool
    options: tuple[str, ...] = ()
    state_per_domain: bool = False
    losses: tuple[str, ...] = ("cross-entropy", "squared")
    for_heads: bool = True
    head_penalties: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    network_penalty: float = 1.0
    warm_up: float = 0.2
    keeps_last_epoch: bool = False
    fixed: Mapping[str, Any] = field(default_factory=dict)
    task_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    network_options: Mapping[str, Any] = field(default_factory=dict)


def _alike(weights: Sequence[float]) -> Mapping[str, tuple[float, ...]]:
    """Return the same weights for both tasks of a head."""
    return MappingProxyType(dict.fromkeys(("binary", "multiclass"), tuple(weights)))


def _clove_by_task() -> Mapping[str, Mapping[str, Any]]:
    # Sharper than the paper's kernel, which is nearly flat on [½, 1].
    return {task: {"gamma": 10.0, "of": of} for task, of in (("binary", "positive"), ("multiclass", "confidence"))}


_HOME = "clovecal.training.objectives"
_OWN = (
    RegisteredObjective(
        name="clove",
        title="CLOvE",
        maker=f"{_HOME}.clove:CLOvE",
        penalised=True,
        options=("rescale", "between", *_MMCE_OPTIONS),
        losses=("cross-entropy",),
        # The MMCE of the confidence is smaller than that of the positive class, which leaves a constant from 100 on.
        head_penalties={"binary": (0.0, 3.0, 10.0, 30.0), "multiclass": (0.0, 100.0, 300.0, 1_000.0)},
        network_penalty=100.0,
        keeps_last_epoch=True,
        task_options=_clove_by_task(),
    ),
    RegisteredObjective(
        name="erm", title="ERM", maker=f"{_HOME}.erm:ERM", penalised=False, options=("smoothing", "focal")
    ),
    RegisteredObjective(
        name="irm",
        title="IRM (closed form)",
        maker=f"{_HOME}.irm:IRM",
        penalised=True,
        options=("rescale", "halves"),
        head_penalties=_alike((0.0, 1.0, 10.0, 100.0)),
        keeps_last_epoch=True,
        network_options={"rescale": False},  # as WILDS
    ),
    RegisteredObjective(  # WILDS' form: the product of the gradients of two halves of a domain's rows
        name="irm-halves",
        title="IRM",
        maker=f"{_HOME}.irm:IRM",
        penalised=True,
        options=("rescale",),
        for_heads=False,
        keeps_last_epoch=True,
        fixed={"halves": True},
        network_options={"rescale": False},
    ),
    RegisteredObjective(
        name="v-rex",
        title="V-REx",
        maker=f"{_HOME}.v_rex:VREx",
        penalised=True,
        options=("rescale",),
        head_penalties=_alike((0.0, 1.0, 10.0, 100.0)),
        keeps_last_epoch=True,
        network_options={"rescale": False},  # as DomainBed
    ),
    RegisteredObjective(
        name="fishr",
        title="Fishr",
        maker=f"{_HOME}.fishr:Fishr",
        penalised=True,
        options=("rescale",),
        head_penalties=_alike((0.0, 1.0, 10.0, 100.0)),
        keeps_last_epoch=True,
        network_options={"rescale": False},
    ),
    RegisteredObjective(
        name="coral",
        title="DeepCORAL",
        maker=f"{_HOME}.coral:CORAL",
        penalised=True,
        head_penalties=_alike((0.0, 0.1, 1.0, 10.0)),
        warm_up=0.0,
    ),
    RegisteredObjective(
        name="group-dro",
        title="GroupDRO",
        maker=f"{_HOME}.group_dro:GroupDRO",
        penalised=False,
        options=("step_size",),
        state_per_domain=True,
    ),
)
_KNOWN = {known.name: known for known in _OWN}
OBJECTIVES: Mapping[str, RegisteredObjective] = MappingProxyType(_KNOWN)


def objective_names(*, for_heads: bool = False) -> tuple[str, ...]:
    """Return the names of all objectives, or of those that heads and sweeps offer."""
    return tuple(name for name, known in OBJECTIVES.items() if known.for_heads or not for_heads)


def register_objective(
    name: str,
    maker: Callable[..., Objective],
    *,
    options: Sequence[str] | None = None,
    head_penalties: Sequence[float] = (0.0, 1.0, 10.0, 100.0),
    network_penalty: float = 1.0,
    warm_up: float = 0.2,
    keeps_last_epoch: bool = False,
) -> None:
    """Let an objective of your own be trained with by name, like the package's own.

    Parameters
    ----------
    name
        What it is called wherever an objective is named. Registering a name of your own again replaces it.
    maker
        Its class, a subclass of `Objective`, or a function that returns one. Of the arguments penalty, anneal, loss
        and n_domains it is given those that it takes by these names: with ``penalty`` it counts as penalised, with
        ``n_domains`` it is told how many domains there are, without ``loss`` it is for classes only.
    options
        Further arguments that users may set, in a sweep for example; None: all others that it names.
    head_penalties
        Weights of the penalty that a head chooses among.
    network_penalty, warm_up
        A network's weight of the penalty, and the share of the epochs before the penalty has it.
    keeps_last_epoch
        Whether a network is kept as it is at the end, instead of at its most accurate epoch.

    Examples
    --------
    >>> from clovecal.training import PenalisedObjective, losses
    >>> class RiskGap(PenalisedObjective):
    ...     '''Risk plus λ times the mean distance of the domains' risks from their mean.'''
    ...
    ...     def __init__(self, penalty, *, anneal=0, loss="cross-entropy"):
    ...         super().__init__(penalty, anneal=anneal, rescale=True, loss=loss)
    ...
    ...     def penalty_value(self, logits, y, domains, features):
    ...         risks, rows = losses.mean_by_domain(losses.row_losses(logits, y, loss=self.loss), domains)
    ...         return losses.mean_over_domains((risks - losses.mean_over_domains(risks, rows)).abs(), rows)
    >>> register_objective("example-risk-gap", RiskGap)
    >>> make_objective("example-risk-gap", penalty=10.0).settings
    "RiskGap(loss='cross-entropy', rescale=True)"
    """
    if not re.fullmatch(r"[a-z0-9]+([-_][a-z0-9]+)*", name):
        raise InputError("name", f"is {name!r}", "use lower-case letters, digits and single hyphens")
    if name in {own.name for own in _OWN}:
        raise InputError("name", f"is {name!r}, an objective of clovecal's own", "choose another name")
    takes = inspect.signature(maker).parameters
    others = (key for key, value in takes.items() if value.kind is not value.VAR_KEYWORD and key not in _OWN_ARGUMENTS)
    penalised = "penalty" in takes
    _KNOWN[name] = RegisteredObjective(
        name=name,
        title=getattr(maker, "__name__", name),
        maker=maker,
        penalised=penalised,
        options=tuple(others if options is None else options),
        state_per_domain="n_domains" in takes,
        losses=("cross-entropy", "squared") if "loss" in takes else ("cross-entropy",),
        head_penalties=_alike(sorted(head_penalties)) if penalised else {},
        network_penalty=network_penalty,
        warm_up=warm_up,
        keeps_last_epoch=keeps_last_epoch,
    )


def make_objective(
    name: str,
    *,
    penalty: float | None = None,
    anneal: int = 0,
    n_domains: int | None = None,
    loss: str = "cross-entropy",
    **options: Any,
) -> Objective:
    """Return a new objective by its name.

    Parameters
    ----------
    name
        One of `OBJECTIVES`.
    penalty, anneal
        Weight of the penalty and the steps during which it is 1, for an objective that has a penalty.
    n_domains
        How many domains there are, for an objective that keeps something for each.
    loss
        Loss of a row: "cross-entropy" or "squared".
    options
        Further options of the objective.

    Examples
    --------
    >>> make_objective("clove", penalty=10.0, gamma=50.0).settings
    "CLOvE(loss='cross-entropy', rescale=True, options={'gamma': 50.0})"
    """
    check_choice(name, "objective", objective_names())
    known = OBJECTIVES[name]
    arguments: dict[str, Any] = {**options, **known.fixed}
    if known.penalised:
        if penalty is None:
            raise InputError("penalty", f"is missing, which {name} has", "pass its weight")
        arguments |= {"penalty": penalty, "anneal": anneal}
    elif penalty or anneal:
        raise InputError("penalty" if penalty else "anneal", f"is given but {name} has no penalty", "leave it out")
    if known.state_per_domain:
        if n_domains is None:
            raise InputError("n_domains", f"is missing, which {name} keeps weights for", "pass how many there are")
        arguments["n_domains"] = n_domains
    if loss not in known.losses:
        raise InputError("objective", f"is {name!r}, which is for classes", "choose another one for a regression")
    if len(known.losses) > 1:
        arguments["loss"] = loss
    return _maker(known)(**arguments)


def _maker(known: RegisteredObjective) -> Callable[..., Objective]:
    if not isinstance(known.maker, str):
        return known.maker
    module, _, name = known.maker.partition(":")
    maker: Callable[..., Objective] = getattr(import_module(module), name)
    return maker
