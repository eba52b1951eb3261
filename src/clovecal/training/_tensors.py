"""Tensors in a file: an error of the disk is an `OSError`, as it is of every other output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError

from clovecal._checks import AnyArray


def save_tensors(tensors: Mapping[str, torch.Tensor], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors as safetensors.

    Parameters
    ----------
    tensors
        Contiguous ones, on the CPU.
    path
        Where to, within `clovecal.files.replacing`.
    metadata
        A few texts beside them.
    """
    try:
        safetensors.torch.save_file(dict(tensors), path, metadata=dict(metadata))
    except SafetensorError as error:
        raise OSError(str(error)) from None


def save_arrays(arrays: Mapping[str, AnyArray], path: Path) -> None:
    """Write arrays as safetensors.

    Parameters
    ----------
    arrays, path
        As in `save_tensors`.
    """
    try:
        safetensors.numpy.save_file(dict(arrays), path)
    except SafetensorError as error:
        raise OSError(str(error)) from None
