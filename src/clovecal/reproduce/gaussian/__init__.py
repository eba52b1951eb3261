"""Linear-Gaussian domains: how many are enough (section 3)."""

from pathlib import Path

from clovecal.reproduce.study import Option, Study

__all__ = ["STUDY"]

STUDY = Study(
    name="gaussian",
    summary="Linear-Gaussian domains: how many are enough (section 3).",
    description="Linear-Gaussian domains: how many keep a calibrated predictor from spurious features (section 3).\n\n"
    "Writes results.jsonl and gaussian.png, and prints tables with the paper's numbers of domains beside the ones that "
    "are needed; takes some minutes.",
    package=__name__,
    options=(
        Option(
            "output",
            "Folder for the records and the figure; a run continues where an earlier one there stopped.",
            type=Path,
            default=Path("gaussian"),
        ),
        Option("tiny", "Small dimensions and few draws: seconds instead of minutes.", type=bool, default=False),
        Option("force", "Start anew, without the records of an earlier run.", type=bool, default=False),
    ),
    examples=({"tiny": True, "output": "tiny"}, {"output": "gaussian"}),
    own_records_only=True,
)
