"""``clovecal train``: a whole network on your own images or texts."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._console import json_option, needing, print_json, progress, say_how_read
from clovecal.cli._heads import candidates_as_json, echo_heads
from clovecal.cli._registered import RegisteredOption, import_option
from clovecal.errors import InputError
from clovecal.progress import on_terminal
from clovecal.text import interval, listed
from clovecal.training.objectives import OBJECTIVES, objective_names

if TYPE_CHECKING:
    from clovecal.datasets import LazyDataset
    from clovecal.training.network.exporting import Exported
    from clovecal.training.network.preparing import Preparation
    from clovecal.training.network.recipe import Recipe
    from clovecal.training.network.summary import DomainScores, SplitScores

_FOR_TRYING_OUT = {"image": "tiny-image", "text": "tiny-text"}
_MOST_CLASSES, _MOST_MISTAKES = 10, 10  # that are shown; the JSON has all


@click.command("train")
@click.argument("table", metavar="TABLE")
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder for the network and its tables."
)
@click.option("--force", is_flag=True, help="Start anew in the folder of another run.")
@click.option(
    "--images",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Train on the images in this folder, which TABLE names.",
)
@click.option("--texts", is_flag=True, help="Train on the texts in TABLE.")
@click.option("--input", metavar="NAME", help="Column of images' files, or of texts (guessed: file, text, …).")
@click.option("--label", metavar="NAME", help="Column of labels (guessed: y, label, target, …).")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Column of domain labels; once per 0/1 column for domains that overlap.",
)
@click.option("--split", metavar="NAME", help="Column that says train, val or test (guessed: split).")
@click.option(
    "--test-domain",
    "test_domains",
    multiple=True,
    metavar="DOMAIN",
    help="Keep this domain out of training and test on it; once per domain, instead of --split.",
)
@click.option(
    "--validation",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.2,
    show_default=True,
    help="Share of every other domain's rows to validate on.",
)
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    default="classification",
    show_default=True,
    help="What the label is.",
)
@click.option("--size", metavar="PIXELS", help="Resize each image, whole, to 224 or 320x240 (width x height).")
@click.option(
    "--backbone",
    metavar="NAME",
    cls=RegisteredOption,
    listing=lambda: (
        f"One of {', '.join(_backbones())}; default: {' or '.join(_FOR_TRYING_OUT.values())}, small, for trying out."
    ),
)
@click.option(
    "--weights",
    metavar="PATH",
    help="Start from these weights: a file, for BERT a folder; or cache, for those that torchvision or transformers "
    "keep there.",
)
@click.option(
    "--prepare-for",
    type=click.Choice(["unstable", "similar"]),
    help="unstable: what varies among the known domains may vary further, or reverse; similar: new domains come from "
    "where the known ones came. Heads on the backbone's features choose objective and penalty first.",
)
@click.option(
    "--objective",
    metavar="NAME",
    cls=RegisteredOption,
    listing=lambda: (
        f"What training minimises: {', '.join(objective_names())}. Default: erm; with --prepare-for, what heads choose."
    ),
)
@click.option(
    "--penalty",
    default="auto",
    show_default=True,
    help="Weight of the penalty; auto: 100 for clove, else 1; with --prepare-for, what heads choose.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(0),
    metavar="EPOCHS",
    help="Epochs before the penalty has its full weight; default: a fifth for clove and irm, else 0. With "
    "--prepare-for a chosen penalty comes after all epochs, for as many more.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1),
    help="Passes over the rows, of every objective the same; default: depends on the backbone.",
)
@click.option("--batch-size", type=int, help="Rows per batch; default: depends on the backbone.")
@click.option(
    "--domains-per-batch",
    type=click.IntRange(1),
    help="Domains per batch, where there are many; default: all. erm does not use it.",
)
@click.option("--learning-rate", type=float, help="Learning rate; default: depends on the backbone.")
@click.option("--weight-decay", type=click.FloatRange(0), help="Weight decay; default: depends on the backbone.")
@click.option(
    "--class-weight",
    type=click.Choice(["balanced"]),
    help="Let every class weigh the same in training, however many rows it has; calibrate the probabilities then.",
)
@click.option("--flips", is_flag=True, help="Mirror images at random in training.")
@click.option("--max-tokens", type=click.IntRange(1), help="Tokens per text that BERT reads; default: 300.")
@click.option("--onnx", is_flag=True, help="Write network.onnx too, which runs without torch.")
@click.option("--precision", type=click.Choice(["bf16", "fp16"]), help="Train in half precision.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the initial weights and the batches.")
@click.option("--device", help="cpu, cuda, cuda:1, …; default: a GPU if there is one.")
@click.option("--workers", type=click.IntRange(0), default=0, show_default=True, help="Processes that read inputs.")
@click.option(
    "--checkpoint-every",
    type=click.IntRange(1),
    metavar="STEPS",
    help="Steps between checkpoints, which a killed run may lose; default: an epoch, but 50 to 500.",
)
@import_option
@json_option
def command(
    table: str,
    output: Path,
    force: bool,
    images: Path | None,
    texts: bool,
    input: str | None,
    label: str | None,
    domains: tuple[str, ...],
    split: str | None,
    test_domains: tuple[str, ...],
    validation: float,
    task: str,
    size: str | None,
    backbone: str | None,
    weights: str | None,
    prepare_for: str | None,
    objective: str | None,
    penalty: str,
    warm_up: int | None,
    onnx: bool,
    seed: int,
    device: str | None,
    workers: int,
    checkpoint_every: int | None,
    as_json: bool,
    **recipe_values: Any,
) -> None:
    """Train a network on images or texts of several domains.

    TABLE (CSV or Parquet) has a label and a domain in each row, and the name of an image's file or a text. The network
    is written to a folder, with a table of predictions and features for each split but the training rows, which the
    other commands read. A run that is interrupted or killed is continued by the same command.

    \b
    Example:
        clovecal train photos.csv --images photos --test-domain zoo --size 64 -o network
        clovecal train reviews.csv --texts --domain shop -o network
        clovecal train photos.csv --images photos --prepare-for unstable -o network
    """
    if (images is None) == (not texts):
        problem = "are both missing" if images is None else "are both given"
        raise InputError("--images and --texts", problem, "a network reads one of them")
    kind = "text" if images is None else "image"
    if size is not None and images is None:
        raise InputError("--size", f"is {size!r}, but texts have no size", "leave it out")
    with needing("train,tables", "training"):
        from clovecal.datasets.folder import image_folder, text_table
        from clovecal.training.data import strata_of
        from clovecal.training.loop.fitting import TrainingWarning
        from clovecal.training.loop.processes import is_first_process
        from clovecal.training.network.columns import find_roles
        from clovecal.training.network.exporting import export
        from clovecal.training.network.recipe import default_recipe
        from clovecal.training.network.training import Resources
    weight = _penalty(penalty)
    if prepare_for is not None:
        _check_choice(objective, weight, warm_up)
    chosen_by_heads = prepare_for is not None and weight is None
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
    known = data.part("train") if "train" in data.split_counts else None
    recipe = default_recipe(
        backbone or _FOR_TRYING_OUT[kind],
        0 if known is None else len(known),
        n_domains=1 if known is None else len(strata_of(known.as_domains())),
        objective=objective or "erm",
        pretrained=weights is not None,
        penalty=weight,
        warm_up=warm_up,
        **recipe_values,
    )
    if is_first_process():
        say_how_read(table)
        _announce(table, roles.in_words(kind), data)
        if prepare_for is not None and weight is not None:
            click.echo(
                f"The penalty is given, so that no heads choose what to train with for {prepare_for} domains.", err=True
            )
    own_weights = None if weights in (None, "cache") else Path(str(weights))
    try:
        with on_terminal() as bars, warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingWarning)  # its text is the message below
            done = export(
                data,
                recipe,
                output,
                prepare_for=prepare_for if chosen_by_heads else None,
                seed=seed,
                resources=Resources(device=device, workers=workers, weights=own_weights),
                overwrite=force,
                onnx=onnx,
                checkpoint_every=checkpoint_every,
                progress=bars,
            )
    except InputError as error:
        columns = f"column {', '.join(map(repr, roles.domains))}"
        raise (error.about(columns) if error.argument == "domains" else error) from None
    except KeyboardInterrupt:
        again = "the same command without --force" if force else "the same command"
        click.echo(f"clovecal: interrupted; {again} continues from the last checkpoint.", err=True)
        sys.exit(130)
    if not is_first_process():
        return
    for one in done.splits:
        said = _against_guessing(one, done)
        if said:
            click.echo(f"{output}: {said}", err=True)
    if as_json:
        print_json(_details(output, done))
        return
    _show(output, data, done, images)


def _backbones() -> Iterable[str]:
    from clovecal.training.network.backbones import BACKBONES

    return BACKBONES


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
        raise InputError("--penalty", f"is {text!r}", "pass one number, or auto") from None


def _check_choice(objective: str | None, penalty: float | None, warm_up: int | None) -> None:
    """Refuse what leaves nothing to choose, or says it in two ways."""
    if objective is None and penalty is not None:
        raise InputError(
            "--penalty", f"is {penalty:g} without an objective", "name one with --objective, or leave it out"
        )
    if penalty is None and warm_up is not None:
        raise InputError("--warm-up", f"is {warm_up} beside --prepare-for", "leave it out, or give the --penalty too")


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
            f"{table}: {len(shared):,} of the files to train on also appear in other splits (for example "
            f"{min(shared)}); scores will be optimistic.",
            err=True,
        )
    if data.classes:
        unseen = [name for number, name in enumerate(data.classes) if number not in set(rows.y.tolist())]
        if unseen:
            click.echo(f"{table}: no training row has the label {_listed(unseen)}.", err=True)
    if "val" not in data.split_counts:
        click.echo(f"{table}: no validation rows; the last epoch is kept.", err=True)
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


def _show(output: Path, data: LazyDataset, done: Exported, images: Path | None) -> None:
    described, rows = done.network.description, data.part("train")
    recipe = described.recipe
    if described.preparation is not None:
        _show_preparation(recipe, described.preparation)
    click.echo(
        f"{recipe.backbone} by {recipe.objective} on {len(rows):,} rows of {len(rows.as_domains().names)} domains. "
        f"{done.message}"
    )
    _show_summary(done.summary, data.task)
    if data.task != "regression":
        _show_confusion(done.splits, data.classes)
    if recipe.class_weight is not None:
        click.echo("\nIts probabilities are for classes of the same size: calibrate them before you use them.")
    click.echo(f"\nNetwork and tables: {output}" + (f"; ONNX: {done.onnx}" if done.onnx else ""))
    if recipe.backbone in _FOR_TRYING_OUT.values():
        click.echo(f"{recipe.backbone} is for trying things out; name a --backbone for real work.")
    click.echo("Next:")
    for command, why in _next_commands(output, done, data, images):
        click.echo(f"  {command}  # {why}")


def _show_preparation(recipe: Recipe, preparation: Preparation) -> None:
    """Print what heads chose before training, and that the figures are theirs."""
    click.echo(
        f"Heads on the features of {recipe.backbone} before training, of {preparation.rows:,} training rows, chose what"
        f" to train it with: {preparation.chosen.name}."
    )
    echo_heads(preparation.candidates, preparation.choices, preparation.price)
    click.echo("These are figures of heads. The network's own:\n")


def _show_summary(summary: Sequence[DomainScores], task: str) -> None:
    quality, calibration = ("RMSE", "calibration error") if task == "regression" else ("accuracy", "ECE")
    width = max([6, *(len(line.domain) for line in summary)])
    limits = [interval(line.interval) for line in summary]
    wide = max([len("95% interval"), *map(len, limits)])
    heads = f"{'rows':>8}  {quality:>8}  {'95% interval':>{wide}}  {calibration:>6}"
    click.echo(f"\n{'split':<6}  {'domain':<{width}}  {heads}")
    for line, shown in zip(summary, limits, strict=True):
        click.echo(
            f"{line.split:<6}  {line.domain:<{width}}  {line.rows:>8,}  {line.quality:>8.3f}  {shown:>{wide}}  "
            f"{line.calibration_error:>{max(len(calibration), 6)}.3f}"
        )


def _show_confusion(splits: Sequence[SplitScores], classes: Sequence[str]) -> None:
    """Show which classes are taken for which: all of few classes, else the mistakes that most rows are."""
    for one in splits:
        if len(classes) <= _MOST_CLASSES:
            click.echo(f"\n{one.split}: rows by label, and by what they are taken for")
            cells = [[f"{rows:,}" for rows in row] for row in one.confusion]
            wide = [max(len(text) for text in column) for column in zip(classes, *cells, strict=True)]
            first = max(map(len, classes))
            click.echo("  ".join([" " * first, *(f"{name:>{w}}" for name, w in zip(classes, wide, strict=True))]))
            for name, row in zip(classes, cells, strict=True):
                click.echo(
                    "  ".join([f"{name:<{first}}", *(f"{text:>{w}}" for text, w in zip(row, wide, strict=True))])
                )
            continue
        mistakes = sorted(
            (-rows, classes[label], classes[taken])
            for label, row in enumerate(one.confusion)
            for taken, rows in enumerate(row)
            if rows and taken != label
        )
        if mistakes:
            click.echo(f"\n{one.split}: the most frequent mistakes")
        for rows, label, taken in mistakes[:_MOST_MISTAKES]:
            click.echo(f"{-rows:>8,}  {label} taken for {taken}")


def _against_guessing(one: SplitScores, done: Exported) -> str | None:
    """Say that a network is not better than guessing, and what to do about it; None where it is."""
    guessing, recipe = one.guessing, done.network.description.recipe
    if guessing.finding == "better":
        return None
    how = "worse than guessing" if guessing.finding == "worse" else "not shown to be better than guessing"
    measures = [
        f"{shown.measure} {shown.observed:.3g} ({shown.expected:.3g} ± {shown.standard_deviation:.2g} "
        + ("with the same labels in random order)" if shown is guessing.measures[0] else "so)")
        for shown in guessing.measures
    ]
    classes = f" of {len(one.confusion)} classes" if one.confusion else ""
    said = f"{how} on the {one.rows:,} {one.split} rows{classes}: {listed(measures)}"
    known = next((other for other in done.splits if other.split == "val"), one)
    if known is not one and known.guessing.finding == "better":
        said = f"{said}. It is better on the val rows: what it has learnt there does not show here"
        plain = recipe.objective == "erm" and done.network.description.preparation is None
        return (
            f"{said}; --prepare-for unstable trains against what varies between known domains." if plain else f"{said}."
        )
    weaker = ", a smaller --penalty" if recipe.penalty and OBJECTIVES[recipe.objective].penalised else ""
    return f"{said}; try more --epochs{weaker} or another --learning-rate."


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


def _details(output: Path, done: Exported) -> dict[str, Any]:
    described = done.network.description
    prepared = described.preparation
    return {
        "network": str(output),
        "backbone": described.recipe.backbone,
        "objective": described.recipe.objective,
        "penalty": described.recipe.penalty if OBJECTIVES[described.recipe.objective].penalised else None,
        "preparation": None if prepared is None else _prepared(prepared),
        "classes": list(described.classes),
        "message": done.message,
        "tables": {split: str(path) for split, path in done.tables.items()},
        "onnx": None if done.onnx is None else str(done.onnx),
        "domains": [
            {
                "split": line.split,
                "domain": line.domain,
                "rows": line.rows,
                "rmse" if described.task == "regression" else "accuracy": line.quality,
                "interval": line.interval,
                "calibration_error": line.calibration_error,
            }
            for line in done.summary
        ],
        "splits": [
            {
                "split": one.split,
                "rows": one.rows,
                "confusion": one.confusion,
                "guessing": {
                    "finding": one.guessing.finding,
                    "measures": [asdict(shown) for shown in one.guessing.measures],
                },
            }
            for one in done.splits
        ],
    }


def _prepared(preparation: Preparation) -> dict[str, Any]:
    return {
        "prepare_for": preparation.prepare_for,
        "rows": preparation.rows,
        "chosen": preparation.chosen.name,
        "choices": dict(preparation.choices),
        "price": None if preparation.price is None else asdict(preparation.price),
        "candidates": candidates_as_json(preparation.candidates),
    }


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(map(str, names[:most]))
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
