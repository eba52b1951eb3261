"""The WILDS tables in the paper's layout, from records alone (paper: tables 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clovecal.calibrators import CALIBRATORS
from clovecal.datasets.wilds import published
from clovecal.reproduce.study import Record
from clovecal.reproduce.wilds.settings import COLUMNS, NETWORK_OBJECTIVES, RECALIBRATIONS
from clovecal.text import markdown
from clovecal.training.objectives import OBJECTIVES

COLUMN_NAMES = {
    "original": "original",
    **{name: CALIBRATORS[name].title for name in RECALIBRATIONS},
    "clove-paper": "CLOvE (paper)",
    "clove": "CLOvE",
    "clove-strong": "CLOvE (strongest λ)",
}
OBJECTIVE_NAMES = {name: OBJECTIVES[name].title for name in NETWORK_OBJECTIVES}
# The paper's tables 2 and 3: original, naive, robust, CLOvE; mean and standard deviation over four seeds.
PAPERS: Mapping[tuple[str, str], Mapping[str, tuple[float, float]]] = {
    key: dict(zip(("original", "naive", "robust", "clove-paper"), values, strict=False))
    for key, values in {
        ("fmow", "erm"): ((32.63, 1.6), (33.09, 2.1), (37.19, 3.5), (44.16, 1.8)),
        ("fmow", "coral"): ((31.73, 1.0), (31.75, 1.0), (33.86, 1.6), (40.05, 0.9)),
        ("fmow", "irm-halves"): ((31.33, 1.2), (31.81, 1.6), (34.41, 1.5), (42.24, 1.4)),
        ("camelyon17", "erm"): ((66.66, 14.4), (71.23, 8.9), (71.22, 8.6), (75.75, 4.9)),
        ("camelyon17", "coral"): ((72.44, 4.4), (75.97, 5.4), (76.8, 6.5), (79.96, 3.9)),
        ("camelyon17", "irm-halves"): ((70.87, 6.8), (73.25, 6.6), (73.4, 6.9), (73.95, 6.1)),
        ("poverty", "erm"): ((0.832, 0.011), (0.827, 0.014), (0.834, 0.006)),
        ("poverty", "irm-halves"): ((0.735, 0.117), (0.812, 0.016), (0.815, 0.015)),
        ("poverty", "coral"): ((0.832, 0.011), (0.835, 0.009), (0.837, 0.012)),
        ("civilcomments", "erm"): ((63.65, 2.6), (76.98, 0.5), (78.99, 0.8), (80.39, 0.7)),
        ("civilcomments", "irm-halves"): ((40.61, 16.0), (68.97, 1.3), (68.92, 1.3), (68.45, 2.0)),
        ("civilcomments", "group-dro"): ((71.67, 0.7), (76.2, 1.3), (78.54, 0.8), (80.07, 0.3)),
    }.items()
}
PAPERS_ARCHITECTURES = {
    "civilcomments": "The paper: CLOvE is ahead of robust by 1.4 and of naive by 3.1 on average.",
    "fmow": "The paper: differences between the three networks were not statistically significant.",
    "poverty": "The paper: ResNet-18 is .01 ahead of ResNet-34 on average, robust always ahead of naive and original.",
}
FITTED_ON = {
    "val": "columns fitted on the validation rows",
    "id-val": "columns fitted on validation rows of the training domains (id-val)",
    "ood-val": "columns fitted on validation rows of other domains (ood-val)",
    "both": "columns fitted on validation rows of training and other domains together",
}
_MOST_DOMAINS = 12  # with a column of their own


class Column(NamedTuple):
    """A column of a table: what was done to the predictions, with which λ if one was given."""

    name: str
    penalty: float | None = None

    def __str__(self) -> str:
        title = COLUMN_NAMES[self.name]
        return title if self.penalty is None else f"{title.removesuffix(')')}, λ = {self.penalty:,g})"


def tables(found: Sequence[Record]) -> str:
    """Return all tables in markdown: a score outside the domains seen, the same inside, and calibration by domain."""
    texts = []
    for study in dict.fromkeys(_study(one) for one in found):
        dataset, data, backbone, fit_on = study
        here = [one for one in found if _study(one) == study]
        known = published(dataset)
        seeds = len({one["config"]["model"]["seed"] for one in here})
        heading = f"### {known.title}: {backbone}, {seeds} seed{'s' * (seeds > 1)} ({data})"
        papers = "" if data.startswith("miniature") else "; the paper's numbers below ours"
        texts += [
            heading,
            f"{known.judged_on.capitalize()}, {known.score_name}, mean (sd), best in bold; {FITTED_ON[fit_on]}"
            f"{papers}:",
            score_table(here, "ood"),
            f"Domains seen, {known.score_name}, mean (sd):",
            score_table(here, "id"),
            f"Calibration error of the mean (in {known.error_unit}), the mean over seeds:"
            if known.task == "regression"
            else f"Calibration error in each domain seen ({known.error_unit}), the mean over seeds:",
            error_table(here),
        ]
    for compared in dict.fromkeys((dataset, data, fit_on) for dataset, data, _, fit_on in map(_study, found)):
        here = [one for one in found if (*_study(one)[:2], _study(one)[3]) == compared]
        if len({_study(one)[2] for one in here}) > 1:
            texts += _architectures(here)
    return "\n\n".join(texts)


def _architectures(found: Sequence[Record]) -> list[str]:
    """Return a table of several networks with its heading, and what the paper says of them."""
    dataset, data, _, fit_on = _study(found[0])
    known = published(dataset)
    said = "" if data.startswith("miniature") else f" {PAPERS_ARCHITECTURES.get(dataset, '')}".rstrip()
    return [
        f"### {known.title}: architectures ({data})",
        f"{known.judged_on.capitalize()}, {known.score_name}, mean over algorithms and seeds (sd over seeds of the "
        f"mean over algorithms); {FITTED_ON[fit_on]}; differences are of these means.{said}",
        architecture_table(found),
    ]


def architecture_table(found: Sequence[Record]) -> str:
    """Return each network's score outside the domains seen, by column, and by how much a column is ahead of others."""
    dataset = _study(found[0])[0]
    columns = columns_in(found)
    names = {one.name: one for one in columns}
    head = names.get("clove-paper", names.get("clove"))
    pairs = [(head, names[other]) for other in ("robust", "naive") if head and other in names]
    pairs += [(names["robust"], names["naive"])] if {"robust", "naive"} <= set(names) else []
    rows = []
    for backbone in dict.fromkeys(_study(one)[2] for one in found):
        here = [one for one in found if _study(one)[2] == backbone]
        values = {column: _by_seed(here, column) for column in columns}
        cells = [_cell(values[column], dataset, bold=False) for column in columns]
        scale, digits = published(dataset).scale, published(dataset).digits[0]
        ahead = [
            f"{scale * float(np.mean(values[one]) - np.mean(values[other])):+.{digits}f}".replace("-", "−")
            if values[one] and values[other]
            else ""
            for one, other in pairs
        ]
        rows.append([backbone, *cells, *ahead])
    return markdown(["network", *map(str, columns), *(f"{one} − {other}" for one, other in pairs)], rows)


