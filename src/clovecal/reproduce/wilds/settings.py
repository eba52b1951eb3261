"""How WILDS 1.0 trains on each data set, and what has a record of its own (paper: section 6.2 and appendix B)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from clovecal.datasets.wilds import NAMES, published
from clovecal.errors import InputError
from clovecal.training.network.backbones import BACKBONES
from clovecal.training.network.backbones import backbone as known_backbone
from clovecal.training.network.recipe import Recipe
from clovecal.training.objectives import OBJECTIVES

NETWORK_OBJECTIVES = tuple(name for name in OBJECTIVES if name != "clove")  # which is a head on their features
HEADS = ("clove-paper", "clove", "clove-strong")
RECALIBRATIONS = ("naive", "robust", "robust-regret", "auto")  # of CALIBRATORS; the paper's are the first two
COLUMNS = ("original", *RECALIBRATIONS, *HEADS)
# "clove-paper" is the head of appendix B to the letter, with a λ that is given, as the paper states none for WILDS.
# "clove" chooses by held-out calibration among heads that lose no accuracy in the domains seen; "clove-strong" takes
# the strongest λ that "clove" may choose, whatever it costs there.
STRONGEST = MappingProxyType({"binary": 30.0, "multiclass": 1000.0})
PAPERS_PENALTY = 100.0  # the lowest that Colored MNIST's range has; there the two terms are of one size
FIT_ON = ("id-val", "ood-val", "both")  # of data sets with two validation splits
ONLY_SPLIT = "val"  # what the others' columns are fitted on


@dataclass(frozen=True)
class DatasetDefaults:
    """The defaults of WILDS 1.0.0 for a data set.

    Attributes
    ----------
    recipe
        Its hyperparameters; the objective and its penalty are filled in.
    domains
        What it takes for domains in training: columns of the metadata, an identity, "label", or "domain" for the data
        set's own.
    domains_per_batch
        How many of them are drawn for a batch of IRM or CORAL.
    penalties
        Weight of an objective's penalty.
    objectives
        Those of the paper's table.
    """

    recipe: Recipe
    domains: tuple[str, ...]
    domains_per_batch: int
    penalties: Mapping[str, float]
    objectives: tuple[str, ...]


_PAPERS_THREE = ("erm", "coral", "irm-halves")
_ANNEAL = 500  # steps of IRM; WILDS' CORAL has its whole weight from the start
_BERT = Recipe(
    "bert-base-uncased",
    batch_size=16,
    learning_rate=1e-5,
    weight_decay=0.01,
    optimizer="adamw",
    schedule="linear",
    clip_norm=1.0,
    pretrained=True,
    precision="bf16",
)
_DENSENET = Recipe(
    "densenet121",
    batch_size=32,
    learning_rate=1e-3,
    weight_decay=0.01,
    optimizer="sgd",
    precision="bf16",
)
_SATELLITE = replace(_DENSENET, batch_size=64, weight_decay=0.0, optimizer="adam", schedule="step")

SETTINGS: Mapping[str, DatasetDefaults] = MappingProxyType(
    {
        "camelyon17": DatasetDefaults(
            recipe=_DENSENET,
            domains=("hospital",),
            domains_per_batch=2,
            penalties={"irm": 1.0, "coral": 0.1},
            objectives=_PAPERS_THREE,
        ),
        "civilcomments": DatasetDefaults(
            recipe=_BERT,
            domains=("black", "label"),
            domains_per_batch=4,
            penalties={"irm": 100.0, "coral": 1.0},  # 1.1 has 1 and 10
            objectives=("erm", "irm-halves", "group-dro"),
        ),
        "fmow": DatasetDefaults(
            recipe=replace(_SATELLITE, epochs=50, learning_rate=1e-4, pretrained=True),
            domains=("year",),
            domains_per_batch=8,
            penalties={"irm": 1.0, "coral": 0.1},
            objectives=_PAPERS_THREE,
        ),
        "poverty": DatasetDefaults(
            recipe=replace(_SATELLITE, backbone="resnet18", epochs=200, flips=True),
            domains=("country",),
            domains_per_batch=8,
            penalties={"irm": 1.0, "coral": 10.0},
            objectives=_PAPERS_THREE,
        ),
        "amazon": DatasetDefaults(
            recipe=replace(_BERT, batch_size=8, learning_rate=2e-6, epochs=3, max_tokens=512),
            domains=("domain",),
            domains_per_batch=2,
            penalties={"irm": 1.0, "coral": 10.0},
            objectives=_PAPERS_THREE,
        ),
    }
)


# Appendix B, "robustness to model architecture choice"; the first is the table's own. It names no others for
# Camelyon17, and does not say whether its large BERT was cased.
ARCHITECTURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        dataset: tuple(name for name in BACKBONES if name.startswith(family))
        for dataset, family in (("civilcomments", "bert-"), ("fmow", "densenet"), ("poverty", "resnet"))
    }
)


@dataclass(frozen=True)
class Miniature:
    """A generated data set in place of the published one, and training in proportion."""

    rows: int = 1000
    size: int = 32
    seed: int = 0
    epochs: int = 8
    batch_size: int = 48
    learning_rate: float = 3e-3
    anneal: int = 20


@dataclass(frozen=True)
class Model:
    """One network to train.

    Attributes
    ----------
    dataset
        Which.
    data
        What was read: the published version, or the miniature's options.
    domains
        What the objective took for domains.
    recipe, seed
        How it was trained.
    """

    dataset: str
    data: str
    domains: tuple[str, ...]
    recipe: Recipe
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.dataset}-{self.recipe.objective}-{self.recipe.backbone}-{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Config:
    """What has a record of its own: a network, and what was done to its predictions.

    Attributes
    ----------
    model
        The network.
    column
        One of `COLUMNS`.
    head_steps
        Steps of a head, or most of them.
    fit_on
        Validation rows that the column was fitted on: one of `FIT_ON`, or "val" where there is one split.
    penalty
        λ of "clove-paper"; None: the column has none that could be given.
    """

    model: Model
    column: str
    head_steps: int
    fit_on: str = ONLY_SPLIT
    penalty: float | None = None


def check_dataset(name: str) -> None:
    """Raise unless there is such a data set."""
    if name not in NAMES:
        raise InputError("dataset", f"is {name!r}", f"choose one of {', '.join(map(repr, NAMES))}")


def models_of(
    dataset: str,
    data: str,
    *,
    objectives: Sequence[str] = (),
    seeds: int = 4,
    backbone: str | None = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    miniature: Miniature | None = None,
) -> tuple[Model, ...]:
    """Return the networks of a table.

    Parameters
    ----------
    dataset, data
        Which, and what its release says.
    objectives
        None given: the paper's.
    seeds
        How many of each.
    backbone, batch_size, epochs
        Other than WILDS'.
    miniature
        Train in small, with a stand-in unless a backbone is named.
    """
    check_dataset(dataset)
    setting = SETTINGS[dataset]
    for objective in objectives:
        if objective not in NETWORK_OBJECTIVES:
            raise InputError(
                "objective", f"is {objective!r}", f"choose one of {', '.join(map(repr, NETWORK_OBJECTIVES))}"
            )
    if seeds < 1:
        raise InputError("seeds", f"is {seeds}", "pass a whole number of at least 1")
    recipe = setting.recipe if miniature is None else _in_small(setting.recipe, miniature)
    anneal = _ANNEAL if miniature is None else miniature.anneal
    if backbone is not None:
        kind = known_backbone(setting.recipe.backbone).kind
        if known_backbone(backbone).kind != kind:
            raise InputError("backbone", f"is {backbone!r}, which reads no {kind}s", f"{dataset} needs one that does")
        pretrained = known_backbone(backbone).weights != "never" and setting.recipe.pretrained
        recipe = replace(recipe, backbone=backbone, pretrained=pretrained)
    recipe = replace(recipe, batch_size=batch_size or recipe.batch_size, epochs=epochs or recipe.epochs)
    recipes = [_with_objective(recipe, one, setting, anneal) for one in objectives or setting.objectives]
    return tuple(
        Model(dataset=dataset, data=data, domains=setting.domains, recipe=one, seed=seed)
        for one in recipes
        for seed in range(seeds)
    )


def _with_objective(recipe: Recipe, name: str, setting: DatasetDefaults, anneal: int) -> Recipe:
    if name == "erm":
        return recipe
    if name == "group-dro":  # WILDS draws rows one by one, each domain being as likely: a batch may have many of them
        return replace(recipe, objective=name, domains_per_batch=recipe.batch_size)
    kind = name.partition("-")[0]
    return replace(
        recipe,
        objective=name,
        domains_per_batch=setting.domains_per_batch,
        penalty=setting.penalties.get(kind, OBJECTIVES[name].network_penalty),  # WILDS has no others
        anneal=anneal if OBJECTIVES[name].warm_up else 0,
    )


def architectures_of(dataset: str) -> tuple[str, ...]:
    """Return the networks that appendix B compares on a data set."""
    if dataset not in ARCHITECTURES:
        known = " or ".join(ARCHITECTURES)
        raise InputError("architectures", f"is asked for, but appendix B names none for {dataset}", f"choose {known}")
    return ARCHITECTURES[dataset]


def columns_of(dataset: str, wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns of a data set's table, those that are wanted or all; CLOvE is not for a regression."""
    there = tuple(one for one in COLUMNS if one not in HEADS or published(dataset).task != "regression")
    for column in wanted:
        if column not in there:
            why = "needs classes" if column in HEADS else "is no column"
            raise InputError("columns", f"has {column!r}, which {why}", f"choose from {', '.join(map(repr, there))}")
    return tuple(one for one in there if one in wanted or not wanted)


