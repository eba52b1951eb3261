"""The Two-Bit records in tables and in words (paper: sections 2.2 and 6.1, appendix C); nothing is computed here."""

from __future__ import annotations

from collections.abc import Sequence

from clovecal.reproduce.study import Record
from clovecal.text import markdown


def tables(found: Sequence[Record]) -> str:
    """Return the records as markdown: the optima of each case, their losses, section 2.2's statements in numbers."""
    where, losses = [], []
    for record in _of_kind(found, "case"):
        config, optima = record["config"], record["optima"]
        who = [optima[name] for name in ("ERM", "IRMv1", "CLOvE")]
        best = optima["IRMv1 of all"]
        where.append(
            [
                f"{config['setting']}: {_pairs(config['train'])}",
                config["loss"],
                _vector(optima["IRMv1"]["score"][:2]),
                "no" if optima["IRMv1"]["invariant"] else "**yes**",
                _vector(optima["CLOvE"]["score"][:2]),
                _classifiers_in_words(record["calibrated"]["common"]),
                "yes"
                if best["odd"]
                else f"no: {_vector(best['score'])}, Σ train loss {sum(best['risk']['train']):.4f}, "
                f"test loss {best['risk']['test']:.4f}",
            ]
        )
        losses.append(
            [
                f"{config['setting']} → {_pair(config['test'])}",
                config["loss"],
                " / ".join(f"{sum(one['risk']['train']):.4f}" for one in who),
                " / ".join(f"{one['risk']['test']:.4f}" for one in who),
                " / ".join(f"{one['accuracy']['test']:.2f}" for one in who),
                " / ".join(f"{max(one['calibration_error']['train']):.3f}" for one in who),
            ]
        )
    order = "ERM / IRMv1 / CLOvE"
    heads = (
        [
            "setting: training domains",
            "loss",
            "OPT_IRMv1, odd: (f(1,1), f(1,−1))",
            "spurious",
            "OPT_CLOvE",
            "calibrated on both",
            "IRMv1's best is odd",
        ],
        [
            "setting → test domain",
            "loss",
            f"Σ training loss, {order}",
            "test loss",
            "test accuracy",
            "calibration error, worse training domain",
        ],
    )
    (statements,) = _of_kind(found, "statements")
    ends = ", ".join(f"{one['end']:.4f} ({one['config']['loss']})" for one in _of_kind(found, "boundary"))
    return "\n\n".join(
        (
            *(markdown(head, rows, text=range(len(head))) for head, rows in zip(heads, (where, losses), strict=True)),
            f"Noise of the invariant bit from which on IRMv1 has no spurious odd zero: {ends}.",
            markdown(["statement", "example", "numbers"], _statement_rows(statements), text=range(3)),
        )
    )


def summary(found: Sequence[Record]) -> str:
    """Say in words what the records show."""
    cases = _of_kind(found, "case")
    spurious = [one for one in cases if not one["optima"]["IRMv1"]["invariant"]]
    lines = [line for one in spurious for line in _case_in_words(one)]
    invariant = [_name(one) for one in cases if one not in spurious]
    lines.append(f"IRMv1's best odd classifier is the invariant one in: {'; '.join(invariant) or 'no case'}.")
    not_odd = [_name(one) for one in cases if not one["optima"]["IRMv1 of all"]["odd"]]
    lines.append(f"A spurious classifier that is not odd is better for IRMv1 in: {'; '.join(not_odd) or 'no case'}.")
    (statements,) = _of_kind(found, "statements")
    example = statements["confidence"]
    lines.append(
        f"Corollary 1 needs the positive class: stated {_vector(example['stated'], 1)}, true "
        f"{_vector(example['true'], 1)} has an MMCE of {example['mmce_confidence']:.4f} for the confidence and of "
        f"{example['mmce_positive']:.4f} for the positive class."
    )
    return "\n".join(lines)


