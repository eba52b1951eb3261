"""Turn the pictures of PACS into the features that ``clovecal.datasets.load_dataset("pacs")`` reads.

Usage::

    pip install timm pillow numpy
    python scripts/pacs_features.py PACS $CLOVECAL_DATA/pacs/pacs_efficientnet_lite0.npz

The pictures are those of D. Li, Y. Yang, Y.-Z. Song and T. M. Hospedales, Deeper, Broader and Artier Domain
Generalization, ICCV 2017. No licence is stated with them: use them and publish none. ``PACS`` is the folder with a
folder for each kind (``art_painting``, ``cartoon``, ``photo``, ``sketch``) and in it one for each class, as the usual
copies have it. Weights are timm's ``tf_efficientnet_lite0.in1k``, which timm downloads.

**This script has not been run as it stands**: it was written where there are neither the pictures nor a network. It
follows what is known of the file behind ``experiments/pacs``: EfficientNet-Lite0, 224 pixels, 1,280 values in half
precision. Another resize or version of the weights gives slightly other numbers, and so slightly other results.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("art_painting", "cartoon", "photo", "sketch")
CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
BATCH = 64


def pictures(folder: Path) -> list[tuple[Path, str, int]]:
    """Return every picture with its kind and its class, in a fixed order."""
    missing = [f"{kind}/{name}" for kind in KINDS for name in CLASSES if not (folder / kind / name).is_dir()]
    if missing:
        raise SystemExit(f"{folder} lacks {', '.join(missing)}.")
    return [
        (path, kind, label)
        for kind in KINDS
        for label, name in enumerate(CLASSES)
        for path in sorted((folder / kind / name).iterdir())
        if path.suffix.lower() in (".jpg", ".jpeg", ".png")
    ]


def features(paths: list[Path]) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Return what the last layer before the classes says of each picture."""
    import timm
    import torch
    from PIL import Image

    model = timm.create_model("tf_efficientnet_lite0.in1k", pretrained=True, num_classes=0).eval()
    prepare = timm.data.create_transform(**timm.data.resolve_data_config({}, model=model), is_training=False)
    parts = []
    with torch.inference_mode():
        for start in range(0, len(paths), BATCH):
            batch = [prepare(Image.open(path).convert("RGB")) for path in paths[start : start + BATCH]]
            parts.append(model(torch.stack(batch)).numpy().astype(np.float16))
    return np.concatenate(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the folders of the four kinds are")
    parser.add_argument("output", type=Path, help="the npz file to write")
    given = parser.parse_args()
    found = pictures(given.folder)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        given.output,
        X=features([path for path, _, _ in found]),
        y=np.array([label for _, _, label in found], dtype=np.int8),
        domain=np.array([kind for _, kind, _ in found]),
        classes=np.array(CLASSES),
    )
    print(f"{len(found):,} pictures; the study's file has 9,991.")


if __name__ == "__main__":
    main()
