"""`Calibrator`, the base class: fit a map to scores, predict calibrated values, save them as JSON or ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, metadata_routing
from sklearn.utils.validation import check_is_fitted

from clovecal._checks import (
    FloatArray,
    IntArray,
    check_class_labels,
    check_real,
    check_same_length,
    check_scores,
    check_weights,
)
from clovecal.calibrators import stored
from clovecal.calibrators._cells import Cells
from clovecal.calibrators._onnx import OnnxGraph, onnx_model
from clovecal.domains import Domains, Name
from clovecal.errors import InputError
from clovecal.scores import FittedOn, ScoreRangeWarning
from clovecal.text import as_json_values

if TYPE_CHECKING:
    from clovecal.tables import PredictionTable

BALANCES = ("rows", "domains")  # what weighs the same in a pooled fit


@dataclass(frozen=True)
class ScoredRows:
    """Checked rows to calibrate on: one column of scores and targets per problem, and their domains.

    There is one problem for binary labels or real targets, one per class (that class against the rest) for several.

    Attributes
    ----------
    scores
        (n, problems) scores of any scale.
    y
        Labels 0/1, real targets, or class numbers.
    weight
        Frequencies; None when every row counts once.
    domains
        The rows' domains; None when they are not known.
    order
        The rows in rising order of each column of scores, where that is known (`in_order`): fits then need not sort.
    best_risks
        What fits have found of these rows, for those that come: the least risk that a monotone map of its own could
        give each domain, by name.
    starts
        Likewise, what fits have found of nearly the same rows, by what the fit calls it: those that come may start
        there.
    fits
        Likewise, the calibrators that `fitted` has fitted, by their class and parameters.
    fits_without
        The same of the rows without some domains, by the numbers of these.
    """

    scores: FloatArray
    y: FloatArray
    weight: FloatArray | None
    domains: Domains | None
    order: tuple[IntArray, ...] | None = field(default=None, repr=False)
    best_risks: dict[Name, float] = field(default_factory=dict, init=False, repr=False)
    starts: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)
    fits: dict[Any, Calibrator] = field(default_factory=dict, init=False, repr=False)
    fits_without: dict[tuple[int, ...], dict[Any, Calibrator]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, scores: Any, y: Any, domains: Any = None, sample_weight: Any = None) -> ScoredRows:
        """Check what a user passed to ``fit``."""
        columns = check_scores(scores)
        classes = columns.shape[1]
        target = check_real(y, "y") if classes == 1 else check_class_labels(y, classes).astype(np.float64)
        check_same_length(y=target, scores=columns)
        weight = check_weights(sample_weight, len(target))
        return cls(columns, target, weight, None if domains is None else Domains.of(domains, len(target)))

    @property
    def n_problems(self) -> int:
        """How many maps to fit."""
        return int(self.scores.shape[1])

    @cached_property
    def task(self) -> str:
        """What is calibrated: "multiclass" (several columns), "binary" (every label is 0 or 1) or "regression"."""
        if self.n_problems > 1:
            return "multiclass"
        return "binary" if bool(np.all((self.y == 0) | (self.y == 1))) else "regression"

    def target(self, problem: int) -> FloatArray:
        """Return the target of one problem."""
        return self.y if self.n_problems == 1 else (self.y == problem).astype(np.float64)

    def shares(self, balance: str) -> FloatArray:
        """Return each row's share of a pooled fit, which sum to 1.

        Parameters
        ----------
        balance
            "rows": their weights count. "domains": every domain weighs the same; a row of several counts in each, and
            a row of none for nothing.
        """
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        if balance == "rows":
            return np.asarray(weight / weight.sum())
        if self.domains is None:
            raise InputError(
                "domains", "is None", "for domains to weigh the same pass one label per row or a membership matrix"
            )
        codes, rows = self.domains.codes, self.domains.rows
        pairs = weight if rows is None else weight[rows]
        totals = np.bincount(codes, pairs, minlength=len(self.domains.names))
        pairs = pairs / totals[codes] / len(totals)
        return np.asarray(pairs if rows is None else np.bincount(rows, pairs, minlength=len(self.y)))

    @property
    def class_frequencies(self) -> FloatArray | None:
        """Share of each class, where there are several."""
        if self.n_problems == 1:
            return None
        counts = np.bincount(self.y.astype(np.intp), weights=self.weight, minlength=self.n_problems)
        return np.asarray(counts / counts.sum())

    def fitted(self, calibrator: Calibrator) -> Calibrator:
        """Return a copy of an unfitted calibrator that is fitted to these rows: the one there is, if they have it."""
        key = type(calibrator), *vars(calibrator).items()  # its parameters
        try:
            found = self.fits.get(key)
        except TypeError:  # a parameter is a list
            return copy(calibrator).fit_rows(self)
        if found is None:
            self.fits[key] = found = copy(calibrator).fit_rows(self)
        return found

    def mapped(self, values_of: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return what a map of scores (n, C) makes of these rows.

        Where the order of their scores is known it is asked in that order, in which looking among knots takes a fifth
        of the time.
        """
        if self.order is None or self.n_problems > 1:
            return values_of(self.scores)
        rising = self.order[0]
        values = np.empty(len(rising))
        values[rising] = values_of(self.scores[rising])
        return values

    def in_order(self) -> ScoredRows:
        """Return the same rows with their ``order`` known."""
        return self if self.order is not None else self._ordered

    @cached_property
    def _ordered(self) -> ScoredRows:
        ordered = replace(self, order=tuple(np.argsort(column, kind="stable") for column in self.scores.T))
        ordered.best_risks.update(self.best_risks)
        ordered.starts.update(self.starts)
        return ordered

    def reweighted(self, weight: FloatArray) -> ScoredRows:
        """Return the same rows with these weights."""
        return replace(self, weight=weight)

    @cached_property
    def cells(self) -> tuple[Cells, ...]:
        """The rows' sums over score cells and domains, one per problem: what monotone fits start from."""
        assert self.domains is not None
        return self.cells_of(self.domains)

    def cells_of(self, domains: Domains) -> tuple[Cells, ...]:
        """Return the sums over score cells and these domains, which are aligned with the rows."""
        found = []
        for problem in range(self.n_problems):
            codes, rows = domains.codes, domains.rows
            if self.order is not None:
                pairs = self.order[problem] if rows is None else self._pairs_in_order(rows, problem)
                codes, rows = codes[pairs], pairs if rows is None else rows[pairs]
            found.append(
                Cells.from_rows(
                    self.scores[:, problem],
                    self.target(problem),
                    codes=codes,
                    rows=rows,
                    n_domains=len(domains.names),
                    sample_weight=self.weight,
                    rising=self.order is not None,
                )
            )
        return tuple(found)

    def _pairs_in_order(self, rows: IntArray, problem: int) -> IntArray:
        """Return the places of these row numbers in order of the rows' scores."""
        assert self.order is not None
        place = np.empty(len(self.y), dtype=np.intp)
        place[self.order[problem]] = np.arange(len(self.y))
        return np.argsort(place[rows], kind="stable")

    def subset(self, kept: IntArray, domains: Domains | None = None) -> ScoredRows:
        """Return the rows at these positions with these domains, which are aligned with them; None: without any.

        Where the order of the scores is known and the positions rise, the subset knows its own.
        """
        order = None
        if self.order is not None and (np.diff(kept) > 0).all():
            place = np.full(len(self.y), -1)
            place[kept] = np.arange(len(kept))
            order = tuple(column[column >= 0] for column in (place[each] for each in self.order))
        weight = None if self.weight is None else self.weight[kept]
        return ScoredRows(scores=self.scores[kept], y=self.y[kept], weight=weight, domains=domains, order=order)


