"""Tables and figure of the study, from its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from _classifiers import CASES, MMCE, OBJECTIVES, PENALISED, SPREADS, Case, landmarks, measured

from clovecal.text import markdown
from clovecal.text import short_number as number
from clovecal.theory import two_bit

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables(records: list[dict[str, Any]]) -> str:
    """Return markdown, every table from the records alone."""
    fits = [one for one in records if "models" in one]
    sampled = [one for one in fits if one["config"]["rows"]]
    population = [one for one in fits if not one["config"]["rows"] and one["config"]["memory"] == 0.95]
    slow = [one for one in fits if one["config"]["memory"] != 0.95]
    weight = [one for one in population if one["config"]["penalty"] < 1e5]
    starts = [one for one in population if of(one) in (Case(0.25, (0.1, 0.2)), Case(0.05, (0.1, 0.2)))]
    differences = [max(one["largest_difference"].values()) for one in records if "largest_difference" in one]
    minutes = sum(one["cpu_seconds"] for one in records) / 60
    return "\n\n".join(
        [
            "### Exact references",
            references(),
            "### On samples",
            fits_table(sampled, ("domains", "rows", "model", "objective", "start")),
            "### In the population: starts and schedules",
            fits_table([one for one in starts if one not in weight], ("domains", "model", "objective", "start")),
            "### In the population: training domains, linear and table, annealed after 100 steps",
            spreads_table(population),
            "### In the population: the penalty's weight, 8 random starts",
            fits_table(weight, ("domains", "objective", "penalty")),
            "### In the population: Adam with its usual β₂ = .999, annealed after 100 steps",
            fits_table(slow, ("domains", "objective")),
            "### Local minima of risk + 10⁵ · CLOvE among odd classifiers",
            minima_table([one for one in records if "minima" in one]),
            f"Penalties of k domains against two domains of the same mean and variance of the noise: "
            f"{len(differences)} sets of domains, 50 classifiers and 4 penalties each, "
            f"largest difference {max(differences):.0e}.",
            f"All together took {minutes:.1f} minutes of one core.",
        ]
    )


def of(record: dict[str, Any]) -> Case:
    """Return the domains of a record."""
    config = record["config"]
    return Case(config["noise"], tuple(config["spurious"]), config.get("mirrored", False))


def words(case: Case) -> str:
    """Return the noises of X₁ and X₂, the spurious bit's in braces."""
    noise, spurious = number(case.noise, 2), ", ".join(f"{one:g}".removeprefix("0") for one in case.spurious)
    return f"({{{spurious}}}, {noise})" if case.mirrored else f"({noise}, {{{spurious}}})"


def references() -> str:
    """Return the exact optima."""
    rows = []
    for name, case in CASES.items():
        optima = {
            "ERM": two_bit.erm_optimum(case.domains()),
            "OPT_IRMv1": two_bit.irm_optimum(case.domains()),
            "invariant = OPT_CLOvE": two_bit.clove_optimum(case.domains()),
        }
        for optimum, score in optima.items():
            at = measured(score, case)
            logits = ", ".join(number(one, 2) for one in score[:2])
            rows.append(
                (name, words(case), optimum, f"({logits})", number(at["spurious"], 2), number(at["test_log_loss"], 3),
                 number(at["test_accuracy"], 2))
            )  # fmt: skip
    head = ("case", "domains", "classifier", "f(1,1), f(1,−1)", "spurious dependence", "test log-loss", "test accuracy")
    return markdown(head, rows, text=(0, 1, 2, 3))


def fits_table(records: list[dict[str, Any]], columns: Sequence[str]) -> str:
    """Return a row for each configuration: medians (lowest–highest) and where the models ended."""
    rows = []
    for record in records:
        config, models = record["config"], record["models"]
        best = min(models, key=lambda one: one["objective"])
        cells = {
            "domains": words(of(record)),
            "rows": f"{config['rows']:,}",
            "model": config["model"],
            "objective": config["objective"],
            "start": f"{config['start']}, {config['schedule']}",
            "penalty": f"{config['penalty']:g}",
        }
        measures = [spread_of([one[name] for one in models], digits) for name, digits in MEASURES.items()]
        chosen = f"{best['near']}, {number(best['spurious'], 2)}" if len(models) > 1 else ""
        # Objectives on different samples do not compare.
        last = () if config["rows"] else (chosen,)
        rows.append((*(cells[name] for name in columns), *measures, ends(models), *last))
    head = (*columns, "spurious dependence", "test log-loss", "test accuracy", "ended near", "lowest objective")
    head = head[: len(rows[0])] if rows else head
    places = len(columns)
    return markdown(head, rows, text=(*range(places), places + 3, places + 4))


