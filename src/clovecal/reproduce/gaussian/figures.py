"""The linear-Gaussian figure: spurious weights and losses against the number of domains, drawn from records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from clovecal.plots import COLOURS, MARKERS
from clovecal.reproduce.study import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY = "#8a8a8a"
_WEIGHT = "largest spurious weight of a\ncalibrated {} (bars: all draws)"


def figures(found: Sequence[Record]) -> dict[str, Figure]:
    """Draw the one figure."""
    return {"gaussian": figure(found)}


def figure(found: Sequence[Record]) -> Figure:
    """Draw what calibrated predictors can carry (top), and what training makes of samples (bottom)."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(15, 9), dpi=100, layout="constrained")
    axes = canvas.subplots(2, 3)
    classification = _part(found, "classification")
    generic = [one for one in classification if one["config"]["kind"] == "full" and one["config"]["d_ns"]]
    special = [one for one in classification if one["config"]["kind"] != "full" or not one["config"]["d_ns"]]
    largest_dimension = max(one["config"]["d_sp"] for one in generic)
    special = [one for one in special if one["config"]["d_sp"] == largest_dimension or not one["config"]["d_ns"]]
    classifiers(generic, axes[0, 0])
    axes[0, 0].set_title("(a) classification, random domains", loc="left")
    classifiers(special, axes[0, 1])
    axes[0, 1].set_title("(b) classification, special domains", loc="left")
    regressors(_part(found, "regression"), axes[0, 2])
    axes[0, 2].set_title("(c) regression, calibrated in both moments", loc="left")
    training = _part(found, "training")
    by_domains(training, axes[1, 0], "spurious")
    axes[1, 0].set_title("(d) trained on samples: spurious weight", loc="left")
    by_domains(training, axes[1, 1], "excess")
    axes[1, 1].set_title("(e) and loss where the correlation reverses", loc="left")
    by_rows(training, axes[1, 2])
    axes[1, 2].set_title("(f) that loss against rows", loc="left")
    return canvas


def classifiers(found: Sequence[Record], ax: Axes) -> Axes:
    """Draw the largest spurious weight against k − d_sp, and where theorem 1 (or lemma S3) promises none."""
    for number, (one, colour, marker) in enumerate(zip(found, COLOURS, MARKERS, strict=False)):
        config = one["config"]
        d, kind = config["d_sp"], config["kind"]
        about = f"$d_{{sp}}$ = {d}" if kind == "full" and config["d_ns"] else f"{kind}, $d_{{sp}}$ = {d}"
        if not config["d_ns"]:
            about += ", no $X_{ns}$"
        k = np.array(one["k"]) - d
        _bars(
            k + 0.07 * (number - len(found) / 2), [draw["largest"] for draw in one["draws"]], ax, colour, marker, about
        )
        promised = 2 if kind == "isotropic" else d + 1
        ax.plot(promised, 0, marker, markersize=12, markerfacecolor="none", markeredgecolor=colour, clip_on=False)
    ax.axvline(1.5, color=_GREY, linestyle="--", linewidth=1)
    ax.set_xlabel("domains beyond the number of spurious features, k − $d_{sp}$")
    ax.set_ylabel(_WEIGHT.format("classifier"))
    ax.set_ylim(bottom=0)
    return _legend(ax, "dashed: none to the right, if domains are generic\nlarge open marker: enough by the paper")


def regressors(found: Sequence[Record], ax: Axes) -> Axes:
    """Draw the largest spurious weight against k, and where theorem 2 promises none."""
    shown = [one for one in found if not one["config"]["d_ns"]]
    for number, (one, colour, marker) in enumerate(zip(shown[-len(COLOURS) :], COLOURS, MARKERS, strict=False)):
        config = one["config"]
        about = f"$d_c$ = {config['d_c']}, $d_{{sp}}$ = {config['d_sp']}"
        if config["kind"] == "degenerate":
            about += ", degenerate"
        k = np.array(one["k"]) + 0.07 * (number - len(shown) / 2)
        _bars(k, [draw["largest_2"] for draw in one["draws"]], ax, colour, marker, about)
        promised = max(config["d_c"] + 2, config["d_sp"]) + 1
        ax.plot(promised, 0, marker, markersize=12, markerfacecolor="none", markeredgecolor=colour, clip_on=False)
    ax.set_xlabel("domains k")
    ax.set_ylabel(_WEIGHT.format("regressor"))
    ax.set_ylim(bottom=0)
    return _legend(
        ax, "large open marker: enough by the paper's condition on $M_2$,\nwhich the degenerate domains meet"
    )


