"""The linear-Gaussian records as markdown tables, with the paper's thresholds beside ours; nothing is computed anew."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from clovecal.reproduce.study import Record
from clovecal.text import markdown

_NONE = 1e-6  # a largest spurious weight below this is none


def tables(found: Sequence[Record]) -> str:
    """Return all tables."""
    parts = {name: [one for one in found if one["config"]["part"] == name] for name in _MAKERS}
    return "\n\n".join(make(parts[name]) for name, make in _MAKERS.items() if parts[name])


def vanishing(largest: Sequence[float], k: Sequence[int]) -> int | None:
    """Return the smallest k from which on no spurious weight is left, None if one is left at the last."""
    left = [number for number, value in zip(k, largest, strict=True) if value > _NONE]
    if left and left[-1] == k[-1]:
        return None
    return left[-1] + 1 if left else k[0]


def regression_threshold(d_c: int, d_sp: int, *, moments: int) -> int:
    """Return the smallest k at which almost all domains leave no spurious weight (decision record 0008)."""
    k = 1
    while 2 * k <= d_sp + (d_c + 1 if moments == 1 else max(d_c + 2 - k, 1)):
        k += 1
    return k


def _classification(found: Sequence[Record]) -> str:
    rows = []
    for one in found:
        config, k, draws = one["config"], one["k"], one["draws"]
        d = config["d_sp"]
        at = {number: k.index(number) for number in k}
        positions = [draw["general_position"] for draw in draws]
        rows.append(
            [
                f"{config['kind']}, d_ns = {config['d_ns']}, d_sp = {d}",
                str(d + 2 if config["kind"] == "isotropic" else 2 * d + 1),
                _counts(vanishing(draw["largest"], k) for draw in draws),
                _share(draw["largest"][at[d]] > _NONE for draw in draws),
                _share(draw["largest"][at[d + 1]] > _NONE for draw in draws),
                _share(draw["exists_if_informative"][0] for draw in draws) if config["d_ns"] else "",
                _share(draw["largest"][at[d + 2]] > _NONE for draw in draws),
                _share(all(draw["complete"][at[d + 1] :]) for draw in draws),
                _counts(_first_true(holds, k) for holds in positions),
                f"{max(draw['calibration_error'] for draw in draws):.0e}",
                f"≤ {max(draw['gap'][0] for draw in draws):.0e}, ≥ {min(draw['gap'][1] for draw in draws):.0e}",
            ]
        )
    head = [
        "domains",
        "paper: enough at k =",
        "ours: none left from k = (draws)",
        "draws with a spurious weight at k = d_sp",
        "at d_sp + 1",
        "at d_sp + 1, X_ns informative enough",
        "at d_sp + 2",
        "exact from d_sp + 1",
        "general position from k =",
        "largest calibration error of those found",
        "singular values taken for 0, and not",
    ]
    return "### Classification: spurious weights of calibrated classifiers\n\n" + markdown(head, rows)


def _regression(found: Sequence[Record]) -> str:
    rows, conditions = [], []
    for one in found:
        config, k, draws = one["config"], one["k"], one["draws"]
        causal = config["d_c"] + config["d_ns"]
        d_sp = config["d_sp"]
        name = f"{config['kind']}, d_c = {config['d_c']}, d_ns = {config['d_ns']}, d_sp = {d_sp}"
        generic = config["kind"] == "full" and not config["d_ns"]
        rows.append(
            [
                name,
                str(causal + d_sp + 2),
                str(max(causal + 2, d_sp) + 1),
                _counts(vanishing(draw["largest_1"], k) for draw in draws),
                str(regression_threshold(causal, d_sp, moments=1)) if generic else "",
                _counts(vanishing(draw["largest_2"], k) for draw in draws),
                str(regression_threshold(causal, d_sp, moments=2)) if generic else "",
                f"{max(draw['calibration_error'] for draw in draws):.0e}",
                f"≤ {max(draw['gap'][0] for draw in draws):.0e}, ≥ {min(draw['gap'][1] for draw in draws):.0e}",
            ]
        )
        last = k[-1]
        conditions.append(
            [
                f"{name}, k = {last}",
                f"{_same(draw['rank_m'] for draw in draws)} of {causal + d_sp + 1}",
                f"{_same(draw['rank_m2_printed'] for draw in draws)} of {causal + 2}",
                f"{_same(draw['rank_m2'] for draw in draws)} of {causal + 2}",
                _share(draw["printed_condition"][-1] for draw in draws),
                _share(draw["m2_suffices"][-1] for draw in draws),
                _share(draw["largest_2"][-1] > _NONE for draw in draws),
                f"{max(draw['causal_only_error'] for draw in draws):.0e}",
            ]
        )
    head = [
        "domains",
        "paper: enough by M at k =",
        "by M₂ at k =",
        "ours, first moment: none left from k = (draws)",
        "expected",
        "both moments",
        "expected",
        "largest calibration error of those found",
        "singular values taken for 0, and not",
    ]
    other = [
        "domains",
        "rank of M",
        "of M₂ as printed",
        "of M₂ corrected",
        "printed condition holds",
        "repaired condition holds",
        "a spurious weight is left",
        "calibration error of [w*, 0, 0]",
    ]
    return (
        "### Regression: spurious weights of calibrated regressors\n\n"
        + markdown(head, rows)
        + "\n\n### Theorem 2's conditions\n\n"
        + markdown(other, conditions)
    )


def _simulation(found: Sequence[Record]) -> str:
    rows = []
    for one in found:
        for name in ("training", "new"):
            domains = one[name]
            rows.append(
                [
                    f"{one['config']['k']} {name} domains, {one['config']['n']:,} rows each",
                    f"{one['spurious']:.3f}",
                    _range(domain["slope"] for domain in domains) + f" (s.e. {domains[0]['slope_se']:.3f})",
                    _range(domain["intercept"] for domain in domains),
                    _range(domain["variance"] for domain in domains),
                    f"{max(domain['calibration'] for domain in domains):.4f}",
                ]
            )
    head = [
        "where",
        "spurious weight",
        "slope of E[Y given f], range over domains",
        "intercept",
        "Var(Y given f)",
        "worst domain's calibration error (20 bins, debiased)",
    ]
    return "### The counter-example to theorem 2's condition on M₂, simulated\n\n" + markdown(head, rows)


def _training(found: Sequence[Record]) -> str:
    rows = []
    for one in found:
        config, draws = one["config"], one["draws"]
        rows.append(
            [
                config["objective"],
                f"{config['n']:,}",
                str(config["k"]),
                _spread([draw["spurious"] for draw in draws]),
                _spread([draw["invariant"] for draw in draws]),
                _spread([draw["ood_loss"] - draw["ood_loss_invariant"] for draw in draws]),
                _spread([draw["calibration_error"] for draw in draws]),
            ]
        )
    head = [
        "objective",
        "n per domain",
        "k",
        "spurious weight, median (quartiles)",
        "weight on X_ns (invariant classifier: 1.414)",
        "OOD log-loss over the invariant classifier's, nats",
        "worst training domain's calibration error",
    ]
    return "### Trained on samples, d_ns = 2, d_sp = 3\n\n" + markdown(head, rows)


_MAKERS = {
    "classification": _classification,
    "regression": _regression,
    "simulation": _simulation,
    "training": _training,
}


def _counts(values: Iterable[int | None]) -> str:
    """Return each value with how often it occurs, such as '3 (12), 4 (8)'."""
    seen = list(values)
    numbers = sorted({value for value in seen if value is not None})
    said = [f"{number} ({seen.count(number)})" for number in numbers]
    return ", ".join([*said, f"never ({seen.count(None)})"] if None in seen else said)


def _first_true(holds: Sequence[bool | None], k: Sequence[int]) -> int | None:
    """Return the smallest k from which on the condition is known to hold."""
    fails = [number for number, one in zip(k, holds, strict=True) if one is not True]
    if not fails:
        return k[0]
    return None if fails[-1] == k[-1] else fails[-1] + 1


def _share(flags: Iterable[bool]) -> str:
    seen = list(flags)
    return f"{sum(seen)}/{len(seen)}"


def _same(values: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(set(values))))


def _range(values: Iterable[float]) -> str:
    seen = list(values)
    return f"{min(seen):.3f} to {max(seen):.3f}".replace("-", "−")


def _spread(values: Sequence[float]) -> str:
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return f"{middle:.3f} ({low:.3f}–{high:.3f})".replace("-", "−")
