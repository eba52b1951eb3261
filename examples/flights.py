"""Late flights: train on large airlines, audit each airline, then look at airlines the model has never seen."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import clovecal as cc
from clovecal.datasets import load_flights
from clovecal.plots import error_by_domain, reliability_diagram

matplotlib.use("Agg")

LARGE = 10_000  # flights; airlines with fewer are the ones nobody has seen yet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the results")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    flights = load_flights()
    airlines, counts = np.unique(flights.domains, return_counts=True)
    seen = np.isin(flights.domains, airlines[counts >= LARGE])
    train = seen & (np.random.default_rng(0).random(len(seen)) < 0.5)
    print(f"{len(seen):,} flights from New York in 2013; {flights.y.mean():.1%} arrived more than 15 minutes late.")
    print(f"Training a logistic regression on half of the flights of {len(set(flights.domains[train]))} airlines ...\n")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(flights.X[train], flights.y[train])
    p = model.predict_proba(flights.X)[:, 1]

    audits = {}
    for title, rows in {
        "Airlines it was trained on (flights it was not)": seen & ~train,
        "Airlines it has never seen": ~seen,
    }.items():
        audits[title] = cc.audit(flights.y[rows], p[rows], domains=flights.domains[rows])
        print(f"== {title} ==\n\n{audits[title]}\n")
    draw(audits, output / "flights.png")
    (output / "audit.json").write_text(json.dumps({title: audit.to_dict() for title, audit in audits.items()}, indent=1))
    print(f"Figure: {output / 'flights.png'}\nAll numbers: {output / 'audit.json'}")


def draw(audits: dict[str, cc.Audit], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(13, 11), layout="constrained", width_ratios=(1, 1))
    limit = 1.05 * max(high for audit in audits.values() for _, high in audit.calibration.intervals.values())
    for row, (title, audit) in zip(axes, audits.items(), strict=True):
        reliability_diagram(audit, row[0]).set_title(title, loc="left", fontweight="bold")
        error_by_domain(audit.calibration, row[1]).set_xlim(0, limit)
    figure.suptitle("Probability that a flight arrives more than 15 minutes late")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
