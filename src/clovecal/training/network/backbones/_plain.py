"""Small networks of plain torch that stand in for the paper's, so that the whole path runs in seconds on a CPU."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from clovecal.training.network.backbones.classifier import FeatureClassifier
from clovecal.training.network.backbones.inputs import BUCKETS, Pixels

IMAGE_FEATURES, TEXT_FEATURES = 32, 32


def tiny_image_body(channels: int, *, flips: bool) -> nn.Module:
    """Return three convolutions, the mean over the image, and a hidden layer."""
    widths = (channels, 8, 16, 16)
    layers: list[nn.Module] = [Pixels(flips=flips)]
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], IMAGE_FEATURES), nn.ReLU()]
    return nn.Sequential(*layers)


class TinyTextBody(nn.Module):
    """The mean of the words' vectors, and a hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(BUCKETS, TEXT_FEATURES, padding_idx=0)
        self.hidden = nn.Linear(TEXT_FEATURES, TEXT_FEATURES)

    def forward(self, codes: Tensor) -> Tensor:
        """Return features (n, d) of codes (n, length), where 0 is not a word."""
        known = (codes != 0).sum(dim=1, keepdim=True).clamp(min=1)
        mean: Tensor = self.words(codes).sum(dim=1) / known
        return nn.functional.relu(self.hidden(mean))


def image(*, n_outputs: int, channels: int, flips: bool, **_: Any) -> nn.Module:
    return FeatureClassifier(tiny_image_body(channels, flips=flips), IMAGE_FEATURES, n_outputs)


def text(*, n_outputs: int, **_: Any) -> nn.Module:
    return FeatureClassifier(TinyTextBody(), TEXT_FEATURES, n_outputs)
