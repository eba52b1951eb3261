"""Colored MNIST: hundreds of models for each setting, and the choice among them (section 6.1)."""

from pathlib import Path

from clovecal.reproduce.colored_mnist.settings import DEFAULT_METHODS, METHODS, SETTINGS
from clovecal.reproduce.study import Option, Study

__all__ = ["STUDY"]

STUDY = Study(
    name="colored-mnist",
    summary="Colored MNIST: 300 models per setting, and the choice among them (section 6.1).",
    description="Colored MNIST: train models by the hundred, and choose among them without test data (section 6.1, "
    "appendix C).\n\n"
    "Writes results.jsonl (a record for each model), averages.jsonl and four kinds of figures, and prints tables with "
    "the paper's numbers beside ours.",
    package=__name__,
    options=(
        Option(
            "data",
            "MNIST, or scikit-learn's 8×8 digits, which need no download.",
            default="mnist",
            choices=("mnist", "digits"),
        ),
        Option(
            "settings",
            "Once per setting; all three if not given.",
            default=tuple(SETTINGS),
            choices=tuple(SETTINGS),
            several=True,
            spelled="setting",
        ),
        Option(
            "methods",
            "Once per method; all but clove-adagrad if not given.",
            default=DEFAULT_METHODS,
            choices=tuple(METHODS),
            several=True,
            spelled="method",
        ),
        Option("members", "Models of each method.", type=int, default=100, least=1),
        Option("seeds", "Seeds of the data.", type=int, default=1, least=1),
        Option("device", "Device of torch, such as cpu or cuda; a GPU if there is one."),
        Option("at_once", "Models trained together.", type=int, default=100, least=1),
        Option("workers", "Processes that measure models.", type=int, default=1, least=1),
        Option(
            "tiny",
            "A few steps on 8×8 digits: tries the machinery; the numbers mean nothing.",
            type=bool,
            default=False,
        ),
        Option(
            "show_only",
            "Train nothing; draw and print from the records that are there.",
            type=bool,
            default=False,
            spelled="figures-only",
        ),
        Option(
            "output",
            "Folder for records, predictions and figures; a run continues where an earlier one there stopped.",
            type=Path,
            default=Path("colored-mnist"),
        ),
    ),
    examples=(
        {"tiny": True, "members": 2, "output": "tiny"},
        {"settings": ["digit25"], "seeds": 3, "device": "cuda", "workers": 8},
    ),
    record_files=("results.jsonl", "averages.jsonl"),
)
