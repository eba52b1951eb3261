"""Options and output that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clovecal._files import check_writable
from clovecal._progress import progress_bar
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.tables import PredictionTable

F = TypeVar("F", bound=Callable[..., Any])


def table_options(command: F) -> F:
    """Add the options that say which column is what."""
    for option in reversed(
        (
            click.option("--label", metavar="COLUMN", help="Column of labels (guessed: y, label, target, …)."),
            click.option(
                "--score",
                "scores",
                multiple=True,
                metavar="COLUMN",
                help="Column of predicted probabilities or scores; once per class for several classes.",
            ),
            click.option(
                "--domain",
                "domains",
                multiple=True,
                metavar="COLUMN",
                help="Column of domain labels; once per 0/1 column for domains that overlap.",
            ),
            click.option("--weight", metavar="COLUMN", help="Column of frequencies."),
            click.option("--positive", metavar="VALUE", help="The label that counts as 1, when labels are text."),
            click.option(
                "--format",
                type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]),
                help="Format of the file, when its ending does not tell.",
            ),
        )
    ):
        command = option(command)
    return command


def output_option(what: str) -> Callable[[F], F]:
    """Add --output and --force."""

    def add(command: F) -> F:
        command = click.option("--force", is_flag=True, help="Replace an existing output.")(command)
        return click.option(
            "-o",
            "--output",
            required=True,
            type=click.Path(path_type=Path, dir_okay=False),
            help=f"Where to write {what}.",
        )(command)

    return add


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def load(source: str, options: dict[str, Any]) -> PredictionTable:
    """Read a table, say on standard error which columns were guessed and how it was reduced."""
    from clovecal.tables import read_predictions

    with progress(f"Reading {source}"):
        table = read_predictions(source, **options)
    if table.columns.guessed:
        click.echo(f"{source}: {table.columns}.", err=True)
    if table.reduced:
        click.echo(f"{source}: {table.n_rows:,} rows put together by {table.reduced}.", err=True)
    return table


@contextmanager
def naming(table: PredictionTable) -> Iterator[None]:
    """Word input errors with the file's columns and data rows instead of the library's arguments and positions."""
    columns = table.columns
    said = {
        "y": f"column {columns.label!r}",
        "p": f"column {', '.join(map(repr, columns.scores))}",
        "scores": f"column {', '.join(map(repr, columns.scores))}",
        "domains": f"column {', '.join(map(repr, columns.domains))}",
        "sample_weight": f"column {columns.weight!r}",
    }
    try:
        yield
    except InputError as error:
        place = {} if table.reduced is None else {"row": None}  # rows that stand together have no number in the file
        raise error.about(said.get(error.argument, error.argument), row_name="data row", first_row=1, **place) from None


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal, while it takes more than a moment."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{what} …"):
        yield


@contextmanager
def drawing() -> Iterator[None]:
    """Show that figures are drawn, and say how to get what draws them where it is missing."""
    try:
        with progress("Drawing"):
            yield
    except ModuleNotFoundError as error:
        raise InputError(
            "figures", f"need the package {error.name}", "install it with pip install 'clovecal[plots]'"
        ) from None


@contextmanager
def counting_bar(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Yield a function of how much more is done, which draws a bar on a terminal."""
    with progress_bar(what) as update:
        done = 0.0

        def advance(more: float) -> None:
            nonlocal done
            done += more
            update(done, total)

        yield advance


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(content, indent=1, allow_nan=False))


__all__ = [
    "check_writable",
    "counting_bar",
    "drawing",
    "json_option",
    "load",
    "naming",
    "output_option",
    "print_json",
    "progress",
    "progress_bar",
    "table_options",
]