class Calibrator(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all calibrators; subclass it to write your own.

    A subclass has four methods, and a fifth if it is to be exported:

    - ``_fit(rows)`` fits it to `ScoredRows`;
    - ``_map(columns)`` returns the calibrated values of checked scores (n, C): (n,) for one column, else (n, C);
    - `state` adds what was fitted to the base's dictionary, as numbers, texts, lists and dictionaries;
    - `from_state` puts it back, and raises an `InputError` for what cannot be right (`clovecal.calibrators.stored` has
      functions that read checked values);
    - ``_onnx(graph, scores)`` adds the map's nodes to an `OnnxGraph` and returns the result's name.

    Parameters are those of ``__init__``, which only keeps them, as in every scikit-learn estimator;
    `check_parameters` refuses wrong ones. `register_calibrator` makes `load_calibrator` and ``clovecal calibrate`` know
    the class.

    Attributes
    ----------
    n_features_in_
        Columns of scores it was fitted on.
    n_rows_
        Rows it was fitted on.
    fitted_on_
        What those rows looked like, a `clovecal.scores.FittedOn`; None where that is not known: a file of an older
        version, or a fit by `fit_rows`.
    domains_needed
        How many domains a fit needs at least: 0 for a calibrator that pools them.
    tasks
        What it calibrates, of "binary" (labels 0/1), "multiclass" (several columns) and "regression". An attribute of
        the class; an audit leaves a calibrator out that is not for its rows.

    See Also
    --------
    MonotoneCalibrator : the family of step functions and lines between knots.
    register_calibrator : make a class known by a name.

    Examples
    --------
    >>> class Shift(Calibrator):
    ...     tasks = ("binary", "regression")
    ...     def _fit(self, rows):
    ...         self.shift_ = float(np.average(rows.y - rows.scores[:, 0], weights=rows.weight))
    ...     def _map(self, columns):
    ...         return columns[:, 0] + self.shift_
    ...     def state(self):
    ...         return {**super().state(), "shift": self.shift_}
    ...     @classmethod
    ...     def from_state(cls, state):
    ...         restored = super().from_state(state)
    ...         restored.shift_ = stored.number(state, "shift")
    ...         return restored
    >>> shift = Shift().fit([1.0, 2.0], [1.5, 2.5])
    >>> Shift.from_state(shift.state()).predict([3.0])
    array([3.5])
    """

    n_features_in_: int
    n_rows_: int
    fitted_on_: FittedOn | None = None
    tasks: ClassVar[tuple[str, ...]] = ("binary", "multiclass", "regression")

    @property
    def domains_needed(self) -> int:
        """How many domains a fit needs at least: 0 for a calibrator that pools them."""
        return 0

    # For scikit-learn's metadata routing scores are what others call X.
    __metadata_request__fit: ClassVar = {"scores": metadata_routing.UNUSED}
    __metadata_request__predict: ClassVar = {"scores": metadata_routing.UNUSED}
    __metadata_request__transform: ClassVar = {"scores": metadata_routing.UNUSED}

    def fit(self, scores: Any, y: Any, *, domains: Any = None, sample_weight: Any = None) -> Self:
        """Fit the map of scores to calibrated values.

        Parameters
        ----------
        scores
            (n,) or (n, 1) scores of any scale (higher means more), or (n, C) with a column per class.
        y
            Labels 0/1, real targets, or with C columns class numbers 0…C−1.
        domains
            n labels, an n×k membership matrix or a `Domains`.
        sample_weight
            Frequencies of the rows.
        """
        rows = ScoredRows.of(scores, y, domains, sample_weight)
        return self._fit_and_remember(rows)

    def fit_table(self, table: PredictionTable) -> Self:
        """Fit on a table that `clovecal.tables.read_predictions` has read, and remember which columns it came from.

        Parameters
        ----------
        table
            Its scores may be of any scale.
        """
        rows = ScoredRows.of(table.p, table.y, table.domains, table.sample_weight)
        return self._fit_and_remember(rows, columns=table.columns.scores, label=table.columns.label)

    def _fit_and_remember(
        self, rows: ScoredRows, *, columns: Sequence[str] | None = None, label: str | None = None
    ) -> Self:
        if self.domains_needed and rows.domains is not None:
            rows.domains.require_weight(rows.weight)
        self.fit_rows(rows)
        self.fitted_on_ = FittedOn.of(
            rows.scores,
            rows.y,
            task=rows.task,
            weight=rows.weight,
            domains=rows.domains,
            columns=columns,
            label=label,
        )
        return self

    def fit_rows(self, rows: ScoredRows) -> Self:
        """Fit on rows that are checked already, each of whose domains has a row of positive weight.

        For fits by the dozen: nothing is kept of what the rows looked like.
        """
        self.check_parameters()
        if rows.task not in self.tasks:
            raise InputError("y", f"is {rows.task}", f"a {type(self).__name__} is for {' or '.join(self.tasks)}")
        self._fit(rows)
        self.n_features_in_ = rows.n_problems
        self.n_rows_ = len(rows.y)
        self.fitted_on_ = None
        return self

    def check_parameters(self) -> None:
        """Raise unless the parameters can be used."""

    def _fit(self, rows: ScoredRows) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no _fit(rows)")

    def predict(self, scores: Any) -> FloatArray:
        """Return calibrated values: (n,) for one column of scores, (n, C) for several.

        Warns with a `clovecal.scores.ScoreRangeWarning` where scores do not look like those of the fit: far outside
        their range, or of another scale.
        """
        check_is_fitted(self, "n_features_in_")
        columns = check_scores(scores)
        if columns.shape[1] != self.n_features_in_:
            raise InputError(
                "scores",
                f"has {columns.shape[1]} columns but the calibrator was fitted on {self.n_features_in_}",
                "pass the same number",
            )
        doubt = None if self.fitted_on_ is None else self.fitted_on_.doubt(columns)
        if doubt is not None:
            warnings.warn(doubt, ScoreRangeWarning, stacklevel=2)
        return self.calibrate(columns)

    def calibrate(self, columns: FloatArray) -> FloatArray:
        """Return `predict`'s values of scores that are checked already, (n, 1) or (n, C)."""
        return self._map(columns)

    def _map(self, columns: FloatArray) -> FloatArray:
        raise NotImplementedError(f"{type(self).__name__} has no _map(columns)")

    def transform(self, scores: Any) -> FloatArray:
        """Return `predict`'s values, for use inside a Pipeline."""
        return self.predict(scores)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the fitted calibrator as JSON, which `load_calibrator` reads back exactly.

        Parameters
        ----------
        path
            Where to write.
        overwrite
            Whether an existing file may be replaced.
        """
        from clovecal.calibrators._persistence import save

        save(self, path, overwrite=overwrite)

    def state(self) -> dict[str, Any]:
        """Return all that makes the fitted calibrator, as values that JSON has: what `save` stores."""
        check_is_fitted(self, "n_features_in_")
        parameters = {name: stored.plain(value) for name, value in self.get_params(deep=False).items()}
        return {
            "parameters": parameters,
            "columns": self.n_features_in_,
            "rows": self.n_rows_,
            "fitted_on": None if self.fitted_on_ is None else as_json_values(self.fitted_on_),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return the fitted calibrator of a `state`, whose values may come from a stranger's file: all are checked.

        Raises
        ------
        InputError
            Where something is missing or cannot be right.
        """
        restored = cls._of_parameters(state)
        restored.n_features_in_ = stored.count(state, "columns")
        return restored

    @classmethod
    def _of_parameters(cls, state: Mapping[str, Any]) -> Self:
        """Return one with a state's parameters and count of rows; what was fitted is for the caller to put back."""
        if not isinstance(state, Mapping):
            raise InputError("state", f"is a {type(state).__name__}", "pass what state() returned")
        given = state.get("parameters")
        if not isinstance(given, dict) or set(given) != set(signature(cls).parameters):
            raise InputError("its parameters", f"are not those of a {cls.__name__}", stored.REMEDY)
        # JSON has no tuples, and scikit-learn's clone wants parameters as they were given.
        restored = cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})
        try:
            restored.check_parameters()
        except InputError as error:
            raise InputError(
                f"its parameter {error.argument}", f"{error.problem}; {error.remedy}", stored.REMEDY
            ) from None
        restored.n_rows_ = stored.count(state, "rows")
        restored.fitted_on_ = stored.fitted_on(state)
        return restored

    def to_onnx(self) -> Any:
        """Return the fitted map as an ONNX model (needs the ``onnx`` extra).

        Its input ``scores`` and its output ``calibrated`` are doubles: (n,) for one column of scores, else (n, C).
        """
        check_is_fitted(self, "n_features_in_")
        return onnx_model(self._onnx, self.n_features_in_)

    def _onnx(self, graph: OnnxGraph, scores: str) -> str:
        name = type(self).__name__
        raise InputError("to_onnx", f"has no graph for {name}", f"give {name} a method _onnx(graph, scores)")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.target_tags.required = True
        return tags
