"""All roots of a smooth function on an interval, by exclusion: what IRMv1's zeros are found with (figure 3a)."""

from __future__ import annotations

from collections.abc import Callable

from scipy.optimize import brentq

Function = Callable[[float], float]

_NARROW = 1e-8  # of the interval's length: what is undecided at that width is a multiple root


def all_roots(
    function: Function,
    derivative: Function,
    low: float,
    high: float,
    *,
    bend_bound: Callable[[float, float], float],
) -> list[float]:
    """Return every root of the function on [low, high].

    Parameters
    ----------
    function, derivative
        Of one variable.
    low, high
        Ends of the interval.
    bend_bound
        Returns a number that |second derivative| does not exceed between two given points.

    Notes
    -----
    Around the midpoint m of a piece of half-width h, Taylor's theorem gives |g(x) − g(m)| ≤ |g'(m)|h + Bh²/2 and
    |g'(x) − g'(m)| ≤ Bh. A piece with |g(m)| above the first bound has no root; one with |g'(m)| above the second is
    monotone and has one exactly if the sign changes, which Brent's method then finds; any other is halved. So no
    simple root is missed (up to rounding). A multiple root is never proved: pieces that have become very narrow
    without being decided are joined and reported as one root.

    Examples
    --------
    >>> roots = all_roots(lambda x: x * x - 2, lambda x: 2 * x, -3, 3, bend_bound=lambda left, right: 2)
    >>> [round(root, 12) for root in roots]
    [-1.414213562373, 1.414213562373]
    """
    narrow = _NARROW * (high - low)
    pieces = [(low, high)]
    simple: list[float] = []
    undecided: list[tuple[float, float]] = []
    while pieces:
        left, right = pieces.pop()
        middle, half = (left + right) / 2, (right - left) / 2
        value, slope, bend = abs(function(middle)), abs(derivative(middle)), bend_bound(left, right)
        if value > slope * half + bend * half**2 / 2:
            continue
        if slope > bend * half:
            simple += _root_of_monotone(function, left, right)
        elif half < narrow:
            undecided.append((left, right))
        else:
            pieces += [(left, middle), (middle, right)]
    return sorted({*simple, *(_best(run, function) for run in _runs(undecided))})


def _root_of_monotone(function: Function, left: float, right: float) -> list[float]:
    at_left, at_right = function(left), function(right)
    if at_left == 0 or at_right == 0:
        return [left if at_left == 0 else right]
    if at_left * at_right > 0:
        return []
    return [_brent(function, left, right)]


def _runs(pieces: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Return the pieces, those that touch together."""
    runs: list[list[tuple[float, float]]] = []
    for piece in sorted(pieces):
        if runs and piece[0] == runs[-1][-1][1]:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs


def _best(run: list[tuple[float, float]], function: Function) -> float:
    """Return where the sign changes in a run of pieces, or where the value is smallest."""
    left, right = run[0][0], run[-1][1]
    if function(left) * function(right) < 0:
        return _brent(function, left, right)
    return min(((low + high) / 2 for low, high in run), key=lambda middle: abs(function(middle)))


def _brent(function: Function, left: float, right: float) -> float:
    return float(brentq(function, left, right, xtol=1e-15, rtol=8.9e-16))
