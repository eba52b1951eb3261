"""`InputError`, raised for every wrong input: which argument, what is wrong with it, and what to do."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self


class InputError(ValueError):
    """An argument that cannot be used; printed, it is one sentence.

    Parameters
    ----------
    argument
        What is meant: the argument's name as the caller wrote it, or a description such as "file 'a.csv'".
    problem
        What is wrong, as the rest of a clause: "is 1.5, outside [0, 1]".
    remedy
        What to do, as a clause: "divide percentages by 100".
    row
        The first row at fault, by its position from 0; None when no single row is.
    row_name, first_row
        How the caller counts rows: "data row" and 1 in a file.

    Examples
    --------
    >>> error = InputError("p", "is 1.5, outside [0, 1]", "divide percentages by 100", row=3)
    >>> print(error)
    p at row 3 is 1.5, outside [0, 1]; divide percentages by 100.
    >>> print(error.about("column 'risk'", row_name="data row", first_row=1))
    column 'risk' at data row 4 is 1.5, outside [0, 1]; divide percentages by 100.
    """

    def __init__(
        self,
        argument: str,
        problem: str,
        remedy: str,
        *,
        row: int | None = None,
        row_name: str = "row",
        first_row: int = 0,
    ) -> None:
        super().__init__(argument, problem, remedy)
        self.argument = argument
        self.problem = problem
        self.remedy = remedy
        self.row = row
        self.row_name = row_name
        self.first_row = first_row

    def __reduce__(self) -> tuple[Any, ...]:  # so that a worker process hands it over whole
        return type(self), (self.argument, self.problem, self.remedy), vars(self)

    def __str__(self) -> str:
        place = "" if self.row is None else f" at {self.row_name} {self.row + self.first_row}"
        return f"{self.argument}{place} {self.problem}; {self.remedy}."

    def about(self, argument: str, **place: Any) -> Self:
        """Return the same error about something its reader knows by another name, or counts in another way.

        Parameters
        ----------
        argument
            What to call the argument.
        **place
            Any of ``row``, ``row_name`` and ``first_row``, where they differ.
        """
        known = {"row": self.row, "row_name": self.row_name, "first_row": self.first_row}
        return type(self)(argument, self.problem, self.remedy, **(known | place))


class OutputExists(InputError):
    """An output that exists already and was not to be replaced.

    A kind of its own, so that a command can say how *it* is asked.
    """


class MissingValues(InputError):
    """Values that a table lacks, or several problems of it with such values among them.

    A kind of its own, so that a command can say how *it* is asked to drop the rows.
    """


class Percentages(InputError):
    """Numbers that look like percentages where probabilities are needed.

    A kind of its own, so that a command can say how *it* is asked to divide them.
    """


def needs(package: str, extra: str, what: str) -> Any:
    """Import an optional package, or say which extra of this one brings it.

    Parameters
    ----------
    package
        The module to import.
    extra
        The extra that has it: ``pip install 'clovecal[extra]'``.
    what
        What it is needed for: "reading files".
    """
    try:
        return import_module(package)
    except ImportError as error:
        missing = package.partition(".")[0]
        raise InputError(
            what, f"needs the package {missing}", f"install it with pip install 'clovecal[{extra}]'"
        ) from error
