"""`Study`, the shape of every study: its options, its runs, and the tables and figures made of its records.

A study is a package beside this module whose ``__init__`` declares a `Study` and whose other modules do the work:

``study``
    ``plan(output, **options)`` says what will have a record; ``run(plan, *, progress)`` appends the records that are
    missing, so that an interrupted run continues where it stopped.
``tables``
    ``tables(records)`` returns markdown; perhaps ``summary(records)``, what a command prints instead.
``figures``
    ``figures(records)`` returns matplotlib figures by name.

They are imported when they are first used: a study is listed and described without numpy, torch and matplotlib.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clovecal import records
from clovecal.errors import InputError
from clovecal.progress import SILENT, Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AnyPlan", "Option", "Plan", "Record", "Study"]

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """One thing that a study can be asked for.

    Attributes
    ----------
    name
        The argument of the study's ``plan``. Four names are not passed on, because every study means the same by them:
        ``output`` (the folder), ``force`` (begin without the records of an earlier run), ``show_only`` (run nothing)
        and ``dry_run`` (only say what would be run).
    help
        What it is, in a sentence.
    type
        str, int, float, Path, or bool for what is asked for or not.
    default
        What is taken where nothing is asked for.
    choices
        The values that there are; none given: any.
    several
        Whether there may be more than one value.
    least
        The smallest number.
    spelled
        What a command calls it, where that is not the name.
    shown_default
        The default in words, where it depends on something else.

    Examples
    --------
    >>> Option("members", "Models of each method.", type=int, default=100, least=1).check(0)
    Traceback (most recent call last):
    clovecal.errors.InputError: members is 0; pass a whole number of at least 1.
    """

    name: str
    help: str
    type: type = str
    default: Any = None
    choices: tuple[str, ...] = ()
    several: bool = False
    least: int | None = None
    spelled: str = ""
    shown_default: str = ""

    @property
    def spelling(self) -> str:
        """The option's name on the command line, without dashes."""
        return self.spelled or self.name.replace("_", "-")

    def check(self, value: Any) -> None:
        """Raise if a value is none that can be asked for."""
        for one in value if self.several else [value]:
            if self.choices and one not in self.choices:
                raise InputError(self.name, f"is {one!r}", f"choose one of {', '.join(map(repr, self.choices))}")
            if self.least is not None and one is not None and (type(one) is not int or one < self.least):
                raise InputError(self.name, f"is {one!r}", f"pass a whole number of at least {self.least}")


class AnyPlan(Protocol):
    """A study's plan: what it will do; as text, what is printed before it begins."""

    @property
    def configs(self) -> Sequence[Any]:
        """Frozen dataclasses, each of which will have a record."""

    @property
    def output(self) -> Path:
        """The folder for everything that is made."""


@dataclass(frozen=True)
class Plan:
    """What will have a record, and where.

    Attributes
    ----------
    configs
        Frozen dataclasses, each of which will have a record.
    output
        The folder for everything that is made.
    unit, verb
        What has a record and what is done for it, as a sentence says them: "parts" to "compute".
    """

    configs: tuple[Any, ...]
    output: Path
    unit: str = "parts"
    verb: str = "compute"

    @property
    def results(self) -> Path:
        """The file of records."""
        return self.output / "results.jsonl"

    @property
    def missing(self) -> list[Any]:
        """The configurations that have no record yet."""
        return list(records.missing(self.results, self.configs))

    def __str__(self) -> str:
        missing = len(self.missing)
        done = len(self.configs) - missing
        return f"{done} of {len(self.configs)} {self.unit} have a record; {missing} to {self.verb}."


@dataclass(frozen=True)
class Study:
    """One figure or table of the paper, with what it takes to make it again.

    Attributes
    ----------
    name
        What it is called.
    summary
        What it is, in a line.
    description
        What it does and leaves behind, in a paragraph or two.
    package
        Where its modules are: ``__name__`` of the package that declares it.
    options
        What it can be asked for.
    examples
        Options that are worth trying.
    record_files
        Names of its files of records; `Plan.configs` have theirs in the first.
    tables_file
        The name of a file for the tables; "": they are printed only.
    extra
        The extra of this package that brings what the study needs.
    own_records_only
        Whether a run shows its own records alone, and not those that one with other options left in the folder.
    replaces
        Whether a finished run is replaced when it is asked for again, which only force does; otherwise it is shown.
    several_processes
        Whether it may be run by several processes, under ``torchrun``.
    """

    name: str
    summary: str
    description: str
    package: str
    options: tuple[Option, ...]
    examples: tuple[Mapping[str, Any], ...] = ()
    record_files: tuple[str, ...] = ("results.jsonl",)
    tables_file: str = ""
    extra: str = "train"
    own_records_only: bool = False
    replaces: bool = False
    several_processes: bool = False

    def option(self, name: str) -> Option:
        """Return a declared option by its name."""
        return next(one for one in self.options if one.name == name)

    def check(self, **options: Any) -> None:
        """Raise if a value of an option is none that can be asked for."""
        for name, value in options.items():
            self.option(name).check(value)

    def plan(self, output: Path, **options: Any) -> AnyPlan:
        """Say what will have a record; what cannot work is refused here."""
        plan: AnyPlan = self._module("study").plan(output, **options)
        return plan

    def run(self, plan: AnyPlan, *, progress: Progress = SILENT) -> None:
        """Append the records that are missing."""
        self._module("study").run(plan, progress=progress)

    def missing(self, plan: AnyPlan) -> list[Any]:
        """Return the configurations that have no record yet."""
        return list(records.missing(plan.output / self.record_files[0], plan.configs))

    def read(self, output: Path, configs: Iterable[Any] | None = None) -> list[Record]:
        """Return the records of a folder: all, or those of some configurations in their order."""
        found: list[Record] = [one for name in self.record_files for one in records.read(output / name)]
        return found if configs is None else records.of_configs(found, configs)

    def tables(self, found: Sequence[Record]) -> str:
        """Return the tables in markdown, from records alone."""
        text: str = self._module("tables").tables(found)
        return text

    def summary_of(self, found: Sequence[Record]) -> str:
        """Return what a command prints: the tables, or in words what they show."""
        tables = self._module("tables")
        text: str = getattr(tables, "summary", tables.tables)(found)
        return text

    def figures(self, found: Sequence[Record]) -> dict[str, Figure]:
        """Return the figures by name, from records alone."""
        drawn: dict[str, Figure] = self._module("figures").figures(found)
        return drawn

    def _module(self, name: str) -> Any:
        return import_module(f"{self.package}.{name}")
