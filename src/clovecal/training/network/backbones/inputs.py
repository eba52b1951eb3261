"""Decoded images and texts as tensors a model can read, and what happens to pixels before the first layer."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from clovecal.datasets import Inputs

_WORD = re.compile(r"\w+")
BUCKETS, LENGTH = 2048, 32  # of the hashed words that the small text network reads
# Of ImageNet, as torchvision's pretrained networks and WILDS' default transform have them.
_MEAN, _SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, eq=False)
class ImageTensors:
    """Images, decoded when asked for: uint8 (height, width, 3), or float32 (channels, height, width) as stored."""

    inputs: Inputs

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Tensor:
        # a decoder's array may be read-only, which a tensor cannot be
        return torch.from_numpy(np.array(self.inputs[index]))


@dataclass(frozen=True, eq=False)
class HashedWords:
    """Texts as the hashes of their first words, 1 … buckets−1, padded with 0.

    Notes
    -----
    The hash is CRC-32 of the lower-case word, which no Python process draws a seed for.

    Examples
    --------
    >>> from clovecal.datasets import Texts
    >>> HashedWords(Texts(np.array(["Well done!"])), buckets=1000, length=4)[0]
    tensor([ 41, 805,   0,   0])
    """

    inputs: Inputs
    buckets: int = BUCKETS
    length: int = LENGTH

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> Tensor:
        words = _WORD.findall(str(self.inputs[index]).lower())[: self.length]
        codes = [1 + zlib.crc32(word.encode()) % (self.buckets - 1) for word in words]
        return torch.tensor(codes + [0] * (self.length - len(codes)))


class Pixels(nn.Module):
    """Standardise uint8 images, and mirror images at random in training if asked to.

    Parameters
    ----------
    flips
        Mirror each image left–right and top–bottom with probability ½ in training mode.

    Notes
    -----
    Done on the model's device, in its random state: bytes travel to it instead of floats, and a resumed run mirrors
    the same images. (n, height, width, 3) bytes become (n, 3, height, width) in channels-last order, which convolutions
    in half precision want. Float inputs are taken as standardised.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, *, flips: bool = False) -> None:
        super().__init__()
        self.flips = flips
        self.register_buffer("mean", 255 * torch.tensor(_MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("spread", 255 * torch.tensor(_SPREAD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return float images (n, channels, height, width)."""
        if images.dtype == torch.uint8:
            images = (images.permute(0, 3, 1, 2) - self.mean) / self.spread
        if self.flips and self.training:
            for dimension in (2, 3):
                mirrored = torch.rand(len(images), 1, 1, 1, device=images.device) < 0.5
                images = torch.where(mirrored, images.flip(dimension), images)
        return images
