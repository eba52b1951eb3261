"""Tables of Colored MNIST from records alone: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from clovecal.reproduce.colored_mnist.choice import (
    AMONG,
    CRITERIA,
    OURS,
    Pool,
    averages_in,
    choose,
    methods_of,
    models_in,
    objective,
    optimal_log_losses,
    pearson,
    pools,
    settings_of,
    spread,
)
from clovecal.reproduce.colored_mnist.settings import PAPERS, SETTINGS, TITLES
from clovecal.reproduce.study import Record
from clovecal.text import markdown

CLOSE = (0.05, 0.06, 0.075, 0.1, 0.2)  # nats above the optimal invariant classifier's log-loss
_SHARES = (5, 25, 50, 75, 95)  # percent of the models
# Figure 3b, of which the paper states neither the setting nor whether the ECE is of recalibrated models.
_PAPERS_PEARSON = {"raw-ece": "−0.92", "ece": "−0.92", "raw-irm": "−0.59"}
_PAPERS_SELECTION = {"digit25": {"accuracy": "10.96 ± 0.81", "floor": "64.98 ± 2.67"}}
_PAPERS_FLOORS = (0.65, 0.70, 0.74)  # "below 75%", which the paper leaves open

Rows = list[list[str]]


def tables(found: Sequence[Record]) -> str:
    """Return all tables in markdown, from the records of models and of averages of their predictions."""
    records, averages = models_in(found), averages_in(found)
    parts = []
    for setting in settings_of(records):
        seeds = len(pools(records, setting))
        heading = f"## {setting}: {SETTINGS[setting]}, {seeds} seed{'s' * (seeds > 1)} of the data"
        parts += [heading if seeds > 1 else f"{heading}: no spread, so no verdict"]
        parts += [_methods_table(records, setting), _closeness_table(records, setting)]
        parts += [_pearson_table(records, setting), _selection_table(records, averages, setting)]
        parts += [_readings_table(records, setting)]
    return "\n\n".join(parts)


def _methods_table(records: Sequence[Record], setting: str) -> str:
    """Return what the models of each method do in the test domain; quartiles are over all models of all seeds."""
    here = [one for one in records if one["config"]["setting"] == setting]
    rows: Rows = []
    for method in methods_of(here):
        members = [one for one in here if one["config"]["method"]["name"] == method]
        trained = [one for one in members if "diverged" not in one]
        if not trained:
            continue
        accuracy = np.array([one["test"]["accuracy"] for one in trained])
        losses = np.array([one["test"]["log_loss"] for one in trained])
        lowest = [
            min((one for one in trained if one["config"]["seed"] == seed), key=objective)["test"]["log_loss"]
            for seed in sorted({one["config"]["seed"] for one in trained})
        ]
        rows.append(
            [
                TITLES.get(method, method),
                str(len(members)),
                str(len(members) - len(trained)),
                " / ".join(_percent(value) for value in np.percentile(accuracy, (25, 50, 75))),
                _percent(accuracy.max()),
                f"{np.median(losses):.3f}",
                spread(lowest, 3),
                f"{np.mean([one['seconds'] for one in members]):.2f}",
            ]
        )
    head = [
        "method",
        "models",
        "diverged",
        "test accuracy, quartiles",
        "best",
        "median test log-loss",
        "log-loss of the lowest objective",
        "seconds per model",
    ]
    return markdown(head, rows)


def _closeness_table(records: Sequence[Record], setting: str) -> str:
    """Return how far each method's models are above the optimal invariant log-loss: the whole distribution."""
    here = [one for one in records if one["config"]["setting"] == setting and "diverged" not in one]
    invariant = optimal_log_losses(setting)[0]
    rows: Rows = []
    for method in methods_of(here):
        losses = [one["test"]["log_loss"] for one in here if one["config"]["method"]["name"] == method]
        above = np.array(losses) - invariant
        rows.append(
            [
                TITLES.get(method, method),
                *(f"{value:.3f}".replace("-", "−") for value in np.percentile(above, _SHARES)),
                *(f"{np.mean(above <= nats):.0%}" for nats in CLOSE),
            ]
        )
    head = [f"test log-loss above the optimum, {invariant:.3f}"]
    head += [f"{share}%" if share != 50 else "median" for share in _SHARES]
    return markdown([*head, *(f"models within {nats:g}" for nats in CLOSE)], rows)


def _pearson_table(records: Sequence[Record], setting: str) -> str:
    """Return the correlation of each criterion with the test accuracy, over the paper's three methods and over all."""
    paper, everything = pools(records, setting, PAPERS), pools(records, setting)
    rows = [
        [
            criterion.axis + (" (the paper's)" if name in ("ece", "raw-irm") else ""),
            _PAPERS_PEARSON.get(name, ""),
            spread([pearson(pool, name) for pool in paper], 2) if paper else "",
            spread([pearson(pool, name) for pool in everything], 2),
        ]
        for name, criterion in CRITERIA.items()
    ]
    paper_head = "paper, figure 3b (setting, recalibration not stated)"
    return markdown(["Pearson with test accuracy", paper_head, "the paper's methods", "all methods"], rows)


