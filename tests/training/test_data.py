"""Rows to train on and the batches they are dealt into: what is accepted, what a batch holds, what the seed fixes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from clovecal import Domains
from clovecal._validation import InputError
from clovecal.training.data import TrainingData, epoch_batches, strata_of

INPUTS = np.arange(12.0).reshape(6, 2)
LABELS = np.array([0, 1, 1, 0, 1, 0])
DOMAINS = ["A", "A", "B", "B", "C", "A"]


def unequal_strata() -> tuple[NDArray[np.intp], ...]:
    """Ten rows of one domain, four of another, two in none."""
    members = torch.zeros(16, 2)
    members[:10, 0] = members[10:14, 1] = 1
    return strata_of(members)


# Rows


def test_labels_become_columns_of_a_membership_matrix() -> None:
    rows = TrainingData.of(INPUTS, LABELS, domains=DOMAINS)
    assert rows.names == ("A", "B", "C")
    assert rows.members.T.tolist() == [[1, 1, 0, 0, 0, 1], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 0]]
    assert (rows.inputs.dtype, rows.y.dtype, rows.members.dtype) == (torch.float32, torch.int64, torch.float32)
    assert rows.inputs.tolist() == INPUTS.tolist()
    assert rows.y.tolist() == LABELS.tolist()
    assert len(rows) == 6


def test_domains_may_overlap_and_leave_rows_out() -> None:
    membership = [[1, 1], [0, 0], [0, 1], [1, 0], [0, 0], [1, 1]]
    for domains in (membership, np.array(membership), Domains.from_membership(membership, names=["f", "m"])):
        rows = TrainingData.of(INPUTS, LABELS, domains=domains)
        assert rows.members.tolist() == membership
    assert rows.names == ("f", "m")


@pytest.mark.parametrize(
    "inputs",
    [
        INPUTS.tolist(),
        INPUTS.astype(np.float32),
        INPUTS[::-1][::-1],
        pd.DataFrame(INPUTS),
        pd.DataFrame(INPUTS).astype(object),
        torch.as_tensor(INPUTS).float(),
        INPUTS.astype(np.int64),
    ],
    ids=["lists", "float32", "negative strides", "pandas", "objects", "tensor", "integers"],
)
def test_inputs_of_any_kind_are_the_same_rows(inputs: Any) -> None:
    rows = TrainingData.of(inputs, LABELS, domains=DOMAINS)
    assert isinstance(rows.inputs, torch.Tensor)
    assert rows.inputs.tolist() == INPUTS.tolist()


def test_read_only_arrays_are_copied_without_a_warning() -> None:
    frozen = INPUTS.astype(np.float32)
    frozen.flags.writeable = False
    rows = TrainingData.of(frozen, LABELS, domains=DOMAINS)
    rows.inputs.add_(1)
    assert frozen.tolist() == INPUTS.tolist()


def test_double_precision_is_kept_in_tensors_alone() -> None:
    rows = TrainingData.of(torch.as_tensor(INPUTS), torch.as_tensor(LABELS).double(), domains=DOMAINS)
    assert (rows.inputs.dtype, rows.y.dtype) == (torch.float64, torch.float64)
    rows = TrainingData.of(INPUTS, LABELS.astype(np.float64), domains=DOMAINS)
    assert (rows.inputs.dtype, rows.y.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "uint16", "int32"])
def test_whole_labels_become_int64(dtype: str) -> None:
    rows = TrainingData.of(INPUTS, LABELS.astype(dtype), domains=DOMAINS)
    assert rows.y.dtype == torch.int64
    assert rows.y.tolist() == LABELS.tolist()


def test_a_sequence_of_inputs_is_left_as_it_is() -> None:
    class Images:
        def __len__(self) -> int:
            return 6

        def __getitem__(self, row: int) -> torch.Tensor:
            return torch.full((3, 8, 8), float(row))

    images = Images()
    assert TrainingData.of(images, LABELS, domains=DOMAINS).inputs is images


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y": LABELS[:5]}, "inputs has 6 rows and y has 5; pass one input for each label."),
        ({"y": LABELS[:, None]}, "y has shape (6, 1); pass one label a row."),
        ({"y": []}, "y has shape (0,); pass one label a row."),
        ({"y": [0.0, 1.0, np.nan, 0.0, 1.0, 0.0]}, "y has values that are not finite; fill or remove them."),
        ({"y": ["a", "b", "a", "b", "a", "b"]}, "y holds text (row 0 is 'a'); pass numbers."),
        ({"inputs": np.where(INPUTS == 3, np.inf, INPUTS)}, "inputs has values that are not finite"),
        ({"inputs": [["x"], ["y"], ["x"], ["y"], ["x"], ["y"]]}, "inputs holds text (row 0 is 'x'); pass numbers."),
        ({"inputs": [[1.0], [1.0, 2.0], [1.0], [1.0], [1.0], [1.0]]}, "inputs has rows of different lengths"),
        ({"domains": DOMAINS[:4]}, "domains has 4 rows but y has 6"),
        ({"domains": None}, "domains is None; pass one label per row or an n×k membership matrix."),
    ],
)
def test_wrong_rows_are_named(changed: dict[str, Any], message: str) -> None:
    arguments = {"inputs": INPUTS, "y": LABELS, "domains": DOMAINS, **changed}
    with pytest.raises(InputError) as raised:
        TrainingData.of(arguments.pop("inputs"), arguments.pop("y"), **arguments)
    assert str(raised.value).startswith(message)


# Batches


def test_strata_are_the_domains_and_the_rows_in_none() -> None:
    members = torch.tensor([[1.0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]])  # no row is in the third
    assert [rows.tolist() for rows in strata_of(members)] == [[0, 1], [1, 3], [2]]


def test_without_a_size_the_batch_is_every_row_in_order() -> None:
    for balance in (True, False):
        batches = list(epoch_batches(unequal_strata(), batch_size=None, balance=balance, seed=0, epoch=3))
        assert [batch.tolist() for batch in batches] == [list(range(16))]


def test_unbalanced_batches_deal_every_row_once() -> None:
    batches = list(epoch_batches(unequal_strata(), batch_size=5, balance=False, seed=0, epoch=0))
    assert [len(batch) for batch in batches] == [5, 5, 5, 1]
    dealt = np.concatenate(batches).tolist()
    assert sorted(dealt) == list(range(16))
    assert dealt != list(range(16))


def test_balanced_batches_have_as_many_rows_of_each_stratum() -> None:
    strata = unequal_strata()
    counts: Counter[int] = Counter()
    for epoch in range(20):
        batches = list(epoch_batches(strata, batch_size=6, balance=True, seed=0, epoch=epoch))
        assert len(batches) == 16 // 6
        for batch in batches:
            assert [int(np.isin(batch, rows).sum()) for rows in strata] == [2, 2, 2]
            counts.update(batch.tolist())
    assert set(counts) == set(range(16))


def test_a_small_stratum_comes_round_before_any_of_its_rows_is_repeated() -> None:
    strata = (np.arange(8), np.array([8, 9, 10]))
    batches = list(epoch_batches(strata, batch_size=2, balance=True, seed=1, epoch=0))
    small = [batch[1] for batch in batches]
    assert sorted(small[:3]) == [8, 9, 10]
    assert set(small[3:]) <= {8, 9, 10}


@pytest.mark.parametrize("balance", [True, False])
def test_batches_depend_on_the_seed_and_the_epoch_alone(balance: bool) -> None:
    def dealt(seed: int, epoch: int) -> list[int]:
        return np.concatenate(
            list(epoch_batches(unequal_strata(), batch_size=6, balance=balance, seed=seed, epoch=epoch))
        ).tolist()

    assert dealt(0, 1) == dealt(0, 1)
    assert dealt(0, 1) != dealt(0, 2)
    assert dealt(0, 1) != dealt(1, 1)


def test_a_batch_larger_than_the_table_is_the_table() -> None:
    (batch,) = epoch_batches(unequal_strata(), batch_size=100, balance=False, seed=0, epoch=0)
    assert sorted(batch) == list(range(16))


def test_wrong_sizes_are_named() -> None:
    with pytest.raises(InputError, match="batch_size is 2 for 3 domains; pass at least one row a domain"):
        list(epoch_batches(unequal_strata(), batch_size=2, balance=True, seed=0, epoch=0))
    with pytest.raises(InputError, match="batch_size is 0; pass a whole number of at least 1"):
        list(epoch_batches(unequal_strata(), batch_size=0, balance=True, seed=0, epoch=0))
