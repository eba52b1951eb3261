"""``clovecal finetune``: a head on frozen features."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._console import (
    check_writable,
    json_option,
    needing,
    print_json,
    progress,
    reject_input_as_output,
)
from clovecal.cli._heads import candidates_as_json, echo_heads
from clovecal.cli._registered import RegisteredOption, import_option
from clovecal.errors import InputError
from clovecal.progress import on_terminal
from clovecal.training.objectives import OBJECTIVES, objective_names

if TYPE_CHECKING:
    from clovecal.tables.features import FeatureRows
    from clovecal.training.head.classifier import CloveClassifier


@click.command("finetune")
@click.argument("features", metavar="FEATURES")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write the head (safetensors).",
)
@click.option("--force", is_flag=True, help="Replace an existing output.")
@click.option(
    "--prepare-for",
    type=click.Choice(["unstable", "similar"]),
    default="unstable",
    show_default=True,
    help="unstable: what varies among the known domains may vary further, or reverse; similar: new domains come from "
    "where the known ones came. The other head is kept too.",
)
@click.option(
    "--objective",
    default="auto",
    show_default=True,
    metavar="NAME",
    cls=RegisteredOption,
    listing=lambda: (
        "What training minimises; auto: several, to choose among. One by its name: "
        f"{', '.join(objective_names(for_heads=True))}."
    ),
)
@click.option(
    "--penalty",
    default="auto",
    show_default=True,
    help="Strength of a named objective's penalty, or several separated by commas to choose among; auto: a grid.",
)
@click.option("--hidden", default="128,128,128", show_default=True, help="Widths of the hidden layers.")
@click.option("--label", metavar="NAME", help="Column (npz: array) of labels (guessed: y, label, target, …).")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Column (npz: array) of domain labels; once per 0/1 column for domains that overlap.",
)
@click.option(
    "--features", "prefix", metavar="PREFIX", help="Prefix of the feature columns; default: all other numeric columns."
)
@click.option(
    "--batch-size",
    type=int,
    default=256,
    show_default=True,
    help="Rows per batch, the same number from each domain; 0: all rows.",
)
@click.option("--max-steps", type=int, default=5000, show_default=True, help="Maximum number of training steps.")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the initial weights, the batches and the held-out rows.",
)
@click.option("--device", help="cpu, cuda, cuda:1, …; default: a GPU if there is one.")
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]),
    help="Format of a table, if its ending does not tell.",
)
@import_option
@json_option
def command(
    features: str,
    output: Path,
    force: bool,
    prepare_for: str,
    objective: str,
    penalty: str,
    hidden: str,
    label: str | None,
    domains: tuple[str, ...],
    prefix: str | None,
    batch_size: int,
    max_steps: int,
    seed: int,
    device: str | None,
    format: str | None,
    as_json: bool,
) -> None:
    """Train a head on frozen features of several domains.

    FEATURES is an npz archive with arrays X, y and domains, or a table with a column for the label, the domain and
    each feature. A fifth of each domain's rows is held out: training stops by them, and they choose a head for unstable
    domains and one for similar ones; what each costs is printed. The result is used with `clovecal predict`.

    \b
    Example:
        clovecal finetune features.parquet -o head.safetensors --features emb_
        clovecal finetune features.npz -o head.safetensors --prepare-for similar
        clovecal finetune features.npz -o head.safetensors --objective irm --penalty 10,100
    """
    check_writable(output, overwrite=force)
    reject_input_as_output(output, features)
    if objective not in ("auto", *objective_names(for_heads=True)):
        raise InputError(
            "objective", f"is {objective!r}", f"choose one of auto, {', '.join(objective_names(for_heads=True))}"
        )
    strengths = _penalty(penalty, objective)
    widths = _widths(hidden)
    with needing("train,tables", "training"):
        from clovecal.tables.features import read_features
        from clovecal.training.head.classifier import CloveClassifier
        from clovecal.training.loop.fitting import TrainingWarning
    with progress(f"Reading {features}"):
        rows = read_features(features, label=label, domains=domains, prefix=prefix, format=format)
        y, members = rows.training_labels()
    if rows.used is not None:
        click.echo(f"{features}: {rows.used}.", err=True)
    head = CloveClassifier(
        widths,
        prepare_for=prepare_for,
        objective=objective,
        penalty=strengths,
        batch_size=batch_size or None,
        max_steps=max_steps,
        random_state=seed,
        device=device,
    )
    with on_terminal() as shown, warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # its text is the message below
        try:
            head.fit(rows.X, y, domains=members, progress=shown)
        except InputError as error:
            raise _in_words_of_the_file(error, rows) from None
    head.save(output, overwrite=force)
    if as_json:
        print_json(_details(head, output, len(rows)))
        return
    held = int(head.held_out_.sum())
    click.echo(
        f"{head.chosen_} head for {len(head.classes_)} classes trained on {len(rows) - held:,} rows of "
        f"{rows.n_features:,} features; {held:,} rows held out."
    )
    if len(head.candidates_) > 1:
        echo_heads(head.candidates_, head.choices_, head.price_)
    click.echo(head.message_)
    click.echo(f"Head: {output}")


def _in_words_of_the_file(error: InputError, rows: FeatureRows) -> InputError:
    """Name the columns or arrays that labels and domains come from, and the command's own word for its seed."""
    archive = rows.used is None
    label = "" if rows.y is None else rows.y[0]
    said = {
        "y": f"{'array' if archive else 'column'} {label!r}",
        "domains": "the array of domains" if archive else f"column {', '.join(map(repr, rows.domains))}",
        "random_state": "seed",
    }
    return error.about(said[error.argument], row_name="data row", first_row=1) if error.argument in said else error


def _penalty(text: str, objective: str) -> Any:
    if text == "auto":
        return text
    if objective == "auto":
        raise InputError("--penalty", f"is {text!r} without an objective", "name one with --objective, or leave it out")
    if not OBJECTIVES[objective].penalised:
        raise InputError("--penalty", f"is {text!r}, but {objective} has no penalty", "leave it out")
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError("--penalty", f"is {text!r}", "pass a number, several separated by commas, or auto") from None
    return values if len(values) > 1 else values[0]


def _widths(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError("--hidden", f"is {text!r}", "pass widths separated by commas, such as 128,128") from None


def _details(head: CloveClassifier, output: Path, n_rows: int) -> dict[str, Any]:
    return {
        "head": str(output),
        "prepare_for": head.prepare_for,
        "objective": head.objective,
        "chosen": head.chosen_,
        "choices": dict(head.choices_),
        "price": None if head.price_ is None else asdict(head.price_),
        "penalty": head.penalty_,
        "classes": head.classes_.tolist(),
        "rows": n_rows,
        "held_out": int(head.held_out_.sum()),
        "candidates": candidates_as_json(head.candidates_),
        "message": head.message_,
    }
