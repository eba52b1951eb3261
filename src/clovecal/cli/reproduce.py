"""``clovecal reproduce NAME``: one command over all studies of the paper, built from what each of them declares."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from clovecal.cli._console import Group, needing
from clovecal.errors import InputError, needs
from clovecal.files import SetAside, check_writable, replacing
from clovecal.progress import on_terminal
from clovecal.reproduce import STUDIES
from clovecal.reproduce.study import AnyPlan, Option, Study


class _Studies(Group):
    """A command for each study; what a study runs is imported when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(STUDIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command_of(STUDIES[cmd_name]) if cmd_name in STUDIES else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(study.name, study.summary) for study in STUDIES.values()])


@click.command("reproduce", cls=_Studies)
def command() -> None:
    """Regenerate the paper's figures and tables, with its numbers beside ours.

    \b
    Example:
        clovecal reproduce two-bit --output two-bit
    """


def _command_of(study: Study) -> click.Command:
    return click.Command(
        study.name,
        params=[_parameter(option) for option in study.options],
        callback=partial(_reproduce, study),
        help=f"{study.description}\n\n\b\nExample{'s' * (len(study.examples) > 1)}:\n{_examples(study)}",
        short_help=study.summary,
    )


def _parameter(option: Option) -> click.Option:
    """Return a study's option as click has them."""
    names = [_flag(option), option.name]
    if option.name == "output":
        names.insert(0, "-o")
    if option.type is bool:
        return click.Option(names, is_flag=True, help=option.help)
    kind: Any = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.type is int:
        kind = click.IntRange(option.least)
    elif option.type is float:
        kind = float
    elif option.type is Path:
        kind = click.Path(path_type=Path, file_okay=option.name != "output")
    return click.Option(
        names,
        type=kind,
        default=option.default,
        multiple=option.several,
        metavar="NAME" if kind is None else None,
        show_default=option.shown_default or (option.default is not None and not option.several),
        help=option.help,
    )


def _flag(option: Option) -> str:
    return f"--{option.spelling}"


def _examples(study: Study) -> str:
    lines = [f"clovecal reproduce {study.name} {_words(study, example)}" for example in study.examples]
    if study.several_processes:
        lines.append(f"torchrun --standalone --nproc-per-node 4 -m {lines[-1]}")
    return "\n".join(f"    {line}" for line in lines)


def _words(study: Study, values: Any) -> str:
    """Return options as they are typed."""
    words = []
    for name, value in values.items():
        option = study.option(name)
        for one in value if option.several else [value]:
            words += [_flag(option), *([] if option.type is bool else [shlex.quote(str(one))])]
    return " ".join(words)


def _reproduce(
    study: Study, *, output: Path, force: bool = False, show_only: bool = False, dry_run: bool = False, **options: Any
) -> None:
    """Run what has no record yet, then print and draw what the records say."""
    plan = None
    if not show_only:
        needs("matplotlib.figure", "plots", "drawing")  # before the hours of training that its figures are made of
        with needing(study.extra, "training"):
            with on_terminal() as progress:
                progress.task("Checking")
                plan = study.plan(output, **options)
            if not force and study.replaces and not study.missing(plan):
                check_writable(plan.output / study.record_files[0], overwrite=False)
            with _earlier_records(study, plan, force=force) as files:
                if _is_first_process():
                    click.echo(str(plan), err=not dry_run)
                if dry_run:
                    return
                try:
                    with on_terminal() as progress:
                        study.run(plan, progress=progress)
                except KeyboardInterrupt:
                    again = "the same command without --force" if force else "the same command"
                    if files[0].exists() or not force:
                        click.echo(f"clovecal: interrupted; what is done is kept, and {again} continues.", err=True)
                    else:
                        click.echo(f"clovecal: interrupted; the records in {output} are left as they were.", err=True)
                    sys.exit(130)
    if _is_first_process():
        _show(study, output, plan)


@contextmanager
def _earlier_records(study: Study, plan: AnyPlan, *, force: bool) -> Iterator[list[Path]]:
    """Yield the files of records; with force those of an earlier run come back unless a new one has taken their place.

    A file without a record of a study is refused, since it is somebody's own.
    """
    files = [plan.output / name for name in study.record_files]
    aside = SetAside(plan.output, files[0].name)
    if _is_first_process():
        aside.settle(replaced=files[0].exists())  # after a run that was killed
    if force and files[0].exists():
        for path in files:
            _check_records(path)
        aside.keep(files)
    try:
        yield files
    finally:
        if _is_first_process():
            if aside.whole and not files[0].exists():
                for path in files:
                    path.unlink(missing_ok=True)
            aside.settle(replaced=files[0].exists())


def _check_records(path: Path) -> None:
    """Raise unless a file is missing, empty or has a line that is a record."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("config"), dict) and "versions" in found:
            return
    if lines:
        raise InputError(f"file {str(path)!r}", "has no record of a study", "choose another folder")


def _show(study: Study, output: Path, plan: AnyPlan | None) -> None:
    """Print and draw what the records say."""
    found = study.read(output, plan.configs if plan is not None and study.own_records_only else None)
    if not found:  # a run has left some
        flag = _flag(study.option("show_only"))
        raise InputError(f"folder {str(output)!r}", "has no records", f"run without {flag} first")
    if study.tables_file:
        with replacing(output / study.tables_file) as temporary:
            temporary.write_text(study.tables(found) + "\n", encoding="utf-8")
    click.echo(study.summary_of(found))
    needs("matplotlib.figure", "plots", "drawing")
    pictures = []
    with on_terminal() as progress:
        progress.task("Drawing")
        for name, figure in study.figures(found).items():
            pictures.append(output / f"{name}.png")
            with replacing(pictures[-1]) as temporary:
                figure.savefig(temporary, dpi=figure.dpi)
    if len(pictures) == 1:  # several are listed by their folder
        click.echo(f"\nRecords: {output / study.record_files[0]}\nFigure: {pictures[0]}")


def _is_first_process() -> bool:
    """Whether this is the one process of a run under torchrun that prints and draws."""
    return int(os.environ.get("RANK", "0")) == 0
