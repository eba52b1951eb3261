"""``clovecal compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from clovecal.cli._calibrator import columns_of_fit
from clovecal.cli._console import json_option, load, naming, print_json, progress, table_options
from clovecal.cli._registered import import_option


@click.command("compare")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file")
@table_options
@import_option
@json_option
def command(calibrator: Path, file: str, as_json: bool, **columns: Any) -> None:
    """Compare a held-out file before and after calibration.

    CALIBRATOR comes from `clovecal calibrate`; FILE holds rows that it was not fitted on, best of domains it has not
    seen. The scores are taken from the column that the calibrator was fitted on; another must be named.

    \b
    Example:
        clovecal compare cal.json test.parquet
    """
    from clovecal import compare, load_calibrator

    fitted = load_calibrator(calibrator)
    table = load(file, {**columns, "fitted_scores": columns_of_fit(fitted)})
    with naming(table), progress("Comparing"):
        found = compare(table.p, fitted, table.y, domains=table.domains, sample_weight=table.sample_weight)
    if as_json:
        print_json({"columns": str(table.columns), **found.to_dict()})
        return
    click.echo(str(found))
