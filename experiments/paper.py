"""Print the table of ``experiments/README.md``: every figure, table and claim of the paper, ours, and a verdict.

Numbers of ours come from the records of the studies, and sums over the paper's tables from the tables; the words are
written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clovecal import records
from clovecal.reproduce.colored_mnist.choice import (
    AMONG,
    OURS,
    choose,
    models_in,
    objective,
    optimal_log_losses,
    pearson,
    pools,
    spread,
)
from clovecal.reproduce.colored_mnist.settings import PAPERS as METHODS
from clovecal.reproduce.gaussian.tables import vanishing
from clovecal.reproduce.study import Record
from clovecal.reproduce.wilds.tables import PAPERS as CELLS
from clovecal.text import markdown

FOLDER = Path(__file__).parent
NOT_RUN = "not run: the WILDS folders are needed"
HEAD = ("where", "the paper", "ours", "verdict", "the strongest sentence against the verdict")


def main() -> None:
    print(table())


def table() -> str:
    """Return the table in markdown."""
    rows = [*_theory(), *_two_bit(), *_colored_mnist(), *_wilds(), *_appendix_b()]
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", markdown(HEAD, rows, text=range(len(HEAD))))


def _theory() -> list[list[str]]:
    found = records.read(FOLDER / "gaussian" / "results.jsonl")
    generic = [
        one
        for one in found
        if one["config"]["part"] == "classification" and one["config"]["kind"] != "degenerate" and one["config"]["d_ns"]
    ]
    enough = [
        (vanishing(draw["largest"], one["k"]), one["config"]["d_sp"] + 2) for one in generic for draw in one["draws"]
    ]
    by_then = sum(first is not None and first <= threshold for first, threshold in enough)
    bad = [one for one in found if one["config"]["part"] == "regression" and one["config"]["kind"] == "degenerate"]
    meets = [(draw["printed_condition"][-1], draw["largest_2"][-1] > 1e-4) for one in bad for draw in one["draws"]]
    broken = sum(bool(condition) and spurious for condition, spurious in meets)
    return [
        ["figures 1, 2, S1, S2", "causal graphs", "their laws are `clovecal.theory`", "nothing to run", ""],
        [
            "theorem 1; lemmas S2 to S4",
            "k > 2·d_sp domains in general position leave no spurious weight; d_sp + 2 if isotropic",
            f"none left from k = d_sp + 2 on in {by_then} of {len(enough)} generic draws, with any covariances",
            "holds; its threshold is not sharp",
            "Draws of one law; that d_sp + 2 is enough almost surely is our own proof (decision 0008).",
        ],
        [
            "theorem 2, M of full rank",
            "k > d_c + d_sp + 1 leaves no spurious weight",
            "[as stated](gaussian/README.md), and fewer domains are enough for generic ones",
            "holds",
            "The same draws.",
        ],
        [
            "theorem 2, M₂ of full rank",
            "k > max(d_c + 2, d_sp) does, too",
            f"{broken} of {len(meets)} degenerate draws meet the printed condition and keep a spurious weight",
            "false as printed",
            "These domains are of measure zero; for almost all others its conclusion is true.",
        ],
    ]


def _two_bit() -> list[list[str]]:
    found = records.read(FOLDER / "two-bit" / "results.jsonl")
    (said,) = [one for one in found if one.get("kind") == "statements"]
    colour = next(
        one
        for one in found
        if one["config"].get("setting") == "appendix C, colour .05" and one["config"]["loss"] == "logistic"
    )
    losses = [colour["optima"][name]["risk"]["test"] for name in ("IRMv1", "CLOvE")]
    briers = said["lemma_1"]["brier"]
    counts = said["confidence"]["classifiers"]
    return [
        [
            "lemma 1",
            "an invariant classifier can be calibrated in all domains at no cost in squared error",
            f"an example: Brier {briers[0][0]:.2f} → {briers[1][0]:.2f} in both domains",
            "holds",
            "One example illustrates it; it is proved, not measured.",
        ],
        [
            "corollary 1 (and the theorem of appendix A.2)",
            "CLOvE is 0 only for a classifier that is calibrated in every domain",
            f"in one domain {counts['confidence']} classifiers have MMCE 0 by the confidence and "
            f"{counts['positive']} are calibrated; by the positive class {counts['positive']}",
            "false for confidences of two classes, true for the positive class",
            "Confidence-calibrated in the sense of Kumar et al. they are: the slip is in which calibration is meant.",
        ],
        [
            "figure 3a",
            "OPT_IRMv1 uses the spurious bit, OPT_CLOvE does not",
            f"so in appendix C's .05 domains under the logistic loss: test loss {losses[0]:.4f} and {losses[1]:.4f}",
            "reproduced",
            "The paper does not state its loss and domains; there are settings where IRMv1's optimum is invariant.",
        ],
    ]


def _colored_mnist() -> list[list[str]]:
    found = models_in(records.read(FOLDER / "colored-mnist" / "results.jsonl"))
    by = {setting: pools(found, setting, METHODS) for setting in ("digit25", "digit05", "color05")}
    after = pools(found, "digit25", METHODS, recalibrated=True)

    def correlation(setting: str, criterion: str) -> str:
        return spread([pearson(pool, criterion) for pool in by[setting]], 2)

    def chosen(setting: str, criterion: str, floor: float | str = "half-skill", among: int = 1) -> str:
        places = [(pool, choose(pool, criterion, floor, among=among)) for pool in by[setting]]
        return spread([100 * float(pool.ood_accuracy[one]) for pool, one in places if one is not None], 2)

    places = [(pool, choose(pool, "ece", 0.70)) for pool in after]
    recalibrated = spread([100 * float(pool.ood_accuracy[one]) for pool, one in places if one is not None], 2)
    most = [int(np.argmax(pool.id_accuracy)) for pool in by["digit25"]]
    chosen_alone = list(zip(by["digit25"], most, strict=True))
    alone = spread([100 * float(pool.ood_accuracy[one]) for pool, one in chosen_alone], 2)
    inside = spread([100 * float(pool.id_accuracy[one]) for pool, one in chosen_alone], 2)
    return [
        [
            "figure 3b",
            "Pearson of ECE and of the IRMv1 penalty with OOD accuracy: −.92 and −.59 (setting and recalibration not "
            "stated)",
            f"digit25 {correlation('digit25', 'ece')} and {correlation('digit25', 'raw-irm')}; digit05 "
            f"{correlation('digit05', 'ece')} and {correlation('digit05', 'raw-irm')}; colour05 "
            f"{correlation('color05', 'ece')} and {correlation('color05', 'raw-irm')}",
            "reproduced for the ECE if it is of digit25",
            "We chose setting and recalibration to fit; recalibrated, the penalty foretells nearly as well.",
        ],
        [
            "figure S3",
            "colour invariant: most CLOvE models are close to the optimum, IRMv1's scattered; the lowest objectives "
            "are near the optimum and near OPT_IRMv1",
            _near_the_optimum(found, "color05"),
            "reproduced",
            "At .05 nats most are outside, and how near is near the paper does not say.",
        ],
        [
            "figure S4",
            "digit of noise .25: both near the invariant model, IRMv1 more often",
            _near_the_optimum(found, "digit25"),
            "reproduced, weakly",
            "CLOvE's “some” are one model in fifty within .1 nats.",
        ],
        [
            "figure S5 and its text",
            "by accuracy alone 10.96 ± 0.81 (in-domain 85.43 ± 0.13); by ECE with a floor below 75% 64.98 ± 2.67",
            f"{alone} (in-domain {inside}); floor 70% {chosen('digit25', 'ece', 0.70)}, accuracies after "
            f"recalibration {recalibrated}; our rule {chosen('digit25', OURS, among=AMONG)}",
            "reproduced",
            f"Floors of 65 and 74% give {chosen('digit25', 'ece', 0.65)} and {chosen('digit25', 'ece', 0.74)}; the "
            "paper's is not stated.",
        ],
        [
            "figure S6, (.25, ·)",
            "ECE and IRMv1 penalty choose alike, but for high floors",
            f"{chosen('digit25', 'ece')} and {chosen('digit25', 'raw-irm')}, floor at half the skill",
            "reproduced with accuracies as trained",
            "With accuracies after recalibration the penalty chooses a model of 10%.",
        ],
        [
            "figure S6, (.05, ·)",
            "the ECE chooses better",
            f"{chosen('digit05', 'ece')} and {chosen('digit05', 'raw-irm')}",
            "no verdict: one seed",
            "",
        ],
        [
            "figure S7",
            "the same relation in both settings, the penalty's erratic",
            "[drawn as the paper draws it](colored-mnist/README.md)",
            "ECE: reproduced; what is erratic of the penalty is partly its scale",
            "(.05, ·) has one seed.",
        ],
    ]


def _near_the_optimum(found: list[Record], setting: str) -> str:
    """Return the median distance to the invariant log-loss of the paper's methods, and their lowest objectives."""
    optimum = optimal_log_losses(setting)[0]
    texts = []
    for name, title in (("clove", "CLOvE"), ("irm", "IRMv1"), ("erm", "ERM")):
        members = [
            one
            for one in found
            if (one["config"]["setting"], one["config"]["method"]["name"]) == (setting, name) and "diverged" not in one
        ]
        above = np.array([one["test"]["log_loss"] for one in members]) - optimum
        lowest = [
            min((one for one in members if one["config"]["seed"] == seed), key=objective)["test"]["log_loss"]
            for seed in sorted({one["config"]["seed"] for one in members})
        ]
        texts.append(
            f"{title} median {np.median(above):.3f} nats above, {np.mean(above <= 0.05):.0%} within .05, "
            f"{np.mean(above <= 0.1):.0%} within .1, lowest objective {spread(lowest, 3)}"
        )
    return "; ".join(texts) + f" (optimum {optimum:.3f})"


