"""Laws that every metric and every objective obeys: what calibrated means, what a row, a weight and a domain are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import clovecal as cc
from clovecal.metrics import mean_residual, mean_squared_error, regression_slope
from clovecal.training.objectives import CORAL, ERM, IRM, CLOvE, GroupDRO, Loss, Objective

Floats = NDArray[np.float64]
Table = tuple[Any, Any]

laws = settings(
    deadline=None,
    derandomize=True,  # the same examples on every machine
    max_examples=6,
    suppress_health_check=[HealthCheck.too_slow],
)


def decomposition_part(part: str, by: str) -> Callable[..., float]:
    def metric(y: Any, p: Any, *, sample_weight: Any = None) -> float:
        return float(getattr(cc.brier_decomposition(y, p, by=by, sample_weight=sample_weight), part))

    return metric


@dataclass(frozen=True)
class Contract:
    """A metric with options, and what it is a metric of."""

    name: str
    metric: Callable[..., float]
    options: dict[str, Any] = field(default_factory=dict)
    of: str = "binary"  # binary, classes or regression
    zero_when_calibrated: bool = False
    largest: float = np.inf
    lowest: float = 0.0

    def __call__(self, table: Table, weight: Any = None) -> float:
        return self.metric(*table, sample_weight=weight, **self.options)

    def in_domains(self, table: Table, domains: Any, weight: Any = None, **options: Any) -> cc.DomainResult:
        return cc.per_domain(self.metric, *table, domains=domains, sample_weight=weight, **self.options, **options)


def _contracts() -> list[Contract]:
    binary_ece: list[dict[str, Any]] = [
        {},
        {"bins": 15, "norm": "l2"},
        {"norm": "max"},
        {"binning": "mass", "bins": 4},
        {"binning": "mass", "norm": "l2", "bins": 3},
        {"of": "confidence"},
        {"debias": True},
        {"norm": "l2", "debias": True, "bins": 3},
    ]
    binary_mmce: list[dict[str, Any]] = [
        {},
        {"of": "positive", "gamma": 50.0},
        {"kernel": "laplacian"},
        {"kernel": "laplacian", "of": "positive", "width": 0.05, "squared": False},
    ]
    found = [Contract(f"ece{o or ''}", cc.ece, o, "binary", True, 1.0) for o in binary_ece]
    found += [Contract(f"ece{o or ''} of classes", cc.ece, o, "classes", True, 1.0) for o in ({}, {"of": "classwise"})]
    found += [Contract(f"mmce{o or ''}", cc.mmce, o, "binary", True, 1.0) for o in binary_mmce]
    found += [
        Contract("mmce of classes", cc.mmce, {}, "classes", True, 1.0),
        Contract("unbiased mmce", cc.mmce, {"unbiased": True}, largest=1.0),
        Contract("irm_penalty", cc.irm_penalty, zero_when_calibrated=True),
        Contract("irm_penalty of classes", cc.irm_penalty, of="classes"),
        Contract("brier", cc.brier, largest=1.0),
        Contract("brier of classes", cc.brier, of="classes", largest=2.0),
        Contract("log_loss", cc.log_loss),
        Contract("log_loss of classes", cc.log_loss, of="classes"),
        Contract("smooth_ece", cc.smooth_ece, {}, "binary", True, 1.0),
        Contract("smooth_ece of classes", cc.smooth_ece, {}, "classes", True, 1.0),
        Contract("calibration_intercept", cc.calibration_intercept, lowest=-np.inf),
        Contract("calibration_slope", cc.calibration_slope, lowest=-np.inf),
        Contract("observed_expected", cc.observed_expected),
        Contract("accuracy", cc.accuracy, largest=1.0),
        Contract("accuracy of classes", cc.accuracy, of="classes", largest=1.0),
    ]
    for by in ("scores", "bins", "isotonic"):
        calibration = decomposition_part("calibration", by)
        found.append(Contract(f"calibration by {by}", calibration, zero_when_calibrated=by != "bins", largest=1.0))
        found.append(Contract(f"refinement by {by}", decomposition_part("refinement", by), largest=1.0))
    found.append(
        Contract("calibration of classes", decomposition_part("calibration", "scores"), {}, "classes", True, 2.0)
    )
    for options in ({"bins": 3}, {"moment": 2, "bins": 3}, {"norm": "l2", "bins": 4, "debias": True}):
        name = f"regression_calibration{options}"
        found.append(Contract(name, cc.regression_calibration, options, "regression", True))
    found.append(Contract("mean_squared_error", mean_squared_error, of="regression"))
    found.append(Contract("mean_residual", mean_residual, of="regression", lowest=-np.inf))
    found.append(Contract("regression_slope", regression_slope, of="regression", lowest=-np.inf))
    return found


CONTRACTS = _contracts()
REGISTERED = [c for c in CONTRACTS if not c.metric.__qualname__.startswith("decomposition_part")]
every_metric = pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.name)
every_calibration_error = pytest.mark.parametrize(
    "contract", [c for c in CONTRACTS if c.zero_when_calibrated], ids=lambda contract: contract.name
)
every_metric_with_intervals = pytest.mark.parametrize("contract", REGISTERED, ids=lambda contract: contract.name)


@st.composite
def seeds_and_sizes(draw: st.DrawFn) -> tuple[int, int]:
    return draw(st.integers(0, 2**32 - 1)), draw(st.integers(6, 40))


any_table = seeds_and_sizes()


def table_of(contract: Contract, seed_and_size: tuple[int, int]) -> tuple[Table, np.random.Generator]:
    """Random rows: some scores tied and on bin edges, some exactly 0 or 1."""
    seed, n = seed_and_size
    rng = np.random.default_rng(seed)
    if contract.of == "regression":
        mean = rng.normal(size=n).round(1)
        return (mean + rng.normal(size=n), np.column_stack([mean, rng.uniform(0.2, 2, n).round(1)])), rng
    if contract.of == "classes":
        tenths = rng.multinomial(10, rng.dirichlet([1.0, 1.0, 1.0]), size=n) / 10
        p = np.where(rng.random((n, 1)) < 0.4, tenths, rng.dirichlet([0.5, 0.5, 0.5], size=n))
        return (rng.integers(0, 3, n), p), rng
    p = np.where(rng.random(n) < 0.4, rng.integers(0, 11, n) / 10, rng.random(n))
    return (rng.integers(0, 2, n), p), rng


def rows_of(table: Table, rows: Any) -> Table:
    return table[0][rows], table[1][rows]


def labels_of(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Three domains of at least two rows each."""
    return np.concatenate([np.repeat([0, 1, 2], 2), rng.integers(0, 3, n - 6)])[rng.permutation(n)]


