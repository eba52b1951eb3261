"""``clovecal reproduce colored-mnist``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from clovecal.cli._console import counting_bar, drawing
from clovecal.errors import InputError

_SETTINGS = ("digit25", "digit05", "color05")
_METHODS = ("erm", "irm", "clove", "clove-adagrad", "clove-unbiased", "clove-full")


@click.command("colored-mnist")
@click.option(
    "--data",
    type=click.Choice(["mnist", "digits"]),
    default="mnist",
    show_default=True,
    help="MNIST, or scikit-learn's 8×8 digits, which need no download.",
)
@click.option(
    "--setting",
    "settings",
    type=click.Choice(_SETTINGS),
    multiple=True,
    default=_SETTINGS,
    help="Once per setting; all three if not given.",
)
@click.option(
    "--method",
    "methods",
    type=click.Choice(_METHODS),
    multiple=True,
    default=("erm", "irm", "clove", "clove-unbiased", "clove-full"),
    help="Once per method; all but clove-adagrad if not given.",
)
@click.option("--members", type=click.IntRange(1), default=100, show_default=True, help="Models of each method.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Seeds of the data.")
@click.option("--device", metavar="NAME", help="Device of torch, such as cpu or cuda; a GPU if there is one.")
@click.option("--at-once", type=click.IntRange(1), default=100, show_default=True, help="Models trained together.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that measure models.")
@click.option("--tiny", is_flag=True, help="A few steps on 8×8 digits: tries the machinery; the numbers mean nothing.")
@click.option("--figures-only", is_flag=True, help="Train nothing; draw and print from the records that are there.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("colored-mnist"),
    show_default=True,
    help="Folder for records, predictions and figures; a run goes on where an earlier one with this folder stopped.",
)
def command(
    data: str,
    settings: tuple[str, ...],
    methods: tuple[str, ...],
    members: int,
    seeds: int,
    device: str | None,
    at_once: int,
    workers: int,
    tiny: bool,
    figures_only: bool,
    output: Path,
) -> None:
    """Colored MNIST: train models by the hundred, and choose among them without test data (section 6.1, appendix C).

    Writes results.jsonl (a record a model), averages.jsonl and four kinds of figures, and prints tables with the
    paper's numbers beside ours.

    \b
    Examples:
        clovecal reproduce colored-mnist --tiny --members 2 --output tiny
        clovecal reproduce colored-mnist --setting digit25 --seeds 3 --device cuda --workers 8
    """
    from clovecal import records
    from clovecal.reproduce.colored_mnist import study as colored_mnist

    results = output / "results.jsonl"
    if not figures_only:
        wanted = colored_mnist.configs(
            data="digits" if tiny else data, settings=settings, methods=methods, members=members, seeds=seeds, tiny=tiny
        )
        todo = list(records.missing(results, wanted))
        click.echo(f"{len(wanted) - len(todo)} of {len(wanted)} models have a record; {len(todo)} to train.", err=True)
        try:
            with counting_bar("Training", len(todo)) as advance:
                colored_mnist.run(wanted, results, device=device, at_once=at_once, workers=workers, on_models=advance)
        except KeyboardInterrupt:
            click.echo("clovecal: interrupted; finished models are kept, and the same command goes on.", err=True)
            sys.exit(130)
        except ModuleNotFoundError as error:
            raise InputError(
                "training", f"needs the package {error.name}", "install it with pip install 'clovecal[train]'"
            ) from None
    _show(output, results)


def _show(output: Path, results: Path) -> None:
    """Draw and print what the records say."""
    from clovecal import records
    from clovecal._files import replacing
    from clovecal.reproduce.colored_mnist.tables import tables

    found = records.read(results)
    if not found:
        raise InputError(f"folder {str(output)!r}", "has no records", "run without --figures-only first")
    with drawing():
        from clovecal.reproduce.colored_mnist.figures import figures

        for name, figure in figures(found).items():
            with replacing(output / f"{name}.png") as temporary:
                figure.savefig(temporary, dpi=110)
    click.echo(tables(found, records.read(output / "averages.jsonl")))
