"""The package ``wilds`` 2.0.0 beside clovecal, and one generated folder of each data set for both to read.

``make test-wilds`` builds the environment these tests need; elsewhere they are skipped.
"""

from __future__ import annotations

import importlib
import sys
import types
import warnings

import pytest

from clovecal.datasets.wilds import NAMES, miniatures

# WILDS keeps 2,000 rows of PovertyMap's training countries aside, whatever there is, so some must remain to train on.
ROWS = {"poverty": 4000}
THEIR_CLASSES = {
    "camelyon17": ("camelyon17_dataset", "Camelyon17Dataset"),
    "civilcomments": ("civilcomments_dataset", "CivilCommentsDataset"),
    "fmow": ("fmow_dataset", "FMoWDataset"),
    "poverty": ("poverty_dataset", "PovertyMapDataset"),
    "amazon": ("amazon_dataset", "AmazonDataset"),
}


@pytest.fixture(scope="session")
def wilds_package():
    """Import wilds, with what it misses: two operators of torchvision, and one function of torch_scatter."""
    pytest.importorskip("wilds", reason="run with: make test-wilds")
    import torch

    kept = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torchvision  # noqa: F401
    except RuntimeError:  # beside a CPU build of torch its compiled operators are not there
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        kept.append(library)
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]

    def scatter(src, index, dim_size, reduce):
        assert reduce == "mean"
        total = torch.zeros(dim_size, dtype=src.dtype).index_add(0, index, src)
        return total / torch.bincount(index, minlength=dim_size).clamp(min=1)

    if "torch_scatter" not in sys.modules:
        sys.modules["torch_scatter"] = types.SimpleNamespace(scatter=scatter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import wilds.common.metrics.all_metrics
    yield wilds
    kept.clear()


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wilds")
    for name in NAMES:
        miniatures.write(name, folder, rows=ROWS.get(name, 600), size=8 if name == "poverty" else 24, seed=3)
    return folder


@pytest.fixture(scope="session")
def theirs(wilds_package, root):
    """Return a function that reads a data set with the wilds package, once."""
    read = {}

    def get(name, **options):
        key = (name, *options.items())
        if key not in read:
            module, cls = THEIR_CLASSES[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                dataset = getattr(importlib.import_module(f"wilds.datasets.{module}"), cls)
                read[key] = dataset(root_dir=str(root), download=False, **options)
        return read[key]

    return get
