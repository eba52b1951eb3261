"""``clovecal sweep``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from clovecal.cli._console import needing, progress
from clovecal.cli._registered import import_option
from clovecal.errors import InputError
from clovecal.progress import on_terminal


@click.command("sweep")
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for records and predictions; an unfinished sweep in it is resumed.  [default: named after CONFIG]",
)
@click.option("--device", help="Where to train, such as cpu or cuda:1.  [default: a GPU if there is one]")
@import_option
@click.option("--force", is_flag=True, help="Start anew where the folder holds another sweep.")
def command(config: Path, output: Path | None, device: str | None, force: bool) -> None:
    """Train many models at once and write their predictions.

    CONFIG is a TOML file. Members draw what is given as a range; a sweep that was interrupted or killed continues where
    it was. The folder gets a line of records.jsonl for each member, predictions/NAME.parquet of the held-out rows,
    which `clovecal select` reads, and models/NAME.safetensors, which `clovecal predict` reads.

    \b
    Example:
        clovecal sweep sweep.toml -o sweep
        clovecal select 'sweep/predictions/*.parquet' --min-accuracy 0.7
        clovecal predict sweep/models/clove-007.safetensors new.parquet -o predictions.parquet

    \b
    sweep.toml:
        [data]
        file = "features.parquet"            # or .npz (arrays X, y, domains), .csv, …; beside this file
        features = "f_"                      # columns that begin so, or a list; default: all others of numbers
        label = "y"                          # guessed if left out, as is the domain
        domain = "hospital"                  # or a list of 0/1 columns, for domains that overlap
        validation = 0.2                     # share of each domain's rows
        [sweep]
        members = 50                         # of each objective
        steps = 2000
        batch_size = 512                     # over all domains; 0: all rows
        learning_rate = {log10 = [-4, -2.5]} # also uniform, log2, choice, or one number
        weight_decay = {log10 = [-5, -3]}
        hidden = {log2 = [6, 9], layers = 2} # or widths, such as [256, 256]
        [[objective]]
        name = "clove"                       # clovecal finetune --help lists the others
        penalty = {log10 = [2, 6]}
        anneal = {uniform = [100, 500]}      # steps
        of = "positive"                      # and the other options of the objective

    Further settings of [sweep]: seed, chunk (members trained together), balance, optimizer (adam, adagrad), precision
    (tf32, bf16). An objective may have members, hidden, learning_rate, weight_decay of its own, and a label for its
    members' names.
    """
    with needing("train,tables", "training"):
        from clovecal.training.head.inputs import check_device
        from clovecal.training.sweep.folder import SweepFolder
        from clovecal.training.sweep.running import read_sweep, read_sweep_data, train_members
    check_device(device)
    sweep = read_sweep(config)
    folder = SweepFolder(output or config.stem)
    with progress(f"Reading {sweep.source.file}"):
        data = read_sweep_data(sweep)
    if data.used is not None:
        click.echo(f"{sweep.source.file}: {data.used}.", err=True)
    members = sweep.members(data.fingerprint)
    missing = folder.begin(members, overwrite=force)
    if len(missing) < len(members):
        click.echo(f"{len(members) - len(missing)} of {len(members)} members are there already.", err=True)
    written = 0
    try:
        with on_terminal() as bars:
            for member, outcome in train_members(missing, data, chunk=sweep.chunk, device=device, progress=bars):
                folder.keep(member, outcome, data)
                written += 1
    except KeyboardInterrupt:
        if folder.is_untouched:
            click.echo(f"clovecal: interrupted; {folder.path} is left as it was.", err=True)
        else:
            click.echo(
                f"clovecal: interrupted; finished members ({written} of {len(missing)} of this run) are kept in "
                f"{folder.path}, the same command{' without --force' if force else ''} continues from there.",
                err=True,
            )
        sys.exit(130)
    diverged = folder.diverged(members)
    if folder.is_untouched:
        reason = next(iter(diverged.values())).partition(";")[0]
        raise InputError(
            "no member",
            f"was trained to the end ({reason})",
            f"lower learning_rate, the penalty or weight_decay; {folder.path} is left as it was",
        )
    if diverged:
        some = ", ".join(list(diverged)[:5]) + (", …" if len(diverged) > 5 else "")
        click.echo(f"{len(diverged)} of {len(members)} members diverged ({some}); {folder.records} says why.", err=True)
    if len(diverged) == len(members):
        raise InputError(
            "no member",
            "was trained to the end",
            "lower learning_rate, the penalty or weight_decay, then start anew with --force",
        )
    click.echo(
        f"{len(members) - len(diverged)} models trained on {len(data.training):,} rows, "
        f"judged on {len(data.y):,} others."
    )
    click.echo(f"Next: clovecal select '{folder.path / 'predictions'}/*.parquet'")
