"""A classifier (or regressor) that shows its representation: the last hidden layer (paper: appendix B)."""

from __future__ import annotations

from torch import Tensor, nn


class FeatureClassifier(nn.Module):
    """A body that gives (n, d) features, and a linear layer on them.

    Parameters
    ----------
    body
        Turns a batch of inputs into features.
    n_features, n_outputs
        d, and 1 (one log-odds or real value per row) or the number of classes.
    """

    def __init__(self, body: nn.Module, n_features: int, n_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.top = nn.Linear(n_features, n_outputs)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits, (n,) or (n, C), and features (n, d)."""
        features = self.body(inputs)
        return one_column(self.top(features)), features


def one_column(logits: Tensor) -> Tensor:
    """Return (n, 1) logits as (n,), others as they are."""
    return logits.squeeze(1) if logits.shape[1] == 1 else logits
