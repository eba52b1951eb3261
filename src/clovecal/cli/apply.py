"""``clovecal apply``."""

from __future__ import annotations

import warnings
from pathlib import Path

import click

from clovecal.cli._calibrator import columns_of_fit, worth_of_unlabelled
from clovecal.cli._console import output_option, reject_input_as_output
from clovecal.cli._registered import import_option
from clovecal.errors import InputError
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
@click.option(
    "--use-unlabelled",
    is_flag=True,
    help="Let the mean of the scores tell of the new domain that all rows are from, if that has helped in known ones.",
)
@click.option(
    "--domain",
    metavar="COLUMN",
    help="Column of domains, with --use-unlabelled: each is new and has a mean of its own.",
)
@click.option("--format", type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]), help="Format of FILE.")
@import_option
def command(
    calibrator: Path,
    file: str,
    output: Path,
    force: bool,
    scores: tuple[str, ...],
    column: str,
    use_unlabelled: bool,
    domain: str | None,
    format: str | None,
) -> None:
    """Apply a calibrator to a file of predictions.

    Every other column and the order of the rows are kept; the file may be larger than memory. The scores are taken from
    the column that the calibrator was fitted on; another must be named, and scores of another scale are refused.

    With --use-unlabelled a row's value depends on the other rows: the file must hold all scores there are of a domain.

    \b
    Example:
        clovecal apply cal.json predictions.parquet -o calibrated.parquet
    """
    from clovecal import load_calibrator
    from clovecal.scores import ScoreRangeWarning
    from clovecal.tables import apply_to_file, find_roles, open_table

    reject_input_as_output(output, calibrator)  # FILE is only added to
    if domain is not None and not use_unlabelled:
        raise InputError("--domain", "only applies with --use-unlabelled", "add that, or drop the option")
    fitted = load_calibrator(calibrator)
    worth = worth_of_unlabelled(fitted, calibrator) if use_unlabelled else None
    table = open_table(file, format=format)
    known = columns_of_fit(fitted)
    roles = find_roles(table.columns, ["score"], scores=scores, fitted_scores=known, table=file)
    with warnings.catch_warnings(record=True) as doubts, on_terminal() as progress:
        warnings.simplefilter("always", ScoreRangeWarning)
        rows = apply_to_file(
            fitted,
            table,
            output,
            scores=roles.scores,
            column=column,
            use_unlabelled=use_unlabelled,
            domain=domain,
            overwrite=force,
            progress=progress,
        )
    if roles.guessed:
        click.echo(f"{file}: {roles}; {calibrator} does not say which column it was fitted on.", err=True)
    for doubt in doubts:
        click.echo(f"{file}: {doubt.message}", err=True)
    if (how := table.read_as(roles.scores)) is not None:
        click.echo(f"{file}: read as {how}.", err=True)
    if worth is not None:
        whole = "all its rows are" if domain is None else f"the rows of each value of {domain!r} are"
        click.echo(f"{file}: {whole} taken for all there is of a new domain.", err=True)
        click.echo(worth, err=True)
    click.echo(f"{rows:,} rows written to {output}.", err=True)
