"""Generated folders: the same from the same seed, with a signal that holds everywhere and one that does not."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import clovecal as cc
from clovecal.datasets import wilds
from clovecal.datasets.wilds import miniatures
from clovecal.datasets.wilds.miniatures._images import TINT_BY_HOSPITAL, TINT_BY_REGION  # private: what was planted

ROWS = {"poverty": 700}


@pytest.fixture(scope="module")
def large_root(tmp_path_factory):
    """Miniatures with enough rows to measure frequencies."""
    root = tmp_path_factory.mktemp("large")
    for name in wilds.NAMES:
        miniatures.write(name, root, rows=ROWS.get(name, 2000), size=8, seed=2)
    return root


@pytest.fixture(scope="module")
def signals(large_root, planted):
    """Return a function that returns a data set, and its two planted signals as labels of its own coding."""

    def of(name):
        data = wilds.load(name, large_root)
        invariant, spurious = planted(large_root, name, data.metadata["row"])
        if name == "fmow":  # planted as 0 to 3
            used = np.unique(data.y)
            return data, used[invariant.astype(int)], used[spurious.astype(int)]
        return data, invariant, spurious

    return of


def contents(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".npz"  # a zip holds the time it was made
    }


def assert_close(frequency, expected, rows):
    """A frequency within four standard errors of what was planted."""
    assert abs(frequency - expected) < 4 * np.sqrt(expected * (1 - expected) / rows)


@pytest.mark.parametrize("name", ["camelyon17", "civilcomments", "fmow", "amazon"])
def test_the_invariant_signal_agrees_with_the_label_equally_often_in_every_split(name, signals):
    data, invariant, _ = signals(name)
    for split, count in data.split_counts.items():
        rows = data.split == split
        assert_close(np.mean(invariant[rows] == data.y[rows]), miniatures.INVARIANT, count)


def test_camelyon17s_tint_agrees_as_planted_in_each_hospital(signals):
    data, _, tint = signals("camelyon17")
    for hospital, expected in enumerate(TINT_BY_HOSPITAL):
        rows = data.metadata["hospital"] == hospital
        assert_close(np.mean(tint[rows] == data.y[rows]), expected, rows.sum())


def test_fmows_tint_agrees_as_planted_in_each_region_and_period(signals):
    data, _, tint = signals("fmow")
    for region, strengths in TINT_BY_REGION.items():
        for period, expected in zip(("before 2013", "2013 to 2015", "from 2016"), strengths, strict=True):
            rows = data.domains == f"{region}, {period}"
            assert_close(np.mean(tint[rows] == data.y[rows]), expected, rows.sum())


def test_povertys_lights_rise_with_wealth_where_it_trains_and_fall_where_it_is_tested(signals):
    data, daylight, lights = signals("poverty")
    for split, sign in (("train", 1), ("val", 1), ("test", -1)):
        rows = data.split == split
        assert np.sign(np.corrcoef(lights[rows], data.y[rows])[0, 1]) == sign
        assert np.corrcoef(daylight[rows], data.y[rows])[0, 1] == pytest.approx(0.77, abs=0.06)


def test_the_pixels_of_camelyon17_show_both_signals(tmp_path, planted):
    miniatures.write("camelyon17", tmp_path, rows=100, size=24)
    data = wilds.load("camelyon17", tmp_path)
    disc, tint = planted(tmp_path, "camelyon17", data.metadata["row"])
    images = np.stack(list(data.inputs)).astype(float)
    centre = images[:, 11:13, 11:13].mean(axis=(1, 2, 3))
    rim = images[:, :4].mean(axis=(1, 2, 3))
    assert ((rim - centre > 35) == disc).all()
    redness = images[:, :4, :, 0].mean(axis=(1, 2)) - images[:, :4, :, 2].mean(axis=(1, 2))
    for hospital in range(5):  # each has a stain of its own besides
        rows = data.metadata["hospital"] == hospital
        assert redness[rows & (tint == 1)].max() < redness[rows & (tint == 0)].min()


def test_the_pixels_of_fmow_show_both_signals(tmp_path, planted):
    miniatures.write("fmow", tmp_path, rows=150, size=32)
    data = wilds.load("fmow", tmp_path)
    pattern, tint = planted(tmp_path, "fmow", data.metadata["row"])
    images = np.stack(list(data.inputs)).astype(float)
    colour = images.mean(axis=(1, 2)) - images.mean(axis=(1, 2, 3))[:, None]
    means = np.stack([colour[tint == one].mean(axis=0) for one in range(4)])
    nearest = np.linalg.norm(colour[:, None] - means, axis=2).argmin(axis=1)
    assert (nearest == tint).all()
    # stripes vary along one axis alone, the checkerboard along none on average
    across, down = images.mean(axis=(2, 3)).std(axis=1), images.mean(axis=(1, 3)).std(axis=1)
    assert (across > 3 * down)[pattern == 0].all()
    assert (down > 3 * across)[pattern == 1].all()
    assert (np.maximum(across, down)[pattern == 2] < np.minimum(across, down)[pattern == 3].min()).all()


def test_the_bands_of_poverty_show_both_signals(small_root, planted):
    data = wilds.load("poverty", small_root)
    daylight, lights = planted(small_root, "poverty", data.metadata["row"])
    images = np.stack(list(data.inputs))
    assert images[:, :7].mean(axis=(1, 2, 3)) == pytest.approx(daylight, abs=0.1)
    assert images[:, 7].mean(axis=(1, 2)) == pytest.approx(lights, abs=0.2)


def test_comments_in_no_domain_are_most_and_some_are_in_several(large_root):
    data = wilds.load("civilcomments", large_root)
    mentioned = data.domains.sum(axis=1)
    assert np.mean(mentioned == 0) > 0.5
    assert (mentioned > 1).any()


@pytest.mark.parametrize("name", ["camelyon17", "fmow", "amazon"])
def test_who_trusts_the_spurious_signal_fails_where_it_is_tested_and_robust_calibration_recovers_a_part(name, signals):
    data, invariant, spurious = signals(name)
    classes = np.unique(data.y)
    features = np.column_stack([invariant[:, None] == classes, spurious[:, None] == classes]).astype(float)
    train, val, test = (data.split == split for split in ("train", "val", "test"))
    erm = LogisticRegression(max_iter=500).fit(features[train], data.y[train])
    score = erm.predict_proba(features)[:, 1] if len(classes) == 2 else erm.predict_proba(features)
    y = np.searchsorted(classes, data.y)
    robust = cc.RobustIsotonic().fit(score[val], y[val], domains=data.domains[val]).predict(score[test])
    seen, unseen = cc.accuracy(y[train], score[train]), cc.accuracy(y[test], score[test])
    assert seen > 0.75
    assert unseen < 0.3
    assert np.mean(invariant[test] == data.y[test]) > 0.65
    assert cc.accuracy(y[test], robust) > unseen + 0.1
    assert cc.brier(y[test], robust) < cc.brier(y[test], score[test]) - 0.05


# ----------------------------------------------------------------------------------------------------------- the files


@pytest.mark.parametrize("name", wilds.NAMES)
def test_the_same_seed_writes_the_same_files_and_another_seed_others(name, tmp_path):
    one, same, other = (
        miniatures.write(name, tmp_path / str(place), rows=100, size=8, seed=seed)
        for place, seed in enumerate((5, 5, 6))
    )
    assert contents(one) == contents(same)
    assert contents(one) != contents(other)
    if name == "poverty":
        first, second = (wilds.load(name, folder.parent).inputs[9] for folder in (one, same))
        assert np.array_equal(first, second)


def test_a_finished_miniature_is_kept(tmp_path):
    folder = miniatures.write("camelyon17", tmp_path, rows=60, size=8)
    (folder / "note").write_text("mine")
    assert miniatures.write("camelyon17", tmp_path, rows=60, size=8) == folder
    assert (folder / "note").exists()


def test_nothing_else_is_ever_replaced(tmp_path, refusal):
    folder = miniatures.write("amazon", tmp_path, rows=100)
    before = contents(folder)
    assert "holds something else" in refusal(miniatures.write, "amazon", tmp_path, rows=101)
    assert contents(folder) == before
    (tmp_path / "fmow_v1.1").mkdir()  # a download that has just begun
    assert "holds something else" in refusal(miniatures.write, "fmow", tmp_path)


def test_an_interrupted_miniature_leaves_nothing(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", stop)
    with pytest.raises(KeyboardInterrupt):
        miniatures.write("poverty", tmp_path, rows=60, size=8)
    assert list(tmp_path.iterdir()) == []


def test_wrong_options(tmp_path, refusal):
    assert "name is 'celebA'" in refusal(miniatures.write, "celebA", tmp_path)
    assert refusal(miniatures.write, "fmow", tmp_path, rows=10).startswith("rows is 10")
    assert refusal(miniatures.write, "fmow", tmp_path, size=2).startswith("size is 2")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", wilds.NAMES)
def test_the_smallest_miniature_still_fills_every_split(name, seed, tmp_path):
    fewest = miniatures._WRITERS[name][2]
    miniatures.write(name, tmp_path, rows=fewest, size=8, seed=seed)
    assert set(wilds.load(name, tmp_path, splits="wilds").split_counts) == set(wilds.published(name).counts)
