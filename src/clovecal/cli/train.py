"""``clovecal finetune --images`` and ``--texts``: a whole network on data of one's own."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._console import print_json, progress, progress_bar
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.datasets import LazyDataset
    from clovecal.training.network.exporting import Exported
    from clovecal.training.network.summary import DomainScores

_FOR_TRYING_OUT = {"image": "tiny-image", "text": "tiny-text"}


def finetune_network(
    table: str,
    output: Path,
    *,
    force: bool,
    images: Path | None,
    texts: bool,
    objective: str | None,
    penalty: str,
    label: str | None,
    domains: Sequence[str],
    input: str | None,
    split: str | None,
    test_domains: Sequence[str],
    validation: float,
    task: str,
    size: str | None,
    backbone: str | None,
    weights: str | None,
    batch_size: int | None,
    lr: float | None,
    warm_up: int | None,
    device: str | None,
    workers: int,
    seed: int,
    checkpoint_every: int | None,
    as_json: bool,
    **recipe_values: Any,
) -> None:
    """Train a network, write it and its predictions, and say how it did."""
    if images is not None and texts:
        raise InputError("--images and --texts", "are both given", "a network reads one of them")
    kind = "text" if images is None else "image"
    if size is not None and images is None:
        raise InputError("--size", f"is {size!r}, but texts have none", "leave it out")
    try:
        from clovecal.datasets.folder import image_folder, text_table
        from clovecal.training.loop.fitting import TrainingWarning
        from clovecal.training.network.columns import find_roles
        from clovecal.training.network.exporting import export, is_first_process
        from clovecal.training.network.starting import starting_recipe
        from clovecal.training.network.summary import summarize
        from clovecal.training.network.training import Place
    except ImportError as error:
        raise click.ClickException(
            f"training needs the package {error.name}; install it with pip install 'clovecal[train,tables]'."
        ) from None
    roles = find_roles(table, kind, input=input, label=label, domains=domains, split=split)
    (column,) = roles.columns("input")
    if split is None and test_domains:  # they say what to test on, whatever a column is named
        roles = replace(roles, split=None)
    options: dict[str, Any] = {
        "label": roles.label,
        "domain": roles.domains,
        "split": roles.split,
        "test_domains": test_domains,
        "validation": validation,
        "task": task,
        "seed": 0,  # whatever --seed is: networks are compared on the same validation rows
    }
    with progress(f"Reading {table}"):
        if images is not None:
            data = image_folder(images, table, file=column, size=_size(size), **options)
        else:
            data = text_table(table, text=column, **options)
    recipe = starting_recipe(
        backbone or _FOR_TRYING_OUT[kind],
        data.split_counts.get("train", 0),
        algorithm=objective or "erm",
        pretrained=weights is not None,
        penalty=_penalty(penalty),
        warm_up=warm_up,
        batch_size=batch_size,
        learning_rate=lr,
        **recipe_values,
    )
    first = is_first_process()
    if first:
        _announce(table, roles.in_words(kind), data)
    place = Place(device, workers, None if weights in (None, "cache") else Path(str(weights)))
    try:
        with _bars() as on_progress, warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # its text is the message below
            done = export(
                data,
                recipe,
                output,
                seed=seed,
                place=place,
                overwrite=force,
                checkpoint_every=checkpoint_every,
                on_progress=on_progress,
            )
    except KeyboardInterrupt:
        again = "the same command without --force" if force else "the same command"
        click.echo(f"clovecal: interrupted; {again} goes on from the last checkpoint.", err=True)
        sys.exit(130)
    if not first:
        return
    scores = summarize(data, done.tables)
    if as_json:
        print_json(_details(output, done, scores))
        return
    _show(output, data, done, scores, images)


@contextmanager
def _bars() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that draws a bar for each thing that is done, one after the other."""
    with ExitStack() as shown:
        current, update = "", None

        def tell(what: str, done: int, total: int) -> None:
            nonlocal current, update
            if update is None or what != current:
                shown.close()
                current, update = what, shown.enter_context(progress_bar(what))
            update(done, total)

        yield tell


def _size(text: str | None) -> int | tuple[int, int] | None:
    if text is None:
        return None
    numbers = text.lower().replace("×", "x").split("x")
    if len(numbers) > 2 or not all(number.strip().isdecimal() for number in numbers):
        raise InputError("--size", f"is {text!r}", "pass pixels such as 224, or width x height such as 320x240")
    width, height = int(numbers[0]), int(numbers[-1])
    return width, height


def _penalty(text: str) -> float | None:
    if text == "auto":
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError("--penalty", f"is {text!r}", "pass one number for a network, or auto") from None


