"""On two processes every loss and objective, and the gradient that DDP averages, are those of the global batch.

The file is also the script that each process runs: ``python test_distributed.py RANK FOLDER``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from clovecal.training import losses
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
    return cases


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


def run_process(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=WORLD, timeout=timedelta(seconds=60)
    )
    found = {}
    for dtype in (torch.float64, torch.float32):
        # Parameters that only one kind of loss reaches (the head in CORAL) still take part in the averaging.
        net = nn.parallel.DistributedDataParallel(Net().to(dtype), find_unused_parameters=True)
        for split in SPLITS:
            own = slice(0, split) if rank == 0 else slice(split, ROWS)
            found[dtype, split] = outcomes(net, tuple(column[own] for column in global_batch(dtype)))
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    if not (dist.is_available() and dist.is_gloo_available()):
        pytest.skip("this torch has no gloo backend")
    folder = tmp_path_factory.mktemp("processes")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(WORLD)
    ]
    try:
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * WORLD, "\n".join(said)
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


if __name__ == "__main__":
    run_process(int(sys.argv[1]), Path(sys.argv[2]))
