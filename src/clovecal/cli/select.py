"""``clovecal select``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._console import json_option, naming, percent_option, print_json, progress, table_options
from clovecal.cli._registered import RegisteredName, import_option
from clovecal.selection import CRITERIA, PREPARE_FOR

if TYPE_CHECKING:
    from clovecal.selection import Selection


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
    "--prepare-for",
    type=click.Choice(PREPARE_FOR),
    help="unstable (the default): what varies among the known domains may vary further, or reverse; the model whose "
    "calibration varies least is chosen. similar: new domains come from where the known ones came; the model of the "
    "lowest log-loss is chosen.",
)
@click.option(
    "--held-out",
    multiple=True,
    metavar="FILE",
    help="Files of predictions for the same rows by each model trained without the row's own domain, named as FILES "
    "are; may be repeated. Log-loss is that of these.",
)
@click.option(
    "--criterion",
    type=RegisteredName(lambda: CRITERIA),
    help="Rank by this instead: it is measured in every domain, and the lowest wins.",
)
@click.option(
    "--among",
    default=1,
    show_default=True,
    metavar="COUNT",
    help="With --criterion: choose the most accurate of this many models with the lowest.",
)
@click.option("--no-recalibration", is_flag=True, help="Judge models as they are, without recalibrating them first.")
@click.option(
    "--folds", default=2, show_default=True, help="Parts of each domain's rows for recalibrating and judging."
)
@click.option(
    "--deals",
    type=int,
    metavar="COUNT",
    help="How many times to deal the rows anew; what is judged is averaged over the deals. [default: 8; with "
    "--criterion 1]",
)
@import_option
@json_option
def command(
    files: tuple[str, ...],
    model: str | None,
    min_accuracy: float | str | None,
    prepare_for: str | None,
    held_out: tuple[str, ...],
    criterion: str | None,
    among: int,
    no_recalibration: bool,
    folds: int,
    deals: int | None,
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
    from clovecal.tables import check_same_rows, read_models

    with progress("Reading"):
        candidates, table = read_models(files, model=model, **columns)
    for note in table.notes():
        click.echo(f"{note}.", err=True)
    left_out = None
    if held_out:
        with progress("Reading"):
            left_out, of_left_out = read_models(held_out, model=model, **columns)
        name = next(iter(candidates))
        check_same_rows(name, table, f"held-out {name}", of_left_out)
    with naming(table), progress("Judging"):
        selection = select(
            candidates,
            table.y,
            domains=table.domains,
            sample_weight=table.sample_weight,
            prepare_for=prepare_for,
            held_out=left_out,
            min_accuracy=min_accuracy,
            criterion=criterion,
            among=among,
            recalibrate=None if no_recalibration else "isotonic",
            folds=folds,
            deals=deals,
        )
    if as_json:
        print_json(_as_json(selection))
    else:
        click.echo(str(selection))
        if not no_recalibration:
            click.echo("\nAll columns judge the recalibrated model; --no-recalibration judges it as it is.")
    if selection.best is None:
        raise SystemExit(2)


def _as_json(selection: Selection) -> dict[str, Any]:
    lines: list[dict[str, Any]] = [
        {"model": one.name, "criterion": one.criterion, "accuracy": one.accuracy, "excluded": one.excluded}
        for one in selection.table
    ]
    shown = {
        "best": selection.best,
        "verdict": selection.verdict,
        "criterion": selection.criterion,
        "table": lines,
        "curve": [vars(point) for point in selection.curve()],
    }
    if selection.prepare_for is None:
        return shown
    for line, one in zip(lines, selection.table, strict=True):
        line |= {"departure": one.departure, "log_loss": one.log_loss}
    price = selection.price
    error = None if price is None or math.isnan(price.log_loss_error) else price.log_loss_error
    return shown | {
        "prepare_for": selection.prepare_for,
        "choices": dict(selection.choices),
        "price": None if price is None else vars(price) | {"log_loss_error": error},
        "not_told_apart": selection.not_told_apart,
        "remarks": selection.remarks,
    }
