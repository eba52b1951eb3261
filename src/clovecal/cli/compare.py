"""``clovecal compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._calibrator import columns_of_fit
from clovecal.cli._console import json_option, load, naming, print_json, progress, table_options
from clovecal.cli._registered import RegisteredName, RegisteredOption, import_option
from clovecal.errors import InputError
from clovecal.progress import on_terminal

if TYPE_CHECKING:
    from clovecal.calibrators import Calibrator, RegisteredCalibrator
    from clovecal.comparing import Comparison, LeftOutComparison


@click.command("compare")
@click.argument("calibrators", metavar="[CALIBRATOR]...", nargs=-1, type=click.Path(path_type=Path))
@click.argument("file")
@click.option(
    "--leave-one-domain-out",
    is_flag=True,
    help="Fit each --method without each domain in turn and judge it there: what it would be in a new one.",
)
@click.option(
    "--method",
    "methods",
    multiple=True,
    cls=RegisteredOption,
    type=RegisteredName(lambda: _registry()),
    listing=lambda: f"What to fit where domains are left out, once per method: {', '.join(_registry())}.",
)
@click.option(
    "--after-labels",
    metavar="NUMBERS",
    help="Leave domains out, and judge each method after so many labelled rows of the left-out one, such as 20,100.",
)
@table_options
@import_option
@json_option
def command(
    calibrators: tuple[Path, ...],
    file: str,
    leave_one_domain_out: bool,
    methods: tuple[str, ...],
    after_labels: str | None,
    as_json: bool,
    **columns: Any,
) -> None:
    """Compare a held-out file before and after calibration.

    CALIBRATOR comes from `clovecal calibrate` or `adapt`; FILE holds rows that it was not fitted on, best of domains it
    has not seen. The scores are taken from the column that the calibrator was fitted on; another must be named.

    With --leave-one-domain-out or --after-labels methods are fitted on FILE itself, without the domain that they are
    judged in. Any number of fitted calibrators may stand beside them, which are judged as they are.

    \b
    Example:
        clovecal compare cal.json test.parquet
        clovecal compare table.csv --method naive --method auto --after-labels 20,100
    """
    from clovecal import compare

    leaving_out = leave_one_domain_out or after_labels is not None
    _require_something_to_compare(calibrators, methods, leaving_out=leaving_out)
    labels = () if after_labels is None else _numbers(after_labels)
    fitted = _loaded(calibrators, methods)
    known = _columns_of_fit(fitted, named=bool(columns["scores"]))
    # A label is a row, so that rows put together would not do.
    table = load(file, {**columns, "fitted_scores": known, "keep_rows": bool(labels)})
    options: dict[str, Any] = {"domains": table.domains, "sample_weight": table.sample_weight}
    found: Comparison | LeftOutComparison
    if leaving_out:
        with naming(table), on_terminal() as shown:
            found = compare(
                table.p,
                {**fitted, **{name: name for name in methods}},
                table.y,
                leave_one_domain_out=True,
                after_labels=labels,
                progress=shown,
                **options,
            )
    else:
        with naming(table), progress("Comparing"):
            found = compare(table.p, next(iter(fitted.values())), table.y, **options)
    if as_json:
        print_json({"columns": str(table.columns), **found.to_dict()})
        return
    click.echo(str(found))


def _registry() -> Mapping[str, RegisteredCalibrator]:
    from clovecal.calibrators import CALIBRATORS

    return CALIBRATORS


def _require_something_to_compare(calibrators: Sequence[Path], methods: Sequence[str], *, leaving_out: bool) -> None:
    if methods and not leaving_out:
        remedy = "add --leave-one-domain-out or --after-labels, or give the file of a fitted calibrator instead"
        raise InputError("--method", "is fitted where domains are left out", remedy)
    if not calibrators and not methods:
        remedy = "name a --method, or a calibrator's file before the table's" if leaving_out else "give its file first"
        raise InputError("CALIBRATOR", "is missing", remedy)
    if len(calibrators) > 1 and not leaving_out:
        raise InputError("CALIBRATOR", f"is {len(calibrators)} files", "give one, or add --leave-one-domain-out")


def _loaded(paths: Sequence[Path], methods: Sequence[str]) -> dict[str, Calibrator]:
    """Return fitted calibrators by the names of their files, or where these are the same by their whole paths."""
    from clovecal import load_calibrator

    short = [path.name for path in paths] + list(methods)
    names = [path.name if short.count(path.name) == 1 else str(path) for path in paths]
    repeated = [name for name in names if names.count(name) > 1 or name in methods]
    if repeated:
        raise InputError("CALIBRATOR", f"is {repeated[0]!r} more than once", "name each once")
    return {name: load_calibrator(path) for name, path in zip(names, paths, strict=True)}


def _columns_of_fit(fitted: Mapping[str, Calibrator], *, named: bool) -> tuple[str, ...]:
    """Return the columns of scores that calibrators were fitted on, which must be the same."""
    known = {columns: name for name, one in fitted.items() if (columns := columns_of_fit(one))}
    if len(known) > 1 and not named:
        (first, one), (second, other), *_ = known.items()
        shown = f"{one} was fitted on column {', '.join(first)} and {other} on {', '.join(second)}"
        raise InputError("--score", f"is not given, and {shown}", "name the column of the same scores")
    return next(iter(known), ())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError("--after-labels", f"is {text!r}", "pass numbers separated by commas, such as 20,100") from None