def _by_seed(found: Sequence[Record], column: Column) -> list[float]:
    """Return a column's score for each seed, the mean over algorithms."""
    by_seed: dict[int, list[float]] = {}
    for one in found:
        score = _score(one, "ood")
        if column_of(one) == column and score is not None:
            by_seed.setdefault(one["config"]["model"]["seed"], []).append(score)
    return [float(np.mean(scores)) for scores in by_seed.values()]


def score_table(found: Sequence[Record], part: str) -> str:
    """Return the data set's own score of every objective and column, with the paper's where there is one."""
    dataset, data, *_ = _study(found[0])
    columns = columns_in(found)
    rows = []
    for objective in objectives_in(found):
        values = {one: _values(found, objective, one, lambda record: _score(record, part)) for one in columns}
        best = max((float(np.mean(value)) for value in values.values() if value), default=None)
        cells = [_cell(value, dataset, bold=bool(value) and float(np.mean(value)) == best) for value in values.values()]
        rows.append([OBJECTIVE_NAMES[objective], *cells])
        known = PAPERS.get((dataset, objective), {})
        if known and part == "ood" and not data.startswith("miniature"):
            shown = [_pair(*known[one.name], dataset) if one.name in known else "" for one in columns]
            rows.append([f"{OBJECTIVE_NAMES[objective]}, paper", *shown])
    return markdown(["algorithm", *map(str, columns)], rows)