def same(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-11, nan_ok=True)


def calibrated_table(of: str, rng: np.random.Generator) -> tuple[Table, Floats]:
    """A table whose weights make it a population that is calibrated exactly."""
    if of == "binary":
        hits, misses = rng.integers(0, 7, 12), rng.integers(1, 7, 12)
        p = hits / (hits + misses)
        return (np.repeat([1, 0], 12), np.tile(p, 2)), np.concatenate([hits, misses]).astype(float)
    if of == "classes":
        counts = rng.integers(0, 7, (8, 3)) + np.eye(3, dtype=int)[rng.integers(0, 3, 8)]
        p = counts / counts.sum(axis=1, keepdims=True)
        return (np.tile([0, 1, 2], 8), np.repeat(p, 3, axis=0)), counts.ravel().astype(float)
    mean, spread = rng.integers(-3, 4, 8).astype(float), rng.integers(1, 4, 8).astype(float)
    # Targets mean ± spread, equally often, have that mean and variance spread².
    f = np.column_stack([np.repeat(mean, 2), np.repeat(spread, 2) ** 2])
    y = np.repeat(mean, 2) + np.tile([1, -1], 8) * np.repeat(spread, 2)
    return (y, f), np.repeat(rng.integers(1, 5, 8), 2).astype(float)


# What calibrated means