MEASURES = {"spurious": 2, "test_log_loss": 3, "test_accuracy": 2}


def spread_of(values: Sequence[float], digits: int) -> str:
    """Return the median, and the range where there is one."""
    low, middle, high = (number(float(f(values)), digits) for f in (np.min, np.median, np.max))
    return middle if low == high else f"{middle} ({low}–{high})"


def ends(models: Sequence[dict[str, Any]]) -> str:
    """Return the points that models ended near, the commonest first."""
    counts = Counter(one["near"] for one in models)
    return ", ".join(name if len(models) == 1 else f"{name} {count}" for name, count in counts.most_common())


def spreads_table(records: list[dict[str, Any]]) -> str:
    """Return what training from ERM leaves of the spurious bit, by training domains."""
    found = {
        (tuple(c["spurious"]), c["objective"], c["model"]): record["models"][0]
        for record in records
        if (c := record["config"])["noise"] == 0.25 and c["schedule"] == "anneal 100" and c["penalty"] == 1e5
    }
    rows = []
    for spread in sorted(SPREADS, key=np.std):
        case = Case(0.25, spread)
        cells = [words(case), str(len(spread)), number(float(np.std(spread)), 3)]
        cells.append(number(measured(two_bit.erm_optimum(case.domains()), case)["spurious"], 2))
        for objective in PENALISED:
            models = [found.get((spread, objective, model)) for model in ("linear", "table")]
            shown = [f"{one['near']} {number(one['spurious'], 2)}" for one in models if one]
            cells.append(" / ".join(dict.fromkeys(shown)))
        rows.append(cells)
    return markdown(("domains", "k", "deviation of β", "ERM", *PENALISED), rows, text=(0, 4, 5, 6, 7))


def minima_table(records: list[dict[str, Any]]) -> str:
    """Return the local minima, the lowest first."""
    by_domains: dict[Case, dict[str, str]] = {}
    for record in records:
        # Searches that stop on the kink of the confidence at ½ end in points a few hundredths apart.
        minima = {one["near"]: one for one in reversed(record["minima"])}
        shown = [
            f"{name} ({', '.join(number(logit, 2) for logit in one['logits'][:2])}): {one['objective']:.2f}"
            for name, one in reversed(minima.items())
        ]
        by_domains.setdefault(of(record), {})[record["config"]["landscape"]] = "<br>".join(shown)
    rows = [(words(case), *(cells[form] for form in MMCE)) for case, cells in by_domains.items()]
    return markdown(("domains", *MMCE), rows, text=range(4))


COLOURS = {
    "ERM": "#000000", "IRM": "#E69F00", "CLOvE, positive, γ 2.5": "#0072B2", "CLOvE, positive, γ 20": "#56B4E9",
    "CLOvE, confidence": "#D55E00",
}  # fmt: skip
MARKS = {"invariant": "*", "constant": "o", "ERM": "s", "agreement": "D", "disagreement": "v", "spurious bit": "^"}


