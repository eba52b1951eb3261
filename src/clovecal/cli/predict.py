"""``clovecal predict``."""

from __future__ import annotations

from pathlib import Path

import click

from clovecal.cli._console import (
    check_writable,
    needing,
    output_option,
    progress,
    reject_input_as_output,
    say_how_read,
)
from clovecal.cli._registered import import_option
from clovecal.errors import InputError


@click.command("predict")
@click.argument("model", metavar="HEAD|NETWORK", type=click.Path(path_type=Path))
@click.argument("source", metavar="FEATURES|TABLE", required=False)
@output_option("the predictions (.parquet or .csv)")
@click.option("--label", metavar="NAME", help="Column (npz: array) of labels to keep, if there is one (guessed).")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Column (npz: array) of domains to keep, if there is one (guessed); once per 0/1 column.",
)
@click.option(
    "--images",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Predict images in this folder with a network: those that TABLE names, or without TABLE all of them.",
)
@click.option("--texts", is_flag=True, help="Predict the texts in TABLE with a network.")
@click.option("--input", metavar="NAME", help="Column of images' files, or of texts (guessed: file, text, …).")
@click.option("--with-features", is_flag=True, help="Write a network's features too, which a head reads.")
@click.option("--weights", type=click.Path(path_type=Path), help="Folder of BERT's vocabulary, if it has moved.")
@click.option("--workers", type=click.IntRange(0), default=0, show_default=True, help="Processes that read inputs.")
@click.option("--device", help="cpu, cuda, cuda:1, …; default: a GPU if there is one.")
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]),
    help="Format of a table of features, if its ending does not tell.",
)
@import_option
def command(
    model: Path,
    source: str | None,
    output: Path,
    force: bool,
    label: str | None,
    domains: tuple[str, ...],
    images: Path | None,
    texts: bool,
    input: str | None,
    with_features: bool,
    weights: Path | None,
    workers: int,
    device: str | None,
    format: str | None,
) -> None:
    """Write the predictions of a trained head, or of a network for new images or texts.

    HEAD was written by `clovecal finetune`, NETWORK by `clovecal train`; FEATURES has the same features. Labels and
    domains are kept where there are some, labels as the number of their class, so that `clovecal audit` reads the
    result: p is the probability of the second class, p_0, p_1, … those of several.

    \b
    Example:
        clovecal predict head.safetensors new.parquet -o predictions.parquet
        clovecal predict network --images new_photos -o predictions.parquet
        clovecal predict network --texts new.csv -o predictions.parquet
    """
    check_writable(output, overwrite=force)
    reject_input_as_output(output, model, *([] if source is None else [source]))
    if output.suffix.lower() not in (".parquet", ".csv"):
        raise InputError(f"output {str(output)!r}", "does not end in .parquet or .csv", "choose one of them")
    if images is not None or texts:
        if images is not None and texts:
            raise InputError("--images and --texts", "are both given", "a network reads one of them")
        if format is not None:
            raise InputError("--format", "only applies to a table of features", "drop it for a network")
        _predict_with_network(
            model,
            source,
            output,
            images=images,
            input=input,
            label=label,
            domains=domains,
            features=with_features,
            weights=weights,
            workers=workers,
            device=device,
        )
        return
    if model.is_dir():
        raise InputError(
            f"path {str(model)!r}", "is a folder, as trained networks are", "add --images FOLDER or --texts"
        )
    if source is None:
        raise InputError("FEATURES", "is missing", "name the file of features to predict")
    if with_features or input is not None or weights is not None:
        given = "--with-features" if with_features else "--input" if input is not None else "--weights"
        raise InputError(given, "only applies to a network", "add --images FOLDER or --texts, or drop it")
    _predict_with_head(model, source, output, force=force, label=label, domains=domains, device=device, format=format)


def _predict_with_head(
    head: Path,
    features: str,
    output: Path,
    *,
    force: bool,
    label: str | None,
    domains: tuple[str, ...],
    device: str | None,
    format: str | None,
) -> None:
    with needing("train,tables", "predicting"):
        from clovecal.tables.features import read_features
        from clovecal.training.head.files import load_head
        from clovecal.training.head.predictions import write_predictions
    fitted = load_head(head, device=device)
    names = getattr(fitted, "feature_names_in_", None)
    with progress(f"Predicting {features}"):
        rows = read_features(features, label=label, domains=domains, names=names, format=format, required=False)
        write_predictions(fitted, rows, output, overwrite=force)
    if rows.used is not None:
        click.echo(f"{features}: {rows.used}.", err=True)
    click.echo(f"{len(rows):,} rows written to {output}; classes: {', '.join(map(str, fitted.classes_))}.", err=True)


def _predict_with_network(
    folder: Path,
    table: str | None,
    output: Path,
    *,
    images: Path | None,
    input: str | None,
    label: str | None,
    domains: tuple[str, ...],
    features: bool,
    weights: Path | None,
    workers: int,
    device: str | None,
) -> None:
    with needing("train,tables", "predicting"):
        from clovecal.tables import write_table
        from clovecal.training.loop.predicting import as_device
        from clovecal.training.network.exporting import load_network
        from clovecal.training.network.predictions import predictions, read_new
        from clovecal.training.network.training import Resources
    as_device(device)
    network = load_network(folder, resources=Resources(device=device, workers=workers, weights=weights))
    described = network.description
    if (described.kind == "image") == (images is None):
        option = "--images FOLDER" if images is None else "--texts"
        raise InputError("the network", f"reads {described.kind}s", f"give {option}")
    with progress(f"Predicting {table or images}"):
        rows = read_new(network, table, images=images, input=input, label=label, domains=domains)
        write_table(output, predictions(network, rows, features=features), overwrite=True)
    if table is not None and rows.roles is not None:
        say_how_read(table)
        click.echo(f"{table}: {rows.roles.in_words('text' if images is None else 'image')}.", err=True)
    classes = f"; classes: {', '.join(described.classes)}" if described.classes else ""
    click.echo(f"{len(rows):,} rows written to {output}{classes}.", err=True)