def _case_in_words(record: Record) -> list[str]:
    config, optima = record["config"], record["optima"]
    erm, irm, clove = (optima[name] for name in ("ERM", "IRMv1", "CLOvE"))
    kind = {True: "the invariant classifier", False: "spurious"}
    return [
        f"{config['setting']}, {config['loss']} loss: train on {_pairs(config['train'])}, "
        f"test on {_pair(config['test'])}",
        *(
            f"  {name}'s optimum {_vector(one['score'][:2])} is {kind[one['invariant']]}: summed training loss "
            f"{sum(one['risk']['train']):.4f}, test loss {one['risk']['test']:.4f} (ERM {erm['risk']['test']:.4f})."
            for name, one in (("IRMv1", irm), ("CLOvE", clove))
        ),
        f"  Calibrated on both training domains: {_classifiers_in_words(record['calibrated']['common'])}.",
        f"  On the test domain the loss differs ({irm['risk']['test']:.4f} against {clove['risk']['test']:.4f}), the "
        f"accuracy {'does not' if irm['accuracy']['test'] == clove['accuracy']['test'] else 'does too'} "
        f"({irm['accuracy']['test']:.2f} against {clove['accuracy']['test']:.2f}).",
        "",
    ]


def _statement_rows(record: Record) -> list[list[str]]:
    confidence, lemma, mixture = record["confidence"], record["lemma_1"], record["mixture"]
    (before, after), (error, repaired) = lemma["brier"], lemma["calibration_error"]
    return [
        [
            "MMCE of the confidence is zero, of the positive class it is not",
            f"stated {_vector(confidence['stated'])}, true {_vector(confidence['true'])}",
            f"{confidence['mmce_confidence']:.4f} and {confidence['mmce_positive']:.4f}; calibration error "
            f"{confidence['calibration_error']:.2f}",
        ],
        [
            "classifiers with a zero in one domain, by form of MMCE",
            f"{_pair(record['config']['train'][0])}, all; odd ones",
            f"confidence {confidence['classifiers']['confidence']}, positive {confidence['classifiers']['positive']}; "
            f"odd: {confidence['odd_classifiers']['confidence']} and {confidence['odd_classifiers']['positive']}",
        ],
        [
            "lemma 1: an invariant classifier's g∘f is calibrated, its squared error not higher",
            f"{_vector(lemma['stated'])} → {_vector(lemma['repaired'])}",
            f"Brier {_vector(before, 4)} → {_vector(after, 4)}; calibration error {_vector(error, 2)} → "
            f"{_vector(repaired, 2)}",
        ],
        [
            "calibrated on both domains, then on their mixture",
            "X₁ alone, half of each",
            f"calibration error {mixture['common_on_mixture']:.4f}",
        ],
        [
            "calibrated on the mixture, but not on its domains",
            "pooled posterior",
            f"calibration error {mixture['posterior_on_mixture']:.4f}; {_vector(mixture['posterior_on_domains'], 4)}",
        ],
        [
            "the test domain is a linear combination of the training domains",
            f"weights {_vector(mixture['test_weights'], 0)}",
            f"{'exactly' if mixture['test_is_combination'] else 'no'}; calibration error of X₁ there "
            f"{mixture['common_on_test']:.4f}",
        ],
    ]


def _of_kind(found: Sequence[Record], kind: str) -> list[Record]:
    return [one for one in found if one["kind"] == kind]


def _name(record: Record) -> str:
    return f"{record['config']['setting']} ({record['config']['loss']} loss)"


def _classifiers_in_words(classifiers: Sequence[Sequence[str]]) -> str:
    constant = [p for p in classifiers if len(set(p)) == 1]
    rest = [p for p in classifiers if len(set(p)) > 1]
    return " and ".join([f"the constant {p[0]}" for p in constant] + [f"P(Y = 1) = ({', '.join(p)})" for p in rest])


def _pair(pair: Sequence[float]) -> str:
    return f"({pair[0]:g}, {pair[1]:g})"


def _pairs(pairs: Sequence[Sequence[float]]) -> str:
    return ", ".join(map(_pair, pairs))


def _vector(values: Sequence[float], digits: int = 3) -> str:
    return "(" + ", ".join(f"{value:.{digits}f}".replace("-", "−") for value in values) + ")"
