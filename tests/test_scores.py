"""What a calibrator remembers of its scores, and what it makes of others."""

from __future__ import annotations

import hashlib
import json
import warnings

import numpy as np
import polars as pl
import pytest

import clovecal as cc
from clovecal.scores import LEVELS, AdaptedOn, FittedOn, ScoreRangeWarning, SeenScores
from clovecal.tables import read_predictions

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=2000)
P = 1 / (1 + np.exp(-LOGITS))
Y = (RNG.uniform(size=2000) < P).astype(float)
SITE = np.array(["A", "B", "C", "D"])[np.arange(2000) % 4]


def fitted_on(scores, y=Y, **options):
    return cc.NaiveIsotonic().fit(scores, y, **options).fitted_on_


def column(values):
    return np.asarray(values, dtype=float)[:, None]


# -------------------------------------------------------------------------------------------------- computed by hand


def test_the_memory_of_five_scores():
    # Sorted 1 2 3 4 5; the share of scores up to each is .2 .4 .6 .8 1, and a quantile is the first that reaches it.
    found = fitted_on([3, 1, 5, 2, 4], [0, 0, 1, 0, 1], domains=list("aabbb"))
    assert found.quantiles == ((1, 1, 2, 3, 4, 5, 5),)
    assert (found.scores, found.task, found.rows, found.domains) == ("score", "binary", 5, 2)
    assert (found.columns, found.label, found.fingerprint) == (None, None, None)  # five rows could be tried out


def test_kinds_of_scores():
    classes = RNG.dirichlet([1, 1, 1], 60)
    labels = np.arange(60) % 3
    assert fitted_on(P).scores == "probability"
    assert fitted_on(LOGITS).scores == "score"
    assert fitted_on(100 * P).scores == "score"
    assert fitted_on(classes, labels).scores == "class probabilities"
    assert fitted_on(np.log(classes), labels).scores == "class scores"
    assert fitted_on(classes / 2, labels).scores == "class scores"  # in [0, 1], but no row sums to 1
    assert fitted_on(LOGITS, LOGITS + 0.5).scores == "predicted mean"


def test_quantiles_are_those_of_the_rows_repeated_by_their_weights():
    weight = RNG.integers(0, 4, 2000)
    repeated = np.repeat(LOGITS, weight)
    found = fitted_on(LOGITS, sample_weight=weight)
    np.testing.assert_array_equal(found.quantiles[0], np.quantile(repeated, LEVELS, method="inverted_cdf"))
    assert found.rows == (weight > 0).sum()


