"""The calibrators by name: what the command offers, what a report judges, and what a file is restored as."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from clovecal.calibrators._base import Calibrator
from clovecal.errors import InputError

if TYPE_CHECKING:
    from clovecal.calibrators._auto import AutoCalibrator

    Candidates = Callable[["AutoCalibrator"], Mapping[str, Calibrator]]


@dataclass(frozen=True, kw_only=True)
class RegisteredCalibrator:
    """A calibrator that is known by a name; `register_calibrator` explains the fields."""

    name: str
    make: Callable[..., Calibrator]
    calibrator_class: type[Calibrator]
    title: str
    meaning: str
    options: tuple[str, ...] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    candidates: Candidates | None = None
    optional: bool = False

    def make_quick(self) -> Calibrator:
        """Return an unfitted one that a study can fit in every fold without taking long."""
        return self.make(**self.quick)


_REGISTERED: dict[str, RegisteredCalibrator] = {}
_CLASSES: dict[str, type[Calibrator]] = {}  # by their own names, which files hold
CALIBRATORS: Mapping[str, RegisteredCalibrator] = MappingProxyType(_REGISTERED)


def register_calibrator(
    name: str,
    make: Callable[..., Calibrator],
    *,
    meaning: str,
    title: str | None = None,
    options: tuple[str, ...] = (),
    quick: Mapping[str, Any] | None = None,
    candidates: Candidates | None = None,
    optional: bool = False,
) -> None:
    """Make a calibrator known, so that it can be saved and loaded, and chosen by name in ``clovecal calibrate``.

    Parameters
    ----------
    name
        What commands call it.
    make
        A subclass of `Calibrator`, or a function that returns an unfitted one.
    meaning
        What it does, in a line printed after "name: ".
    title
        What tables call it; None: its name.
    options
        Parameters of ``make`` that ``clovecal calibrate`` may pass on; it has ``balance``, ``objective`` and
        ``shrinkage``.
    quick
        Parameters of ``make`` with which a report fits it many times over: a coarser tolerance, fewer folds.
    candidates
        For a calibrator that `AutoCalibrator` is to try: a function of the `AutoCalibrator` that returns unfitted ones
        by the names of its table. Together they count as one candidate.
    optional
        Whether `AutoCalibrator` tries them only where its ``candidates`` name them.

    Notes
    -----
    A file holds the name of the class, by which `load_calibrator` finds it; several names may make the same class, but
    classes of the same name cannot both be registered. Registering a name again, as a notebook's cell does that is run
    twice, replaces it.

    See Also
    --------
    CALIBRATORS : what has been registered, by name.
    """
    kind = make if isinstance(make, type) else type(make())
    if not issubclass(kind, Calibrator):
        raise InputError("make", f"makes a {kind.__name__}", "pass a subclass of clovecal.calibrators.Calibrator")
    if name in _REGISTERED and _place(_REGISTERED[name].calibrator_class) != _place(kind):
        other = _REGISTERED[name].calibrator_class.__name__
        raise InputError("name", f"is {name!r}, which is taken by {other}", "choose another name")
    register_class(kind)
    _REGISTERED[name] = RegisteredCalibrator(
        name=name,
        make=make,
        calibrator_class=kind,
        title=title or name,
        meaning=meaning,
        options=options,
        quick=MappingProxyType(dict(quick or {})),
        candidates=candidates,
        optional=optional,
    )


def register_class(kind: type[Calibrator]) -> None:
    """Make a class known to files alone: of calibrators that other calibrators make, which have no name to ask for."""
    if _place(_CLASSES.get(kind.__name__, kind)) != _place(kind):
        raise InputError("make", f"makes a {kind.__name__}, a name that another class has", "rename the class")
    _CLASSES[kind.__name__] = kind


def registered_class(class_name: str) -> type[Calibrator] | None:
    """Return the registered class of this name, or None."""
    return _CLASSES.get(class_name)


def _place(kind: type) -> tuple[str, str]:
    """Return where a class is defined, which stays the same when its module is loaded again."""
    return kind.__module__, kind.__qualname__
