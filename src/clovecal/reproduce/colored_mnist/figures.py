"""Figures of Colored MNIST from records alone (paper: figure 3b and those of appendix C)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from clovecal.plots import COLOURS, MARKERS
from clovecal.reproduce.colored_mnist.choice import (
    CRITERIA,
    OURS,
    Pool,
    methods_of,
    models_in,
    objective,
    optimal_log_losses,
    pearson,
    pools,
    selection,
    settings_of,
    spread,
)
from clovecal.reproduce.colored_mnist.settings import METHODS, PAPERS, SETTINGS, TITLES
from clovecal.reproduce.study import Record

_RED = "#c00000"  # the paper's red marks: a dashed line, a diamond
_NEAREST = 1e-3  # nats above the optimum, for a logarithmic axis
_LEAST_SPAN = 0.04  # of an accuracy axis, so that it does not magnify single digits
_FLOORS = np.arange(0.5, 1.0, 0.0025)


def figures(records: Sequence[Record]) -> dict[str, Figure]:
    """Draw all figures that the records of models allow, by the name of their file."""
    records = models_in(records)
    settings = settings_of(records)
    drawn = {"log-loss": box_figure(records), "log-loss-above-optimum": closeness_figure(records)}
    for setting in settings:
        drawn[f"criteria-{setting}"] = correlation_figure(records, setting, ("ece", OURS, "log-raw-irm"))
    drawn["selection"] = selection_figure(records, settings, ("ece", OURS))
    papers = [one for one in records if one["config"]["method"]["name"] in PAPERS]
    if papers:  # the paper's comparison, among the paper's models
        drawn["ece-against-irm"] = selection_figure(papers, settings_of(papers), ("ece", "raw-irm"))
        for setting in settings_of(papers):  # figures 3b and S7: the paper's criteria, models and scales
            drawn[f"paper-criteria-{setting}"] = correlation_figure(papers, setting, ("ece", "raw-irm"))
    return drawn


def closeness_figure(records: Sequence[Record]) -> Figure:
    """Draw which share of each method's models has a test log-loss of at most so much above the invariant optimum."""
    settings = settings_of(records)
    figure = Figure(figsize=(4.8 * len(settings), 3.8), dpi=110, layout="constrained")
    for axes, setting in zip(figure.subplots(1, len(settings), squeeze=False, sharey=True)[0], settings, strict=True):
        here = [one for one in records if one["config"]["setting"] == setting and "diverged" not in one]
        for method in methods_of(here):
            losses = [one["test"]["log_loss"] for one in here if one["config"]["method"]["name"] == method]
            above = np.sort(np.maximum(np.array(losses) - optimal_log_losses(setting)[0], _NEAREST))
            share = np.arange(1, len(above) + 1) / len(above)
            axes.step(above, share, where="post", color=_colour(method), label=TITLES.get(method, method))
        axes.set_xscale("log")
        axes.set_xlabel("test log-loss above the invariant optimum, nats")
        axes.set_title(str(SETTINGS[setting]), fontsize="medium")
        axes.legend(fontsize="small", frameon=False, loc="lower right")
    figure.axes[0].set_ylabel("share of the models with at most that")
    return figure


def box_figure(records: Sequence[Record]) -> Figure:
    """Draw the log-loss in the test domain by method, with the two optima and the member of lowest objective in bold.

    A box goes from quartile to quartile, its whiskers to the 5th and the 95th percentile; every model is a dot.
    """
    settings = settings_of(records)
    figure = Figure(figsize=(5.2 * len(settings), 4.4), dpi=110, layout="constrained")
    for axes, setting in zip(figure.subplots(1, len(settings), squeeze=False)[0], settings, strict=True):
        _box_panel(axes, [one for one in records if one["config"]["setting"] == setting], setting)
    return figure


def _box_panel(axes: Axes, records: Sequence[Record], setting: str) -> None:
    trained = [one for one in records if "diverged" not in one]
    rng = np.random.default_rng(0)
    methods = methods_of(records)
    for place, method in enumerate(methods):
        colour = _colour(method)
        members = [one for one in trained if one["config"]["method"]["name"] == method]
        losses = np.array([one["test"]["log_loss"] for one in members])
        axes.plot(place + rng.uniform(-0.25, 0.25, len(losses)), losses, ".", color=colour, alpha=0.35, markersize=4)
        axes.boxplot(
            losses,
            positions=[place],
            widths=0.6,
            whis=(5, 95),
            showfliers=False,
            boxprops={"color": colour},
            whiskerprops={"color": colour},
            capprops={"color": colour},
            medianprops={"color": colour},
        )
        for seed in sorted({one["config"]["seed"] for one in members}):
            best = min((one for one in members if one["config"]["seed"] == seed), key=objective)
            axes.hlines(best["test"]["log_loss"], place - 0.38, place + 0.38, color=colour, linewidth=3.5, zorder=4)
    invariant, irm = optimal_log_losses(setting)
    axes.axhline(invariant, color="black", linestyle="--", linewidth=1.2, zorder=5)
    if irm > invariant + 1e-9:
        axes.axhline(irm, color=_RED, linestyle="--", linewidth=1.2, zorder=5)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xticks(range(len(methods)), [_on_lines(TITLES.get(one, one)) for one in methods], fontsize="small")
    axes.set_ylabel("log-loss in the test domain, nats")
    axes.set_title(str(SETTINGS[setting]), fontsize="medium")
    axes.set_xlabel("box: quartiles; whiskers: 5% and 95%; dots: models", fontsize="small")
    handles = [
        Line2D([], [], color="black", linestyle="--", label=f"optimal invariant classifier, {invariant:.3f}"),
        *(
            [Line2D([], [], color=_RED, linestyle="--", label=f"OPT$_\\mathrm{{IRMv1}}$, {irm:.3f}")]
            if irm > invariant + 1e-9
            else []
        ),
        Line2D([], [], color="#555555", linewidth=3.5, label="lowest training objective, each seed"),
    ]
    axes.legend(handles=handles, fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(0, -0.27))


