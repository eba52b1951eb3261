"""``clovecal select``."""

from __future__ import annotations

from typing import Any

import click

from clovecal.cli._console import json_option, naming, percent_option, print_json, progress, table_options
from clovecal.cli._registered import RegisteredName, import_option
from clovecal.selection import CRITERIA


class _Floor(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.1
    name = "floor"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | str:
        """Return a number where it is one; `select` says what else it takes."""
        try:
            return float(value)
        except ValueError:
            return str(value)


@click.command("select")
@click.argument("files", nargs=-1, required=True)
@table_options
@percent_option
@click.option("--model", metavar="COLUMN", help="Column of model names, when FILES is one long file.")
@click.option(
    "--min-accuracy",
    type=_Floor(),
    metavar="NUMBER|half-skill",
    help="Leave out models below this accuracy (after recalibration); half-skill: half-way from always predicting the "
    "most frequent label to the most accurate model.",
)
@click.option(
    "--criterion",
    type=RegisteredName(lambda: CRITERIA),
    default="ece",
    show_default=True,
    help="What is measured in every domain; the lowest wins.",
)
@click.option(
    "--among",
    default=1,
    show_default=True,
    metavar="COUNT",
    help="Choose the most accurate of this many models with the lowest criterion.",
)
@click.option("--no-recalibration", is_flag=True, help="Judge models as they are, without recalibrating them first.")
@click.option(
    "--folds", default=2, show_default=True, help="Parts of each domain's rows for recalibrating and judging."
)
@click.option(
    "--deals",
    default=1,
    show_default=True,
    metavar="COUNT",
    help="How many times to deal the rows anew; criterion and accuracy are averages over the deals.",
)
@import_option
@json_option
def command(
    files: tuple[str, ...],
    model: str | None,
    min_accuracy: float | str | None,
    criterion: str,
    among: int,
    no_recalibration: bool,
    folds: int,
    deals: int,
    as_json: bool,
    **columns: Any,
) -> None:
    """Choose the model that will hold up elsewhere.

    FILES hold validation predictions of the same rows: one file per model, named after it, or one long file with
    --model.

    \b
    Example:
        clovecal select runs/*.parquet --min-accuracy 0.7
    """
    from clovecal import select
    from clovecal.tables import read_models

    with progress("Reading"):
        candidates, table = read_models(files, model=model, **columns)
    for note in table.notes():
        click.echo(f"{note}.", err=True)
    with naming(table), progress("Judging"):
        selection = select(
            candidates,
            table.y,
            domains=table.domains,
            sample_weight=table.sample_weight,
            min_accuracy=min_accuracy,
            criterion=criterion,
            among=among,
            recalibrate=None if no_recalibration else "isotonic",
            folds=folds,
            deals=deals,
        )
    if as_json:
        print_json(
            {
                "best": selection.best,
                "verdict": selection.verdict,
                "criterion": selection.criterion,
                "table": [
                    {"model": one.name, "criterion": one.criterion, "accuracy": one.accuracy, "excluded": one.excluded}
                    for one in selection.table
                ],
                "curve": [vars(point) for point in selection.curve()],
            }
        )
    else:
        click.echo(str(selection))
        if not no_recalibration:
            click.echo("\nBoth columns judge the recalibrated model; --no-recalibration judges it as it is.")
