"""Shared by the commands: options, reading a table, wording errors, progress, output."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clovecal.errors import InputError, MissingValues, OutputExists, Percentages
from clovecal.files import check_writable
from clovecal.progress import on_terminal

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
                help="Column of domain labels; once per 0/1 column for domains that overlap, or a quoted pattern of "
                "them ('id_*').",
            ),
            click.option(
                "--by",
                multiple=True,
                metavar="COLUMN",
                help="Column of labels to cross with others: domains are their values and pairs of values.",
            ),
            click.option("--weight", metavar="COLUMN", help="Column of weights."),
            click.option("--positive", metavar="VALUE", help="The label that counts as 1, when labels are text."),
            click.option(
                "--drop-missing", is_flag=True, help="Drop rows that lack a label, score, domain or weight, and say so."
            ),
            click.option(
                "--format",
                type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]),
                help="Format of the file, if its ending does not tell.",
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


percent_option = click.option("--percent", is_flag=True, help="Scores are percentages: divide them by 100.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def load(source: str, options: dict[str, Any]) -> PredictionTable:
    """Read a table, and say on standard error what was assumed, guessed, dropped and put together."""
    from clovecal.tables import read_predictions

    with progress(f"Reading {source}"):
        table = read_predictions(source, **options)
    say_notes(table, source)
    return table


def say_notes(table: PredictionTable, source: str) -> None:
    """Say on standard error what a user must know of how a table was read."""
    for note in table.notes():
        click.echo(f"{source}: {note}.", err=True)


def say_regression(table: PredictionTable, source: str) -> None:
    """Say on standard error that labels are taken for a regression's targets, which nobody has said."""
    import numpy as np

    row = int(np.argmax((table.y != 0) & (table.y != 1)))
    value = f"column {table.columns.label!r} has {table.y[row]:g}"
    click.echo(f"{source}: task: regression (guessed: {value}).", err=True)


def say_how_read(source: str | Path) -> None:
    """Say on standard error how a file of text is read that is not written as its ending says."""
    from clovecal.tables import open_table

    if (how := open_table(source).read_as()) is not None:
        click.echo(f"{source}: read as {how}.", err=True)


@contextmanager
def naming(table: PredictionTable) -> Iterator[None]:
    """Word input errors with the file's columns and data rows instead of the library's arguments and positions."""
    columns = table.columns
    said = {
        "y": f"column {columns.label!r}",
        "p": f"column {', '.join(map(repr, columns.scores))}",
        "scores": f"column {', '.join(map(repr, columns.scores))}",
        "before": f"column {', '.join(map(repr, columns.scores))}",
        "domains": f"column {', '.join(map(repr, columns.domains))}",
        "sample_weight": f"column {columns.weight!r}",
    }
    try:
        yield
    except InputError as error:
        whole = _in_the_file(error, table)
        raise whole.about(said.get(whole.argument, whole.argument)) from None


def _in_the_file(error: InputError, table: PredictionTable) -> InputError:
    """Return an error about rows as one about the file: with its data rows, and all that is out of range at once."""
    import numpy as np

    from clovecal.tables.problems import as_error, problems_of_rows

    if table.reduced is not None:  # rows that stand together have no number in the file
        return error.about(error.argument, row=None)
    columns = table.columns
    about = {"y": columns.label, "p": columns.scores[0], "sample_weight": columns.weight}.get(error.argument)
    if error.row is not None and about is not None:
        rows = np.arange(len(table.y)) if table.rows is None else table.rows
        found = problems_of_rows(table.y, table.p, table.sample_weight, columns, rows)
        if any(one.column == about for one in found) and (len(found) > 1 or found[0].count > 1):
            return as_error(found, "the table")
    row = error.row if error.row is None or table.rows is None else int(table.rows[error.row])
    return error.about(error.argument, row=row, row_name="data row", first_row=1)


@contextmanager
def telling(table: PredictionTable) -> Iterator[None]:
    """Print what a computation warns of, with the file's columns instead of the library's arguments."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in caught:
        said = str(one.message)
        if said.startswith("sample_weight "):
            said = (
                f"column {table.columns.weight!r} has weights that are not whole numbers; they are taken for numbers "
                "of rows: say --weights sampling if they are a survey's."
            )
        click.echo(said, err=True)


class Group(click.Group):
    """A group in whose commands an error about an argument of the library names the command's own option."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise in_words_of(error, command) from None


class LazyGroup(Group):
    """A group whose commands are imported when used, each from a module of its own; their one-line help is known."""

    def __init__(self, *args: Any, modules: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._modules = modules  # of each command by its name: its module and its help

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of their table."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self._modules:
            return None
        command: click.Command = import_module(self._modules[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self._modules.items()])


def in_words_of(error: InputError, command: click.Command | None) -> InputError:
    """Name a command's own options in an error, where the library names its arguments."""
    if isinstance(error, OutputExists):
        error.remedy = "add --force to replace it, or choose another name"
    names = {} if command is None else {one.name: _shown(one) for one in command.params}
    if isinstance(error, MissingValues):
        error.remedy = error.remedy.replace("drop_missing=True", names.get("drop_missing", "drop_missing=True"))
    if isinstance(error, Percentages) and "percent" in names:
        error.remedy = f"divide percentages by 100, or add {names['percent']}"
    words = " and ".join(names.get(name, name) for name in error.argument.split(" and "))
    return error.about(words) if words != error.argument else error


def _shown(parameter: click.Parameter) -> str:
    return max(parameter.opts, key=len) if isinstance(parameter, click.Option) else parameter.human_readable_name


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show on a terminal that something is going on."""
    with on_terminal() as shown:
        shown.task(what)
        yield


@contextmanager
def needing(extra: str, what: str) -> Iterator[None]:
    """Say which extra of the package brings what an import lacks."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            what, f"needs the package {error.name}", f"install it with pip install 'clovecal[{extra}]'"
        ) from None


def reject_input_as_output(output: Path, *inputs: str | Path) -> None:
    """Raise if the output would replace what the command reads, which --force does not ask for."""
    for source in map(Path, inputs):
        if source.exists() and output.exists() and source.samefile(output):
            raise InputError(
                f"path {str(output)!r}", "is the file that the command reads", "choose another name for the output"
            )


@contextmanager
def ready_streams() -> Iterator[None]:
    """Open what is closed of standard input, output and error, and let text be printed that a terminal cannot show.

    Otherwise the next file that is opened would be number 2, and a library's complaint would go into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if number == 0 else "w"))  # noqa: SIM115 (as long as we run)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    yield


@contextmanager
def terminated_as_interrupted() -> Iterator[Callable[[], int]]:
    """Let SIGTERM, and the end of a session, stop a command as Ctrl-C does; yield what says the exit code then."""
    received = signal.SIGINT

    def stop(number: int, _: Any) -> None:
        nonlocal received
        received = signal.Signals(number)
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
        raise KeyboardInterrupt

    before = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores it
            with suppress(ValueError):  # not in the main thread
                before[number] = signal.signal(number, stop)
    try:
        yield lambda: 128 + received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_json(content: dict[str, Any]) -> None:
    """Print one JSON object."""
    click.echo(json.dumps(content, indent=1, allow_nan=False))


__all__ = [
    "Group",
    "LazyGroup",
    "check_writable",
    "in_words_of",
    "json_option",
    "load",
    "naming",
    "needing",
    "output_option",
    "percent_option",
    "print_json",
    "progress",
    "ready_streams",
    "reject_input_as_output",
    "say_how_read",
    "say_notes",
    "say_regression",
    "table_options",
    "telling",
    "terminated_as_interrupted",
]