def _announce(table: str, roles: str, data: LazyDataset) -> None:
    """Say on standard error how the table is understood, and what in it may surprise."""
    click.echo(f"{table}: {roles}.", err=True)
    splits = ", ".join(f"{count:,} {split}" for split, count in data.split_counts.items())
    classes = f"; classes: {_listed(data.classes)}" if data.classes else ""
    click.echo(f"{table}: rows: {splits}{classes}.", err=True)
    if "train" not in data.split_counts:
        return
    rows = data.part("train")
    shared = _files_of(data, ["train"]) & _files_of(data, [part for part in data.split_counts if part != "train"])
    if shared:
        click.echo(
            f"{table}: {len(shared):,} of the files to train on are also to be judged by, such as {min(shared)}; the "
            "scores will flatter.",
            err=True,
        )
    if data.classes:
        unseen = [name for number, name in enumerate(data.classes) if number not in set(rows.y.tolist())]
        if unseen:
            click.echo(f"{table}: no row to train on has the label {_listed(unseen)}.", err=True)
    if "val" not in data.split_counts:
        click.echo(f"{table}: no row is val; the last epoch is kept.", err=True)
        return
    judged = data.part("val").as_domains().counts
    unjudged = [str(name) for name in rows.as_domains().counts if name not in judged]
    if unjudged:
        click.echo(f"{table}: too few rows to validate on in {_listed(unjudged)}.", err=True)


def _files_of(data: LazyDataset, splits: Sequence[str]) -> set[str]:
    """Return the files that rows of these splits name; none for texts, of which short ones are equal by chance."""
    from clovecal.datasets import Files

    inputs = [data.part(split).inputs for split in splits]
    return {name for one in inputs if isinstance(one, Files) for name in one.names.tolist()}


def _show(output: Path, data: LazyDataset, done: Exported, scores: Sequence[DomainScores], images: Path | None) -> None:
    recipe, rows = done.network.description.recipe, data.part("train")
    click.echo(
        f"{recipe.backbone} by {recipe.algorithm} on {len(rows):,} rows of {len(rows.as_domains().names)} domains. "
        f"{done.message}"
    )
    quality, calibration = ("RMSE", "calibration error") if data.task == "regression" else ("accuracy", "ECE")
    width = max([6, *(len(line.domain) for line in scores)])
    click.echo(f"\n{'split':<6}  {'domain':<{width}}  {'rows':>8}  {quality:>8}  {calibration:>6}")
    for line in scores:
        click.echo(
            f"{line.split:<6}  {line.domain:<{width}}  {line.rows:>8,}  {line.quality:>8.3f}  "
            f"{line.calibration_error:>{len(calibration) if len(calibration) > 6 else 6}.3f}"
        )
    click.echo(f"\nNetwork and tables: {output}")
    if recipe.backbone in _FOR_TRYING_OUT.values():
        click.echo(f"{recipe.backbone} is for trying things out; name a --backbone for real work.")
    click.echo("Next:")
    for command, why in _next_commands(output, done, data, images):
        click.echo(f"  {command}  # {why}")


def _next_commands(output: Path, done: Exported, data: LazyDataset, images: Path | None) -> list[tuple[str, str]]:
    val, test = (shlex.quote(str(done.tables[split])) if split in done.tables else None for split in ("val", "test"))
    folder, commands = shlex.quote(str(output)), []
    several = val is not None and len(data.part("val").as_domains().names) > 1
    audited = val if several else test or val
    if audited is not None:
        commands.append((f"clovecal audit {audited}", "is it equally right in every domain?"))
    if several:
        commands.append((f"clovecal calibrate {val} -o cal.json", "repair its probabilities"))
        if data.task != "regression":
            head = f"clovecal finetune {val} --features emb_ -o head.safetensors"
            commands.append((head, "or train a CLOvE head on its features"))
    new = "--images NEW_FOLDER" if images is not None else "--texts new.csv"
    commands.append((f"clovecal predict {folder} {new} -o predictions.parquet", "use it"))
    return commands


def _details(output: Path, done: Exported, scores: Sequence[DomainScores]) -> dict[str, Any]:
    described = done.network.description
    return {
        "network": str(output),
        "backbone": described.recipe.backbone,
        "objective": described.recipe.algorithm,
        "classes": list(described.classes),
        "message": done.message,
        "tables": {split: str(path) for split, path in done.tables.items()},
        "domains": [
            {
                "split": line.split,
                "domain": line.domain,
                "rows": line.rows,
                "rmse" if described.task == "regression" else "accuracy": line.quality,
                "calibration_error": line.calibration_error,
            }
            for line in scores
        ],
    }


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(str, names[:most]))
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
