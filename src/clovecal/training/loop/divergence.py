"""Notices that a run diverges, without waiting for the device at each step, and keeps its last good state."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from clovecal.training.objectives import Loss

_NEVER = 2**62


class Watch:
    """Looks at each step's loss; says at the next check when it stopped being finite, and in which terms.

    Parameters
    ----------
    model
        The model in training.
    device
        Where it is.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self._model = model
        self._first_bad = torch.full((), _NEVER, dtype=torch.int64, device=device)
        self._bad_terms: Tensor | None = None
        self._names: tuple[str, ...] = ()
        self.take_as_good(0)

    def note(self, step: int, total: Tensor, loss: Loss) -> None:
        """Remember the first step whose loss is not finite, on the device."""
        with torch.no_grad():
            self._names = tuple(loss.terms)
            terms = torch.stack([term.float() for term in loss.terms.values()])
            now_bad = ~torch.isfinite(total) & (self._first_bad == _NEVER)
            self._first_bad = torch.where(now_bad, step, self._first_bad)
            self._bad_terms = terms if self._bad_terms is None else torch.where(now_bad, terms, self._bad_terms)

    def check(self, step: int) -> str | None:
        """Return what was not finite and when, or None after taking the state as good."""
        first_bad = int(self._first_bad)
        if first_bad == _NEVER and self._is_finite():
            self.take_as_good(step)
            return None
        if first_bad == _NEVER:
            what, when = "a weight of the model", f"by step {step}"
        else:
            assert self._bad_terms is not None
            values = zip(self._names, self._bad_terms.tolist(), strict=True)
            what = "the loss (" + ", ".join(f"{name} {value:.3g}" for name, value in values) + ")"
            when = f"at step {first_bad}"
        return f"Training diverged: {what} was not finite {when}"

    def take_as_good(self, step: int) -> None:
        """Remember the model's state as the last good one."""
        self.good_step = step
        self.good_state = copy_of(self._model.state_dict())

    def restore(self) -> int:
        """Put the model back into its last good state and return that state's step."""
        self._model.load_state_dict(self.good_state)
        return self.good_step

    def _is_finite(self) -> bool:
        with torch.no_grad():
            return bool(torch.stack([torch.isfinite(one).all() for one in self._model.parameters()]).all())


def copy_of(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a copy of a state dict, whose tensors training would go on changing."""
    return {name: tensor.clone() for name, tensor in state.items()}