def fits_of(dataset: str, splits: Collection[str], wanted: Sequence[str] = ()) -> tuple[str, ...]:
    """Return which validation rows columns are fitted on.

    Parameters
    ----------
    dataset, splits
        Which, and the splits that it has.
    wanted
        Of `FIT_ON`. None: those of the domains trained on, where the paper's definition has them (section 5.2: "for
        each environment e in E_train ... the number of validation examples we have from it").
    """
    if "id_val" not in splits:
        if wanted:
            raise InputError("fit_on", f"is {wanted[0]!r}, but {dataset} has one validation split", "leave it out")
        return (ONLY_SPLIT,)
    for one in wanted:
        if one not in FIT_ON:
            raise InputError("fit_on", f"is {one!r}", f"choose one of {', '.join(map(repr, FIT_ON))}")
    return tuple(one for one in FIT_ON if one in wanted) or FIT_ON[:1]


def _in_small(recipe: Recipe, miniature: Miniature) -> Recipe:
    kind = known_backbone(recipe.backbone).kind
    return replace(
        recipe,
        backbone=f"tiny-{kind}",
        epochs=miniature.epochs,
        batch_size=miniature.batch_size,
        learning_rate=miniature.learning_rate,
        optimizer="adam",
        weight_decay=0.0,
        clip_norm=None,
        pretrained=False,
        precision=None,
    )
