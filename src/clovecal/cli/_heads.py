"""What the commands say of heads that were candidates: how each was judged, which is for which domains, the price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from clovecal.training.head.choice import HeadCandidate, HeadPrice


def echo_heads(candidates: Sequence[HeadCandidate], choices: Mapping[str, str], price: HeadPrice | None) -> None:
    """Print how the candidates were judged, which is for which domains, and the price."""
    click.echo("On held-out rows, accuracy, log-loss (mean over domains) and departure between domains:")
    width = max(len(one.name) for one in candidates)
    for one in candidates:
        departure = f"{'':>9}" if one.departure is None else f"{one.departure:>9.4f}"
        aims = [aim for aim, name in choices.items() if name == one.name]
        remark = f"  for {' and '.join(aims)} domains" if aims else "" if one.excluded is None else f"  {one.excluded}"
        click.echo(f"  {one.name:<{width}}  {one.accuracy:.4f}  {one.log_loss:>7.4f}  {departure}{remark}")
    click.echo("One head is the choice for unstable and for similar domains." if price is None else str(price))


def candidates_as_json(candidates: Sequence[HeadCandidate]) -> list[dict[str, Any]]:
    """Return how the candidates were judged, those that diverged left out."""
    return [
        {
            "name": one.name,
            "objective": one.objective,
            "penalty": one.penalty,
            "accuracy": one.accuracy,
            "log_loss": one.log_loss,
            "departure": one.departure,
            "excluded": one.excluded,
        }
        for one in candidates
        if one.excluded != "diverged"
    ]
