"""How a text table is written: its separator, its encoding, whether it is packed, and its decimal commas.

A file is read another way than its ending says only where the file itself decides it, and what was decided is said.
Where a number could be two numbers ("1,234"), the file is refused: a sentence costs less than a wrong figure.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from clovecal.errors import InputError

_HEAD = 1 << 20  # how much of a file decides about its separator and its decimals
_PIECE = 1 << 18  # read at a time when looking for the encoding
_SEPARATORS = {",": "comma-separated", ";": "semicolon-separated", "\t": "tab-separated"}
_NO_CP1252 = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")  # bytes that mean nothing in this encoding
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?', re.IGNORECASE)  # with which Excel says what separates

_WHOLE = re.compile(r"[+-]?\d+(?:[eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:[,.' ]\d{3})+(?:[.,]\d+)?")  # 1,234 and 1.234,5: a separator of thousands


@dataclass(frozen=True)
class Dialect:
    """How one text table is written.

    Attributes
    ----------
    separator
        Between cells: "," or ";" or a tab.
    encoding
        "utf-8", "utf-16", "utf-16-le", "utf-16-be" or "cp1252".
    packed
        Whether the file is packed by gzip.
    header_lines
        Lines up to and with the header.
    columns
        Names of the columns.
    with_comma, with_point, with_either
        For each column that has such numbers at the beginning of the file, one of them as it is written: with a decimal
        comma, with a decimal point, and with a comma that could stand for thousands too ("1,234").
    """

    separator: str
    encoding: str
    packed: bool
    header_lines: int
    columns: tuple[str, ...]
    with_comma: Mapping[str, str] = field(default_factory=dict)
    with_point: Mapping[str, str] = field(default_factory=dict)
    with_either: Mapping[str, str] = field(default_factory=dict)

    def decimal(self, columns: Sequence[str] | None, shown: str) -> str:
        """Return the decimal mark of the numbers in these columns, or raise if the file does not decide it.

        Parameters
        ----------
        columns
            Those that are read as numbers; None: whichever hold some.
        shown
            What to call the file in an error.
        """
        if columns is None:
            return "," if self.with_comma and self.separator != "," else "."
        comma = next((name for name in columns if name in self.with_comma), None)
        point = next((name for name in columns if name in self.with_point), None)
        if comma is not None and point is not None:
            names = f"column {comma!r}" if comma == point else f"columns {comma!r} and {point!r}"
            raise InputError(
                f"{names} of {shown}",
                f"{'has' if comma == point else 'have'} {self.with_comma[comma]!r} and {self.with_point[point]!r}, "
                "a decimal comma and a point",
                "write all numbers one way, and thousands without a separator",
            )
        either = next((name for name in columns if name in self.with_either), None)
        if either is None:
            return "." if comma is None else ","
        if comma is not None:
            return ","
        value = self.with_either[either]
        raise InputError(
            f"column {either!r} of {shown}",
            f"has {value!r}, which may be {value.replace(',', '')} or {value.replace(',', '.')}",
            "write numbers with a decimal point, and thousands without a separator",
        )

    def in_words(self, decimal: str, usual: str) -> str:
        """Return what was taken for granted in reading the file; nothing where it is as its ending says.

        Parameters
        ----------
        decimal
            The decimal mark.
        usual
            The separator that the ending says.
        """
        words = _SEPARATORS[self.separator] if self.separator != usual or decimal == "," else ""
        encoding = (
            "" if self.encoding == "utf-8" else self.encoding.upper() if "utf" in self.encoding else self.encoding
        )
        commas = " with decimal commas" if decimal == "," else ""
        return ", ".join(filter(None, (words + commas, encoding)))


def find_dialect(path: Path, usual: str, shown: str) -> Dialect:
    """Find out how a text table is written.

    Parameters
    ----------
    path
        The file.
    usual
        The separator that its ending says, for a table of one column.
    shown
        What to call the file in an error.
    """
    try:
        packed, encoding = is_packed(path), _encoding_of(path, shown)
        with unpacked(path, packed) as file:
            head = file.read(_HEAD)
            whole = len(head) < _HEAD
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise InputError(shown, f"cannot be unpacked ({str(error).rstrip('.')})", "check that it is whole") from None
    text = _decoded(head, encoding)
    if not text.strip():
        raise InputError(shown, "is empty", "give a table with a header and rows")
    separator, before = _separator_line(text)
    rows = list(io.StringIO(text, newline=""))[before:]  # lines as a CSV parser knows them
    if separator is None:
        separator = _separator_of(rows, usual, shown)
    names, lines = _header(rows, separator, shown)
    _reject_open_quote(path, packed, encoding, separator, before + lines, shown)
    body = rows[lines:] if whole else rows[lines:-1]  # the last line may go on
    found = _Decimals()
    if any("," in row for row in body) and (separator != "," or any('"' in row for row in body)):
        found.look_at(names, _cells(body, separator))
    return Dialect(
        separator=separator,
        encoding=encoding,
        packed=packed,
        header_lines=before + lines,
        columns=names,
        with_comma=found.with_comma,
        with_point=found.with_point,
        with_either=found.with_either,
    )


def is_packed(path: Path) -> bool:
    """Whether a file is packed by gzip, whatever it is called."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def unpacked(path: Path, packed: bool) -> BinaryIO:
    """Open a file that may be packed by gzip."""
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def _encoding_of(path: Path, shown: str) -> str:
    """Return the encoding that the file's bytes tell: UTF-8 where that is possible.

    The whole file is looked through where it is ASCII, which costs little beside reading it: a name with an umlaut may
    come at the end of a long table, too late to read the beginning otherwise.
    """
    with unpacked(path, is_packed(path)) as file:
        pieces = iter(lambda: file.read(_PIECE), b"")
        first = next(pieces, b"")
        by_mark = _by_byte_order(first)
        if by_mark is not None:
            return by_mark
        if b"\0" in first[:4096]:
            raise InputError(shown, "holds bytes that are no text", "name its format, or export it as CSV (UTF-8)")
        decoder = codecs.getincrementaldecoder("utf-8")()
        for piece in _and_then(first, pieces):
            if piece.isascii():
                continue
            try:
                decoder.decode(piece)
            except UnicodeDecodeError:
                break
            return "utf-8"
        else:
            return "utf-8"
        read = piece.decode("utf-8", errors="replace")
        if sum(not one.isascii() and one != "\ufffd" for one in read) > read.count("\ufffd"):
            return "utf-8"  # damaged: reading it says where
        if any(_NO_CP1252.search(one) for one in _and_then(piece, pieces)):
            raise InputError(shown, "is neither UTF-8 nor UTF-16 nor Windows-1252", "save it as UTF-8")
        return "cp1252"