def error_table(found: Sequence[Record]) -> str:
    """Return the calibration error of every column in every domain seen, or its mean and worst where they are many."""
    known = published(_study(found[0])[0])
    domains = list(dict.fromkeys(name for one in found for name in one["id"].get("ece", {})))
    shown = domains if len(domains) <= _MOST_DOMAINS else []
    rows = []
    for objective in objectives_in(found):
        for column in columns_in(found):

            def mean(pick: Callable[[Record], Any], objective: str = objective, column: Column = column) -> str:
                values = _values(found, objective, column, pick)
                return f"{known.scale * float(np.mean(values)):.{known.digits[1]}f}" if values else ""

            by_domain = [mean(lambda record, name=name: record["id"].get("ece", {}).get(name)) for name in shown]  # type: ignore[misc]
            rows.append(
                [
                    OBJECTIVE_NAMES[objective],
                    str(column),
                    mean(lambda record: record["id"]["mean_ece"]),
                    mean(lambda record: record["id"]["worst_ece"]),
                    *by_domain,
                ]
            )
    return markdown(["algorithm", "column", "mean", "worst", *shown], rows, text=(0, 1))


def objectives_in(found: Iterable[Record]) -> list[str]:
    """Return the objectives that have records, in the tables' order."""
    here = {one["config"]["model"]["recipe"]["objective"] for one in found}
    return [name for name in OBJECTIVE_NAMES if name in here]


def columns_in(found: Iterable[Record]) -> list[Column]:
    """Return the columns that have records, in the tables' order, the paper's CLOvE once for each λ."""
    return sorted({column_of(one) for one in found}, key=lambda one: (COLUMNS.index(one.name), one.penalty or 0))


def column_of(record: Record) -> Column:
    """Return the column of a table that a record belongs to."""
    return Column(record["config"]["column"], record["config"]["penalty"])


def _study(record: Record) -> tuple[str, str, str, str]:
    model = record["config"]["model"]
    return model["dataset"], model["data"], model["recipe"]["backbone"], record["config"]["fit_on"]


def _score(record: Record, part: str) -> float | None:
    score: float | None = record[part][published(record["config"]["model"]["dataset"]).headline]
    return score


def _values(found: Iterable[Record], objective: str, column: Column, pick: Callable[[Record], Any]) -> list[float]:
    values = [
        pick(one)
        for one in found
        if column_of(one) == column and one["config"]["model"]["recipe"]["objective"] == objective
    ]
    return [value for value in values if value is not None]


def _cell(values: Sequence[float], dataset: str, *, bold: bool) -> str:
    if not values:
        return ""
    scale = published(dataset).scale
    spread = scale * float(np.std(values, ddof=1)) if len(values) > 1 else None
    text = _pair(scale * float(np.mean(values)), spread, dataset)
    return f"**{text}**" if bold else text


def _pair(mean: float, spread: float | None, dataset: str) -> str:
    digits, spread_digits = published(dataset).digits
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ({spread:.{spread_digits}f})")
