"""A metric of every domain for other people's loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clovecal import InputError, accuracy, ece
from clovecal.training.adapters import DomainLog


def test_batches_are_measured_together_by_domain():
    rng = np.random.default_rng(0)
    z, y, codes = rng.normal(size=90), rng.integers(2, size=90), rng.integers(3, size=90)
    log = DomainLog(["a", "b", "c"], metrics=(ece, accuracy))
    for part in np.array_split(np.arange(90), 4):
        log.add(torch.tensor(z[part])[:, None], torch.tensor(y[part]), codes[part])
    p, found = 1 / (1 + np.exp(-z)), log.values()
    for code, name in enumerate("abc"):
        assert found[f"ece/{name}"] == pytest.approx(ece(y[codes == code], p[codes == code]))
        assert found[f"accuracy/{name}"] == pytest.approx(accuracy(y[codes == code], p[codes == code]))
    assert found["ece/worst"] == max(found[f"ece/{name}"] for name in "abc")
    assert found["accuracy/worst"] == min(found[f"accuracy/{name}"] for name in "abc")
    assert log.values() == {}  # the next epoch begins


def test_several_classes_and_domains_without_rows_or_names():
    log, z = DomainLog(metrics=(accuracy,)), torch.eye(3)[[0, 1, 2, 0]]
    log.add(z.bfloat16(), [0, 1, 1, 0], torch.tensor([7, 7, 2, 2]))
    assert log.values() == {"accuracy/2": 0.5, "accuracy/7": 1.0, "accuracy/worst": 0.5}


def test_what_does_not_belong_together_is_refused():
    log = DomainLog(["only"])
    with pytest.raises(InputError, match=r"domains has shape \(1,\) for 2 logits and 2 labels"):
        log.add(torch.zeros(2), torch.zeros(2), torch.zeros(1))
    with pytest.raises(InputError, match="domains has codes outside 0 to 0; name all domains"):
        log.add(torch.zeros(2), torch.zeros(2), torch.tensor([0, 1]))
