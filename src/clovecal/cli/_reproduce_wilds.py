"""``clovecal reproduce wilds``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from clovecal.cli._console import drawing, progress
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.reproduce.wilds.study import Plan


@click.command("wilds")
@click.option("--dataset", metavar="NAME", help="camelyon17, civilcomments, fmow, poverty or amazon.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    help="Folder that holds camelyon17_v1.0 and the others; a miniature is written there. [for it: in the output]",
)
@click.option("--seeds", type=click.IntRange(1), default=4, show_default=True, help="Networks of each objective.")
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME",
    help="erm, irm-halves (WILDS' IRM), irm (its closed form), coral or group-dro; once per objective. The paper's "
    "three if not given.",
)
@click.option("--backbone", metavar="NAME", help="Another network than the paper's, such as densenet169 or resnet34.")
@click.option(
    "--weights", type=click.Path(path_type=Path), help="Pretrained weights: a file, or for BERT a folder. [the caches]"
)
@click.option("--batch-size", type=click.IntRange(1), help="Rows a batch. [WILDS']")
@click.option("--epochs", type=click.IntRange(1), help="Epochs of training. [WILDS']")
@click.option(
    "--head-steps", type=click.IntRange(1), default=5000, show_default=True, help="Most steps of the CLOvE head."
)
@click.option("--device", metavar="NAME", help="Device of torch. [a GPU; on the CPU only if you say cpu]")
@click.option("--workers", type=click.IntRange(0), default=0, show_default=True, help="Processes that decode inputs.")
@click.option(
    "--splits", metavar="NAME", default="paper", show_default=True, help="paper (its appendix B) or wilds (published)."
)
@click.option("--miniature", is_flag=True, help="Generate a small data set and train a small network, in minutes.")
@click.option("--rows", type=click.IntRange(100), default=1000, show_default=True, help="Rows of the miniature.")
@click.option("--size", type=click.IntRange(8), default=32, show_default=True, help="Pixels a side in the miniature.")
@click.option("--dry-run", is_flag=True, help="Check everything and print the plan, the disk and the GPU hours.")
@click.option("--tables-only", is_flag=True, help="Train nothing; print and draw from the records that are there.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("wilds"),
    show_default=True,
    help="Folder for networks, outputs, records, tables and figure; a run goes on where an earlier one stopped.",
)
@click.pass_context
def command(
    context: click.Context,
    dataset: str | None,
    root: Path | None,
    seeds: int,
    objectives: tuple[str, ...],
    backbone: str | None,
    weights: Path | None,
    batch_size: int | None,
    epochs: int | None,
    head_steps: int,
    device: str | None,
    workers: int,
    splits: str,
    miniature: bool,
    rows: int,
    size: int,
    dry_run: bool,
    tables_only: bool,
    output: Path,
) -> None:
    """WILDS: train networks, calibrate them in the domains seen, and judge them in the others (section 6.2).

    Writes results.jsonl (a record for each network and column), tables.md and wilds.png, and under models/ the
    networks, their features and their predictions, which the other commands read.

    \b
    Examples:
        clovecal reproduce wilds --dataset camelyon17 --miniature --seeds 1 -o small
        clovecal reproduce wilds --dataset camelyon17 --root /data/wilds --dry-run
        clovecal reproduce wilds --dataset camelyon17 --root /data/wilds --workers 16 -o camelyon17
        torchrun --standalone --nproc-per-node 4 -m clovecal reproduce wilds --dataset fmow --root /data/wilds
    """
    if tables_only:
        _show(output)
        return
    if dataset is None:
        raise InputError("--dataset", "is missing", "name camelyon17, civilcomments, fmow, poverty or amazon")
    _refuse_unused(context, miniature=miniature, small_network=miniature and backbone is None)
    try:
        from clovecal.reproduce.wilds import study as wilds
        from clovecal.training.network.training import Resources
    except ModuleNotFoundError as error:
        raise InputError(
            "training", f"needs the package {error.name}", "install it with pip install 'clovecal[wilds]'"
        ) from None
    with progress(f"Checking {dataset}"):
        plan = wilds.prepare(
            dataset,
            root,
            output,
            objectives=objectives,
            seeds=seeds,
            backbone=backbone,
            batch_size=batch_size,
            epochs=epochs,
            head_steps=head_steps,
            splits=splits,
            miniature=wilds.Miniature(rows=rows, size=size) if miniature else None,
            resources=Resources(device=device, workers=workers, weights=weights),
        )
    if wilds.is_first_process():
        click.echo(str(plan), err=not dry_run)
    if dry_run:
        return
    _run(plan)
    if wilds.is_first_process():
        _show(output)


def _refuse_unused(context: click.Context, *, miniature: bool, small_network: bool) -> None:
    """Raise if an option was given that this run would not read."""
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    for name in ("rows", "size"):
        if name in given and not miniature:
            raise InputError(f"--{name}", "only applies to a miniature", "add --miniature, or drop it")
    if "weights" in given and small_network:
        raise InputError(
            "--weights", "is given, but a miniature's small network starts from random ones", "leave it out"
        )


def _run(plan: Plan) -> None:
    from clovecal.reproduce.wilds import study as wilds

    try:
        with _bar() as on_progress:
            wilds.run(plan, on_progress=on_progress)
    except KeyboardInterrupt:
        click.echo("clovecal: interrupted; what is done is kept, and the same command goes on.", err=True)
        sys.exit(130)


def _show(output: Path) -> None:
    """Print and draw what the records say."""
    from clovecal import records
    from clovecal._files import replacing
    from clovecal.reproduce.wilds.study import results_of
    from clovecal.reproduce.wilds.tables import tables

    found = records.read(results_of(output))
    if not found:
        raise InputError(f"folder {str(output)!r}", "has no records", "run without --tables-only first")
    text = tables(found)
    with replacing(output / "tables.md") as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    click.echo(text)
    with drawing(), replacing(output / "wilds.png") as temporary:
        from clovecal.reproduce.wilds.figures import figure

        figure(found).savefig(temporary, dpi=110)
    click.echo(f"\nRecords: {results_of(output)}\nFigure: {output / 'wilds.png'}")


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None] | None]:
    """Show what is being done and how much of it is done, on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task, current = bar.add_task(""), ""

        def tell(what: str, done: int, total: int) -> None:
            nonlocal current
            if what != current:
                current = what
                bar.reset(task, description=what)
            bar.update(task, completed=done, total=total)

        yield tell