def _by_byte_order(head: bytes) -> str | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros_first, zeros_second = head[:4096:2].count(0), head[1:4096:2].count(0)
    if max(zeros_first, zeros_second) > len(head[:4096]) / 4 and not min(zeros_first, zeros_second):
        return "utf-16-be" if zeros_first else "utf-16-le"
    return None


def _and_then(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _decoded(head: bytes, encoding: str) -> str:
    decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)(errors="replace")
    return decoder.decode(head)


def _separator_line(text: str) -> tuple[str | None, int]:
    """Return the separator that the first line names, as Excel writes it, and how many lines come before the header."""
    lines = io.StringIO(text)
    before = 0
    for line in lines:
        found = _SEPARATOR_LINE.fullmatch(line.strip("\r\n"))
        if found is not None and found[1] in _SEPARATORS:
            return found[1], before + 1
        if line.strip():
            break
        before += 1
    return None, before


def _separator_of(rows: Sequence[str], usual: str, shown: str) -> str:
    """Return the separator that gives every row as many cells as the header; of several the one with the most."""
    counts = {one: len(next(_cells(rows, one), ())) for one in _SEPARATORS}
    possible = [one for one, count in counts.items() if count > 1]
    if len(possible) < 2:
        return next(iter(possible), usual)
    even = [one for one in possible if _is_even(list(_cells(rows[:1000], one)), counts[one])]
    best = max(counts[one] for one in even or possible)
    chosen = [one for one in even or possible if counts[one] == best]
    if len(chosen) > 1:
        words = " or ".join(_SEPARATORS[one] for one in chosen)
        raise InputError(shown, f"may be {words}", "quote the texts that have a separator in them")
    return chosen[0]


