"""``clovecal predict``."""

from __future__ import annotations

from pathlib import Path

import click

from clovecal.cli._options import check_writable, output_option, progress


@click.command("predict")
@click.argument("head", type=click.Path(path_type=Path))
@click.argument("features")
@output_option("the predictions (.parquet or .csv)")
@click.option("--label", metavar="NAME", help="Column (npz: array) of labels to keep, if there is one (guessed).")
@click.option(
    "--domain",
    "domains",
    multiple=True,
    metavar="NAME",
    help="Column (npz: array) of domains to keep, if there is one (guessed); once per 0/1 column.",
)
@click.option("--device", help="cpu, cuda, cuda:1, …; default: a GPU if there is one.")
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "parquet", "arrow", "ndjson"]),
    help="Format of a table, when its ending does not tell.",
)
def command(
    head: Path,
    features: str,
    output: Path,
    force: bool,
    label: str | None,
    domains: tuple[str, ...],
    device: str | None,
    format: str | None,
) -> None:
    """Write the predictions of a trained head.

    HEAD was written by `clovecal finetune`; FEATURES has the same features. Labels and domains are kept where there
    are some, labels as the number of their class, so that `clovecal audit` reads the result: p is the probability of
    the second class, p_0, p_1, … those of several.

    \b
    Example:
        clovecal predict head.safetensors new.parquet -o predictions.parquet
    """
    check_writable(output, overwrite=force, how="add --force")
    try:
        from clovecal.training._feature_files import read_features, write_predictions
        from clovecal.training._head_file import load_head
    except ImportError as error:
        raise click.ClickException(
            f"predicting needs the package {error.name}; install it with pip install 'clovecal[train,tables]'."
        ) from None
    fitted = load_head(head, device=device)
    names = getattr(fitted, "feature_names_in_", None)
    with progress(f"Predicting {features}"):
        rows = read_features(features, label=label, domains=domains, names=names, format=format, required=False)
        write_predictions(fitted, rows, output, overwrite=force, how="add --force")
    click.echo(f"{len(rows):,} rows written to {output}; classes: {', '.join(map(str, fitted.classes_))}.", err=True)
