"""The Two-Bit environments: the optima of IRMv1 and CLOvE (figure 3a)."""

from pathlib import Path

from clovecal.reproduce.study import Option, Study

__all__ = ["STUDY"]

STUDY = Study(
    name="two-bit",
    summary="Two-Bit environments: the optima of IRMv1 and CLOvE (figure 3a).",
    description="Two-Bit environments: the optima of IRMv1 and CLOvE (figure 3a), in exact numbers.\n\n"
    "Writes results.jsonl and two-bit.png, and says where IRMv1's optimum is spurious; takes some seconds.",
    package=__name__,
    options=(
        Option("output", "Folder for the records and the figure.", type=Path, default=Path("two-bit")),
        Option("force", "Replace the records and the figure of an earlier run.", type=bool, default=False),
    ),
    examples=({"output": "two-bit"},),
    replaces=True,
)