def correlation_figure(records: Sequence[Record], setting: str, criteria: Sequence[str]) -> Figure:
    """Draw criteria against the accuracy in the test domain; a marker's size is the ratio to the in-domain accuracy."""
    figure = Figure(figsize=(4.3 * len(criteria), 4.2), dpi=110, layout="constrained")
    found = pools(records, setting)
    all_axes = figure.subplots(1, len(criteria), squeeze=False, sharey=True)[0]
    for axes, criterion in zip(all_axes, criteria, strict=True):
        for method in methods_of([one for one in records if one["config"]["setting"] == setting]):
            for number, pool in enumerate(found):
                mine = pool.method == method
                axes.scatter(
                    pool.shown(criterion)[mine],
                    pool.ood_accuracy[mine],
                    s=45 * pool.ood_accuracy[mine] / pool.id_accuracy[mine],
                    color=_colour(method),
                    marker=_marker(method),
                    alpha=0.55,
                    linewidths=0,
                    label=None if number else TITLES.get(method, method),
                )
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(f"{CRITERIA[criterion].axis}, mean over the training domains")
        axes.set_title(f"Pearson {spread([pearson(pool, criterion) for pool in found], 2)}", fontsize="medium")
    all_axes[0].set_ylabel("accuracy in the test domain (size: ratio to in-domain)")
    all_axes[0].legend(fontsize="small", frameon=False, loc="lower left")
    spread_of = "; correlations: mean ± standard deviation over them" if len(found) > 1 else ""
    seeds = f"{len(found)} seed{'s' * (len(found) > 1)} of the data{spread_of}"
    figure.suptitle(f"{SETTINGS[setting]}, {seeds}", fontsize="medium")
    return figure


def selection_figure(records: Sequence[Record], settings: Sequence[str], criteria: Sequence[str]) -> Figure:
    """Draw the test accuracy of what is chosen at each in-domain accuracy floor, a panel a setting.

    Lines are means over the seeds of the data, bands a standard deviation to each side; where a floor is met in some
    seeds only, the line ends. The red diamond is the choice by in-domain accuracy alone.
    """
    figure = Figure(figsize=(5.6 * len(settings), 4.2), dpi=110, layout="constrained")
    for axes, setting in zip(figure.subplots(1, len(settings), squeeze=False)[0], settings, strict=True):
        found = pools(records, setting)
        for criterion, colour in zip(criteria, COLOURS, strict=False):
            _curve(axes, found, criterion, colour)
        most = [int(np.argmax(pool.id_accuracy)) for pool in found]
        alone = np.array(
            [(pool.id_accuracy[one], pool.ood_accuracy[one]) for pool, one in zip(found, most, strict=True)]
        )
        (x, y), deviation = alone.mean(axis=0), _deviation(alone)
        style = {"fmt": "D", "color": _RED, "markersize": 7, "capsize": 3, "zorder": 5}
        axes.errorbar(x, y, *deviation[::-1], label="in-domain accuracy alone", **style)
        lowest = max(0.5, min(pool.id_accuracy.min() for pool in found))
        axes.set_xlim(lowest, x + 0.08 * (x - lowest) + 0.002)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, (low + high - _LEAST_SPAN) / 2), max(high, (low + high + _LEAST_SPAN) / 2))
        axes.set_xlabel("in-domain accuracy that is asked for")
        axes.set_ylabel("accuracy of the chosen model\nin the test domain")
        axes.set_title(str(SETTINGS[setting]), fontsize="medium")
        title = (
            f"chosen by (band, bars: ± 1 standard deviation of {len(found)} seeds)" if len(found) > 1 else "chosen by"
        )
        axes.legend(
            fontsize="small", frameon=False, title=title, title_fontsize="small", alignment="left",
            loc="upper left", bbox_to_anchor=(0, -0.13), ncols=len(criteria) + 1,
        )  # fmt: skip
    among = ", ".join(TITLES.get(one, one) for one in methods_of(records))
    figure.suptitle(f"choice among all models of {among}", fontsize="medium")
    return figure


def _curve(axes: Axes, found: Sequence[Pool], criterion: str, colour: str) -> None:
    accuracy: NDArray[np.float64] = np.full((len(found), len(_FLOORS)), np.nan)
    for row, pool in zip(accuracy, found, strict=True):
        points = selection(pool, criterion, floor=None).curve(_FLOORS.tolist())  # as far as a model reaches the floor
        row[: len(points)] = pool.ood_accuracy[[int(point.best) for point in points]]
    mean, deviation = accuracy.mean(axis=0), _deviation(accuracy)
    axes.step(_FLOORS, mean, where="post", color=colour, label=CRITERIA[criterion].label)
    if len(found) > 1:
        axes.fill_between(_FLOORS, mean - deviation, mean + deviation, step="post", color=colour, alpha=0.15, lw=0)


def _deviation(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation over the first axis; 0 where there is one value."""
    return values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])


def _on_lines(name: str) -> str:
    return name.replace(" (", "\n(").replace(", ", ",\n")


def _place(method: str) -> int:
    return list(METHODS).index(method) if method in METHODS else len(METHODS)


def _colour(method: str) -> str:
    return COLOURS[_place(method) % len(COLOURS)]


def _marker(method: str) -> str:
    return MARKERS[_place(method) % len(MARKERS)]
