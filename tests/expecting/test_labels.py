"""What labels of a new domain are worth: by another road, in its laws, and in words."""

from __future__ import annotations

import numpy as np
import pytest

import clovecal as cc
from clovecal import HierarchicalCalibrator, InputError
from clovecal.expecting import AfterLabels, LabelsNeeded, MeanChange, labels_needed
from clovecal.progress import calling


def draw_table(sizes, *, spread=1.0, seed=0):
    """Labels whose log-odds are shifted in each domain."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(len(sizes)), sizes)
    logit = rng.normal(size=len(code))
    shift = rng.normal(0, spread, len(sizes))[code]
    y = (rng.uniform(size=len(code)) < 1 / (1 + np.exp(-logit - shift))).astype(int)
    return {"y": y, "p": 1 / (1 + np.exp(-logit)), "domains": np.array([f"hospital {number}" for number in code])}


def needed(change, *, labels=20, last=None):
    """A result whose only steps are at these changes."""
    steps = [
        AfterLabels(
            labels=count,
            loss=MeanChange(0.2, None, None),
            error=MeanChange(0.02, None, None),
            change=value,
            gain=None,
            rate_width=0.1,
        )
        for count, value in [(labels, change), *([] if last is None else [(500, last)])]
    ]
    return LabelsNeeded(
        task="binary",
        how="left out",
        domains=("Oslo",),
        as_it_is=MeanChange(0.21, None, None),
        error_as_it_is=MeanChange(0.05, None, None),
        steps=tuple(steps),
        ci=0.95,
        notes=(),
    )


# By another road -----------------------------------------------------------------------------------------------------


def test_each_domain_gives_its_first_labels_and_is_judged_on_the_rest():
    # The same by a loop over domains with public functions alone: labels are the first rows in time.
    table = draw_table([160, 150, 170, 155, 165])
    time = np.random.default_rng(1).permutation(len(table["y"]))
    found = labels_needed(**table, labels=(0, 30), order=time)
    changes, errors = [], []
    for name in np.unique(table["domains"]):
        own = np.flatnonzero(table["domains"] == name)
        own = own[np.argsort(time[own])]
        others = table["domains"] != name
        fitted = HierarchicalCalibrator().fit(table["p"][others], table["y"][others], domains=table["domains"][others])
        adapted = fitted.adapt(table["p"][own[:30]], table["y"][own[:30]])
        test = own[30:]
        after = adapted.predict(table["p"][test])
        changes.append(cc.brier(table["y"][test], after) - cc.brier(table["y"][test], table["p"][test]))
        errors.append(cc.ece(table["y"][test], after, debias=True))
    step = found.steps[1]
    assert step.labels == 30
    assert step.change.value == pytest.approx(np.mean(changes))
    assert step.error.value == pytest.approx(np.mean(errors))
    # Student's t is 2.776 with 4 degrees of freedom; fits share domains: (1/5 + 1/4) of the variance, not 1/5.
    reach = 2.7764 * np.std(changes, ddof=1) * (1 / 5 + 1 / 4) ** 0.5
    assert step.change.high - step.change.value == pytest.approx(reach, rel=1e-4)


def test_labels_lower_the_loss_where_domains_differ_and_the_interval_narrows():
    found = labels_needed(**draw_table([700] * 10), draws=2)
    assert (found.how, len(found.domains)) == ("left out", 10)
    assert [step.labels for step in found.steps] == [0, 20, 50, 100, 200, 500]
    assert found.steps[-1].gain.high < 0
    assert found.steps[0].gain is None
    widths = [step.rate_width for step in found.steps]
    assert widths == sorted(widths, reverse=True)


def test_new_domains_are_drawn_where_the_known_ones_are_too_few_or_small():
    found = labels_needed(**draw_table([300, 80, 60], spread=2.0), labels=(0, 50))
    assert (found.how, found.domains) == ("simulated", ())
    assert "Fewer than 5 domains" in found.notes[0]
    assert found.steps[1].gain.value < 0
    assert found.steps[1].rate_width < found.steps[0].rate_width


# Laws ----------------------------------------------------------------------------------------------------------------


def test_every_number_of_labels_is_judged_on_the_same_domains():
    # 700 rows are enough for 500 labels, 150 for 20 and 50: three large domains are too few to try 500.
    found = labels_needed(**draw_table([700] * 3 + [150] * 4), draws=1)
    assert [step.labels for step in found.steps] == [0, 20, 50]
    assert len(found.domains) == 7
    assert any("100, 200, 500 labels" in note for note in found.notes)


def test_small_domains_are_named_as_such():
    found = labels_needed(**draw_table([200] * 5 + [40] * 2), labels=(0, 20), draws=1)
    assert len(found.domains) == 5
    assert found.notes[0].startswith("5 of 7 domains have the 120 rows")


def test_the_same_seed_gives_the_same_figures_and_another_does_not():
    table = draw_table([150] * 5)
    first, second, other = (labels_needed(**table, labels=(0, 20), draws=1, rng=seed) for seed in (0, 0, 1))
    assert first.steps == second.steps
    assert first.steps != other.steps


def test_a_row_of_weight_zero_is_as_if_it_were_not_there():
    table = draw_table([150] * 5)
    more = {name: np.concatenate([column, column[:40]]) for name, column in table.items()}
    weight = np.repeat([1.0, 0.0], [750, 40])
    order = np.arange(790)
    alone = labels_needed(**table, labels=(0, 20), order=order[:750])
    assert labels_needed(**more, sample_weight=weight, labels=(0, 20), order=order).steps[1].change.value == (
        pytest.approx(alone.steps[1].change.value, abs=1e-9)
    )


def test_progress_counts_domains():
    seen = []
    labels_needed(**draw_table([150] * 5), labels=(0, 20), draws=1, progress=calling(lambda *state: seen.append(state)))
    assert seen[-1] == (5, 5)


# Words and edges -----------------------------------------------------------------------------------------------------


def test_what_is_shown_is_said_and_nothing_else():
    helps = needed(MeanChange(-0.01, -0.015, -0.005), last=MeanChange(-0.02, -0.03, -0.01))
    assert helps.enough == 20
    assert helps.in_words == (
        "With 20 labels of a new domain its Brier score changes by −.0100 [−.0150, −.0050] against the model as it is, "
        "with 500 by −.0200 [−.0300, −.0100]."
    )
    unclear = needed(MeanChange(-0.01, -0.03, 0.01))
    assert unclear.enough is None
    assert unclear.in_words.startswith("No number of labels up to 20 is shown to lower")
    assert needed(MeanChange(-0.01, -0.02, -0.001), labels=0).in_words.startswith("Without a label of a new domain")


def test_names_become_text():
    assert needed(MeanChange(0.0, None, None)).with_names(str.upper).domains == ("OSLO",)


def test_one_domain_says_nothing_of_another():
    assert labels_needed([0, 1, 1], [0.2, 0.6, 0.7], domains=["A"] * 3) is None


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"labels": (50, 20)}, "labels"),
        ({"labels": ()}, "labels"),
        ({"labels": (0, -1)}, "labels"),
        ({"draws": 0}, "draws"),
        ({"order": [1, 2]}, "order"),
        ({"ci": 1.0}, "ci"),
    ],
)
def test_wrong_arguments_are_named(options, argument):
    with pytest.raises(InputError) as caught:
        labels_needed(**draw_table([30] * 3), **options)
    assert caught.value.argument == argument


# In an audit ---------------------------------------------------------------------------------------------------------


def test_an_audit_shows_it_where_that_is_asked():
    table = draw_table([130] * 5)
    asked = cc.audit(**table, labels_needed=True, resamples=20)
    assert asked.labels_needed == labels_needed(**table)
    assert "What labelled rows of a new domain would be worth, by adapting to each known one" in str(asked)
    content = asked.to_dict(repairs=False)["labels_needed"]
    assert content["sentence"] == asked.labels_needed.in_words
    assert [step["labels"] for step in content["steps"]] == [0, 20]
    not_asked = cc.audit(**table, resamples=20)
    assert "What labelled rows" not in str(not_asked)
    assert not_asked.to_dict(repairs=False)["labels_needed"] is None


def test_the_command_shows_it_where_that_is_asked(run, tmp_path):
    lines = [f"{y},{p},{name}" for y, p, name in zip(*draw_table([130] * 5).values(), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["y,p,hospital", *lines]))
    code, out, err = run("audit", tmp_path / "table.csv", "--labels-needed")
    assert code == 0, err
    assert "  labels  Brier score" in out