def splitmix(x):
    """SplitMix64's step as Steele, Lea and Flood print it, on Python's whole numbers."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def test_the_fingerprint_is_a_hash_of_sums_over_rows():
    def bits(value):
        return splitmix(int(np.float64(value).view(np.uint64)))

    first = [splitmix(bits(y) ^ bits(score)) for score, y in zip(LOGITS[:100], Y[:100], strict=True)]
    second = [splitmix((one + 0x9E3779B97F4A7C15) % 2**64) for one in first]
    sums = b"".join((sum(one) % 2**64).to_bytes(8, "little") for one in (first, second))
    assert splitmix(0) == 0xE220A8397B1DCDAF  # the generator's first output for seed 0, as published
    assert fitted_on(LOGITS[:100], Y[:100]).fingerprint == hashlib.sha256(sums).hexdigest()[:32]


# ------------------------------------------------------------------------------------------------- the rows of the fit


def same(known, scores, y, domains=SITE, weight=None):
    return known.same_rows(column(scores), y, weight=weight, domains=cc.Domains.of(domains, len(y)))


def test_the_rows_of_the_fit_are_known_in_any_order():
    known = fitted_on(LOGITS, domains=SITE)
    order = RNG.permutation(2000)
    assert same(known, LOGITS[order], Y[order], SITE[order]) == (True, ("A", "B", "C", "D"))
    assert same(known, LOGITS, Y, np.full(2000, "all")) == (True, ())
    assert same(known, P, Y) == (False, ())
    assert same(known, LOGITS, 1 - Y) == (False, ())


def test_some_of_their_domains_are_known_among_others():
    known = fitted_on(LOGITS, domains=SITE)
    here = np.flatnonzero((SITE == "A") | (SITE == "C"))
    scores, y, site = LOGITS[here].copy(), Y[here], SITE[here]
    scores[site == "C"] += 0.001
    assert same(known, scores, y, site) == (False, ("A",))


def test_a_row_of_weight_two_is_two_rows():
    twice = np.repeat(np.arange(2000), 2)
    known = fitted_on(LOGITS, domains=SITE, sample_weight=np.full(2000, 2))
    assert same(known, LOGITS[twice], Y[twice], SITE[twice]) == (True, ("A", "B", "C", "D"))
    half = fitted_on(LOGITS, domains=SITE, sample_weight=np.full(2000, 0.5))
    assert same(half, LOGITS, Y, weight=np.full(2000, 0.5))[0] is True
    assert same(half, LOGITS, Y, weight=np.full(2000, 0.25))[0] is False


def test_too_few_different_rows_cannot_be_told():
    rounded = np.round(P)  # with the labels four different rows
    assert fitted_on(rounded, domains=SITE).fingerprint is None
    assert same(fitted_on(rounded, domains=SITE), rounded, Y) == (None, ())
    assert fitted_on(LOGITS[:19], Y[:19]).fingerprint is None


# ------------------------------------------------------------------------------------------ the rows of an adaptation


def adapted_on(chosen, weight=None):
    return AdaptedOn.of(column(LOGITS[chosen]), Y[chosen], weight)


def stands_in(known, scores, y, domains=None, weight=None):
    labels = np.full(len(y), "new") if domains is None else domains
    return known.stands_in(column(scores), y, weight=weight, domains=cc.Domains.of(labels, len(y)))


def test_labelled_rows_are_known_where_they_stand_together():
    known = adapted_on(slice(300, 350))
    assert known.rows == 50
    assert known.fingerprint == fitted_on(LOGITS[300:350], Y[300:350]).fingerprint  # which is computed by hand above
    for first, last in ((300, 350), (0, 2000), (300, 2000), (0, 350)):
        assert stands_in(known, LOGITS[first:last], Y[first:last])
    for first, last in ((301, 2000), (0, 349), (0, 300), (310, 340)):
        assert not stands_in(known, LOGITS[first:last], Y[first:last])
    assert not stands_in(known, LOGITS, 1 - Y)
    order = np.concatenate([np.arange(300), 300 + RNG.permutation(50), np.arange(350, 2000)])
    assert stands_in(known, LOGITS[order], Y[order])
    order = RNG.permutation(2000)
    assert not stands_in(known, LOGITS[order], Y[order])  # scattered rows are not, and the notes say so


def test_labelled_rows_are_known_where_they_stand_together_in_their_domain():
    known = adapted_on(np.flatnonzero(SITE == "C")[40:90])  # every fourth row of the table
    assert stands_in(known, LOGITS, Y, SITE)
    assert not stands_in(known, LOGITS, Y)


def test_labelled_rows_count_by_their_weight():
    weight = np.where(np.arange(2000) % 5 == 0, 0.0, 2.0)
    known = adapted_on(slice(0, 50), weight[:50])
    assert known.rows == 40
    assert stands_in(known, LOGITS, Y, weight=weight)
    assert not stands_in(known, LOGITS, Y)


def test_too_few_labelled_rows_leave_no_fingerprint():
    known = adapted_on(slice(0, 19))
    assert known == AdaptedOn(rows=19, fingerprint=None)
    assert not stands_in(known, LOGITS, Y)


def test_no_score_between_the_ends_and_no_label_stands_in_the_memory():
    content = json.dumps(cc.NaiveIsotonic().fit(LOGITS, Y, domains=SITE).state()["fitted_on"])
    known = {f"{value!r}" for value in np.quantile(LOGITS, LEVELS, method="inverted_cdf").tolist()}
    assert all(repr(value) not in content for value in LOGITS.tolist() if repr(value) not in known)
    assert "'A'" not in content


# ---------------------------------------------------------------------------------------------------------- predict


def warned(calibrator, scores):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        calibrator.predict(scores)
    assert all(one.category is ScoreRangeWarning for one in found)
    return [str(one.message) for one in found]


def test_predict_warns_of_another_scale():
    on_p, on_logits = cc.NaiveIsotonic().fit(P, Y), cc.NaiveIsotonic().fit(LOGITS, Y)
    low, high = LOGITS.min(), LOGITS.max()
    assert warned(on_p, LOGITS) == [
        f"The scores go from {low:.4g} to {high:.4g}; the calibrator was fitted on probabilities."
    ]
    assert warned(on_logits, P) == [
        f"All 2,000 scores lie between 0 and 1; the calibrator was fitted on scores from {low:.4g} to {high:.4g}. "
        "Are these probabilities, and those were not?"
    ]
    assert warned(on_logits, [0.2, 900.0]) == [
        f"The scores go from 0.2 to 900, far outside what the calibrator was fitted on (from {low:.4g} to "
        f"{high:.4g}); there its values rest on no data."
    ]


def test_predict_is_silent_where_scores_may_be_those_of_the_fit():
    on_p, on_logits = cc.NaiveIsotonic().fit(P, Y), cc.NaiveIsotonic().fit(LOGITS, Y)
    assert not warned(on_p, [0.0, 1.0])
    assert not warned(on_p, [-1e-9, 1 + 1e-9])  # rounding
    assert not warned(on_logits, [0.1, 0.5, 0.9])  # a third of the logits lie there, so three rows prove nothing
    assert not warned(on_logits, LOGITS * 2)
    older = cc.NaiveIsotonic.from_state({**on_p.state(), "fitted_on": None})
    assert older.fitted_on_ is None
    assert not warned(older, LOGITS)


def test_how_many_rows_between_0_and_1_are_too_many_by_hand():
    # Half the scores are −1, the others 0.5 but for the last, 2: at most .99 − .25 = .74 lie in [0, 1] by the levels
    # around them, so that 0.74^n is below 1e-6 from n = 46 on: 46·ln 0.74 = −13.85, and ln 1e-6 = −13.82.
    scores = np.array([-1.0] * 30 + [0.5] * 68 + [2.0, 2.0])
    calibrator = cc.NaiveIsotonic().fit(scores, np.arange(100) % 2)
    assert calibrator.fitted_on_.quantiles == ((-1, -1, -1, 0.5, 0.5, 2, 2),)
    assert not warned(calibrator, [0.5] * 45)
    assert warned(calibrator, [0.5] * 46)


def test_of_two_halves_of_one_sample_neither_looks_foreign():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for scores in (
            rng.standard_t(3, 400),
            rng.uniform(size=400),
            rng.lognormal(size=400),
            rng.normal(0.5, 0.4, 400),
        ):
            known = fitted_on(scores[:200], np.arange(200) % 2)
            assert known.doubt(column(np.clip(scores[200:], *known.range))) is None
            known.reject_other_scale(column(np.clip(scores[200:], *known.range)))


def test_most_rows_far_outside_are_another_scale():
    known = fitted_on(LOGITS, 1000 * LOGITS + 0.5)
    assert known.judge(SeenScores.of(column(LOGITS), known)) is None
    with pytest.raises(cc.InputError) as caught:
        known.judge(SeenScores.of(column(1000 * LOGITS), known))
    assert caught.value.argument == "scores"
    assert caught.value.remedy == "pass scores of the same scale"
    one = np.append(LOGITS, 1e6)
    assert known.judge(SeenScores.of(column(one), known)).startswith("1 of 2,001 rows has a score far outside ")


def test_what_is_seen_in_batches_is_what_is_seen_at_once():
    known = fitted_on(LOGITS)
    parts = [SeenScores.of(column(part), known) for part in np.array_split(5 * LOGITS, 7)]
    total = parts[0]
    for part in parts[1:]:
        total += part
    assert total == SeenScores.of(column(5 * LOGITS), known)
    low, high = LOGITS.min(), LOGITS.max()
    limits = low - (high - low), high + (high - low)
    assert total.far == ((limits[0] > 5 * LOGITS) | (limits[1] < 5 * LOGITS)).sum()


# ---------------------------------------------------------------------------------------------------- tables and files


def test_a_fit_on_a_table_remembers_its_columns(tmp_path):
    lines = [f"{y:.0f},{z!r},{site}" for y, z, site in zip(Y, LOGITS.tolist(), SITE, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["died,logit,hospital", *lines]))
    table = read_predictions(tmp_path / "t.csv", label="died", scores=["logit"])
    calibrator = cc.RobustIsotonic().fit_table(table)
    assert (calibrator.fitted_on_.columns, calibrator.fitted_on_.label) == (("logit",), "died")
    assert (calibrator.predict(LOGITS) == cc.RobustIsotonic().fit(LOGITS, Y, domains=SITE).predict(LOGITS)).all()
    calibrator.save(tmp_path / "cal.json")
    assert cc.load_calibrator(tmp_path / "cal.json").fitted_on_ == calibrator.fitted_on_


def test_the_column_of_the_fit_is_read_from_files_and_frames_alike(tmp_path, refusal):
    frame = pl.DataFrame({"y": Y[:50].astype(int), "p": P[:50], "logit": LOGITS[:50], "site": SITE[:50]})
    frame.write_parquet(tmp_path / "t.parquet")
    for source in (frame, tmp_path / "t.parquet"):
        table = read_predictions(source, fitted_scores=("logit",))
        assert (table.columns.scores, table.columns.guessed) == (("logit",), ("label", "domain"))
        assert (table.p == LOGITS[:50]).all()
        assert read_predictions(source, fitted_scores=("logit",), scores=("p",)).columns.scores == ("p",)
        said = refusal(read_predictions, source, fitted_scores=("margin",))
        assert said.endswith(
            " has no column 'margin', which the calibrator was fitted on; 'p', which it has, may be something else; "
            "name the column of the same scores."
        )


def test_a_fit_on_rows_forgets_what_another_fit_remembered():
    from clovecal.calibrators import ScoredRows

    calibrator = cc.NaiveIsotonic().fit(P, Y)
    assert isinstance(calibrator.fitted_on_, FittedOn)
    assert calibrator.fit_rows(ScoredRows.of(P, Y)).fitted_on_ is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quantiles": [[1, 2]]}, "its 'quantiles' are not 7 rising numbers for each column"),
        ({"quantiles": [[7, 6, 5, 4, 3, 2, 1]]}, "its 'quantiles' are not 7 rising numbers for each column"),
        ({"quantiles": [[0] * 7, [0] * 7]}, "its 'fitted_on' is of 2 columns of scores and its map of 1"),
        ({"columns": ["a", "b"]}, "its 'fitted_on' names another number of columns than it has quantiles of"),
        ({"columns": [1]}, "its 'columns' is missing or not text"),
        ({"scores": "odds"}, "its 'scores' is 'odds'"),
        ({"task": "ranking"}, "its 'task' is 'ranking'"),
        ({"rows": 0}, "its 'rows' is missing or not a whole number of at least 1"),
        ({"more": 1}, "its 'fitted_on' does not have the entries it should have"),
    ],
)
def test_a_strangers_memory_is_refused(change, said, tmp_path):
    path = tmp_path / "cal.json"
    cc.NaiveIsotonic().fit(P, Y).save(path)
    content = json.loads(path.read_text())
    content["fitted_on"] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(cc.InputError) as caught:
        cc.load_calibrator(path)
    assert str(caught.value) == f"path {str(path)!r} is not a usable calibrator: {said}; save it again."