def _wilds() -> list[list[str]]:
    poverty = records.read(FOLDER / "povertymap-calibration" / "results.jsonl")
    change = {
        name: np.mean([one["scores"][name]["r"] - one["scores"]["original"]["r"] for one in poverty])
        for name in ("naive", "robust risk")
    }
    ahead = {
        dataset: [
            cells["clove-paper"][0] - max(cells[name][0] for name in ("original", "naive", "robust"))
            for cells in _of(dataset)
        ]
        for dataset in ("fmow", "camelyon17")
    }
    gain = {
        dataset: [cells["clove-paper"][0] - cells["original"][0] for cells in _of(dataset)]
        for dataset in ("fmow", "camelyon17", "civilcomments")
    }
    both = [*_of("fmow"), *_of("camelyon17")]
    lower = {
        name: sum(cells["clove-paper"][1] < cells[name][1] for cells in both)
        for name in ("original", "naive", "robust")
    }
    civil = _of("civilcomments")
    means = {
        name: np.mean([cells[name][0] for cells in civil]) for name in ("original", "naive", "robust", "clove-paper")
    }
    of_new = np.mean([1 - cells["original"][0] / cells["naive"][0] for cells in civil])
    poverty_gains = sum(cells["robust"][0] > cells["original"][0] for cells in _of("poverty"))
    steadier = {
        dataset: (
            sum(
                value[1] < cells["original"][1]
                for cells in _of(dataset)
                for name, value in cells.items()
                if name != "original"
            ),
            sum(len(cells) - 1 for cells in _of(dataset)),
        )
        for dataset in ("poverty", "civilcomments")
    }
    return [
        [
            "table 1",
            "the data sets",
            "all are read, and Amazon ([readers](../src/clovecal/datasets/wilds))",
            "as said",
            "",
        ],
        [
            "table 2, FMoW",
            "ERM 32.63 → 37.19 robust, 44.16 CLOvE",
            NOT_RUN,
            "open",
            "A miniature with a planted shift is no evidence either way.",
        ],
        [
            "table 2, Camelyon17",
            "ERM 66.66 → 71.22 robust, 75.75 CLOvE",
            NOT_RUN,
            "open",
            "As above; its original ERM has a standard deviation of 14.4 over four seeds.",
        ],
        [
            "“7% and 2.8% over the strongest alternative”",
            "FMoW, Camelyon17",
            f"from its table 2: {_mean(ahead['fmow'])} and {_mean(ahead['camelyon17'])}, the mean over algorithms",
            "follows from its table, nearly",
            "It checks the sum, not the experiment.",
        ],
        [
            "“more than 10% and 6% over the original”",
            "FMoW, Camelyon17",
            f"from its table 2: {_mean(gain['fmow'])} and {_mean(gain['camelyon17'])}, the mean over algorithms",
            "follows from its table",
            "FMoW's DeepCORAL gains 8.3, Camelyon17's IRM 3.1.",
        ],
        [
            "“lower variance than naive and robust, and than the original on 4 of 6”",
            "table 2",
            f"from its table 2: in {lower['naive']}, {lower['robust']} and {lower['original']} of {len(both)}",
            "follows from its table",
            "Standard deviations of four runs: a ratio of 2 between equals is common.",
        ],
        [
            "“robust calibration already improves performance” on both",
            "table 2",
            f"from its table 2: in {sum(cells['robust'][0] > cells['original'][0] for cells in both)} of {len(both)}, "
            f"over naive in {sum(cells['robust'][0] > cells['naive'][0] for cells in both)}",
            "follows from its table; on [18 tables of ours](new-domain/README.md) it does not lower the Brier score",
            "A Brier score is not accuracy, and those are not networks on images.",
        ],
        [
            "figure 4",
            "lower ECE in the domains seen goes with more OOD accuracy on Camelyon17",
            f"{NOT_RUN}; [generated miniature](wilds/README.md): Pearson {_figure_4():+.2f}; real pictures "
            f"([PACS](pacs/README.md)): {_pictures_figure_4():+.2f}",
            "open; not so on PACS",
            "The miniature's shift was planted by us so that nearly all models fail; PACS' share their features.",
        ],
        [
            "tables 2 and 3, on other real data",
            "in unseen domains robust is more accurate than the original, CLOvE more than both",
            "[PACS](pacs/README.md), change of accuracy over seven objectives: "
            + _changes(_pictures())
            + "; [Amazon-25](amazon25/README.md), 20 of 25 product lines known: "
            + _changes(_reviews()),
            "not shown there; what CLOvE's head loses it loses without its penalty too",
            "Heads on frozen features, and some 1,500 rows to fit columns on: not the paper's networks, nor its rows.",
        ],
        [
            "table 3, PovertyMap",
            "ERM r .832 → naive .827, robust .834",
            f"real outputs of ResNet-18, not the paper's: naive {change['naive']:+.3f}, robust "
            f"{change['robust risk']:+.3f}",
            "naive's loss is there, robust's gain is not",
            "Other networks, already calibrated over all countries, on another deal of them.",
        ],
        [
            "“robust calibration improves performance across all experiments”, “0.08%”",
            "PovertyMap",
            f"from its table 3: in {poverty_gains} of 3; the .08 are of r, not percent",
            "follows from its table",
            "ERM's .002 is a fifth of its standard deviation.",
        ],
        [
            "table 3, CivilComments",
            "average group: ERM 63.65 → 76.98, 78.99, CLOvE 80.39",
            NOT_RUN,
            "open",
            "What a group is the paper does not say.",
        ],
        [
            "“an average improvement of 21.5%” in worst-case performance",
            "CivilComments",
            f"from its table 3, of the average group: naive {means['naive'] - means['original']:+.1f}, robust "
            f"{means['robust'] - means['original']:+.1f}, CLOvE {means['clove-paper'] - means['original']:+.1f} points "
            "on average; "
            f"(naive − original)/naive is {of_new:.1%} on average",
            "not found in the table but as that ratio",
            "It may be of worst-case numbers that the paper does not print.",
        ],
        [
            "“CLOvE outperforms naive and robust on average”",
            "CivilComments",
            f"from its table 3: {means['clove-paper']:.1f}, {means['naive']:.1f}, {means['robust']:.1f}",
            "follows from its table",
            "After IRM it is the lowest of the three.",
        ],
        [
            "“calibration leads to more stable results”",
            "PovertyMap, CivilComments",
            "from its table 3: a lower standard deviation than the original in "
            + " and ".join(f"{count} of {of}" for count, of in steadier.values()),
            "mostly",
            "Four runs each.",
        ],
    ]


