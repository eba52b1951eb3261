"""The settings of a sweep, from a TOML file; errors name the key of the wrong entry."""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clovecal._checks import check_count, check_fraction
from clovecal.errors import InputError
from clovecal.files import read_text
from clovecal.training.objectives import OBJECTIVES, Objective, make_objective, objective_names
from clovecal.training.sweep import values as check

_SWITCHES = ("rescale", "halves", "squared", "unbiased")
_MOST_BYTES = 1 << 24  # of settings
_DRAWN: Mapping[str, Any] = {"hidden": [256, 256], "learning_rate": 1e-3, "weight_decay": 0.0}


@dataclass(frozen=True, kw_only=True)
class Source:
    """The file of a sweep's rows and its columns.

    Attributes
    ----------
    file
        Path of an npz archive or a table.
    features
        Columns of a table by name, or how their names begin; None: all other columns of numbers. An archive has X.
    label, domain
        Columns, or arrays, of labels and of domains; None and (): guessed.
    validation
        Share of each domain's rows that is held out.
    """

    file: Path
    features: str | tuple[str, ...] | None
    label: str | None
    domain: tuple[str, ...]
    validation: float


@dataclass(frozen=True, kw_only=True)
class SweepMember:
    """One model of a sweep: all that its training depends on, drawn.

    Attributes
    ----------
    name
        What its prediction table is called.
    objective, options, penalty, anneal
        What it minimises; the penalty is None where there is none.
    hidden, learning_rate, weight_decay, seed
        As in `Member`; the batches have the same seed.
    steps, batch_size, balance, optimizer, precision
        As in `train_ensemble`.
    rows
        Fingerprint of the rows and of which of them are held out.
    """

    name: str
    objective: str
    options: dict[str, Any]
    penalty: float | None
    anneal: int
    hidden: tuple[int, ...]
    learning_rate: float
    weight_decay: float
    seed: int
    steps: int
    batch_size: int | None
    balance: bool
    optimizer: str
    precision: str | None
    rows: str

    def make_objective(self, n_domains: int) -> Objective:
        """Return a new objective."""
        return make_objective(
            self.objective, penalty=self.penalty, anneal=self.anneal, n_domains=n_domains, **self.options
        )


