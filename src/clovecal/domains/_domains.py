"""Which domain each row belongs to: hospitals, countries, years, ….

The paper (section 2.1) calls them environments; here the word is domain throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from clovecal._checks import AnyArray, FloatArray, IntArray, as_numpy, is_missing_label
from clovecal.domains._factorize import Name as Name
from clovecal.domains._factorize import factorize
from clovecal.errors import InputError
from clovecal.text import listed

Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Domains:
    """Which domains each row belongs to, as pairs of a row and a domain.

    Build one with `Domains.from_labels`, `Domains.from_membership` or `Domains.of`. Rows may be in several
    domains (a comment that mentions two identities) or in none; an n×k matrix is never built from labels.

    Attributes
    ----------
    names
        The k domain names, in the order of ``codes``.
    codes
        Domain number of each pair.
    rows
        Row number of each pair, ascending; None when row i is in domain ``codes[i]`` and in no other.
    n_rows
        Number of rows of the table, those in no domain included.
    """

    names: tuple[Name, ...]
    codes: IntArray
    rows: IntArray | None
    n_rows: int

    @classmethod
    def from_labels(cls, labels: Any) -> Domains:
        """Build from one label per row: strings, integers or categoricals.

        Examples
        --------
        >>> Domains.from_labels(["Sweden", "UK", "UK"]).counts
        {'Sweden': 1, 'UK': 2}
        """
        names, codes = factorize(labels)
        return cls(names, codes, None, len(codes))

    @classmethod
    def from_membership(cls, membership: Any, names: Sequence[Name] | None = None) -> Domains:
        """Build from an n×k matrix of 0 and 1, for domains that overlap or leave rows out.

        Examples
        --------
        >>> Domains.from_membership([[1, 1], [0, 1], [0, 0]], names=["female", "muslim"]).counts
        {'female': 1, 'muslim': 2}
        """
        if names is None:
            columns = getattr(membership, "column_names", getattr(membership, "columns", ()))  # the former: pyarrow
            names = list(columns) or None
        matrix = _zeros_and_ones(membership)
        names = tuple(range(matrix.shape[1]) if names is None else names)
        if len(names) != matrix.shape[1] or len(set(names)) != len(names):
            raise InputError(
                "domains",
                f"has {matrix.shape[1]} columns but names has {len(set(names))} different entries",
                "pass one distinct name per column",
            )
        rows, codes = np.nonzero(matrix)
        empty = np.flatnonzero(np.bincount(codes, minlength=len(names)) == 0)
        if len(empty):
            raise InputError(f"domain {names[empty[0]]!r}", "has no rows", "drop its column from domains")
        return cls(names, codes, rows, len(matrix))

    @classmethod
    def of(cls, domains: Any, n_rows: int) -> Domains:
        """Build from what a user passes as ``domains=`` and check that it is aligned with ``n_rows`` rows."""
        if isinstance(domains, Domains):
            built = domains
        elif domains is None:
            raise InputError("domains", "is None", "pass one label per row or an n×k membership matrix")
        elif len(getattr(domains, "shape", ())) == 2 or _is_nested(domains):
            built = cls.from_membership(domains)
        else:
            built = cls.from_labels(domains)
        if built.n_rows != n_rows:
            raise InputError(
                "domains", f"has {built.n_rows} rows but y has {n_rows}", "pass arguments aligned row by row"
            )
        return built

    @classmethod
    def crossing(cls, columns: Mapping[str, Any]) -> Domains:
        """Build from several columns of labels: each value of each column, and each pair of values of two columns.

        A pair that has all rows of one of its two values, and so says nothing new, is left out.

        Examples
        --------
        >>> Domains.crossing({"state": ["TX", "TX", "TX", "NY"], "sex": ["f", "f", "m", "f"]}).counts
        {'state=NY': 1, 'state=TX': 3, 'sex=f': 3, 'sex=m': 1, 'state=TX, sex=f': 2}
        """
        if not columns:
            raise InputError("columns", "is empty", "pass at least one column of labels by its name")
        names: list[Name] = []
        of_columns: list[tuple[list[str], IntArray]] = []
        blocks: list[IntArray] = []  # each row's code in a column, or in a pair of columns; −1 where there is none
        for column, labels in columns.items():
            values, codes = factorize(labels)
            of_columns.append(([f"{column}={value}" for value in values], codes))
            blocks.append(codes + len(names))
            names += of_columns[-1][0]
        n_rows = {len(block) for block in blocks}
        if len(n_rows) > 1:
            raise InputError("columns", f"have {listed(sorted(map(str, n_rows)))} rows", "pass columns aligned by row")
        for (first, codes), (second, others) in combinations(of_columns, 2):
            present, pair = np.unique(codes * len(second) + others, return_inverse=True)
            size = np.bincount(pair)
            of_first, of_second = present // len(second), present % len(second)
            new = (size < np.bincount(codes)[of_first]) & (size < np.bincount(others)[of_second])
            number = np.where(new, np.cumsum(new) - 1 + len(names), -1)
            blocks.append(number[pair])
            names += [f"{first[a]}, {second[b]}" for a, b in zip(of_first[new], of_second[new], strict=True)]
        members = np.column_stack(blocks)
        rows, block = np.nonzero(members >= 0)
        return cls(tuple(names), members[rows, block], rows, len(members))

    @classmethod
    def pooled(cls, n_rows: int) -> Domains:
        """Build the table without domains: every statistic then has the overall entry alone."""
        nothing = np.empty(0, dtype=np.intp)
        return cls((), nothing, nothing, n_rows)

    @property
    def partition(self) -> bool:
        """Whether every row is in exactly one domain, known without looking."""
        return self.rows is None

    @cached_property
    def counts(self) -> dict[Name, int]:
        """Rows of each domain."""
        return dict(zip(self.names, np.bincount(self.codes, minlength=len(self.names)).tolist(), strict=True))

    @cached_property
    def rows_in_no_domain(self) -> int:
        """Number of rows that no domain claims."""
        return 0 if self.rows is None else self.n_rows - len(np.unique(self.rows))

    @cached_property
    def primary_codes(self) -> IntArray:
        """One domain per row, for stratified splits: the number of its first domain, k for a row in none."""
        if self.rows is None:
            return self.codes
        first = np.full(self.n_rows, len(self.names), dtype=np.intp)
        first[self.rows[::-1]] = self.codes[::-1]  # the last to be written is a row's first pair
        return first

    def require_two(self) -> Domains:
        """Raise unless there are at least two domains."""
        if len(self.names) < 2:
            found = f"only {self.names[0]!r}" if self.names else "none"
            raise InputError("domains", f"has {found}", "this needs at least two domains to compare")
        return self

    def require_weight(self, weight: FloatArray | None) -> Domains:
        """Raise unless there is a domain and each has a row of positive weight."""
        if not self.names:
            raise InputError("domains", "has no domain", "pass one label per row or an n×k membership matrix")
        if weight is not None:
            of_pairs = weight if self.rows is None else weight[self.rows]
            total = np.bincount(self.codes, weights=of_pairs, minlength=len(self.names))
            if not total.all():
                name = self.names[int(np.argmin(total))]
                raise InputError("sample_weight", f"is zero in every row of domain {name!r}", "leave that domain out")
        return self

    def restrict(self, kept: IntArray) -> Domains:
        """Return the domains of the rows at these positions, in this order; those without a row left are dropped."""
        if self.rows is None:
            codes, rows = self.codes[kept], None
        else:
            # each kept row's pairs stand together, from its first to before the next row's
            first = np.searchsorted(self.rows, np.arange(self.n_rows + 1))
            count = np.diff(first)[kept]
            rows = np.repeat(np.arange(len(kept)), count)
            within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
            codes = self.codes[np.repeat(first[kept], count) + within]
        used = np.bincount(codes, minlength=len(self.names)) > 0
        names = tuple(self.names[number] for number in np.flatnonzero(used))
        return Domains(names, (np.cumsum(used) - 1)[codes], rows, len(kept))

    def merge_small(self, min_rows: int, weight: FloatArray | None = None) -> Domains:
        """Put the domains with fewer rows than ``min_rows`` together as one; leave it out if it is still too small.

        Parameters
        ----------
        min_rows
            Rows of positive weight that a domain needs to stand alone; what the weights add up to does not matter.
        weight
            Weights of the rows; None: every row counts.
        """
        k = len(self.names)
        counted = self.codes
        if weight is not None:
            counted = self.codes[(weight if self.rows is None else weight[self.rows]) > 0]
        small = np.bincount(counted, minlength=k) < min_rows
        if not small.any():
            return self
        together = f"{int(small.sum())} domains of fewer than {min_rows} rows"
        return self._put_together(small, together, weight, min_rows)

    def keep_largest(self, most: int, weight: FloatArray | None = None) -> Domains:
        """Put all but the largest domains together as one, so that there are at most ``most``.

        Parameters
        ----------
        most
            Domains to have, the one of the small ones included; at least 2.
        weight
            Weights of the rows, by whose sum domains are large; None: every row counts.
        """
        k = len(self.names)
        if k <= most:
            return self
        of_pairs = None if weight is None else weight if self.rows is None else weight[self.rows]
        size = np.bincount(self.codes, of_pairs, minlength=k)
        small = np.ones(k, dtype=bool)
        small[np.argsort(-size, kind="stable")[: most - 1]] = False
        return self._put_together(small, f"the {int(small.sum())} smallest domains", weight, 0)

    def _put_together(self, small: AnyArray, name: str, weight: FloatArray | None, min_rows: int) -> Domains:
        """Make one domain of some, or leave them out if together they still have fewer rows than ``min_rows``."""
        kept = np.flatnonzero(~small)
        position = np.full(len(self.names), len(kept), dtype=np.intp)
        position[kept] = np.arange(len(kept))
        names = tuple(self.names[number] for number in kept)
        rows = np.arange(self.n_rows) if self.rows is None else self.rows
        # A row in two small domains is in their union once.
        rows, codes = np.unique(np.column_stack((rows, position[self.codes])), axis=0).T
        together = codes == len(kept)
        size = together.sum() if weight is None else np.count_nonzero(weight[rows[together]])
        if size < min_rows and names:
            rows, codes = rows[~together], codes[~together]
        else:
            names = (*names, name)
        partition = self.rows is None and len(rows) == self.n_rows
        return Domains(names, codes, None if partition else rows, self.n_rows)

    def deal(self, parts: int, rng: np.random.Generator) -> IntArray:
        """Deal rows into parts within their first domain (rows in none: among themselves); return each row's part."""
        order = rng.permutation(self.n_rows)
        by_domain = order[np.argsort(self.primary_codes[order], kind="stable")]
        part = np.empty(self.n_rows, dtype=np.intp)
        part[by_domain] = np.arange(self.n_rows) % parts
        return part

    def each_left_out(self, max_folds: int) -> Iterator[tuple[range, IntArray]]:
        """Yield the numbers of the domains that are left out, and the rows in none of them.

        With more domains than ``max_folds``, several are left out at a time.
        """
        members = [rows for _, rows in self.split()]
        folds = min(max_folds, len(self.names))
        for fold in range(folds):
            left_out = range(fold, len(self.names), folds)
            outside = np.ones(self.n_rows, dtype=bool)
            for number in left_out:
                outside[members[number]] = False
            yield left_out, np.flatnonzero(outside)

    def split(self) -> Iterator[tuple[Name, IntArray]]:
        """Yield each domain's name and its row numbers, ascending."""
        order = np.argsort(self.codes, kind="stable")
        members = order if self.rows is None else self.rows[order]
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.names)))
        for name, end, size in zip(self.names, ends, np.diff(ends, prepend=0), strict=True):
            yield name, members[end - size : end]


def _is_nested(domains: Any) -> bool:
    return isinstance(domains, (list, tuple)) and len(domains) > 0 and isinstance(domains[0], (list, tuple, np.ndarray))


def _zeros_and_ones(membership: Any) -> AnyArray:
    matrix = as_numpy(membership, "domains")
    if matrix.ndim != 2:
        raise InputError("domains", f"has shape {matrix.shape}", "pass an n×k matrix of 0 and 1")
    flags = matrix
    if matrix.dtype.kind not in "biuf":  # objects, e.g. pandas columns of several types
        flags = np.array([v if not is_missing_label(v) and v in (0, 1) else -1 for v in matrix.flat], dtype=np.float64)
        flags = flags.reshape(matrix.shape)
    wrong = np.argwhere((flags != 0) & (flags != 1))
    if len(wrong):
        row, column = wrong[0]
        raise InputError(
            "domains",
            f"has an entry other than 0 and 1 ({matrix[row, column]})",
            "pass 0 and 1 only, or one label per row instead",
            row=int(row),
        )
    return flags