def _appendix_b() -> list[list[str]]:
    return [
        [
            "appendix B, splits",
            "rows of each split",
            "`clovecal data check wilds` compares a folder with the published counts; the paper rounds PovertyMap's "
            "(9,797 + 3,909 + 3,963 + 2 × 1,000)",
            "as said",
            "No folder was there to count.",
        ],
        [
            "appendix B, the head",
            "three hidden layers, Adam, batches of 64, γ = 2.5",
            "`clovecal reproduce wilds`, column *CLOvE (paper)*",
            "built; not run",
            "Width, rate, steps and λ are ours: the paper does not state them.",
        ],
        [
            "appendix B, BERT cased and large",
            "CLOvE ahead of robust by 1.4, of naive by 3.1",
            "`clovecal reproduce wilds --architectures`",
            "built; not run",
            "",
        ],
        ["appendix B, DenseNet-169, -201", "no significant differences", "the same", "built; not run", ""],
        [
            "appendix B, ResNet-34, -50",
            "ResNet-18 ahead of ResNet-34 by .01; robust always best",
            "the same",
            "built; not run",
            "",
        ],
        [
            "section 6.2, “additional results on Amazon Reviews”",
            "announced, and not in the appendix",
            "Amazon is read and has its own table; not run",
            "nothing to compare with",
            "",
        ],
        [
            "section 6.2, four seeds, means and standard deviations",
            "each algorithm × calibration",
            "`--seeds 4` is the default",
            "as said",
            "",
        ],
    ]