@every_calibration_error
@laws
@given(seed=st.integers(0, 2**32 - 1))
def test_an_exactly_calibrated_table_has_no_error(contract: Contract, seed: int) -> None:
    table, weight = calibrated_table(contract.of, np.random.default_rng(seed))
    # The root of a kernel norm is 0 only to the root of the rounding.
    assert contract(table, weight) == pytest.approx(0.0, abs=1e-7 if "squared" in contract.options else 1e-12)


@every_calibration_error
def test_a_miscalibrated_table_has_an_error(contract: Contract) -> None:
    rng = np.random.default_rng(0)
    if contract.of == "regression":
        f = np.column_stack([np.repeat([0.0, 5.0], 20), np.ones(40)])
        table: Table = (f[:, 0] + 3 + rng.normal(size=40), f)
    elif contract.of == "classes":
        table = np.tile([1, 2], 20), np.tile([[0.9, 0.1, 0.0], [0.8, 0.1, 0.1]], (20, 1))
    else:
        table = np.tile([0, 1], 20), np.tile([0.9, 0.7], 20) - 0.05 * (np.arange(40) < 20)
    assert contract(table) > 0.005


# What a row and a weight are


@every_metric
@laws
@given(seed_and_size=any_table)
def test_the_order_of_rows_does_not_matter(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, rng = table_of(contract, seed_and_size)
    n = len(table[0])
    weight, order = rng.integers(1, 4, n).astype(float), rng.permutation(n)
    assert contract(rows_of(table, order)) == same(contract(table))
    assert contract(rows_of(table, order), weight[order]) == same(contract(table, weight))


@every_metric
@laws
@given(seed_and_size=any_table)
def test_a_weight_is_that_many_rows_and_a_weight_of_zero_none(
    contract: Contract, seed_and_size: tuple[int, int]
) -> None:
    table, rng = table_of(contract, seed_and_size)
    weight = rng.integers(0, 4, len(table[0]))
    weight[0] = 2
    repeated = np.repeat(np.arange(len(weight)), weight)
    assert contract(table, weight) == same(contract(rows_of(table, repeated)))
    kept = weight > 0
    assert contract(table, weight) == same(contract(rows_of(table, kept), weight[kept]))


@every_metric
@laws
@given(seed_and_size=any_table)
def test_weights_of_one_are_no_weights(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, _ = table_of(contract, seed_and_size)
    assert contract(table, np.ones(len(table[0]))) == same(contract(table))


@every_metric
@laws
@given(seed_and_size=any_table)
def test_values_stay_inside_the_metrics_range(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, _ = table_of(contract, seed_and_size)
    may_be_negative = contract.options.get("unbiased") or contract.name == "calibration by bins"
    value = contract(table)
    assert np.isnan(value) or (-1 if may_be_negative else contract.lowest - 1e-12) <= value <= contract.largest + 1e-12


@every_metric
@laws
@given(seed_and_size=any_table)
def test_lists_and_single_precision_are_taken_for_the_numbers_they_hold(
    contract: Contract, seed_and_size: tuple[int, int]
) -> None:
    table, _ = table_of(contract, seed_and_size)
    assert contract((table[0].tolist(), table[1].tolist())) == contract(table)
    single = table[1].astype(np.float32)
    assert contract((table[0], single)) == same(contract((table[0], single.astype(np.float64))))


# What a domain is


@every_metric
@laws
@given(seed_and_size=any_table)
def test_each_domains_value_is_the_metric_of_its_rows_alone(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, rng = table_of(contract, seed_and_size)
    n = len(table[0])
    labels, weight = labels_of(n, rng), rng.integers(1, 4, n).astype(float)
    for used in (None, weight):
        result = contract.in_domains(table, labels, used)
        assert result.overall == same(contract(table, used))
        for domain in range(3):
            rows = labels == domain
            alone = contract(rows_of(table, rows), None if used is None else used[rows])
            assert result.by_domain[domain] == same(alone)


@every_metric
@laws
@given(seed_and_size=any_table)
def test_a_membership_matrix_counts_rows_in_every_domain_they_are_in(
    contract: Contract, seed_and_size: tuple[int, int]
) -> None:
    table, rng = table_of(contract, seed_and_size)
    n = len(table[0])
    membership = rng.integers(0, 2, (n, 3))
    membership[:2] = 1
    membership[2] = 0  # a row in no domain: overall, and nowhere else
    weight = rng.integers(1, 4, n).astype(float)
    result = contract.in_domains(table, membership, weight)
    assert result.overall == same(contract(table, weight))
    for domain in range(3):
        rows = membership[:, domain] == 1
        assert result.by_domain[domain] == same(contract(rows_of(table, rows), weight[rows]))


@every_metric
@laws
@given(seed_and_size=any_table)
def test_rows_in_no_domain_change_the_overall_value_alone(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, rng = table_of(contract, seed_and_size)
    labels = labels_of(len(table[0]), rng)
    membership = np.eye(3, dtype=int)[labels]
    membership[labels == 2] = 0
    inside = labels < 2
    result = contract.in_domains(table, membership[:, :2])
    without = contract.in_domains(rows_of(table, inside), membership[inside, :2])
    assert dict(result.by_domain) == {name: same(value) for name, value in without.by_domain.items()}
    assert without.overall == same(contract(rows_of(table, inside)))
    assert result.overall == same(contract(table))


@every_metric
@laws
@given(seed_and_size=any_table)
def test_labels_and_their_membership_matrix_are_the_same_domains(
    contract: Contract, seed_and_size: tuple[int, int]
) -> None:
    table, rng = table_of(contract, seed_and_size)
    labels = labels_of(len(table[0]), rng)
    by_label = contract.in_domains(table, labels)
    by_membership = contract.in_domains(table, np.eye(3, dtype=int)[labels])
    assert by_membership.overall == same(by_label.overall)
    assert dict(by_membership.by_domain) == {name: same(value) for name, value in by_label.by_domain.items()}


@every_metric
@laws
@given(seed_and_size=any_table)
def test_one_domain_is_the_pooled_table(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, _ = table_of(contract, seed_and_size)
    n = len(table[0])
    for domains in (["only"] * n, np.ones((n, 1), dtype=int)):
        result = contract.in_domains(table, domains)
        (value,) = result.by_domain.values()
        assert value == same(contract(table))
        assert result.overall == same(contract(table))


@every_metric
@laws
@given(seed_and_size=any_table)
def test_names_of_domains_do_not_matter(contract: Contract, seed_and_size: tuple[int, int]) -> None:
    table, rng = table_of(contract, seed_and_size)
    labels = labels_of(len(table[0]), rng)
    names = np.array(["Sweden", "Denmark", "UK"])  # sorted differently from the numbers
    numbered, named = contract.in_domains(table, labels), contract.in_domains(table, names[labels])
    assert {str(names[number]): value for number, value in numbered.by_domain.items()} == {
        name: same(value) for name, value in named.by_domain.items()
    }
    assert named.overall == same(numbered.overall)


@every_metric
@laws
@given(seed_and_size=any_table)
def test_merging_domains_by_a_common_label_is_the_metric_of_both(
    contract: Contract, seed_and_size: tuple[int, int]
) -> None:
    table, rng = table_of(contract, seed_and_size)
    labels = labels_of(len(table[0]), rng)
    split = contract.in_domains(table, labels)
    merged = contract.in_domains(table, np.minimum(labels, 1))
    assert merged.by_domain[0] == same(split.by_domain[0])
    assert merged.by_domain[1] == same(contract(rows_of(table, labels >= 1)))
    assert merged.overall == same(split.overall)


@pytest.mark.parametrize("metric", [cc.brier, cc.log_loss, cc.accuracy])
@laws
@given(seed_and_size=any_table)
def test_the_overall_mean_is_the_average_of_the_domains_by_their_rows(
    metric: Any, seed_and_size: tuple[int, int]
) -> None:
    contract = Contract("mean", metric)
    table, rng = table_of(contract, seed_and_size)
    labels = labels_of(len(table[0]), rng)
    result = contract.in_domains(table, labels)
    average = np.average([result.by_domain[domain] for domain in range(3)], weights=np.bincount(labels))
    assert result.overall == same(float(average))


@every_metric_with_intervals
@settings(laws, max_examples=3)
@given(seed_and_size=any_table)
def test_intervals_are_ordered_inside_the_range_and_simultaneous_ones_wider(
    contract: Contract, seed_and_size: tuple[int, int]
) -> None:
    table, rng = table_of(contract, seed_and_size)
    labels = labels_of(len(table[0]), rng)
    result = contract.in_domains(table, labels, ci=0.9, resamples=100, rng=0)
    assert result.overall_interval is not None
    for low, high in [*result.intervals.values(), result.overall_interval]:
        assert contract.lowest <= low <= high <= contract.largest
    for name, (low, high) in result.intervals.items():
        simultaneous = result.simultaneous_intervals[name]
        assert simultaneous[0] <= low + 1e-12
        assert simultaneous[1] >= high - 1e-12


# Objectives


@dataclass(frozen=True)
class ObjectiveContract:
    """How an objective is made, and which of its laws hold only in part."""

    name: str
    make: Callable[[], Objective]
    penalty: str | None = None  # its logged name
    doubles: bool = True  # each row twice is the same batch; not where n − 1 or pairs of rows are counted
    ordered: bool = False  # the order of rows matters
    own_risk: bool = False


OBJECTIVES = [
    ObjectiveContract("ERM", ERM),
    ObjectiveContract("IRM", lambda: IRM(30.0), "IRM"),
    ObjectiveContract("IRM of halves", lambda: IRM(30.0, halves=True), "IRM", doubles=False, ordered=True),
    ObjectiveContract("CORAL", lambda: CORAL(2.0), "CORAL", doubles=False),
    ObjectiveContract("GroupDRO", lambda: GroupDRO(3, step_size=0.5), own_risk=True),
    ObjectiveContract("CLOvE", lambda: CLOvE(30.0), "CLOvE"),
    ObjectiveContract("CLOvE, whole", lambda: CLOvE(30.0, rescale=False, anneal=1, gamma=50.0), "CLOvE"),
    ObjectiveContract("CLOvE, Laplacian root", lambda: CLOvE(30.0, kernel="laplacian", squared=False), "CLOvE"),
    ObjectiveContract("CLOvE, unbiased", lambda: CLOvE(30.0, unbiased=True), "CLOvE", doubles=False),
    ObjectiveContract("CORAL + CLOvE", lambda: CORAL(2.0) + CLOvE(30.0), "CLOvE", doubles=False),
    ObjectiveContract(
        "GroupDRO + CLOvE", lambda: GroupDRO(3, step_size=0.5) + CLOvE(30.0, anneal=1), "CLOvE", own_risk=True
    ),
]
every_objective = pytest.mark.parametrize("contract", OBJECTIVES, ids=lambda contract: contract.name)


def batch_of(seed_and_size: tuple[int, int]) -> dict[str, Tensor]:
    """Random rows of three domains, at least two each."""
    seed, n = seed_and_size
    rng = np.random.default_rng(seed)
    return {
        "logits": torch.as_tensor(rng.normal(scale=2, size=n)),
        "y": torch.as_tensor(rng.integers(0, 2, n)),
        "domains": torch.as_tensor(labels_of(n, rng)),
        "features": torch.as_tensor(rng.normal(size=(n, 2))),
    }


def second_step(contract: ObjectiveContract, batch: dict[str, Tensor]) -> Loss:
    """The loss after a step, when annealing is over and GroupDRO has weights of its own."""
    objective = contract.make()
    objective(**batch)
    loss: Loss = objective(**batch)
    return loss


def near(value: Tensor) -> Any:
    return pytest.approx(value.item(), rel=1e-6, abs=1e-9)  # weights of domains are in single precision


@every_objective
@laws
@given(seed_and_size=any_table)
def test_an_objective_is_a_scalar_with_logged_terms(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    batch = batch_of(seed_and_size)
    batch["logits"].requires_grad_()
    loss = second_step(contract, batch)
    (slope,) = torch.autograd.grad(loss.total, batch["logits"])
    assert torch.isfinite(slope).all()
    assert slope.abs().max() > 0
    assert "risk" in loss.terms
    assert contract.penalty is None or {contract.penalty, f"{contract.penalty} weight"} <= set(loss.terms)
    for value in (loss.total, loss.scale, *loss.terms.values()):
        assert value.shape == ()
        assert torch.isfinite(value)
    assert 0 < loss.scale <= 1
    assert not any(term.requires_grad for term in loss.terms.values())


@every_objective
@laws
@given(seed_and_size=any_table)
def test_the_order_of_rows_does_not_matter_to_an_objective(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    if contract.ordered:
        return
    batch = batch_of(seed_and_size)
    order = torch.as_tensor(np.random.default_rng(0).permutation(len(batch["y"])))
    shuffled = {name: column[order] for name, column in batch.items()}
    assert second_step(contract, shuffled).total.item() == near(second_step(contract, batch).total)


@every_objective
@laws
@given(seed_and_size=any_table)
def test_the_numbers_of_domains_do_not_matter_to_an_objective(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    batch = batch_of(seed_and_size)
    renumbered = {**batch, "domains": (batch["domains"] + 1) % 3}
    assert second_step(contract, renumbered).total.item() == near(second_step(contract, batch).total)


@every_objective
@laws
@given(seed_and_size=any_table)
def test_codes_are_their_membership_matrix_to_an_objective(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    batch = batch_of(seed_and_size)
    matrix = torch.nn.functional.one_hot(batch["domains"], 3)
    expected = second_step(contract, batch).total
    for members in (matrix, matrix.bool(), matrix.float()):
        assert second_step(contract, {**batch, "domains": members}).total.item() == near(expected)


@every_objective
@laws
@given(seed_and_size=any_table)
def test_each_row_twice_is_the_same_batch(contract: ObjectiveContract, seed_and_size: tuple[int, int]) -> None:
    if not contract.doubles:
        return
    batch = batch_of(seed_and_size)
    twice = {name: torch.cat((column, column)) for name, column in batch.items()}
    assert second_step(contract, twice).total.item() == near(second_step(contract, batch).total)


@every_objective
@laws
@given(seed_and_size=any_table)
def test_rows_in_no_domain_change_the_pooled_risk_alone(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    batch = batch_of(seed_and_size)
    inside = batch["domains"] < 2
    with_outsiders = {**batch, "domains": torch.where(inside, batch["domains"], -1)}
    found = second_step(contract, with_outsiders)
    expected = second_step(contract, {name: column[inside] for name, column in batch.items()})
    for name, term in expected.terms.items():
        if name != "risk":
            assert found.terms[name].item() == near(term)
    if contract.own_risk:
        assert found.total.item() == near(expected.total)
    else:
        pooled = torch.nn.functional.binary_cross_entropy_with_logits(batch["logits"], batch["y"].double())
        assert found.terms["risk"].item() == near(pooled)


@every_objective
@laws
@given(seed_and_size=any_table)
def test_a_domain_that_the_batch_lacks_adds_nothing(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    batch = batch_of(seed_and_size)
    batch["domains"] = batch["domains"].clamp(max=1)
    padded = torch.nn.functional.one_hot(batch["domains"], 3)
    found, expected = second_step(contract, {**batch, "domains": padded}), second_step(contract, batch)
    assert found.total.item() == near(expected.total)


@every_objective
@laws
@given(seed_and_size=any_table)
def test_binary_logits_are_the_second_of_two_columns(
    contract: ObjectiveContract, seed_and_size: tuple[int, int]
) -> None:
    batch = batch_of(seed_and_size)
    columns = torch.stack((torch.zeros_like(batch["logits"]), batch["logits"]), dim=1)
    found, expected = second_step(contract, {**batch, "logits": columns}), second_step(contract, batch)
    assert found.total.item() == near(expected.total)


@every_objective
def test_an_objective_resumes_from_its_state_and_evaluation_leaves_it(contract: ObjectiveContract) -> None:
    original, resumed = contract.make(), contract.make()
    original(**batch_of((0, 20)))
    resumed.load_state_dict(original.state_dict())
    resumed.eval()
    resumed(**batch_of((1, 20)))
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in original.state_dict().items())
    resumed.train()
    assert torch.equal(resumed(**batch_of((2, 20))).total, original(**batch_of((2, 20))).total)
