"""clovecal's scores are those of the package wilds 2.0.0, whose own ``eval`` runs here."""

from __future__ import annotations

import numpy as np
import pytest

from clovecal.datasets import wilds

pytest.importorskip("wilds", reason="run with: make test-wilds")
pytestmark = pytest.mark.filterwarnings("ignore")

OURS_AND_THEIRS = {
    "camelyon17": {"accuracy": "acc_avg", "worst_slide_accuracy": "acc_wg"},
    "civilcomments": {"accuracy": "acc_avg", "worst_group_accuracy": "acc_wg"},
    "fmow": {
        "accuracy": "acc_avg",
        "worst_region_accuracy": "acc_worst_region",
        "worst_year_accuracy": "acc_worst_year",
    },
    "poverty": {
        "pearson": "r_all",
        "worst_area_pearson": "r_wg",
        "urban_pearson": "r_urban:1",
        "rural_pearson": "r_urban:0",
        "mean_squared_error": "mse_avg",
    },
    "amazon": {
        "accuracy": "acc_avg",
        "tenth_percentile_accuracy": "10th_percentile_acc",
        "worst_reviewer_accuracy": "acc_wg",
    },
}


@pytest.mark.parametrize("split", ["val", "test"])
@pytest.mark.parametrize("name", wilds.NAMES)
def test_scores_of_noisy_predictions_agree(name, split, root, theirs):
    import torch

    data = wilds.load(name, root, splits="wilds", **({"in_domain": 2000} if name == "poverty" else {})).part(split)
    subset = theirs(name).get_subset(split)
    rng = np.random.default_rng(5)
    if name == "poverty":
        predicted = data.y + rng.normal(size=len(data))
        tensor = torch.tensor(predicted[:, None])
    else:
        wrong = rng.uniform(size=len(data)) < 0.4
        predicted = np.where(wrong, (data.y + 1) % len(data.classes), data.y)
        tensor = torch.tensor(predicted)
    expected, _ = subset.eval(tensor, subset.y_array, subset.metadata_array)
    ours = wilds.evaluate(data, predicted)
    for our_name, their_name in OURS_AND_THEIRS[name].items():
        assert ours[our_name] == pytest.approx(float(expected[their_name]), abs=1e-6), our_name


def test_the_average_over_civilcomments_groups_is_the_mean_of_their_sixteen(root, theirs):
    import torch

    data = wilds.load("civilcomments", root, splits="wilds").part("test")
    subset = theirs("civilcomments").get_subset("test")
    predicted = np.where(np.arange(len(data)) % 3 == 0, 1 - data.y, data.y)
    results, _ = subset.eval(torch.tensor(predicted), subset.y_array, subset.metadata_array)
    groups = [value for key, value in results.items() if key.startswith("acc_y:") or (",y:" in key and "acc_" in key)]
    assert len(groups) == 16
    assert wilds.evaluate(data, predicted)["average_group_accuracy"] == pytest.approx(np.mean(groups), abs=1e-6)
