"""``clovecal finetune``: a head on frozen features."""

from __future__ import annotations

import warnings
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
    "--objective",
    default="clove",
    show_default=True,
    metavar="NAME",
    cls=RegisteredOption,
    listing=lambda: f"What training minimises: {', '.join(objective_names(for_heads=True))}.",
)
@click.option(
    "--penalty",
    default="auto",
    show_default=True,
    help="Strength of the penalty, or several separated by commas to choose among; auto: chosen on held-out rows.",
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
    each feature. A fifth of each domain's rows is held out: training stops by them, and they choose the strength of
    the penalty. The result is used with `clovecal predict`.

    \b
    Example:
        clovecal finetune features.parquet -o head.safetensors --features emb_
        clovecal finetune features.npz -o head.safetensors --objective irm --penalty 1,10
    """
    check_writable(output, overwrite=force)
    reject_input_as_output(output, features)
    if objective not in objective_names(for_heads=True):
        raise InputError(
            "objective", f"is {objective!r}", f"choose one of {', '.join(objective_names(for_heads=True))}"
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
        f"{objective} head for {len(head.classes_)} classes trained on {len(rows) - held:,} rows of "
        f"{rows.n_features:,} features; {held:,} rows held out."
    )
    if len(head.candidates_) > 1:
        click.echo(f"Held-out accuracy, and {head.criterion} summed over domains, by the strength of the penalty:")
        for one in head.candidates_:
            judged = one.excluded or f"{one.criterion:.4f}"
            chosen = "  chosen" if one.penalty == head.penalty_ else ""
            click.echo(f"  {one.penalty:>8g}  {one.accuracy:.4f}  {judged}{chosen}")
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
        "objective": head.objective,
        "penalty": head.penalty_,
        "classes": head.classes_.tolist(),
        "rows": n_rows,
        "held_out": int(head.held_out_.sum()),
        "candidates": [
            {"penalty": one.penalty, "accuracy": one.accuracy, "criterion": one.criterion, "excluded": one.excluded}
            for one in head.candidates_
            if one.excluded != "diverged"
        ],
        "message": head.message_,
    }