def _is_even(rows: Sequence[Sequence[str]], cells: int) -> bool:
    """Whether rows have this many cells; the last may be cut off."""
    return all(len(row) in (0, cells) for row in rows[: max(2, len(rows) - 1)])


def _header(rows: Sequence[str], separator: str, shown: str) -> tuple[tuple[str, ...], int]:
    """Return the column names, and the lines that they take: the first row as a CSV parser sees it."""
    reader = csv.reader(rows, delimiter=separator)
    try:
        names = [name.strip() for name in next(reader, ())]
    except csv.Error:
        limit = f"{csv.field_size_limit():,}"
        raise InputError(
            shown, f"has a column name of more than {limit} characters", "check that its first line is a header"
        ) from None
    if names.count("") > 1:  # as behind separators at the end of each line
        names = [name or f"column {number}" for number, name in enumerate(names, start=1)]
    return tuple(names), reader.line_num


def _reject_open_quote(path: Path, packed: bool, encoding: str, separator: str, header: int, shown: str) -> None:
    """Raise if a quoted cell goes on to the end of the file: what should be rows would be a text with lines in it."""
    with unpacked(path, packed) as file:
        quotes = sum(piece.count(b'"') for piece in iter(lambda: file.read(_PIECE), b""))
    if quotes == 0 or (quotes % 2 == 0 and "utf-16" not in encoding):  # where the byte may be half a character
        return
    limit = csv.field_size_limit(sys.maxsize >> 1)
    try:
        with unpacked(path, packed) as file, io.TextIOWrapper(file, encoding, errors="replace", newline="") as lines:
            end = "the end"
            rows, last = 0, [end]
            for last in csv.reader(chain(islice(lines, header, None), [end]), delimiter=separator):
                rows += bool(last)  # a blank line is no row
    finally:
        csv.field_size_limit(limit)
    if last != [end]:
        raise InputError(
            shown,
            "has a quotation mark that nothing closes",
            'close it, or write "" for one that belongs to the text',
            row=rows - 1,
            row_name="data row",
            first_row=1,
        )


def _cells(rows: Sequence[str], separator: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(rows, delimiter=separator)
    except csv.Error:  # a cell that is longer than the reader takes: what came before it has to do
        return


class _Decimals:
    """What the numbers at the beginning of a file say about its decimal mark, by column."""

    def __init__(self) -> None:
        self.with_comma: dict[str, str] = {}
        self.with_point: dict[str, str] = {}
        self.with_either: dict[str, str] = {}

    def look_at(self, names: Sequence[str], rows: Iterator[list[str]]) -> None:
        """Take in the first rows; a column counts whose cells are mostly numbers."""
        for name, cells in zip(names, zip(*(row for row in rows if len(row) == len(names)), strict=True), strict=False):
            written = [cell for one in cells if (cell := one.strip())]
            numbers = [one for one in written if any(kind.fullmatch(one) for kind in (_WHOLE, _POINT, _COMMA))]
            if 2 * len(numbers) <= len(written):
                continue
            commas = [one for one in numbers if "," in one]
            sure = [one for one in commas if not THOUSANDS.fullmatch(one)]
            points = [one for one in numbers if "." in one]
            for found, kind in ((sure, self.with_comma), (points, self.with_point)):
                if found:
                    kind[name] = found[0]
            if commas and not sure:
                self.with_either[name] = commas[0]


__all__ = ["THOUSANDS", "Dialect", "find_dialect", "is_packed", "unpacked"]
