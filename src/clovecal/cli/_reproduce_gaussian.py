"""``clovecal reproduce gaussian``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from clovecal.cli._console import counting_bar, drawing
from clovecal.errors import InputError


@click.command("gaussian")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("gaussian"),
    show_default=True,
    help="Folder for the records and the figure; a run goes on where an earlier one with this folder stopped.",
)
@click.option("--tiny", is_flag=True, help="Small dimensions and few draws: seconds instead of minutes.")
@click.option("--force", is_flag=True, help="Start anew, without the records of an earlier run.")
def command(output: Path, tiny: bool, force: bool) -> None:
    """Linear-Gaussian domains: how many keep a calibrated predictor from spurious features (section 3).

    Writes results.jsonl and gaussian.png, and prints tables with the paper's numbers of domains beside the ones that
    are needed; takes some minutes.

    \b
    Examples:
        clovecal reproduce gaussian --tiny --output tiny
        clovecal reproduce gaussian --output gaussian
    """
    from clovecal import records
    from clovecal._files import replacing
    from clovecal.reproduce.gaussian import study as gaussian

    config = gaussian.Config.tiny() if tiny else gaussian.Config()
    results = output / "results.jsonl"
    if force:
        results.unlink(missing_ok=True)
    wanted = list(config.parts())
    todo = len(list(records.missing(results, wanted)))
    click.echo(f"{len(wanted) - todo} of {len(wanted)} parts have a record; {todo} to compute.", err=True)
    try:
        with counting_bar("Computing", todo) as advance:
            gaussian.run(config, results, on_part=lambda: advance(1))
    except KeyboardInterrupt:
        click.echo("clovecal: interrupted; finished parts are kept, and the same command goes on.", err=True)
        sys.exit(130)
    except ModuleNotFoundError as error:
        raise InputError(
            "training", f"needs the package {error.name}", "install it with pip install 'clovecal[train]'"
        ) from None
    found = gaussian.recorded(config, results)
    picture = output / "gaussian.png"
    with drawing(), replacing(picture) as temporary:
        gaussian.figure(found).savefig(temporary, dpi=100)
    click.echo(gaussian.table(found))
    click.echo(f"\nRecords: {results}\nFigure: {picture}")
