"""``clovecal adapt``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._calibrator import columns_of_fit, worth_of_unlabelled
from clovecal.cli._console import (
    check_writable,
    json_option,
    load,
    naming,
    output_option,
    print_json,
    reject_input_as_output,
    table_options,
)
from clovecal.cli._registered import import_option
from clovecal.errors import InputError
from clovecal.progress import on_terminal
from clovecal.verdicts import quantity

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from clovecal.calibrators import (
        AdaptedCalibrator,
        Calibrator,
        ClassExpectation,
        Expectation,
        HierarchicalCalibrator,
        RegressionExpectation,
    )
    from clovecal.expecting import Adaptation
    from clovecal.tables import PredictionTable

_FEW_DOMAINS = 3
_NEW = "the new domain"


@click.command("adapt")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file")
@output_option("the adapted calibrator (JSON)")
@click.option(
    "--rows-without-labels",
    type=click.Path(path_type=Path),
    help="A file of the new domain's other rows; what to expect is then said of rows like these.",
)
@click.option(
    "--use-unlabelled",
    is_flag=True,
    help="Let the mean of the new domain's scores tell of it, where known domains say that helps: those of "
    "--rows-without-labels, or of FILE, which then needs no labels.",
)
@table_options
@import_option
@json_option
def command(
    calibrator: Path,
    file: str,
    output: Path,
    force: bool,
    rows_without_labels: Path | None,
    use_unlabelled: bool,
    as_json: bool,
    **columns: Any,
) -> None:
    """Adapt a calibrator to a new domain with a few labelled rows of it, or with its scores alone.

    CALIBRATOR comes from `clovecal calibrate` on known domains, or from an earlier `adapt` to the same domain; FILE has
    the new domain's labelled rows, and needs no column of domains. The result is used with `clovecal apply`.

    \b
    Example:
        clovecal adapt cal.json new-hospital.csv -o new-hospital.json
    """
    from clovecal import load_calibrator
    from clovecal.expecting import what_labels_changed
    from clovecal.tables import open_table, read_scores

    check_writable(output, overwrite=force)
    reject_input_as_output(output, calibrator, file, *([] if rows_without_labels is None else [rows_without_labels]))
    known = _able_to_adapt(load_calibrator(calibrator), calibrator)
    worth = worth_of_unlabelled(known, calibrator) if use_unlabelled else None
    fitted_scores = columns_of_fit(known)
    reading = {"scores": columns["scores"], "fitted_scores": fitted_scores}
    table = None
    if worth is None or _has_labels(file, columns):
        table = load(file, {**columns, "fitted_scores": fitted_scores, "one_domain": _NEW})
        _reject_several(table, file)
        scores = table.p
    else:
        scores, _ = read_scores(open_table(file, format=columns["format"]), **reading)
    if rows_without_labels is not None:
        scores, _ = read_scores(open_table(rows_without_labels), **reading)
    adapted = _adapted(known, table, None if worth is None else scores)
    with on_terminal() as progress:
        found = what_labels_changed(known, adapted, scores, progress=progress)
    adapted.save(output, overwrite=force)
    if as_json:
        from clovecal.text import as_json_values

        print_json({"calibrator": str(output), "unlabelled": worth, **as_json_values(found)})
        return
    of_scores = None if worth is None else f"All there is of the domain: {len(scores):,} scores. {worth}"
    _describe(found, known, adapted, table, of_scores=of_scores)
    click.echo(f"Calibrator: {output}")


def _adapted(
    known: HierarchicalCalibrator | AdaptedCalibrator,
    table: PredictionTable | None,
    unlabelled: NDArray[np.float64] | None,
) -> AdaptedCalibrator:
    """Return the calibrator after these labels, if any, and these scores, if they are used."""
    from clovecal.calibrators import HierarchicalCalibrator

    if unlabelled is not None:
        assert isinstance(known, HierarchicalCalibrator)  # of others it has been said that they make nothing of scores
        known = known.adapt(unlabelled=unlabelled)
    if table is None:
        return known.adapt()
    with naming(table):
        return known.adapt(table.p, table.y, sample_weight=table.sample_weight)


def _has_labels(file: str, columns: Mapping[str, Any]) -> bool:
    from clovecal.tables import find_roles, open_table

    if columns["label"] is not None:
        return True
    opened = open_table(file, format=columns["format"])
    return find_roles(opened.columns, (), optional=("label",), scores=columns["scores"], table=file).label is not None


def _reject_several(table: PredictionTable, file: str) -> None:
    if len(table.domains.names) > 1:
        some = ", ".join(map(repr, table.domains.names[:3]))
        raise InputError(
            file, f"has {len(table.domains.names)} domains ({some}, …)", "adapt to one at a time, with its rows alone"
        )


def _able_to_adapt(loaded: Calibrator, path: Path) -> HierarchicalCalibrator | AdaptedCalibrator:
    from clovecal.calibrators import AdaptedCalibrator, HierarchicalCalibrator

    if not isinstance(loaded, (HierarchicalCalibrator, AdaptedCalibrator)):
        raise InputError(
            f"{path}",
            "does not know how domains differ",
            "make it again with clovecal calibrate, from rows of several domains",
        )
    return loaded


def _describe(
    found: Adaptation,
    known: HierarchicalCalibrator | AdaptedCalibrator,
    adapted: AdaptedCalibrator,
    table: PredictionTable | None,
    *,
    of_scores: str | None,
) -> None:
    from clovecal.calibrators import HierarchicalCalibrator

    task = "binary" if known.fitted_on_ is None else known.fitted_on_.task
    _say_labels(found, table, task)
    if of_scores is not None:
        click.echo(of_scores)
    if isinstance(known, HierarchicalCalibrator) and len(known.effects_) < _FEW_DOMAINS:
        domains = f"{len(known.effects_)} domain{'s' * (len(known.effects_) != 1)}"
        click.echo(
            f"It was fitted on {domains}, which show little or nothing of how domains differ: what is said of this one "
            "before its labels, and much of what is said after a few, is an assumption."
        )
    click.echo("")
    click.echo(f"{'score' if found.changes[0].score is not None else 'class':>10}  {'before':>9}  {'adapted':>9}")
    for change in found.changes:
        at = f"{change.score:.4g}" if change.score is not None else str(change.class_number)
        click.echo(f"{at:>10}  {quantity(change.before, task):>9}  {quantity(change.after, task):>9}")
    click.echo("")
    before = "Expected before" if of_scores is not None else "Expected before these labels"
    click.echo(f"{before}: {_in_words(found.expected_before, task)}.")
    click.echo(f"Expected now: {_in_words(found.expected_after, task)}.")
    doubt = adapted.doubt_of_slope()
    if doubt is not None:
        click.echo(doubt)
    loss = "squared error" if task == "regression" else "Brier score"
    worth = found.worth
    if not found.more:
        return
    if worth is None:
        click.echo(f"Up to {found.more[-1].labels} more labels are not expected to lower its {loss}.")
        return
    last = found.more[-1]
    said = f"{worth.labels} more labels are expected to lower its {loss} by about {-worth.change.value:.2g}"
    if last.labels > worth.labels:
        said += f", {last.labels} more by about {-last.change.value:.2g}"
    click.echo(f"{said} (simulated from what is believed of this domain).")


def _say_labels(found: Adaptation, table: PredictionTable | None, task: str) -> None:
    if table is None:
        click.echo("Adapted without labels.")
        return
    rows = float(len(table.y) if table.sample_weight is None else table.sample_weight.sum())
    counted = f"{rows:,.0f} labelled row{'s' * (rows != 1)}"
    if task == "binary":
        events = float(table.y.sum() if table.sample_weight is None else table.sample_weight @ table.y)
        counted += f", {events:,.0f} of them with the event"
    click.echo(f"Adapted with {counted}.")
    if found.labels != rows:
        click.echo(f"With those of earlier it has seen {found.labels:,.0f}.")


def _in_words(expected: Expectation | ClassExpectation | RegressionExpectation, task: str) -> str:
    """Say what to expect; each figure with its interval."""
    from clovecal.calibrators import ClassExpectation, RegressionExpectation

    error = expected.calibration_error
    if isinstance(expected, RegressionExpectation):
        mean, square = expected.mean_outcome, expected.mean_squared_error
        return (
            f"a mean outcome of {quantity(mean.low, task)} to {quantity(mean.high, task)}, a calibration error of "
            f"{quantity(error.low, task)} to {quantity(error.high, task)} and a mean squared error of "
            f"{quantity(square.low, task)} to {quantity(square.high, task)} ({expected.ci:.0%} intervals)"
        )
    if isinstance(expected, ClassExpectation):
        share, what = expected.accuracy, "of the classes right"
    else:
        share, what = expected.observed_rate, "with the event"
    brier = expected.brier
    return (
        f"{quantity(share.low, task)} to {quantity(share.high, task)} {what}, an ECE of the calibrated "
        f"predictions of {error.low:.3f} to {error.high:.3f} and a Brier score of {brier.low:.3f} to {brier.high:.3f} "
        f"({expected.ci:.0%} intervals)"
    )
