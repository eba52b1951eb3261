"""``clovecal calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from clovecal.cli._console import (
    check_writable,
    json_option,
    load,
    naming,
    output_option,
    print_json,
    progress,
    table_options,
)


@click.command("calibrate")
@click.argument("file")
@output_option("the calibrator (JSON)")
@table_options
@click.option(
    "--method",
    type=click.Choice(["naive", "robust", "auto"]),
    default="auto",
    show_default=True,
    help="Pooled isotonic regression, that of the worst domain, or what leaving domains out speaks for.",
)
@click.option(
    "--objective",
    type=click.Choice(["risk", "regret"]),
    default="risk",
    show_default=True,
    help="What the robust fit minimises: the worst domain's Brier score (the paper's) or its excess.",
)
@click.option(
    "--shrinkage",
    default=0.0,
    show_default=True,
    help="Share of the rows, from the worst domains, that the robust fit is for: 0 the worst domain alone, 1 all rows.",
)
@json_option
def command(
    file: str, output: Path, force: bool, method: str, objective: str, shrinkage: float, as_json: bool, **columns: Any
) -> None:
    """Fit a calibrator on validation predictions.

    FILE must hold rows that the model was not trained on. The result is used with `clovecal apply`.

    \b
    Example:
        clovecal calibrate validation.parquet -o cal.json --method robust --objective regret
    """
    from clovecal import AutoCalibrator, NaiveIsotonic, RobustIsotonic

    check_writable(output, overwrite=force)
    calibrators: dict[str, Any] = {
        "naive": NaiveIsotonic(),
        "robust": RobustIsotonic(objective, shrinkage=shrinkage),
        "auto": AutoCalibrator(),
    }
    calibrator = calibrators[method]
    table = load(file, columns)
    with naming(table), progress("Fitting"):
        calibrator.fit(table.p, table.y, domains=table.domains, sample_weight=table.sample_weight)
    calibrator.save(output, overwrite=force)
    if as_json:
        print_json({"calibrator": str(output), "method": method, **_details(calibrator)})
        return
    click.echo(f"{method} calibrator fitted on {table.n_rows:,} rows of {len(table.domains.names)} domains.")
    if method == "robust":
        certificate = calibrator.certificate_
        whose = (
            f"Mean {objective} of the worst-off {shrinkage:.0%} of the rows"
            if shrinkage
            else f"Worst domain's {objective}"
        )
        click.echo(f"{whose}: {certificate.worst:.5f}, optimal to within {certificate.gap:.1e}.")
    if method == "auto":
        is_regression = table.p.ndim == 1 and any(value not in (0, 1) for value in table.y[:1000])
        loss = "Squared error" if is_regression else "Brier score"
        click.echo(f"{loss} on a domain left out of the fit (mean, worst domain) and share in the result:")
        for one in calibrator.table_:
            click.echo(f"  {one.name:<30} {one.mean:.4f}  {one.worst:.4f}  {one.weight:6.1%}")
    click.echo(f"Calibrator: {output}")


def _details(calibrator: Any) -> dict[str, Any]:
    if hasattr(calibrator, "certificate_"):
        certificate = calibrator.certificate_
        return {"worst": certificate.worst, "lower_bound": certificate.lower_bound, "gap": certificate.gap}
    if hasattr(calibrator, "table_"):
        return {
            "candidates": [
                {"name": one.name, "mean": one.mean, "worst": one.worst, "weight": one.weight}
                for one in calibrator.table_
            ]
        }
    return {}