def figures(records: list[dict[str, Any]]) -> dict[str, Figure]:
    """Draw what training does to the spurious bit, and the landscape it does it in."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(11.5, 9.5), dpi=130, layout="constrained")
    (a, b), (c, d) = drawing.subplots(2, 2)
    sampled_panel(a, records)
    deviations_panel(b, records)
    form = "CLOvE, positive, γ 2.5"
    for axes, letter, spread in ((c, "c", (0.1, 0.2)), (d, "d", (0.1, 0.2, 0.3, 0.4, 0.5))):
        shown = landscape_panel(axes, records, Case(0.25, spread), form)
        axes.set_title(f"({letter}) CLOvE in the population, {words(Case(0.25, spread))}", fontsize=10)
    # once for both landscapes, below them: inside it would hide paths
    handles, names = d.get_legend_handles_labels()
    drawing.legend(handles, names, fontsize=8, ncols=len(names), loc="outside lower center")
    drawing.colorbar(shown, ax=[c, d], label="log₁₀ of the mean MMCE (positive class, γ = 2.5)", shrink=0.9)
    return {"two-bit-training": drawing}


def sampled_panel(axes: Any, records: list[dict[str, Any]]) -> None:
    """Draw the spurious dependence of models trained on samples, by case."""
    fits = [one for one in records if "models" in one and one["config"]["rows"] == 500]
    sampled = [one for one in fits if one["config"]["start"] == "near zero"]
    cases = [*CASES.values(), *(Case(0.25, spread) for spread in ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3, 0.4, 0.5)))]
    for place, case in enumerate(cases):
        for shift, objective in enumerate(OBJECTIVES):
            models = [
                model
                for one in sampled
                if of(one) == case and one["config"]["objective"] == objective and one["config"]["model"] == "linear"
                for model in one["models"]
            ]
            at = np.full(len(models), place + 0.16 * (shift - 2)) + np.linspace(-0.04, 0.04, len(models))
            axes.plot(
                at, [one["spurious"] for one in models], "o", ms=5, mfc="none", color=COLOURS[objective],
                label=objective if place == 0 else None,
            )  # fmt: skip
    labels = []
    for case in cases:
        noises = ", ".join(f"{one:g}".removeprefix("0") for one in case.spurious).replace(".3, ", ".3,\n")
        labels.append(f"{number(case.noise, 2)}{' (of X₂)' if case.mirrored else ''}\n{noises}")
    axes.set_xticks(range(len(cases)), labels, fontsize=8)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set(
        xlabel="noise of the invariant bit; below, of the spurious bit by domain; a point a seed",
        ylabel="spurious dependence, mean |Δ logit|",
        ylim=(-0.25, 6.2),
    )
    axes.legend(fontsize=8, ncol=2, loc="upper right")
    axes.set_title("(a) Linear, 500 rows per domain, annealed after 100 steps", fontsize=10)


def deviations_panel(axes: Any, records: list[dict[str, Any]]) -> None:
    """Draw the spurious dependence against the deviation of the spurious noise."""
    for objective in OBJECTIVES:
        points = sorted(
            (float(np.std(c["spurious"])), one["models"][0]["spurious"])
            for one in records
            if "models" in one
            and (c := one["config"])["objective"] == objective
            and (c["noise"], c["rows"], c["model"]) == (0.25, 0, "linear")
            and (c["schedule"], c["memory"]) == ("anneal 100", 0.95)
        )
        if objective == "ERM":
            exact = [(float(np.std(one)), Case(0.25, one)) for one in SPREADS]
            points = sorted((x, measured(two_bit.erm_optimum(case.domains()), case)["spurious"]) for x, case in exact)
        axes.plot(*np.array(points).T, "o-", color=COLOURS[objective], ms=5, lw=1.2, label=objective)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.set(
        xlabel="standard deviation of the spurious bit's noise over training domains",
        ylabel="spurious dependence, mean |Δ logit|",
        ylim=(-0.25, None),
    )
    axes.legend(fontsize=8)
    axes.set_title("(b) Linear, the population, α = .25, penalty put on at ERM's solution", fontsize=10)


def landscape_panel(axes: Any, records: list[dict[str, Any]], case: Case, form: str) -> Any:
    """Draw the penalty over the plane of odd classifiers, the paths of training and the named points."""
    grid = np.linspace(-3.2, 5.2, 90)
    domains = case.domains()

    def penalty(x: float, y: float) -> float:
        p = two_bit.probability(two_bit.odd((x, y)))
        return float(np.mean([two_bit.mmce(p, one, **MMCE[form]) for one in domains]))

    values = [[penalty(x, y) for x in grid] for y in grid]
    shown = axes.contourf(grid, grid, np.log10(values), levels=np.arange(-6, -0.9, 0.5), cmap="cividis", extend="both")
    for one in records:
        config = one["config"]
        chosen = "models" in one and of(one) == case and config["objective"] == form and config["penalty"] == 1e5
        for model in one["models"] if chosen else ():
            if "path" in model and config["model"] == "linear":
                x, y = np.array(model["path"]).T
                axes.plot(x, y, "-", color="white", lw=0.9)
                axes.plot(x[:1], y[:1], ".", color="white", ms=4)
                axes.plot(x[-1:], y[-1:], "x", color="#CC79A7", ms=9, mew=2.5, zorder=4)
    axes.plot([], [], "x", color="#CC79A7", ms=9, mew=2.5, label="end of training (random starts)")
    for name, marker in MARKS.items():
        for p in landmarks(case)[name]:
            x, y = two_bit.score(p)[:2]
            axes.plot(
                x, y, marker, ms=13 if marker == "*" else 7, mfc="white", mec="black", zorder=3, label=name, ls="none"
            )
    axes.set(xlim=(-3.2, 5.2), ylim=(-3.2, 5.2), xlabel="f(1, 1), logit", ylabel="f(1, −1), logit", aspect="equal")
    return shown
