"""``clovecal audit``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from clovecal.cli._console import (
    check_writable,
    json_option,
    load,
    naming,
    percent_option,
    print_json,
    progress,
    reject_input_as_output,
    say_regression,
    table_options,
    telling,
)
from clovecal.cli._registered import import_option


@click.command("audit")
@click.argument("file")
@table_options
@percent_option
@click.option("--task", type=click.Choice(["binary", "multiclass", "regression"]), help="What kind of model (guessed).")
@click.option("--bins", default=10, show_default=True, help="Bins of the calibration error.")
@click.option("--ci", default=0.95, show_default=True, help="Confidence level of the intervals.")
@click.option(
    "--odds-ratio",
    default=1.25,
    show_default=True,
    help="Odds this many times the predicted ones still count as right.",
)
@click.option(
    "--tolerance", type=float, help="Largest calibration error that counts as right, instead of --odds-ratio."
)
@click.option("--min-rows", default=0, show_default=True, help="Put domains with fewer rows together as one.")
@click.option("--threshold", type=float, help="Also show what acting on predictions above this does in each domain.")
@click.option(
    "--labels-needed", is_flag=True, help="Also show what labelled rows of a new domain would be worth (takes a while)."
)
@click.option(
    "--weights",
    type=click.Choice(["frequency", "sampling"]),
    default="frequency",
    show_default=True,
    help="What weights mean: so many rows each, or a survey's or inverse-probability weights (sampling).",
)
@click.option("--report", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page (HTML) here.")
@click.option("--title", default="Calibration by domain", show_default=True, help="Of the page.")
@click.option("--model", default="", help="Name of the model, for the page.")
@click.option("--force", is_flag=True, help="Replace an existing page.")
@import_option
@json_option
def command(
    file: str,
    task: str | None,
    bins: int,
    ci: float,
    odds_ratio: float,
    tolerance: float | None,
    min_rows: int,
    threshold: float | None,
    labels_needed: bool,
    weights: str,
    report: Path | None,
    title: str,
    model: str,
    force: bool,
    as_json: bool,
    **columns: Any,
) -> None:
    """Tell whether the model is equally right in every domain.

    FILE has a row per prediction (csv, tsv, parquet, arrow, ndjson; a quoted glob; - for standard input) with a label,
    a predicted probability and a domain.

    \b
    Example:
        clovecal audit predictions.csv --domain hospital --report page.html
    """
    from clovecal import audit

    if report is not None:
        check_writable(report, overwrite=force)
        reject_input_as_output(report, file)
    table = load(file, {**columns, "keep_rows": weights == "sampling"})
    with naming(table), telling(table), progress("Auditing"):
        result = audit(
            table.y,
            table.p,
            domains=table.domains,
            sample_weight=table.sample_weight,
            weights=weights,
            task=task,
            bins=bins,
            ci=ci,
            odds_ratio=odds_ratio,
            tolerance=tolerance,
            min_rows=min_rows,
            threshold=threshold,
            labels_needed=labels_needed,
        )
    if task is None and result.task == "regression":
        say_regression(table, file)
    if report is not None:
        with progress("Writing the page"):
            made_by = shlex.join(["clovecal", *sys.argv[1:]])
            result.report(report, title=title, model=model, source=file, command=made_by, overwrite=force)
    if labels_needed:
        with progress("Trying labels of each domain"):
            _ = result.labels_needed
    if as_json:
        print_json({"columns": str(table.columns), **result.to_dict()})
    else:
        click.echo(str(result))
    if report is not None:
        click.echo(f"Page: {report}", err=as_json)
