"""The one shape of all objectives: a risk over the rows of a batch, and penalties that look at its domains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from clovecal._checks import check_choice, check_count
from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains, BatchDomainsLike
from clovecal.training.loop.processes import mean_over_processes, sum_over_processes
from clovecal.training.losses import row_losses

State: TypeAlias = Mapping[str, Tensor]


class Loss(NamedTuple):
    """The loss of a batch and its logged terms.

    Attributes
    ----------
    total
        What to differentiate.
    terms
        Its parts, detached, for the log: "risk", each penalty by name and its "… weight".
    scale
        What the risk counts for in ``total``: 1, or less where an annealed penalty divides it. A term of your own,
        such as a weight norm, is added to ``total`` times this.
    """

    total: Tensor
    terms: Mapping[str, Tensor]
    scale: Tensor


class Objective(nn.Module):
    """What training minimises.

    It owns no model, optimizer or device, and is a module for its buffers (steps done, weights of domains), which a
    checkpoint keeps, and for parameters of its own if it has any, which `fit` trains. Calling it in training mode
    counts a step.

    Parameters
    ----------
    loss
        Loss of a row: "cross-entropy" of (n,) or (n, C) logits, or "squared" for real targets.
    """

    step: Tensor

    def __init__(self, *, loss: str = "cross-entropy") -> None:
        super().__init__()
        check_choice(loss, "loss", ("cross-entropy", "squared"))
        self.loss = loss
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(
        self,
        *,
        logits: Tensor,
        y: Tensor,
        domains: BatchDomainsLike,
        features: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Loss:
        """Return the loss of a batch.

        Parameters
        ----------
        logits, y
            Predictions of the batch and its labels.
        domains
            (n,) integer codes (negative: in no domain), an (n, k) membership matrix, or `BatchDomains`.
        features
            (n, d) representations, for `CORAL` and `Fishr`.
        weight
            (n,) weights of the rows in the risk, which is then Σ wᵢ lossᵢ / Σ wᵢ; None: all the same. Penalties compare
            the domains as they are: they count rows.
        """
        buffers = self._state()
        loss, state = self.compute(buffers, logits=logits, y=y, domains=domains, features=features, weight=weight)
        if self.training:
            with torch.no_grad():
                for name, buffer in buffers.items():
                    if state[name] is not buffer:
                        buffer.copy_(state[name])
        return loss

    def _state(self) -> dict[str, Tensor]:
        """Return the buffers by name; torch's walk through modules takes long where there is one only."""
        if self._modules:
            return dict(self.named_buffers())
        return {name: buffer for name, buffer in self._buffers.items() if buffer is not None}

    def compute(
        self,
        state: State,
        *,
        logits: Tensor,
        y: Tensor,
        domains: BatchDomainsLike,
        features: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> tuple[Loss, State]:
        """Return the loss and the buffers after it: a pure function of the buffers before it.

        Under ``vmap`` and a full-graph ``torch.compile`` pass ``domains`` as `BatchDomains` made with ``n_domains``, or
        as a matrix: counting codes needs values.
        """
        losses = self._row_losses(logits, y)
        by = BatchDomains.of(domains, len(y), device=y.device)
        risk, state = self._risk(state, losses, by, None if weight is None else weight.to(losses.dtype))
        penalty, terms, divisor = self._penalty(state, logits, y, by, features)
        scale = 1 / divisor.clamp(min=1)
        loss = Loss((risk + penalty) * scale, {"risk": risk.detach(), **terms}, scale)
        steps = {name: count + 1 for name, count in state.items() if name.rpartition(".")[2] == "step"}
        return loss, {**state, **steps}

    def __add__(self, other: Objective) -> Objective:
        """Return the objective with the penalties of both, such as ``CORAL(1.0) + CLOvE(100.0)``."""
        return _Both(self, other)

    @property
    def settings(self) -> str:
        """The kind of objective and its options in words, without its buffers."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_") and name != "training"}
        parts = [part.settings for part in self.children() if isinstance(part, Objective)]
        return f"{type(self).__name__}({', '.join([f'{name}={value!r}' for name, value in own.items()] + parts)})"

    @property
    def anneal_steps(self) -> tuple[int, ...]:
        """The steps from which an annealed penalty has its weight."""
        return ()

    def feature_scale(self, width: int, padded: int) -> float | None:
        """Return by what to multiply features of this width that zeros pad to another, for the same loss as without.

        `train_ensemble` pads the layers of narrow models. None for an objective that does not look at features.
        """
        return None

    @property
    def _has_own_risk(self) -> bool:
        return type(self)._risk is not Objective._risk

    @property
    def _has_own_row_losses(self) -> bool:
        return False

    def _row_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        """Return each row's loss, which the risk averages."""
        return row_losses(logits, y, loss=self.loss)

    def _risk(self, state: State, losses: Tensor, domains: BatchDomains, weight: Tensor | None) -> tuple[Tensor, State]:
        """Return the mean over all rows, those in no domain included."""
        if weight is None:
            return mean_over_processes(losses), state
        whole = sum_over_processes(weight.sum())
        return sum_over_processes((weight * losses).sum()) / whole.clamp(min=torch.finfo(whole.dtype).tiny), state

    def _penalty(
        self, state: State, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Return the weighted penalty, its logged terms, and by what the total is divided where that exceeds 1."""
        double = logits.dtype == torch.float64
        zero = torch.zeros((), dtype=torch.float64 if double else torch.float32, device=logits.device)
        return zero, {}, zero


class PenalisedObjective(Objective):
    """An objective with a penalty whose weight is annealed.

    A subclass says what the penalty is, in ``penalty_value``; `register_objective` gives it a name.

    Parameters
    ----------
    penalty
        Weight λ of the penalty, from ``anneal`` steps on; before, the weight is 1.
    anneal
        Steps with weight 1, as in Arjovsky et al.; 0: λ from the start.
    rescale
        Divide the whole loss by λ where λ > 1, as in Arjovsky et al., so that the gradient keeps its size.
    loss
        Loss of a row.

    Examples
    --------
    Risk plus the largest gap between two domains' risks.

    >>> from clovecal.training import losses
    >>> class RiskGap(PenalisedObjective):
    ...     def __init__(self, penalty, *, anneal=0, loss="cross-entropy"):
    ...         super().__init__(penalty, anneal=anneal, rescale=True, loss=loss)
    ...
    ...     def penalty_value(self, logits, y, domains, features):
    ...         risks, rows = losses.mean_by_domain(losses.row_losses(logits, y, loss=self.loss), domains)
    ...         highest = torch.where(rows > 0, risks, -torch.inf).max()
    ...         return highest - torch.where(rows > 0, risks, torch.inf).min()
    >>> batch = dict(logits=torch.zeros(4), y=torch.tensor([0, 1, 0, 1]), domains=torch.tensor([0, 0, 1, 1]))
    >>> sorted(RiskGap(10.0)(**batch).terms)
    ['RiskGap', 'RiskGap weight', 'risk']
    """

    penalty: Tensor
    anneal: Tensor

    def __init__(self, penalty: float, *, anneal: int, rescale: bool, loss: str) -> None:
        super().__init__(loss=loss)
        if not 0 <= penalty < math.inf:
            raise InputError("penalty", f"is {penalty}", "pass a finite weight of 0 or more")
        self.rescale = rescale
        self.register_buffer("penalty", torch.tensor(float(penalty)))
        self.register_buffer("anneal", torch.tensor(check_count(anneal, "anneal", at_least=0)))

    @property
    def anneal_steps(self) -> tuple[int, ...]:
        """The step from which the penalty has its weight, unless that is the first."""
        return (int(self.anneal),) if int(self.anneal) else ()

    def penalty_value(self, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None) -> Tensor:
        """Return the penalty itself, averaged over the domains that the batch has.

        Parameters
        ----------
        logits, y, features
            As the objective was called with them.
        domains
            Which all functions of `losses` take; ``domains.means(values)`` has the means of rows' values by domain.

        Notes
        -----
        Where many models are trained at once this runs under torch's ``vmap``, so that no value may decide a shape:
        leave domains without rows out by a weight of zero, as `losses.mean_over_domains` does, not by a mask's index.
        """
        raise NotImplementedError

    def _penalty(
        self, state: State, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        value = self.penalty_value(logits, y, domains, features)
        weight = torch.where(state["step"] < state["anneal"], 1.0, state["penalty"]).to(value.dtype)
        name = type(self).__name__
        terms = {name: value.detach(), f"{name} weight": weight}
        return weight * value, terms, weight if self.rescale else torch.zeros_like(weight)


class _Both(Objective):
    """The risk of the first objective (or of a second that has its own) with the penalties of both."""

    def __init__(self, first: Objective, second: Objective) -> None:
        if first.loss != second.loss:
            raise InputError(
                "loss", f"is {first.loss!r} in one objective and {second.loss!r} in the other", "use the same"
            )
        if first._has_own_risk and second._has_own_risk:
            raise InputError("both objectives", "of a sum have a risk of their own (GroupDRO)", "use one of them")
        if first._has_own_row_losses and second._has_own_row_losses:
            raise InputError("both objectives", "of a sum change the loss of a row", "let one of them do so")
        super().__init__(loss=first.loss)
        self.first, self.second = first, second

    @property
    def anneal_steps(self) -> tuple[int, ...]:
        """Those of both."""
        return tuple(sorted({*self.first.anneal_steps, *self.second.anneal_steps}))

    def feature_scale(self, width: int, padded: int) -> float | None:
        """Return the scale of the parts that look at features, or None."""
        scales = {part.feature_scale(width, padded) for part in (self.first, self.second)} - {None}
        if len(scales) > 1:
            raise InputError(
                "objective", "is a sum whose parts scale padded features differently", "train them without an ensemble"
            )
        return scales.pop() if scales else None

    @property
    def _has_own_risk(self) -> bool:
        return self.first._has_own_risk or self.second._has_own_risk

    @property
    def _has_own_row_losses(self) -> bool:
        return self.first._has_own_row_losses or self.second._has_own_row_losses

    def _row_losses(self, logits: Tensor, y: Tensor) -> Tensor:
        return (self.first if self.first._has_own_row_losses else self.second)._row_losses(logits, y)

    def _risk(self, state: State, losses: Tensor, domains: BatchDomains, weight: Tensor | None) -> tuple[Tensor, State]:
        own = "first" if self.first._has_own_risk else "second"
        risk, changed = getattr(self, own)._risk(_part(state, own), losses, domains, weight)
        return risk, {**state, **{f"{own}.{name}": value for name, value in changed.items()}}

    def _penalty(
        self, state: State, logits: Tensor, y: Tensor, domains: BatchDomains, features: Tensor | None
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        parts = [
            part._penalty(_part(state, name), logits, y, domains, features)
            for name, part in (("first", self.first), ("second", self.second))
        ]
        (one, terms, weight), (other, more_terms, other_weight) = parts
        return one + other, _merged(terms, more_terms), torch.maximum(weight, other_weight)


def _merged(terms: dict[str, Tensor], more: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return all terms; a name that is taken gets a prime, so that two penalties of one kind are both logged."""
    merged = dict(terms)
    for name, value in more.items():
        while name in merged:
            name += "'"
        merged[name] = value
    return merged


def _part(state: State, name: str) -> State:
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
