"""On two processes every loss, objective and whole fit, and the gradient that DDP averages, are of the global batch.

The file is also the script that each process runs: ``torchrun --nproc_per_node=2 test_distributed.py FOLDER``.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from clovecal.training import EarlyStopping, TrainingData, fit, losses
from clovecal.training.objectives import CORAL, ERM, IRM, CLOvE, GroupDRO, Objective

ROWS, WORLD, TIMEOUT_S = 23, 2, 120
Step = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

# Where the first process's rows end. 15: an odd share, which halves must count on from; 20: domain 2 is then missing on
# the second process; 0: the first process has no rows at all.
SPLITS = (15, 20, 0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.body(x))
        return features, self.head(features).squeeze(1)


def global_batch(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = 2 * torch.randn(ROWS, 3, generator=generator, dtype=dtype)
    y = torch.randint(0, 2, (ROWS,), generator=generator)
    domains = torch.arange(ROWS) % 4 - 1  # a quarter of the rows is in no domain
    domains[20:] = torch.tensor([0, 1, 1])
    return x, y, domains


def loss_cases() -> dict[str, Step]:
    cases: dict[str, Step] = {}
    for kernel in ("rbf", "laplacian"):
        for unbiased in (False, True):
            for squared in (False, True):
                name = f"clove {kernel}{' unbiased' * unbiased}{' root' * (not squared)}"
                cases[name] = lambda _, z, y, d, kernel=kernel, unbiased=unbiased, squared=squared: losses.clove(
                    z, y, d, kernel=kernel, unbiased=unbiased, squared=squared
                )
    cases["clove positive, sharp"] = lambda _, z, y, d: losses.clove(z, y, d, of="positive", gamma=50.0)
    cases["mmce"] = lambda _, z, y, d: losses.mmce(z, y)
    cases["overlapping domains"] = lambda _, z, y, d: losses.clove(z, y, torch.stack((d >= 0, d >= 1), dim=1))
    cases["irm"] = lambda _, z, y, d: losses.irm_by_domain(z, y, d)[0].sum()
    cases["irm halves"] = lambda _, z, y, d: losses.irm_by_domain(z, y, d, halves=True)[0].sum()
    cases["coral"] = lambda features, _, y, d: losses.coral(features, d)
    cases["coral of few among many"] = coral_of_few_among_many
    for name in ("clove rbf", "clove laplacian unbiased root", "irm halves", "coral"):
        cases[f"{name} of many domains"] = lambda features, z, y, d, step=cases[name]: step(
            features,
            z,
            y,
            torch.where(d < 0, d, 10 * d),  # 21 domains: summed by code
        )
    return cases


def coral_of_few_among_many(features: Tensor, _: Tensor, y: Tensor, domains: Tensor) -> Tensor:
    with mock.patch.object(losses, "_MOST_NUMBERS", 0):  # as if the features were wide
        return losses.coral(features, domains, n_domains=9)


def objectives() -> dict[str, Objective]:
    return {
        "ERM": ERM(),
        "IRM": IRM(20.0, anneal=1),
        "CORAL": CORAL(3.0),
        "GroupDRO": GroupDRO(3, step_size=1.0),
        "CLOvE": CLOvE(20.0, anneal=1),
        "CLOvE laplacian": CLOvE(20.0, kernel="laplacian", unbiased=True),
        "GroupDRO + CORAL + CLOvE": GroupDRO(3, step_size=1.0) + CORAL(3.0) + CLOvE(20.0),
    }


def outcomes(net: nn.Module, rows: tuple[Tensor, Tensor, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Each case's value and parameter gradients; objectives are asked twice, so that their state counts."""
    x, y, domains = rows

    def result(step: Step) -> dict[str, Tensor]:
        net.zero_grad()
        features, logits = net(x)
        value = step(features, logits, y, domains)
        value.backward()
        names = (name.removeprefix("module.") for name, _ in net.named_parameters())
        slopes = (
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
            for parameter in net.parameters()
        )
        return {"value": value.detach(), **dict(zip(names, slopes, strict=True))}

    found = {name: result(step) for name, step in loss_cases().items()}
    for name, objective in objectives().items():
        for turn in ("first", "second"):
            found[f"{name}, {turn} step"] = result(
                lambda features, z, y, d, objective=objective: (
                    objective(logits=z, y=y, domains=d, features=features).total
                )
            )
        found[f"{name}, state"] = {key: value.clone() for key, value in objective.state_dict().items()}
    return found


