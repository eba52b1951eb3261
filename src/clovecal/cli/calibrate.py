"""``clovecal calibrate``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._console import (
    check_writable,
    json_option,
    load,
    naming,
    output_option,
    print_json,
    progress,
    reject_input_as_output,
    say_regression,
    table_options,
)
from clovecal.cli._registered import RegisteredName, RegisteredOption, import_option
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.calibrators import Calibrator, RegisteredCalibrator
    from clovecal.tables import PredictionTable


@click.command("calibrate")
@click.argument("file")
@output_option("the calibrator (JSON)")
@table_options
@click.option(
    "--method",
    cls=RegisteredOption,
    type=RegisteredName(lambda: _registry()),
    listing=lambda: "; ".join(f"{name}: {entry.meaning}" for name, entry in _registry().items()) + ".",
    default="auto",
    show_default=True,
)
@click.option(
    "--objective",
    type=click.Choice(["risk", "regret"]),
    help="What the robust fit minimises: the worst domain's Brier score (the paper's, the default) or its excess.",
)
@click.option(
    "--shrinkage",
    type=float,
    help="Share of the rows, from the worst domains, that the robust fit is for: 0 the worst domain alone (the "
    "default), 1 all rows.",
)
@click.option(
    "--balance",
    type=click.Choice(["rows", "domains"]),
    help="What weighs the same in a pooled fit: rows (the default), or domains, whatever their size.",
)
@import_option
@json_option
def command(
    file: str,
    output: Path,
    force: bool,
    method: str,
    objective: str | None,
    shrinkage: float | None,
    balance: str | None,
    as_json: bool,
    **columns: Any,
) -> None:
    """Fit a calibrator on validation predictions.

    FILE must hold rows that the model was not trained on. The result is used with `clovecal apply`,
    and can be adapted to a new domain with `clovecal adapt`.

    \b
    Example:
        clovecal calibrate validation.parquet -o cal.json --method robust --objective regret
    """
    check_writable(output, overwrite=force)
    reject_input_as_output(output, file)
    chosen = _made(method, {"objective": objective, "shrinkage": shrinkage, "balance": balance})
    table = load(file, columns)
    with naming(table), progress("Fitting"):
        fitted = _able_to_adapt(chosen, table).fit_table(table)
    fitted.save(output, overwrite=force)
    calibrator = _of_the_method(fitted)
    fitted_on = fitted.fitted_on_
    regression = fitted_on is not None and fitted_on.task == "regression"
    if regression:
        say_regression(table, file)
    if as_json:
        print_json({"calibrator": str(output), "method": method, **_details(calibrator)})
        return
    domains = len(table.domains.names)
    click.echo(f"{method} calibrator fitted on {table.n_rows:,} rows of {domains} domain{'s' * (domains != 1)}.")
    _describe(calibrator, "Squared error" if regression else "Brier score")
    if fitted is not calibrator:
        click.echo(f"It can be adapted to a new domain with a few labels there: clovecal adapt {output} …")
    click.echo(f"Calibrator: {output}")


def _registry() -> Mapping[str, RegisteredCalibrator]:
    from clovecal.calibrators import CALIBRATORS

    return CALIBRATORS


def _made(method: str, options: Mapping[str, Any]) -> Calibrator:
    """Return the unfitted calibrator, or say which method an option belongs to."""
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in _registry()[method].options:
            methods = " or ".join(f"--method {one}" for one, entry in _registry().items() if name in entry.options)
            raise InputError(f"--{name}", f"only applies to {methods}", "choose that, or drop the option")
    return _registry()[method].make(**given)


def _able_to_adapt(method: Calibrator, table: PredictionTable) -> Calibrator:
    """Return what also learns how domains differ, and predicts as the method does where no domain is known."""
    from clovecal.calibrators import HierarchicalCalibrator, ScoredRows

    task = ScoredRows.of(table.p, table.y).task
    if isinstance(method, HierarchicalCalibrator) or task not in HierarchicalCalibrator.tasks:
        return method
    return HierarchicalCalibrator(method, new_domain="base")


def _of_the_method(fitted: Calibrator) -> Calibrator:
    """Return the method's own fitted calibrator."""
    from clovecal.calibrators import HierarchicalCalibrator

    if isinstance(fitted, HierarchicalCalibrator) and fitted.new_domain == "base" and fitted.base_ is not None:
        return fitted.base_
    return fitted


def _describe(calibrator: Calibrator, loss: str) -> None:
    from clovecal.calibrators import AutoCalibrator, RobustIsotonic

    if isinstance(calibrator, RobustIsotonic):
        objective, certificate = calibrator.objective, calibrator.certificate_
        whose = f"Worst domain's {objective}"
        if calibrator.shrinkage:
            whose = f"Mean {objective} of the worst-off {calibrator.shrinkage:.0%} of the rows"
        click.echo(f"{whose}: {certificate.worst:.5f}, optimal to within {certificate.gap:.1e}.")
    if isinstance(calibrator, AutoCalibrator):
        click.echo(f"{loss} on a domain left out of the fit (mean, worst domain) and share in the result:")
        for candidate in calibrator.table_:
            row = f"{candidate.mean:.4f}  {candidate.worst:.4f}  {candidate.weight:6.1%}"
            click.echo(f"  {candidate.name:<30} {row}")


def _details(calibrator: Calibrator) -> dict[str, Any]:
    from clovecal.calibrators import AutoCalibrator, RobustIsotonic

    if isinstance(calibrator, RobustIsotonic):
        certificate = calibrator.certificate_
        return {"worst": certificate.worst, "lower_bound": certificate.lower_bound, "gap": certificate.gap}
    if isinstance(calibrator, AutoCalibrator):
        names = ("name", "mean", "worst", "weight")
        return {"candidates": [{name: getattr(one, name) for name in names} for one in calibrator.table_]}
    return {}
