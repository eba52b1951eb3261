"""`OwnStudy`, the shape of our own studies: a script with configurations, a run for each, and tables of the records.

A script declares ``STUDY = OwnStudy(...)``; run, it does what ``results.jsonl`` beside it lacks and continues where it
stopped. With ``--processes N`` it does so in N processes, with ``--table`` it prints its tables, with ``--figure`` it
draws, both from the records alone.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clovecal import records
from clovecal.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class OwnStudy:
    """A study in a script.

    Attributes
    ----------
    folder
        Where its records and figures are.
    configs
        A function of the names of some parts that returns what will have a record, each a frozen dataclass; without
        names it returns everything.
    run
        Returns what comes out for one of them.
    tables
        Returns all tables in markdown, from the records alone.
    figures
        Returns figures by name, from the records alone.
    line
        What to print of one that has been run; None: nothing.
    parts
        The names that ``configs`` may be given.
    results
        The name of the file with its records, for a script that shares its folder with others.
    """

    folder: Path
    configs: Callable[..., Iterable[Any]]
    run: Callable[[Any], Mapping[str, Any]]
    tables: Callable[[list[Record]], str]
    figures: Callable[[list[Record]], Mapping[str, Figure]] | None = None
    line: Callable[[Any, Mapping[str, Any]], str] | None = None
    parts: tuple[str, ...] = ()
    results: str = "results.jsonl"

    def run_missing(self, configs: Iterable[Any], folder: Path | None = None, *, processes: int = 1) -> None:
        """Append the records that a folder (the study's own) lacks, in the order in which they are done."""
        results = (folder or self.folder) / self.results
        for config, outcome in self._outcomes(records.missing(results, configs), processes):
            records.append(results, config, outcome)
            if self.line is not None:
                print(self.line(config, outcome), flush=True)

    def _outcomes(self, configs: Iterable[Any], processes: int) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        if processes == 1:
            yield from ((config, self.run(config)) for config in configs)
            return
        with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
            running = {pool.submit(self.run, config): config for config in configs}
            for one in as_completed(running):
                yield running[one], one.result()

    def read(self) -> list[Record]:
        """Return the records."""
        return records.read(self.folder / self.results)

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Run what is missing, of everything or of the parts that are named; or print the tables, or draw."""
        arguments = sys.argv[1:] if arguments is None else arguments
        if "--table" in arguments:
            print(self.tables(self.read()))
        elif "--figure" in arguments and self.figures is not None:
            for name, figure in self.figures(self.read()).items():
                with replacing(self.folder / f"{name}.png") as temporary:
                    figure.savefig(temporary, dpi=figure.dpi)
        else:
            names, processes = _without_processes(arguments)
            for name in names:
                if name not in self.parts:
                    sys.exit(f"There is no part {name!r}; choose from {', '.join(self.parts) or 'none'}.")
            self.run_missing(self.configs(*names), processes=processes)


def _without_processes(arguments: Sequence[str]) -> tuple[list[str], int]:
    """Return the arguments without ``--processes N``, and N; 1 if it is not there."""
    names = list(arguments)
    if "--processes" not in names:
        return names, 1
    at = names.index("--processes")
    number = names[at + 1] if at + 1 < len(names) else ""
    if not number.isdecimal() or int(number) < 1:
        sys.exit("--processes needs a number, 1 or more.")
    del names[at : at + 2]
    return names, int(number)


def seed_of(config: Any) -> int:
    """Return a seed of its own for each configuration."""
    return zlib.crc32(records.key(config).encode())


def data_file(path: str) -> Path:
    """Return a file of the data folder, or leave with a sentence about what is missing."""
    folder = os.environ.get("CLOVECAL_DATA")
    if not folder:
        sys.exit(f"CLOVECAL_DATA is not set; set it to the folder that holds {path}.")
    file = Path(folder) / path
    if not file.exists():
        sys.exit(f"CLOVECAL_DATA has no {path}; set it to the folder that holds that file.")
    return file