def by_domains(found: Sequence[Record], ax: Axes, what: str) -> Axes:
    """Draw the trained classifiers' spurious weight or excess loss against k, for the most and the fewest rows."""
    rows = sorted({one["config"]["n"] for one in found})
    for objective, colour, marker in _objectives(found):
        mine = [one for one in found if one["config"]["objective"] == objective]
        sizes = sorted({one["config"]["n"] for one in mine})
        for n in dict.fromkeys((sizes[-1], sizes[0])):
            some = sorted((one for one in mine if one["config"]["n"] == n), key=lambda one: one["config"]["k"])
            line = "-" if n == rows[-1] else "--" if len(sizes) == 1 else ":"
            k = [one["config"]["k"] for one in some]
            _quartiles(k, [_values(one, what) for one in some], ax, colour, marker, f"{objective}, n = {n:,}", line)
    d_sp = found[0]["d_sp"]
    ax.axvline(d_sp + 1.5, color=_GREY, linestyle="--", linewidth=1)
    ax.axhline(0, color=_GREY, linewidth=0.8)
    ax.set_xlabel("training domains k (dashed: from here on calibration suffices)")
    ax.set_ylabel(_LABELS[what])
    return _legend(ax, "")


def by_rows(found: Sequence[Record], ax: Axes) -> Axes:
    """Draw the excess loss against the rows of a domain, with more domains than calibration needs."""
    most = max(one["config"]["k"] for one in found)
    for objective, colour, marker in _objectives(found):
        some = [one for one in found if one["config"]["objective"] == objective and one["config"]["k"] == most]
        some.sort(key=lambda one: one["config"]["n"])
        n = [one["config"]["n"] for one in some]
        _quartiles(n, [_values(one, "excess") for one in some], ax, colour, marker, f"{objective}, k = {most}", "-")
    ax.set_xscale("log")
    ax.axhline(0, color=_GREY, linewidth=0.8)
    ax.set_xlabel("rows of each domain, n")
    ax.set_ylabel(_LABELS["excess"])
    return _legend(ax, "")


_LABELS = {
    "spurious": "norm of the spurious weights\n(median, quartiles of the draws)",
    "excess": "log-loss in new domains over the invariant\nclassifier's, nats (median, quartiles)",
}


def _part(found: Sequence[Record], name: str) -> list[Record]:
    return [one for one in found if one["config"]["part"] == name]


def _objectives(found: Sequence[Record]) -> list[tuple[str, str, str]]:
    names = dict.fromkeys(one["config"]["objective"] for one in found)
    return list(zip(names, COLOURS, MARKERS, strict=False))


def _values(one: Record, what: str) -> list[float]:
    if what == "excess":
        return [draw["ood_loss"] - draw["ood_loss_invariant"] for draw in one["draws"]]
    return [draw[what] for draw in one["draws"]]


def _bars(
    x: NDArray[np.float64], draws: Sequence[Sequence[float]], ax: Axes, colour: str, marker: str, about: str
) -> None:
    values = np.array(draws)
    middle = np.median(values, axis=0)
    spread = np.stack([middle - values.min(axis=0), values.max(axis=0) - middle])
    ax.errorbar(x, middle, yerr=spread, color=colour, marker=marker, markersize=4, elinewidth=0.9, label=about)


def _quartiles(
    x: Sequence[int], draws: Sequence[Sequence[float]], ax: Axes, colour: str, marker: str, about: str, line: str
) -> None:
    low, middle, high = np.array([np.quantile(values, (0.25, 0.5, 0.75)) for values in draws]).T
    ax.plot(x, middle, line, color=colour, marker=marker, markersize=5, label=about)
    ax.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)


def _legend(ax: Axes, title: str) -> Axes:
    from matplotlib.ticker import MaxNLocator

    if ax.get_xscale() == "linear":  # domains are whole
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=8, title=title or None, title_fontsize=8, facecolor="white", framealpha=0.7, edgecolor="none")
    return ax