class Lazy:
    """A sequence of inputs that is not a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, row: int) -> Tensor:
        return self.tensor[row]


def trained(
    how: str, folder: Path, *, dropout: float = 0.0, steps: int = 15, checkpoint: str | None = None
) -> dict[str, Tensor]:
    """Return the weights after a fit of 47 rows, a number that two processes cannot share evenly."""
    x, y, domains = (torch.cat((column, column))[:-1] for column in global_batch(torch.float32)[:3])
    members = domains[:, None] == torch.arange(3)
    inputs = Lazy(x + 0.1 * y[:, None]) if how == "rows read one by one" else x + 0.1 * y[:, None]
    rows = TrainingData.of(inputs, y, domains=members.numpy())
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 1), nn.Flatten(0))
    fit(
        model,
        rows,
        CLOvE(20.0, anneal=5, of="positive") + GroupDRO(3, step_size=0.1),
        steps=steps,
        batch_size=None if "all rows" in how else 10,
        accumulate=3 if "in parts" in how else 1,
        weight_decay=1e-3,
        balance="domain" in how,
        domains_per_batch=2 if how == "rows of two domains" else None,
        validation=rows,
        stopping=EarlyStopping(every=3),
        device="cpu",
        checkpoint=None if checkpoint is None else folder / checkpoint,
        checkpoint_every=6,
    )
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


WAYS = (
    "all rows",
    "all rows in parts",
    "any rows",
    "as many rows of each domain",
    "rows of two domains",
    "rows read one by one",
)


def run_process(folder: Path) -> None:
    # a process that waits for ever for another says where, and goes before torchrun is killed and leaves it behind
    faulthandler.dump_traceback_later(TIMEOUT_S - 20, exit=True)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found: dict = {}
    for dtype in (torch.float64, torch.float32):
        # Parameters that only one kind of loss reaches (the head in CORAL) still take part in the averaging.
        net = nn.parallel.DistributedDataParallel(Net().to(dtype), find_unused_parameters=True)
        for split in SPLITS:
            own = slice(0, split) if rank == 0 else slice(split, ROWS)
            found[dtype, split] = outcomes(net, tuple(column[own] for column in global_batch(dtype)))
    dist.destroy_process_group()
    for how in WAYS:  # each fit now joins the other process by itself, and leaves it
        found[how] = trained(how, folder)
    found["straight"] = trained("rows read one by one", folder, dropout=0.4)
    trained("rows read one by one", folder, dropout=0.4, steps=6, checkpoint="run.safetensors")
    found["resumed"] = trained("rows read one by one", folder, dropout=0.4, checkpoint="run.safetensors")
    torch.save(found, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this torch has no gloo backend")
    folder = tmp_path_factory.mktemp("processes")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={WORLD}", "--standalone"]
    ended = subprocess.run(
        [*torchrun, __file__, str(folder)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


@pytest.fixture(scope="module")
def alone() -> dict:
    return {dtype: outcomes(Net().to(dtype), global_batch(dtype)) for dtype in (torch.float64, torch.float32)}


CASES = [
    *loss_cases(),
    *(f"{name}, {part}" for name in objectives() for part in ("first step", "second step", "state")),
]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_loss_and_gradient_of_the_global_batch(
    found: list[dict], alone: dict, case: str, split: int
) -> None:
    for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-6)):
        for process in found:
            for name, expected in alone[dtype][case].items():
                torch.testing.assert_close(
                    process[dtype, split][case][name], expected, rtol=10 * tolerance, atol=tolerance, msg=name
                )


def test_the_gradients_are_not_all_zero(alone: dict) -> None:
    for case in CASES:
        if not case.endswith("state"):
            assert alone[torch.float64][case]["body.weight"].abs().max() > 1e-5, case


@pytest.mark.parametrize("how", WAYS)
def test_a_fit_on_two_processes_is_the_fit_on_one(found: list[dict], tmp_path: Path, how: str) -> None:
    alone = trained(how, tmp_path)
    for process in found:
        for name, expected in alone.items():
            torch.testing.assert_close(process[how][name], expected, rtol=0, atol=1e-6)


def test_a_resumed_fit_on_two_processes_is_bit_exact_with_dropout(found: list[dict]) -> None:
    for process in found:
        for name, expected in process["straight"].items():
            assert torch.equal(process["resumed"][name], expected)


if __name__ == "__main__":
    run_process(Path(sys.argv[1]))