def _figure_4() -> float:
    """Return the correlation of ECE in the domains seen and accuracy elsewhere, over all of the miniature's points."""
    points = [
        (one["id"]["mean_ece"], one["ood"]["accuracy"])
        for one in records.read(FOLDER / "wilds" / "results.jsonl")
        if one["config"]["model"]["dataset"] == "camelyon17"
    ]
    return float(np.corrcoef(np.transpose(points))[0, 1])


def _pictures() -> list[tuple[str, Mapping[str, Any]]]:
    """Return the kind of picture left out and its scores, for every record."""
    return [
        (one["config"]["left_out"], {name: of["new"] for name, of in one["scores"].items()})
        for one in records.read(FOLDER / "pacs" / "results.jsonl")
    ]


def _reviews() -> list[tuple[str, Mapping[str, Any]]]:
    """Return each line left out and its scores, of the draws with 3,000 rows of 20 known lines."""
    return [
        (line, scores)
        for one in records.read(FOLDER / "amazon25" / "results.jsonl")
        if (one["config"]["known"], one["config"]["rows"]) == (20, "same")
        for line, scores in one["scores"].items()
    ]


def _changes(judged: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Return what columns change in accuracy, mean over domains."""
    said = []
    for title, column in (
        ("robust", "robust"),
        ("CLOvE", "CLOvE (paper's)"),
        ("its head without the penalty", "its head, λ = 0"),
    ):
        by_domain: dict[str, list[float]] = {}
        for domain, scores in judged:
            by_domain.setdefault(domain, []).append(scores[column]["accuracy"] - scores["original"]["accuracy"])
        said.append(f"{title} {100 * np.mean([np.mean(values) for values in by_domain.values()]):+.1f} points")
    return ", ".join(said)


def _pictures_figure_4() -> float:
    """Return the correlation over the models of a kind and a seed, the mean of all of these."""
    points: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for one in records.read(FOLDER / "pacs" / "results.jsonl"):
        points.setdefault((one["config"]["left_out"], one["config"]["seed"]), []).extend(
            (of["known"]["mean_ece"], of["new"]["accuracy"])
            for name, of in one["scores"].items()
            if "labels" not in name
        )
    return float(np.mean([np.corrcoef(np.transpose(some))[0, 1] for some in points.values()]))


def _of(dataset: str) -> list[Mapping[str, Any]]:
    """Return the paper's rows of a data set: mean and standard deviation by column."""
    return [cells for (name, _), cells in CELLS.items() if name == dataset]


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.1f}"


if __name__ == "__main__":
    main()
