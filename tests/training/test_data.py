"""Rows to train on and the batches they are dealt into: what is accepted, what a batch holds, what the seed fixes."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray

from clovecal import Domains
from clovecal.errors import InputError
from clovecal.training.data import TrainingData, epoch_batches, strata_of
from clovecal.training.loop.batches import BatchStream

INPUTS = np.arange(12.0).reshape(6, 2)
LABELS = np.array([0, 1, 1, 0, 1, 0])
DOMAINS = ["A", "A", "B", "B", "C", "A"]


def unequal_strata() -> tuple[NDArray[np.intp], ...]:
    """Ten rows of one domain, four of another, two in none."""
    members = np.zeros((16, 2), dtype=int)
    members[:10, 0] = members[10:14, 1] = 1
    return strata_of(Domains.from_membership(members))


# Rows


def test_labels_become_codes() -> None:
    rows = TrainingData.of(INPUTS, LABELS, domains=DOMAINS)
    assert rows.names == ("A", "B", "C")
    assert rows.domains.codes.tolist() == [0, 0, 1, 1, 2, 0]
    assert rows.domains.partition
    assert (rows.inputs.dtype, rows.y.dtype) == (torch.float32, torch.int64)
    assert rows.inputs.tolist() == INPUTS.tolist()
    assert rows.y.tolist() == LABELS.tolist()
    assert len(rows) == 6


def test_domains_may_overlap_and_leave_rows_out() -> None:
    membership = [[1, 1], [0, 0], [0, 1], [1, 0], [0, 0], [1, 1]]
    for domains in (membership, np.array(membership), Domains.from_membership(membership, names=["f", "m"])):
        rows = TrainingData.of(INPUTS, LABELS, domains=domains)
        pairs = zip(rows.domains.rows.tolist(), rows.domains.codes.tolist(), strict=True)
        assert list(pairs) == [(0, 0), (0, 1), (2, 1), (3, 0), (5, 0), (5, 1)]
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
        ({"y": LABELS[:, None]}, "y has shape (6, 1); pass one label per row."),
        ({"y": []}, "y has shape (0,); pass one label per row."),
        ({"y": [0.0, 1.0, np.nan, 0.0, 1.0, 0.0]}, "y has values that are not finite; fill or remove them."),
        ({"y": ["a", "b", "a", "b", "a", "b"]}, "y at row 0 holds text ('a'); pass numbers."),
        ({"inputs": np.where(INPUTS == 3, np.inf, INPUTS)}, "inputs has values that are not finite"),
        ({"inputs": [["x"], ["y"], ["x"], ["y"], ["x"], ["y"]]}, "inputs at row 0 holds text ('x'); pass numbers."),
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


def test_some_rows_keep_all_domains_and_their_numbers() -> None:
    overlapping = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1]])
    for domains in (DOMAINS, overlapping):
        rows = TrainingData.of(INPUTS, LABELS, domains=domains)
        for chosen, at in ((np.array([5, 4]), [5, 4]), (np.arange(6) > 3, [4, 5])):
            part = rows.select(chosen)
            assert part.inputs.tolist() == INPUTS[at].tolist()
            assert part.y.tolist() == LABELS[at].tolist()
            assert part.names == rows.names
            for (_, found), (_, whole) in zip(part.domains.split(), rows.domains.split(), strict=True):
                assert [at[row] for row in found] == [row for row in at if row in whole]


def test_a_sequence_cannot_be_selected_from() -> None:
    with pytest.raises(InputError, match="is a sequence"):
        TrainingData(range(6), torch.zeros(6), Domains.from_labels(DOMAINS)).select([0])


# Batches


def test_strata_are_the_domains_and_the_rows_in_none() -> None:
    # Rows 0 and 1 in the first domain, 1 and 3 in the second, none in the third
    domains = Domains(("A", "B", "C"), np.array([0, 0, 1, 1]), np.array([0, 1, 1, 3]), 4)
    assert [rows.tolist() for rows in strata_of(domains)] == [[0, 1], [1, 3], [2]]


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


# Batches of a few domains


def drawn_from(batch: NDArray[np.intp], strata: Any) -> dict[int, int]:
    """How many rows of a batch each stratum has, those with none left out."""
    counts = {number: int(np.isin(batch, rows).sum()) for number, rows in enumerate(strata)}
    return {number: count for number, count in counts.items() if count}


def test_batches_of_two_of_four_domains_by_hand() -> None:
    # Rows 0–4 in A, 5–9 in B, 10–14 in C, 15–19 in D. 20 rows in batches of 6: 20 // 6 = 3 of them; 6 / 2 = 3 rows
    # from each of the 2 domains drawn. A domain drawn three times gives 9 rows: each of its 5, then 4 of them again.
    strata = tuple(np.arange(5 * k, 5 * k + 5) for k in range(4))
    thrice = 0
    for seed in range(40):
        batches = list(epoch_batches(strata, batch_size=6, balance=True, domains_per_batch=2, seed=seed, epoch=0))
        assert len(batches) == 3
        for batch in batches:
            assert sorted(drawn_from(batch, strata).values()) == [3, 3]
        for rows in strata:
            dealt = [row for batch in batches for row in batch if row in rows]
            assert len(dealt) in (0, 3, 6, 9)
            assert len(set(dealt[:5])) == len(dealt[:5])
            assert len(set(dealt[5:])) == len(dealt[5:])
            thrice += len(dealt) == 9
    assert thrice


def test_each_set_of_domains_is_drawn_as_often_whatever_their_sizes() -> None:
    strata = (np.arange(2), np.arange(2, 10), np.arange(10, 50), np.arange(50, 60))
    sets = Counter(
        tuple(drawn_from(batch, strata))
        for epoch in range(200)
        for batch in epoch_batches(strata, batch_size=4, balance=True, domains_per_batch=2, seed=3, epoch=epoch)
    )
    # 3,000 draws of 6 pairs: 500 of each, with a standard deviation of √(3000·⅙·⅚) = 20
    assert len(sets) == 6
    assert sum(sets.values()) == 3000
    assert all(abs(count - 500) < 80 for count in sets.values())


def test_the_domains_of_a_batch_do_not_depend_on_those_of_the_one_before() -> None:
    strata = (np.arange(30), np.arange(30, 60))
    turns: Counter[tuple[int, int]] = Counter()
    for epoch in range(100):
        batches = epoch_batches(strata, batch_size=3, balance=True, domains_per_batch=1, seed=0, epoch=epoch)
        drawn = [next(iter(drawn_from(batch, strata))) for batch in batches]
        turns.update(pairwise(drawn))
    # 1,900 neighbours, a quarter each, with a standard deviation of √(1900·¼·¾) = 19
    assert all(abs(turns[pair] - 475) < 90 for pair in [(0, 0), (0, 1), (1, 0), (1, 1)])


def test_rows_in_no_domain_are_drawn_as_one_domain_more() -> None:
    strata = unequal_strata()  # the last is of the two rows in none
    drawn = Counter(
        next(iter(drawn_from(batch, strata)))
        for epoch in range(100)
        for batch in epoch_batches(strata, batch_size=2, balance=True, domains_per_batch=1, seed=0, epoch=epoch)
    )
    assert all(abs(drawn[number] - 800 / 3) < 60 for number in range(3))  # standard deviation 13


def test_drawing_all_domains_is_the_same_as_not_drawing() -> None:
    every = list(epoch_batches(unequal_strata(), batch_size=6, balance=True, domains_per_batch=3, seed=1, epoch=2))
    plain = list(epoch_batches(unequal_strata(), batch_size=6, balance=True, seed=1, epoch=2))
    assert [batch.tolist() for batch in every] == [batch.tolist() for batch in plain]


def test_a_batch_is_smaller_where_its_size_is_no_multiple_of_the_domains() -> None:
    strata = unequal_strata()
    for batch in epoch_batches(strata, batch_size=7, balance=True, domains_per_batch=2, seed=0, epoch=0):
        assert sorted(drawn_from(batch, strata).values()) == [3, 3]


def test_a_stream_of_drawn_domains_starts_at_any_step() -> None:
    rows = TrainingData.of(torch.arange(60.0)[:, None], [0, 1] * 30, domains=[f"domain {i % 5}" for i in range(60)])
    stream = BatchStream(
        rows, batch_size=8, balance=True, domains_per_batch=2, seed=4, device=torch.device("cpu"), workers=0
    )
    assert stream.batches_per_epoch == 7
    straight = [batch.tolist() for batch in islice(stream.rows_from(0), 30)]
    codes = rows.domains.codes
    assert all(sorted(np.bincount(codes[batch], minlength=5)) == [0, 0, 0, 4, 4] for batch in straight)
    for step in (0, 1, 6, 7, 8, 20):
        assert [batch.tolist() for batch in islice(stream.rows_from(step), 30 - step)] == straight[step:]
    assert straight[:7] != straight[7:14]  # another epoch deals anew


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"domains_per_batch": 0}, "domains_per_batch is 0; pass a whole number of at least 1"),
        ({"domains_per_batch": 2.0}, "domains_per_batch is 2.0; pass a whole number"),
        (
            {"domains_per_batch": 4},
            r"domains_per_batch is 4 but the rows have 3 domains \(rows in none count as one\); pass at most as many",
        ),
        (
            {"domains_per_batch": 2, "balance": False},
            "domains_per_batch needs balanced batches; leave it out, or pass a",
        ),
        (
            {"domains_per_batch": 2, "batch_size": None},
            "domains_per_batch needs balanced batches; leave it out, or pass a",
        ),
        ({"domains_per_batch": 2, "batch_size": 1}, "batch_size is 1 for 2 domains; pass at least one row of each"),
    ],
)
def test_wrong_numbers_of_domains_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(epoch_batches(unequal_strata(), **{"batch_size": 6, "balance": True, "seed": 0, "epoch": 0, **options}))


def test_wrong_sizes_are_named() -> None:
    with pytest.raises(InputError, match="batch_size is 2 for 3 domains; pass at least one row of each"):
        list(epoch_batches(unequal_strata(), batch_size=2, balance=True, seed=0, epoch=0))
    with pytest.raises(InputError, match="batch_size is 0; pass a whole number of at least 1"):
        list(epoch_batches(unequal_strata(), batch_size=0, balance=True, seed=0, epoch=0))


def test_class_weights_by_hand():
    # 3 rows of class 0 and 1 of class 2, of two classes that there are: 4/(2·3) and 4/(2·1)
    rows = TrainingData.of(torch.zeros(4, 1), [0, 0, 2, 0], domains=list("AABB"), class_weight="balanced")
    assert rows.weight.tolist() == pytest.approx([2 / 3, 2 / 3, 2.0, 2 / 3])
    both = TrainingData.of(
        torch.zeros(4, 1), [0, 0, 2, 0], domains=list("AABB"), sample_weight=[1, 0, 3, 2], class_weight={0: 1, 2: 5}
    )
    assert both.weight.tolist() == [1.0, 0.0, 15.0, 2.0]
    assert both.select([2, 3]).weight.tolist() == [15.0, 2.0]
    assert TrainingData.of(torch.zeros(4, 1), [0, 0, 1, 0], domains=list("AABB")).weight is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_weight": [1.0, 2.0]}, "sample_weight has shape (2,) for 4 rows; pass one weight per row."),
        ({"sample_weight": [1.0, -2.0, 1.0, 1.0]}, "sample_weight at row 1 is -2; pass weights of 0 or more."),
        ({"sample_weight": [0, 0, 0, 0]}, "sample_weight is 0 in every row; let some rows weigh something."),
        ({"class_weight": "even"}, "class_weight is 'even'; pass 'balanced', or a weight for each label."),
        ({"class_weight": {0: 1.0}}, "class_weight has no weight of label 1; pass one of 0 or more for each label."),
        (
            {"class_weight": {0: 1.0, 1: -1.0}},
            "class_weight has a weight below 0, or one that is not finite; pass one of 0 or more for each label.",
        ),
    ],
)
def test_wrong_weights_are_named(options, message):
    with pytest.raises(InputError) as raised:
        TrainingData.of(torch.zeros(4, 1), [0, 1, 1, 0], domains=list("AABB"), **options)
    assert str(raised.value) == message
