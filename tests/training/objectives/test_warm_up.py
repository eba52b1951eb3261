"""The line that the README puts into a loop of one's own: the warm-up inside it keeps what a penalty alone forgets."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from clovecal.training import CLOvE, losses


def rows(seed):
    """The README's rows: a score that means less in the second domain, and three features that mean nothing."""
    rng = np.random.default_rng(seed)
    p, country = rng.uniform(size=6000), np.repeat([0, 1, 2], 2000)
    y = rng.uniform(size=6000) < np.where(country == 1, p**2, p)
    inputs = np.column_stack([p, rng.normal(size=(6000, 3))])
    return torch.tensor(inputs, dtype=torch.float32), torch.tensor(y).long(), torch.tensor(country)


def accuracy_after(loss, seed, steps=300):
    inputs, y, domains = rows(seed)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters())
    drawn = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        batch = torch.randint(len(y), (192,), generator=drawn)
        optimizer.zero_grad()
        loss(model(inputs[batch]), y[batch], domains[batch]).backward()
        optimizer.step()
    inputs, y, _ = rows(seed + 1000)
    return float((model(inputs).argmax(dim=1) == y).float().mean())


def test_with_its_warm_up_the_readmes_line_costs_less_than_a_point_of_accuracy_where_the_bare_penalty_costs_many():
    found = {"plain": [], "bare": [], "warm": []}
    for seed in range(2):
        objective = CLOvE(100.0, anneal=200)
        found["plain"].append(accuracy_after(lambda z, y, domains: cross_entropy(z, y), seed))
        found["bare"].append(
            accuracy_after(lambda z, y, domains: cross_entropy(z, y) + 100 * losses.clove(z, y, domains), seed)
        )
        found["warm"].append(accuracy_after(lambda z, y, d, o=objective: o(logits=z, y=y, domains=d).total, seed))
    plain, bare, warm = (np.mean(one) for one in found.values())
    assert warm > plain - 0.01
    assert bare < plain - 0.04
