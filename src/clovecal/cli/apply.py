"""``clovecal apply``."""

from __future__ import annotations

from pathlib import Path

import click

from clovecal.cli._console import output_option, reject_input_as_output
from clovecal.cli._registered import import_option
from clovecal.progress import on_terminal


@click.command("apply")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file")
@output_option("the rows with a new column, in the format of the ending")
@click.option(
    "--score", "scores", multiple=True, metavar="COLUMN", help="Column of scores; once per class for several."
)
@click.option("--column", default="calibrated", show_default=True, help="Name of the new column.")
@click.option("--format", type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]), help="Format of FILE.")
@import_option
def command(
    calibrator: Path, file: str, output: Path, force: bool, scores: tuple[str, ...], column: str, format: str | None
) -> None:
    """Apply a calibrator to a file of predictions.

    Every other column and the order of the rows are kept; the file may be larger than memory.

    \b
    Example:
        clovecal apply cal.json predictions.parquet -o calibrated.parquet
    """
    from clovecal import load_calibrator
    from clovecal.tables import apply_to_file, open_table

    reject_input_as_output(output, calibrator)  # FILE is only added to
    fitted = load_calibrator(calibrator)
    table = open_table(file, format=format)
    with on_terminal() as progress:
        rows = apply_to_file(fitted, table, output, scores=scores, column=column, overwrite=force, progress=progress)
    if (how := table.read_as(scores or None)) is not None:
        click.echo(f"{file}: read as {how}.", err=True)
    click.echo(f"{rows:,} rows written to {output}.", err=True)
