"""``clovecal sweep``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal._files import replacing
from clovecal.cli._options import progress, progress_bar
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.training.sweep.running import Outcome, SweepData, SweepMember

_PARTS = {"predictions": ".parquet", "models": ".safetensors"}


@click.command("sweep")
@click.argument("config", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for records and predictions; an unfinished sweep in it is resumed.  [default: named after CONFIG]",
)
@click.option("--device", help="Where to train, such as cpu or cuda:1.  [default: a GPU if there is one]")
@click.option("--force", is_flag=True, help="Start anew where the folder holds another sweep.")
def command(config: Path, output: Path | None, device: str | None, force: bool) -> None:
    """Train many models at once and write their predictions.

    CONFIG is a TOML file. Members draw what is given as a range; a sweep that was interrupted or killed goes on where
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
        name = "clove"                       # or erm, irm, coral, group-dro
        penalty = {log10 = [2, 6]}
        anneal = {uniform = [100, 500]}      # steps
        of = "positive"                      # and the other options of the objective

    Further settings of [sweep]: seed, chunk (members trained together), balance, optimizer (adam, adagrad), precision
    (tf32, bf16). An objective may have members, hidden, learning_rate, weight_decay of its own, and a label for its
    members' names.
    """
    from clovecal import records

    check_device, read_sweep, read_sweep_data, train_members = _training()
    check_device(device)
    sweep = read_sweep(config)
    folder = output or Path(config.stem)
    results = folder / "records.jsonl"
    with progress(f"Reading {sweep.source.file}"):
        data = read_sweep_data(sweep)
    if data.used is not None:
        click.echo(f"{sweep.source.file}: {data.used}.", err=True)
    members = sweep.members(data.fingerprint)
    if force:
        _discard(folder)
    _reject_another(results, members)
    missing = list(records.missing(results, members))
    if len(missing) < len(members):
        click.echo(f"{len(members) - len(missing)} of {len(members)} members are there already.", err=True)
    for part in _PARTS:
        (folder / part).mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        with progress_bar("Training") as shown:
            for member, outcome in train_members(missing, data, chunk=sweep.chunk, device=device, progress=shown):
                _write(folder, member, outcome, data)
                # Last, so that what has a record is whole.
                records.append(results, member, {"diverged": outcome.diverged, **outcome.summary})
                written += 1
    except KeyboardInterrupt:
        click.echo(
            f"clovecal: interrupted; what is finished ({written} of {len(missing)} members this time) is in {folder}, "
            "the same command goes on from there.",
            err=True,
        )
        sys.exit(130)
    diverged = _diverged(results, members)
    if diverged:
        some = ", ".join(diverged[:5]) + (", …" if len(diverged) > 5 else "")
        click.echo(f"{len(diverged)} of {len(members)} members diverged ({some}); {results} says why.", err=True)
    if len(diverged) == len(members):
        raise InputError(
            "no member",
            "was trained to the end",
            "lower learning_rate, the penalty or weight_decay, then start anew with --force",
        )
    click.echo(
        f"{len(members) - len(diverged)} models of {len(data.training):,} rows, judged on {len(data.y):,} others."
    )
    click.echo(f"Next: clovecal select '{folder / 'predictions'}/*.parquet'")


def _training() -> tuple[Any, Any, Any, Any]:
    """Import what needs the extra, or say how to get it."""
    try:
        from clovecal.training.head.inputs import check_device
        from clovecal.training.sweep.running import read_sweep, read_sweep_data, train_members
    except ImportError as error:
        raise click.ClickException(
            f"training needs the package {error.name}; install it with pip install 'clovecal[train,tables]'."
        ) from None
    return check_device, read_sweep, read_sweep_data, train_members


def _discard(folder: Path) -> None:
    (folder / "records.jsonl").unlink(missing_ok=True)
    for part, ending in _PARTS.items():
        for path in (folder / part).glob(f"*{ending}"):
            path.unlink()


def _reject_another(results: Path, members: Sequence[SweepMember]) -> None:
    """Raise if the folder holds a member of the same name that was trained with other settings or rows."""
    wanted = {member.name: json.loads(json.dumps(asdict(member))) for member in members}
    for record in _records_of_members(results):
        name = record["config"]["name"]
        others = [key for key, value in wanted.get(name, {}).items() if record["config"].get(key) != value]
        if others:
            raise InputError(
                f"folder {str(results.parent)!r}",
                f"holds another sweep, whose member {name} differs in {', '.join(others)}",
                "choose another folder with -o, or start anew with --force",
            )


def _records_of_members(results: Path) -> list[dict[str, Any]]:
    from clovecal import records

    try:
        read = records.read(results)
        whole = all(isinstance(one["config"]["name"], str) and "diverged" in one for one in read)
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise InputError(
            f"file {str(results)!r}",
            "has a line that is no record of a sweep",
            "remove that line, choose another folder with -o, or start anew with --force",
        )
    return read


def _write(folder: Path, member: SweepMember, outcome: Outcome, data: SweepData) -> None:
    """Write a member's predictions and its model, unless it diverged."""
    if outcome.p is None or outcome.head is None:
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    p, domains = outcome.p, list(data.domains.values())
    scores = {"p": p} if p.ndim == 1 else {f"p_{number}": column for number, column in enumerate(p.T)}
    one = {"domain": pa.array(domains[0])} if len(domains) == 1 else {}
    several = {f"domain_{name.removeprefix('domain_')}": column for name, column in data.domains.items()}
    with replacing(folder / "predictions" / f"{member.name}.parquet") as temporary:
        pq.write_table(pa.table({"y": data.y, **scores, **(one or several)}), temporary)
    outcome.head.save(folder / "models" / f"{member.name}.safetensors", overwrite=True)


def _diverged(results: Path, members: Sequence[SweepMember]) -> list[str]:
    ours = {member.name for member in members}
    names = [one["config"]["name"] for one in _records_of_members(results) if one["diverged"]]
    return [name for name in names if name in ours]
