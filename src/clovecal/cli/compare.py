"""``clovecal compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clovecal.cli._console import json_option, load, naming, print_json, progress, table_options
from clovecal.cli._registered import import_option

if TYPE_CHECKING:
    from clovecal import Audit


@click.command("compare")
@click.argument("calibrator", type=click.Path(path_type=Path))
@click.argument("file")
@table_options
@import_option
@json_option
def command(calibrator: Path, file: str, as_json: bool, **columns: Any) -> None:
    """Audit a held-out file before and after calibration.

    CALIBRATOR comes from `clovecal calibrate`; FILE holds rows that it was not fitted on, best of domains it has not
    seen.

    \b
    Example:
        clovecal compare cal.json test.parquet
    """
    from clovecal import audit, load_calibrator

    fitted = load_calibrator(calibrator)
    table = load(file, columns)
    with naming(table), progress("Auditing"):
        shared: dict[str, Any] = {"domains": table.domains, "sample_weight": table.sample_weight}
        before = audit(table.y, table.p, **shared)
        after = audit(table.y, fitted.predict(table.p), **shared)
    if as_json:
        print_json({"before": before.to_dict(repairs=False), "after": after.to_dict(repairs=False)})
        return
    click.echo(_table(before, after))


def _table(before: Audit, after: Audit) -> str:
    error, loss = ("calibration", "mse") if before.task == "regression" else ("ece", "brier")
    width = max(len("all rows"), *(len(str(name)) for name in before.rows))
    lines = [f"{'domain':<{width}}  {'rows':>10}  {error + ' before → after':>24}  {loss + ' before → after':>24}"]
    lines.append("-" * len(lines[0]))
    for name in sorted(before.rows, key=lambda name: -before.calibration.by_domain[name]):
        cells = [
            f"{old.by_domain[name]:.4f} → {new.by_domain[name]:.4f}"
            for old, new in ((before.metrics[one], after.metrics[one]) for one in (error, loss))
        ]
        lines.append(f"{name!s:<{width}}  {before.rows[name]:>10,}  {cells[0]:>24}  {cells[1]:>24}")
    totals = [f"{before.metrics[one].overall:.4f} → {after.metrics[one].overall:.4f}" for one in (error, loss)]
    worst = [f"{before.metrics[one].worst:.4f} → {after.metrics[one].worst:.4f}" for one in (error, loss)]
    lines.append("-" * len(lines[0]))
    lines.append(f"{'all rows':<{width}}  {before.n_rows:>10,}  {totals[0]:>24}  {totals[1]:>24}")
    lines.append(f"{'worst':<{width}}  {'':>10}  {worst[0]:>24}  {worst[1]:>24}")
    return "\n".join(lines)