def _selection_table(records: Sequence[Record], averages: Sequence[Record], setting: str) -> str:
    """Return what is chosen without test data, and how it does in the test domain."""
    rows: Rows = []
    papers = pools(records, setting, PAPERS)
    for whose, found, known in (
        ("the paper's methods", papers, _PAPERS_SELECTION.get(setting, {})),
        ("all methods", pools(records, setting), {}),
    ):
        rows += _selection_row("in-domain accuracy alone", whose, found, _most_accurate, known.get("accuracy", ""))
        for floor in _PAPERS_FLOORS if setting in _PAPERS_SELECTION else ():
            by_ece = partial(choose, criterion="ece", floor=floor)
            rows += _selection_row(f"ECE, floor {floor:.0%}", whose, found, by_ece, known.get("floor", ""))
        for name in ("ece", "raw-irm", "positive-mmce"):
            label = f"{CRITERIA[name].label}, floor at half the skill"
            rows += _selection_row(label, whose, found, partial(choose, criterion=name))
        rows += _our_rows(averages, setting, whose, found)
    for method in methods_of(records):
        mine, name = pools(records, setting, (method,)), TITLES.get(method, method)
        rows += _our_rows(averages, setting, name, mine)
    head = [
        "chosen by",
        "among",
        "paper: test accuracy",
        "ours",
        "median seed",
        "in-domain accuracy",
        "what was chosen",
    ]
    return markdown(head, rows, text=(0, 1, 6))


def _readings_table(records: Sequence[Record], setting: str) -> str:
    """Return rules of choice under both readings of an accuracy, among the paper's methods: floor and outcome alike."""
    known = _PAPERS_SELECTION.get(setting, {})
    rules: list[tuple[str, Callable[[Pool], int | None], str]] = [
        ("in-domain accuracy alone", _most_accurate, known.get("accuracy", "")),
        *(
            (f"ECE, floor {floor:.0%}", partial(choose, criterion="ece", floor=floor), known.get("floor", ""))
            for floor in (_PAPERS_FLOORS if known else ())
        ),
        *(
            (f"{CRITERIA[name].label}, floor at half the skill", partial(choose, criterion=name), "")
            for name in ("ece", "raw-irm", OURS)
        ),
        (f"the same, the most accurate of the {AMONG} best", partial(choose, criterion=OURS, among=AMONG), ""),
    ]
    rows: Rows = []
    for label, rule, paper in rules:
        cells = []
        for recalibrated in (False, True):
            found = pools(records, setting, PAPERS, recalibrated=recalibrated)
            chosen = [(pool, rule(pool)) for pool in found]
            ood = [100 * float(pool.ood_accuracy[one]) for pool, one in chosen if one is not None]
            cells.append(spread(ood, 2) if ood else "")
        rows.append([label, paper, *cells])
    head = ["chosen by, among the paper's methods", "paper", "accuracies as trained (ours)"]
    return markdown([*head, "accuracies after recalibration (appendix C.2, as we read it)"], rows)


def _our_rows(averages: Sequence[Record], setting: str, whose: str, found: Sequence[Pool]) -> Iterator[list[str]]:
    """Return the rows of our criterion: its best model, the most accurate of its best, and their mean predictions."""
    label = f"{CRITERIA[OURS].label}, floor at half the skill"
    yield from _selection_row(label, whose, found, partial(choose, criterion=OURS))
    most_accurate = partial(choose, criterion=OURS, among=AMONG)
    yield from _selection_row(f"the same, the most accurate of the {AMONG} best", whose, found, most_accurate)
    yield from _average_rows(averages, setting, whose, found)


def _selection_row(
    label: str, whose: str, found: Sequence[Pool], choose: Callable[[Pool], int | None], known: str = ""
) -> Iterator[list[str]]:
    """Return a row about what is chosen in each seed, or none where nothing can be."""
    chosen = [(pool, choose(pool)) for pool in found]
    met = [(pool, one) for pool, one in chosen if one is not None]
    if met:
        ood = [100 * float(pool.ood_accuracy[one]) for pool, one in met]
        inside = [100 * float(pool.id_accuracy[one]) for pool, one in met]
        methods = _names(str(pool.method[one]) for pool, one in met)
        yield [label, whose, known, spread(ood, 2), f"{np.median(ood):.2f}", spread(inside, 2), methods]


def _average_rows(averages: Sequence[Record], setting: str, whose: str, found: Sequence[Pool]) -> Iterator[list[str]]:
    """Return a row for each number of models averaged, of the methods that a pool has."""
    methods = {str(name) for pool in found for name in pool.method}
    mine = [one for one in averages if one["config"]["setting"] == setting and set(one["config"]["methods"]) == methods]
    for count in sorted({one["config"]["count"] for one in mine} - {1}):
        of_count = [one for one in mine if one["config"]["count"] == count]
        accuracy = [100 * one["test"]["accuracy"] for one in of_count]
        names = _names(name for one in of_count for name, _ in one["members"])
        label = f"the same, mean prediction of the {count} best"
        yield [label, whose, "", spread(accuracy, 2), f"{np.median(accuracy):.2f}", "", names]


def _names(methods: Iterable[str]) -> str:
    return ", ".join(TITLES.get(name, name) for name in dict.fromkeys(methods))


def _most_accurate(pool: Pool) -> int:
    return int(np.argmax(pool.id_accuracy))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