@dataclass(frozen=True, kw_only=True)
class ObjectivePlan:
    """The ranges that the members of one objective are drawn from.

    Attributes
    ----------
    name, label, options
        The objective, what its members are named after, and the options that they share.
    members
        How many.
    hidden, learning_rate, weight_decay, penalty, anneal
        How each of these is drawn.
    """

    name: str
    label: str
    options: dict[str, Any]
    members: int
    hidden: check.Draw
    learning_rate: check.Draw
    weight_decay: check.Draw
    penalty: check.Draw
    anneal: check.Draw


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A whole sweep.

    Attributes
    ----------
    source
        Where the rows are.
    seed
        Of everything that is drawn.
    chunk
        Members trained together, after which their results are written.
    shared
        What all members have in common: steps, batch_size, balance, optimizer, precision.
    plans
        One for each objective.
    """

    source: Source
    seed: int
    chunk: int
    shared: Mapping[str, Any]
    plans: tuple[ObjectivePlan, ...]

    def members(self, rows: str) -> tuple[SweepMember, ...]:
        """Draw the members for rows of this fingerprint; those of a smaller sweep are the first of a larger one."""
        return tuple(
            self._member(place, plan, number, rows)
            for place, plan in enumerate(self.plans)
            for number in range(plan.members)
        )

    def _member(self, place: int, plan: ObjectivePlan, number: int, rows: str) -> SweepMember:
        drawn = {
            key: getattr(plan, key)(np.random.default_rng([self.seed, place, number, zlib.crc32(key.encode())]))
            for key in ("hidden", "learning_rate", "weight_decay", "penalty", "anneal")
        }
        return SweepMember(
            name=f"{plan.label}-{number:03d}",
            objective=plan.name,
            options=dict(plan.options),
            seed=int(np.random.default_rng([self.seed, place, number]).integers(2**31)),
            rows=rows,
            **drawn,
            **self.shared,
        )


def read_sweep(path: str | Path) -> Sweep:
    """Read the settings of a sweep.

    Parameters
    ----------
    path
        A TOML file with the tables ``data``, ``sweep`` and one or more ``objective``; see ``clovecal sweep --help``.
    """
    path = Path(path)
    try:
        content = tomllib.loads(read_text(path, at_most=_MOST_BYTES))
    except FileNotFoundError:
        raise InputError(f"config {str(path)!r}", "does not exist", "check the name") from None
    except RecursionError:
        raise InputError(f"config {str(path)!r}", "is not valid TOML: it nests too deeply", "fix that line") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"config {str(path)!r}", f"is not valid TOML ({error})", "fix that line") from None
    whole = _TomlTable(content, "")
    source = _source(whole.table("data"), path.parent)
    sweep = whole.table("sweep")
    objectives = [_TomlTable(one, f"objective[{place}].") for place, one in enumerate(whole.tables("objective"))]
    whole.reject_others()
    members = sweep.take("members", _members, 10)
    defaults = {key: sweep.take(key, check.anything, default) for key, default in _DRAWN.items()}
    plans = tuple(_plan(one, members, defaults) for one in objectives)
    labels = [plan.label for plan in plans]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InputError("objective.label", f"is {twice!r} twice", "give each objective a label of its own")
    result = Sweep(
        source=source,
        seed=sweep.take("seed", check.natural, 0),
        chunk=sweep.take("chunk", check_count, 100),
        shared={
            "steps": sweep.take("steps", check_count),
            "batch_size": sweep.take("batch_size", check.natural, 512) or None,
            "balance": sweep.take("balance", check.switch, True),
            "optimizer": sweep.take("optimizer", check.one_of("adam", "adagrad"), "adam"),
            "precision": sweep.take("precision", check.one_of("tf32", "bf16"), None),
        },
        plans=plans,
    )
    sweep.reject_others()
    return result


class _TomlTable:
    """A table of the file, from which known keys are taken."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, Mapping):
            raise InputError(f"{where.rstrip('.')}", f"is {values!r}", "make it a table")
        self.where, self._values = where, values
        self._known: list[str] = []

    def take(self, key: str, checked: Callable[[Any, str], Any], *default: Any) -> Any:
        """Return a checked value, or the default if there is one; ``checked`` gets the value and its full key."""
        self._known.append(key)
        if key in self._values:
            return checked(self._values[key], self.where + key)
        if default:
            return default[0]
        raise InputError(f"{self.where}{key}", "is missing", "add it")

    def table(self, key: str) -> _TomlTable:
        """Return a table inside this one."""
        return _TomlTable(self.take(key, check.anything), f"{self.where}{key}.")

    def tables(self, key: str) -> list[Any]:
        """Return an array of tables inside this one."""
        values = self.take(key, check.anything)
        if not isinstance(values, list) or not values:
            raise InputError(f"{self.where}{key}", "is not a list of tables", f"write [[{key}]] above each")
        return values

    def reject_others(self) -> None:
        """Raise if a key was never asked for."""
        for key in self._values:
            if key not in self._known:
                raise InputError(
                    f"{self.where}{key}", "is not a setting", f"the settings here are {', '.join(self._known)}"
                )


def _source(table: _TomlTable, folder: Path) -> Source:
    source = Source(
        file=folder / table.take("file", check.text),
        features=table.take("features", check.names, None),
        label=table.take("label", check.text, None),
        domain=_listed(table.take("domain", check.names, ())),
        validation=table.take("validation", check_fraction, 0.2),
    )
    table.reject_others()
    return source


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _plan(table: _TomlTable, members: int, defaults: Mapping[str, Any]) -> ObjectivePlan:
    name = table.take("name", check.one_of(*objective_names(for_heads=True)))
    known = OBJECTIVES[name]
    label = table.take("label", check.file_name, name)
    members = table.take("members", _members, members)
    hidden = table.take("hidden", check.hidden_range, None) or check.hidden_range(defaults["hidden"], "sweep.hidden")
    rate, decay = (
        table.take(key, checked, None) or checked(defaults[key], f"sweep.{key}")
        for key, checked in (("learning_rate", check.positive_range), ("weight_decay", check.number_range))
    )
    penalty = table.take("penalty", check.number_range) if known.penalised else lambda _: None
    anneal = table.take("anneal", check.whole_range, _never) if known.penalised else _never
    given = {
        key: table.take(key, check.switch if key in _SWITCHES else check.number_or_text, None) for key in known.options
    }
    table.reject_others()
    options = {key: value for key, value in given.items() if value is not None}
    try:  # once, so that the options are checked before anything is read or trained
        ones = torch.ones(2)
        objective = make_objective(name, penalty=1.0 if known.penalised else None, n_domains=1, **options)
        objective(logits=ones, y=ones, domains=ones[:, None], features=ones[:, None])
    except InputError as error:
        raise error.about(f"{table.where}{error.argument}") from None
    return ObjectivePlan(
        name=name,
        label=label,
        options=options,
        members=members,
        hidden=hidden,
        learning_rate=rate,
        weight_decay=decay,
        penalty=penalty,
        anneal=anneal,
    )


def _members(value: Any, key: str) -> int:
    return check_count(value, key, at_most=100_000)


def _never(rng: np.random.Generator) -> int:  # noqa: ARG001
    return 0
