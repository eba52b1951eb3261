"""``clovecal finetune``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from clovecal.cli._network_options import network_options
from clovecal.cli._options import check_writable, json_option, print_json, progress, progress_bar
from clovecal.cli.train import finetune_network
from clovecal.errors import InputError
from clovecal.training.objectives import OBJECTIVES, objective_names

_OF_A_HEAD = ("hidden", "prefix", "max_steps", "format")


class _InSections(click.Command):
    """A command whose help tells the options of a head and of a network from those of both."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in three parts."""
        sections: dict[str, list[tuple[str, str]]] = {
            "Options": [],
            "Options of a head on features": [],
            "Options of a network (--images or --texts)": [],
        }
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                place = 1 if parameter.name in _OF_A_HEAD else 2 if parameter.name in _of_a_network(self) else 0
                sections[list(sections)[place]].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


@click.command("finetune", cls=_InSections)
@click.argument("source", metavar="FEATURES|TABLE")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write the head (safetensors), or the network (a folder).",
)
@click.option("--force", is_flag=True, help="Replace an existing output.")
@click.option(
    "--objective",
    type=click.Choice(objective_names()),
    help="What training minimises; default: clove for a head, erm for a network. irm-halves is for networks.",
)
@click.option(
    "--penalty",
    default="auto",
    show_default=True,
    help="Strength of the penalty. Of a head several separated by commas to choose among, or auto: chosen on held-out "
    "rows; of a network auto is 100 for clove, else 1.",
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
    "--features", "prefix", metavar="PREFIX", help="How feature columns begin; default: all other columns of numbers."
)
@click.option(
    "--batch-size",
    type=int,
    help="Rows a batch; default: 256, of a network by its backbone. Of a head as many from each domain, 0: all rows.",
)
@click.option("--max-steps", type=int, default=5000, show_default=True, help="Most training steps.")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Of initial weights and batches; of a head also of held-out rows.",
)
@click.option("--device", help="cpu, cuda, cuda:1, …; default: a GPU if there is one.")
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]),
    help="Format of a table, when its ending does not tell.",
)
@json_option
@network_options
@click.pass_context
def command(
    context: click.Context,
    /,
    source: str,
    output: Path,
    force: bool,
    objective: str | None,
    penalty: str,
    hidden: str,
    label: str | None,
    domains: tuple[str, ...],
    prefix: str | None,
    batch_size: int | None,
    max_steps: int,
    seed: int,
    device: str | None,
    format: str | None,
    as_json: bool,
    **network: Any,
) -> None:
    """Train a head on frozen features, or a whole network on images or texts, of several domains.

    FEATURES is an npz archive with arrays X, y and domains, or a table with a column for the label, the domain and
    each feature. A fifth of each domain's rows is held out: training stops by them, and they choose the strength of
    the penalty. The result is used with `clovecal predict`.

    With --images or --texts, TABLE (CSV or Parquet) has a label and a domain in each row, and the name of an image's
    file or a text. A network is trained and written to a folder, with a table of predictions and features for each
    split but the training rows, which the other commands read. A run that is interrupted or killed goes on by the
    same command.

    \b
    Example:
        clovecal finetune features.parquet -o head.safetensors --features emb_
        clovecal finetune photos.csv --images photos --test-domain zoo --size 64 -o network
        clovecal finetune reviews.csv --texts --domain shop -o network
    """
    if network["images"] is not None or network["texts"]:
        _reject(context, _OF_A_HEAD, ("is of a head on features", "leave it out for a network"))
        finetune_network(
            source,
            output,
            force=force,
            objective=objective,
            penalty=penalty,
            label=label,
            domains=domains,
            batch_size=batch_size,
            seed=seed,
            device=device,
            as_json=as_json,
            **network,
        )
        return
    _reject(
        context, _of_a_network(context.command), ("is of a network", "add --images FOLDER or --texts, or leave it out")
    )
    features, objective = source, objective or "clove"
    check_writable(output, overwrite=force)
    reject_input_as_output(output, features)
    if not OBJECTIVES[objective].for_heads:
        raise InputError("--objective", f"is {objective!r}, which is for networks", "choose irm for a head")
    strengths = _penalty(penalty, objective)
    widths = _widths(hidden)
    CloveClassifier, TrainingWarning, read_features = _training()
    with progress(f"Reading {features}"):
        rows = read_features(features, label=label, domains=domains, prefix=prefix, format=format)
        y, members = rows.training_labels()
    if rows.used is not None:
        click.echo(f"{features}: {rows.used}.", err=True)
    options: dict[str, Any] = {} if batch_size is None else {"batch_size": batch_size or None}
    head = CloveClassifier(
        widths,
        objective=objective,
        penalty=strengths,
        max_steps=max_steps,
        random_state=seed,
        device=device,
        **options,
    )
    with progress_bar("Training") as on_step, warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingWarning)  # its text is the message below
        head.fit(rows.X, y, domains=members, on_step=on_step)
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


def reject_input_as_output(output: Path, *inputs: str | Path) -> None:
    """Raise if the output would replace what the command reads, which --force does not ask for."""
    for source in map(Path, inputs):
        if source.exists() and output.exists() and source.samefile(output):
            raise InputError(f"path {str(output)!r}", "is what the command reads", "choose another name for the output")


def _of_a_network(finetune: click.Command) -> list[str]:
    """Return the names of the options that the command hands on unread."""
    assert finetune.callback is not None
    own = signature(finetune.callback).parameters
    return [str(one.name) for one in finetune.params if one.name not in own]


def _reject(context: click.Context, names: Sequence[str], why: tuple[str, str]) -> None:
    """Raise if one of these options was given."""
    for parameter in context.command.params:
        given = context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
        if parameter.name in names and given:
            raise InputError(parameter.opts[-1], *why)


def _training() -> tuple[Any, Any, Any]:
    """Import what needs the extra, or say how to get it."""
    try:
        from clovecal.tables.features import read_features
        from clovecal.training.head.classifier import CloveClassifier
        from clovecal.training.loop.fitting import TrainingWarning
    except ImportError as error:
        raise click.ClickException(
            f"training needs the package {error.name}; install it with pip install 'clovecal[train,tables]'."
        ) from None
    return CloveClassifier, TrainingWarning, read_features


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


def _details(head: Any, output: Path, n_rows: int) -> dict[str, Any]:
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
