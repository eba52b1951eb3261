"""WILDS: train networks, calibrate them in the domains seen, and judge them in the others (section 6.2)."""

from pathlib import Path

from clovecal.reproduce.study import Option, Study

__all__ = ["STUDY"]

STUDY = Study(
    name="wilds",
    summary="WILDS: the tables of section 6.2.",
    description="WILDS: train networks, calibrate them in the domains seen, and judge them in the others "
    "(section 6.2).\n\n"
    "Writes results.jsonl (a record for each network and column), tables.md and wilds.png, and under models/ the "
    "networks, their features and their predictions, which the other commands read.",
    package=__name__,
    options=(
        Option("dataset", "camelyon17, civilcomments, fmow, poverty or amazon."),
        Option(
            "root",
            "Folder that holds camelyon17_v1.0 and the others; a miniature is written there. [for it: in the output]",
            type=Path,
        ),
        Option("seeds", "Networks of each objective.", type=int, default=4, least=1),
        Option(
            "objectives",
            "What training minimises, by the name that it has in `clovecal train`: irm-halves is WILDS' IRM; once per "
            "objective. The paper's three if not given.",
            several=True,
            default=(),
            spelled="objective",
        ),
        Option("backbone", "Another network than the paper's, such as densenet169 or resnet34."),
        Option(
            "architectures",
            "Train the networks that appendix B compares (BERT cased and large, DenseNet-169 and 201, ResNet-34 and "
            "50) beside the table's own, and table them side by side; their weights in the caches.",
            type=bool,
            default=False,
        ),
        Option("weights", "Pretrained weights: a file, or for BERT a folder. [the caches]", type=Path),
        Option("batch_size", "Rows per batch. [WILDS']", type=int, least=1),
        Option("epochs", "Epochs of training. [WILDS']", type=int, least=1),
        Option(
            "head_steps",
            "Steps of a CLOvE head: of the paper's so many, of ours at most.",
            type=int,
            default=5000,
            least=1,
        ),
        Option(
            "fit_on",
            "Validation rows that columns are fitted on, where there are two splits (fmow, poverty, amazon): id-val, "
            "of the domains trained on, as the paper defines its calibrators; ood-val, of others; or both together. "
            "Once per table.",
            several=True,
            default=(),
            shown_default="id-val",
        ),
        Option(
            "columns",
            "Columns of the table; once per column. All if not given.",
            several=True,
            default=(),
            spelled="column",
        ),
        Option(
            "paper_penalty",
            "λ of the paper's CLOvE (column clove-paper), which states none for WILDS; another adds a column.",
            type=float,
            default=100.0,
        ),
        Option("device", "Device of torch. [a GPU; on the CPU only if you say cpu]"),
        Option("workers", "Processes that decode inputs.", type=int, default=0, least=0),
        Option("splits", "paper (its appendix B) or wilds (published).", default="paper"),
        Option(
            "miniature", "Generate a small data set and train a small network, in minutes.", type=bool, default=False
        ),
        Option("rows", "Rows of the miniature.", type=int, least=100, shown_default="1000"),
        Option("size", "Pixels per side in the miniature.", type=int, least=8, shown_default="32"),
        Option("dry_run", "Check everything and print the plan, the disk and the GPU hours.", type=bool, default=False),
        Option(
            "show_only",
            "Train nothing; print and draw from the records that are there.",
            type=bool,
            default=False,
            spelled="tables-only",
        ),
        Option(
            "output",
            "Folder for networks, outputs, records, tables and figure; a run continues where an earlier one stopped.",
            type=Path,
            default=Path("wilds"),
        ),
    ),
    examples=(
        {"dataset": "camelyon17", "miniature": True, "seeds": 1, "output": "small"},
        {"dataset": "camelyon17", "root": "/data/wilds", "dry_run": True},
        {"dataset": "camelyon17", "root": "/data/wilds", "workers": 16, "output": "camelyon17"},
        {"dataset": "fmow", "root": "/data/wilds", "architectures": True, "output": "fmow-architectures"},
    ),
    tables_file="tables.md",
    extra="wilds",
    several_processes=True,
)
