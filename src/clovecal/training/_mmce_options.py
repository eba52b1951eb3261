"""The options of MMCE as a loss, checked once for the function, the objective and the head."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TypedDict

from clovecal._checks import check_choice, check_positive
from clovecal.errors import InputError

_SHARPEST = 1_000_000  # a row has about 3·√gamma features: beyond this a batch takes minutes and gigabytes


class MmceOptions(TypedDict, total=False):
    """The options of `mmce`, as `clove` and the objectives take them."""

    kernel: str
    gamma: float
    width: float
    of: str
    squared: bool
    unbiased: bool


@dataclass(frozen=True)
class CheckedMmceOptions:
    """The options of `mmce`, checked, with its defaults."""

    kernel: str = "rbf"
    gamma: float = 2.5
    width: float = 0.4
    of: str = "confidence"
    squared: bool = True
    unbiased: bool = False

    def __post_init__(self) -> None:
        check_choice(self.kernel, "kernel", ("rbf", "laplacian"))
        if check_positive(self.gamma, "gamma") > _SHARPEST:
            raise InputError(
                "gamma",
                f"is {self.gamma:g}",
                f"pass at most {_SHARPEST:,}: a sharper kernel compares a row with hardly any other",
            )
        check_positive(self.width, "width")
        check_choice(self.of, "of", ("confidence", "positive"))

    @property
    def is_plain_rbf(self) -> bool:
        """Whether this is the squared V-statistic with the RBF."""
        return self.kernel == "rbf" and self.squared and not self.unbiased

    def check_between(self, common: float | None, *, name: str) -> None:
        """Raise unless the part that domains share may weigh this, and nothing is asked of it that it has not."""
        if common is None:
            return
        if isinstance(common, bool) or not isinstance(common, Real) or not 0 <= common <= 1:
            raise InputError(name, f"is {common!r}", "pass a weight from 0 to 1, such as 0.01")
        if not self.squared:
            raise InputError("squared", "is False, but what is between domains has no root", "leave it out")
