"""``clovecal apply``."""

from __future__ import annotations

import warnings
from pathlib import Path

import click

from clovecal.cli._calibrator import columns_of_fit
from clovecal.cli._console import output_option, reject_input_as_output
from clovecal.cli._registered import import_option
from clovecal.progress import on_terminal


@click.command("apply")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file")
@output_option("the rows with a new column, in the format of the ending")
@click.option(
    "--score",
    "scores",
    multiple=True,
    metavar="COLUMN",
    help="Column of scores, if not that of the fit; once per class for several.",
)
@click.option("--column", default="calibrated", show_default=True, help="Name of the new column.")
@click.option("--format", type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]), help="Format of FILE.")
@import_option
def command(
    calibrator: Path, file: str, output: Path, force: bool, scores: tuple[str, ...], column: str, format: str | None
) -> None:
    """Apply a calibrator to a file of predictions.

    Every other column and the order of the rows are kept; the file may be larger than memory. The scores are taken from
    the column that the calibrator was fitted on; another must be named, and scores of another scale are refused.

    \b
    Example:
        clovecal apply cal.json predictions.parquet -o calibrated.parquet
    """
    from clovecal import load_calibrator
    from clovecal.scores import ScoreRangeWarning
    from clovecal.tables import apply_to_file, find_roles, open_table

    reject_input_as_output(output, calibrator)  # FILE is only added to
    fitted = load_calibrator(calibrator)
    table = open_table(file, format=format)
    known = columns_of_fit(fitted)
    roles = find_roles(table.columns, ["score"], scores=scores, fitted_scores=known, table=file)
    with warnings.catch_warnings(record=True) as doubts, on_terminal() as progress:
        warnings.simplefilter("always", ScoreRangeWarning)
        rows = apply_to_file(
            fitted, table, output, scores=roles.scores, column=column, overwrite=force, progress=progress
        )
    if roles.guessed:
        click.echo(f"{file}: {roles}; {calibrator} does not say which column it was fitted on.", err=True)
    for doubt in doubts:
        click.echo(f"{file}: {doubt.message}", err=True)
    if (how := table.read_as(roles.scores)) is not None:
        click.echo(f"{file}: read as {how}.", err=True)
    click.echo(f"{rows:,} rows written to {output}.", err=True)
