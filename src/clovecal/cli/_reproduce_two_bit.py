"""``clovecal reproduce two-bit``."""

from __future__ import annotations

from pathlib import Path

import click

from clovecal.cli._console import check_writable, drawing, progress


@click.command("two-bit")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("two-bit"),
    show_default=True,
    help="Folder for the records and the figure.",
)
@click.option("--force", is_flag=True, help="Replace the records and the figure of an earlier run.")
def command(output: Path, force: bool) -> None:
    """Two-Bit environments: the optima of IRMv1 and CLOvE (figure 3a), in exact numbers.

    Writes results.jsonl and two-bit.png, and says where IRMv1's optimum is spurious; takes some seconds.

    \b
    Example:
        clovecal reproduce two-bit --output two-bit
    """
    from clovecal import records
    from clovecal._files import replacing
    from clovecal.reproduce.two_bit import study as two_bit

    output.mkdir(parents=True, exist_ok=True)
    results, picture = (check_writable(output / name, overwrite=force) for name in ("results.jsonl", "two-bit.png"))
    with progress("Computing"), replacing(results) as temporary:
        two_bit.run(two_bit.Config(), temporary)
    found = records.read(results)
    with drawing(), replacing(picture) as temporary:
        two_bit.figure(found).savefig(temporary, dpi=110)
    click.echo(two_bit.summary(found))
    click.echo(f"\nRecords: {results}\nFigure: {picture}")
