"""``clovecal demo``: the whole job on built-in flight data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from clovecal.cli._console import progress
from clovecal.datasets import DomainDataset

_LARGE = 10_000  # flights; airlines with fewer are the ones nobody has seen yet
_LABELS = 50


@click.command("demo")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("clovecal-demo"),
    show_default=True,
    help="Folder for the page; that of an earlier demo in it is replaced.",
)
def command(output: Path) -> None:
    """Run the whole job on built-in flight data: train, select, audit, calibrate, and adapt to unseen airlines.

    \b
    Example:
        clovecal demo -o clovecal-demo
    """
    from clovecal import audit, per_domain, select
    from clovecal.datasets import load_flights
    from clovecal.metrics import brier, ece

    flights = load_flights()
    rows = _split(flights)
    click.echo(
        f"{len(flights.y):,} flights from New York in 2013; {flights.y.mean():.1%} were over 15 minutes late.\n"
        f"Large airlines are known, the {len(set(flights.domains[rows['unseen']]))} small ones play the part of "
        "domains nobody has seen yet.\n"
    )
    predictions = _train(flights, rows["train"])

    validation = rows["validation"]
    y, airline = flights.y[validation], flights.domains[validation]
    with progress("Selecting"):
        selection = select(
            {name: p[validation] for name, p in predictions.items()}, y, domains=airline, min_accuracy=0.75
        )
    click.echo(f"== 1. Which model? (validation flights of known airlines) ==\n\n{selection}\n")
    p = predictions[selection.best or next(iter(predictions))]

    with progress("Auditing"):
        result = audit(y, p[validation], domains=airline)
    click.echo(f"== 2. Is it equally right for every airline? ==\n\n{result}\n")

    calibrators = _calibrators(p[validation], y, airline)
    unseen = rows["unseen"]
    click.echo("== 3. And for airlines it has never seen? (mean over airlines, and the worst) ==\n")
    click.echo(f"{'':<28}  {'Brier':>15}  {'ECE':>15}")
    for name, calibrator in {"as it is": None, **calibrators}.items():
        calibrated = p[unseen] if calibrator is None else calibrator.predict(p[unseen])
        shown = []
        for metric in (brier, ece):
            value = per_domain(metric, flights.y[unseen], calibrated, domains=flights.domains[unseen])
            shown.append(f"{value.mean:.4f}  {value.worst:.4f}")
        click.echo(f"{name:<28}  {shown[0]:>15}  {shown[1]:>15}")
    click.echo(
        "\nThe audit above is of airlines the model was trained on. For others the error is several times as large,\n"
        "and no recalibration on known airlines mends that: airlines differ in how late they are, whatever the\n"
        "timetable says. Labels of the new airline do.\n"
    )
    with progress("Adapting"):
        lines = _adapted_to_each(p, flights, rows)
    click.echo(f"== 4. What was expected of each of them, and after {_LABELS} of its flights ==\n")
    click.echo("\n".join(lines) + "\n")
    output.mkdir(parents=True, exist_ok=True)
    page = output / "report.html"
    with progress("Writing the page"):
        result.report(
            page,
            selection=selection,
            title="Late flights from New York, by airline",
            source="built-in flight data",
            command="clovecal demo",
            overwrite=True,
        )
    click.echo(f"Page: {page}")


def _adapted_to_each(p: NDArray[np.float64], flights: DomainDataset, rows: Mapping[str, NDArray[Any]]) -> list[str]:
    """Say what known airlines let expect of each new one, what happened, and what a few of its labels are worth."""
    from clovecal import HierarchicalCalibrator
    from clovecal.metrics import brier

    known = rows["validation"]
    calibrator = HierarchicalCalibrator().fit(p[known], flights.y[known], domains=flights.domains[known])
    head = f"{'':<28}{'late, expected (90%)':>22}{'late':>8}{'Brier as is':>13}{f'after {_LABELS}':>10}"
    lines, held, changes = [head], 0, []
    rng = np.random.default_rng(0)
    names = np.unique(flights.domains[rows["unseen"]])
    for name in names:
        own = rng.permutation(np.flatnonzero(flights.domains == name))
        labelled, others = own[:_LABELS], own[_LABELS:]
        expected = calibrator.expect(p[others], rows=len(others)).outcome
        happened = float(flights.y[others].mean())
        adapted = calibrator.adapt(p[labelled], flights.y[labelled])
        before, after = (brier(flights.y[others], one) for one in (p[others], adapted.predict(p[others])))
        held += expected.low <= happened <= expected.high
        changes.append(after - before)
        interval = f"{expected.low:.0%} to {expected.high:.0%}"
        lines.append(f"{name:<28}{interval:>22}{happened:>8.1%}{before:>13.4f}{after:>10.4f}")
    lower = sum(change < 0 for change in changes)
    lines += [
        "",
        f"{held} of {len(names)} were as late as expected; the known airlines trained the model too, which makes what\n"
        f"is expected of others too sure. {_LABELS} labels lowered the Brier score of {lower} of {len(names)}, by "
        f"{-np.mean(changes):.4f} on average.",
    ]
    return lines


def _split(flights: DomainDataset) -> Mapping[str, NDArray[Any]]:
    airlines, counts = np.unique(flights.domains, return_counts=True)
    known = np.isin(flights.domains, airlines[counts >= _LARGE])
    enough = np.isin(flights.domains, airlines[counts >= 100])  # SkyWest's 29 flights say nothing
    half = np.random.default_rng(0).random(len(known)) < 0.5
    return {"train": known & half, "validation": known & ~half, "unseen": ~known & enough}


def _train(flights: DomainDataset, train: NDArray[Any]) -> dict[str, NDArray[np.float64]]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import SplineTransformer, StandardScaler

    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "logistic with splines": make_pipeline(SplineTransformer(n_knots=8), LogisticRegression(max_iter=300)),
        "boosting": HistGradientBoostingClassifier(max_iter=60, random_state=0),
        "boosting, large": HistGradientBoostingClassifier(max_iter=120, max_leaf_nodes=63, random_state=0),
    }
    predictions = {}
    for name, model in models.items():
        with progress(f"Training {name}"):
            model.fit(flights.X[train], flights.y[train])
            predictions[name] = np.asarray(model.predict_proba(flights.X)[:, 1])
    return predictions


def _calibrators(p: NDArray[np.float64], y: NDArray[Any], airline: NDArray[Any]) -> dict[str, Any]:
    from clovecal import AutoCalibrator, NaiveIsotonic, RobustIsotonic

    with progress("Calibrating"):
        return {
            "naive": NaiveIsotonic().fit(p, y),
            "robust (risk, the paper's)": RobustIsotonic("risk").fit(p, y, domains=airline),
            "robust (regret)": RobustIsotonic("regret").fit(p, y, domains=airline),
            "auto": AutoCalibrator().fit(p, y, domains=airline),
        }
