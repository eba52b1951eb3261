"""Columns are what the user says, or a guess that is reported as one."""

from __future__ import annotations

import re

import pytest

from clovecal import InputError
from clovecal.tables import find_roles

GUESSES = {
    "short names": (["id", "y", "p", "domain"], "y", ("p",), ("domain",), None),
    "long names": (["label", "score", "group"], "label", ("score",), ("group",), None),
    "target, prob, site": (["target", "prob", "site"], "target", ("prob",), ("site",), None),
    "capitals": (["Y", "Probability", "Country"], "Y", ("Probability",), ("Country",), None),
    "starts with prob": (["y", "prob_of_delay", "domain"], "y", ("prob_of_delay",), ("domain",), None),
    "the more usual name wins": (["label", "y", "score", "p", "group", "domain"], "y", ("p",), ("domain",), None),
    "one column per class": (["y", "p_1", "p_0", "p_2", "site"], "y", ("p_0", "p_1", "p_2"), ("site",), None),
    "one column per class, no bar": (["y", "prob0", "prob1", "site"], "y", ("prob0", "prob1"), ("site",), None),
    "ten classes": (
        ["y", *(f"score_{i}" for i in range(11)), "env"],
        "y",
        tuple(f"score_{i}" for i in range(11)),
        ("env",),
        None,
    ),
    "one column per domain": (["y", "p", "group_a", "group_b"], "y", ("p",), ("group_a", "group_b"), None),
    "a hospital's": (["patient", "died", "risk", "hospital"], "died", ("risk",), ("hospital",), None),
    "a centre's": (["Event", "yhat", "Centre"], "Event", ("yhat",), ("Centre",), None),
    "a state's": (["outcome", "predicted", "state"], "outcome", ("predicted",), ("state",), None),
    "a clinic's": (["readmitted", "pred", "clinic"], "readmitted", ("pred",), ("clinic",), None),
    "a ward's": (["outcome", "proba", "ward"], "outcome", ("proba",), ("ward",), None),
    "a probability beside the predicted class": (["y", "pred", "prob", "site"], "y", ("prob",), ("site",), None),
    "weight": (["y", "p", "domain", "sample_weight"], "y", ("p",), ("domain",), "sample_weight"),
    "body weight in full is a weight too": (["y", "p", "domain", "Weight"], "y", ("p",), ("domain",), "Weight"),
}


@pytest.mark.parametrize("case", GUESSES)
def test_columns_are_guessed_from_their_names_and_said_to_be(case):
    names, label, scores, domains, weight = GUESSES[case]
    found = find_roles(names, optional=["weight"])
    assert (found.label, found.scores, found.domains, found.weight) == (label, scores, domains, weight)
    assert found.guessed == ("label", "score", "domain", *(["weight"] if weight else []))
    assert str(found).count("(guessed)") == len(found.guessed)
    assert found.used == [label, *scores, *domains, *([weight] if weight else [])]


def test_what_the_user_says_is_not_called_a_guess():
    names = ["outcome_30d", "risk", "ward", "y", "p", "domain", "n"]
    found = find_roles(names, label="outcome_30d", scores=["risk"], domains=["ward"], weight="n")
    assert (found.label, found.scores, found.domains, found.weight) == ("outcome_30d", ("risk",), ("ward",), "n")
    assert found.guessed == ()
    assert str(found) == "label 'outcome_30d'; score 'risk'; domain 'ward'; weight 'n'"


def test_a_column_that_is_taken_is_not_guessed_again():
    # 'p' is the label here, so that the score must be the next best
    found = find_roles(["p", "score", "domain"], label="p")
    assert (found.label, found.scores, found.guessed) == ("p", ("score",), ("score", "domain"))
    assert str(found) == "label 'p'; score 'score' (guessed); domain 'domain' (guessed)"


def test_classes_must_be_numbered_without_a_gap():
    assert find_roles(["p_0", "p_2", "score"], ["score"]).scores == ("score",)
    with pytest.raises(InputError, match=r"no column of 'p_0', 'p_2' looks like the score; name the column"):
        find_roles(["p_0", "p_2"], ["score"])


REFUSED = {
    "no label": (
        ["p", "domain"],
        {},
        r"^label is not given, and no column of 'p', 'domain' looks like the label; name the column\.$",
    ),
    "no score": (["y", "domain"], {}, r"^scores is not given, and no column of 'y', 'domain' looks like the score"),
    "no domain": (["y", "p", "bed"], {}, r"^domains is not given, and .*'bed' looks like the domain"),
    "two that start with prob": (
        ["y", "prob_a", "prob_b", "site"],
        {},
        r"^scores is not given, and it could be 'prob_a' or 'prob_b'; name the column\.$",
    ),
    "two labels": (
        ["died", "outcome", "p", "site"],
        {},
        r"^label is not given, and it could be 'died' or 'outcome'; name",
    ),
    "two scores": (
        ["y", "risk", "score", "site"],
        {},
        r"^scores is not given, and it could be 'risk' or 'score'; name",
    ),
    "three domains": (
        ["y", "p", "hospital", "ward", "Region"],
        {},
        r"^domains is not given, and it could be 'hospital', 'ward' or 'Region'; name the column\.$",
    ),
    "one name in other letters": (
        ["y", "Y", "p", "site"],
        {},
        r"^label is not given, and it could be 'y' or 'Y'; name",
    ),
    "a pattern of nothing": (
        ["y", "p", "group_a"],
        {"domains": ["id_*"]},
        r"^domains is 'id_\*', which matches no column of",
    ),
    "a pattern and its column": (["y", "p", "id_a"], {"domains": ["id_a", "id_a"]}, r"^column 'id_a' is named twice"),
    "one column of a domain": (["y", "p", "group_a"], {}, r"^domains is not given"),
    "not there": (
        ["y", "p", "domain"],
        {"label": "Y"},
        r"^column 'Y' is not in the table; it has 'y', 'p', 'domain'\.",
    ),
    "score not there": (["y", "p", "domain"], {"scores": ["p", "q"]}, r"^column 'q' is not in the table"),
    "twice in the table": (["y", "p", "p", "domain"], {}, r"^column 'p' appears more than once; rename one"),
    "twice in the options": (["y", "p", "domain"], {"label": "p", "scores": ["p"]}, r"^column 'p' is named twice"),
    "no columns": ([], {}, r"^label is not given, and no column looks like the label"),
    "many columns": ([f"c{i}" for i in range(30)], {}, r"'c11' and 18 more"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_column_that_cannot_be_found_is_asked_for(case):
    names, said, expected = REFUSED[case]
    with pytest.raises(InputError) as caught:
        find_roles(names, **said)
    assert re.search(expected, str(caught.value))
    assert not re.search(r"[.!?]\s", str(caught.value))


def test_an_error_names_the_argument_and_a_command_its_option():
    for names, argument in ((["p", "domain"], "label"), (["y", "domain"], "scores"), (["y", "p"], "domains")):
        with pytest.raises(InputError) as caught:
            find_roles(names)
        assert (caught.value.argument, caught.value.remedy) == (argument, "name the column")


def test_only_the_roles_that_are_asked_for_are_looked_for():
    found = find_roles(["y", "p", "domain", "weight", "text", "split"], ["domain"])
    assert (found.used, found.guessed) == (["domain"], ("domain",))
    found = find_roles(["text", "note"], ["input"], optional=["label", "domain", "split"], kind="text")
    assert (found.input, found.label, found.domains, found.split) == ("text", None, (), None)
    assert str(found) == "input 'text' (guessed); no label; no domain"
    assert found.in_words("text") == "text 'text' (guessed); no label; no domain"


def test_features_are_what_is_left_and_never_something_else():
    found = find_roles(["y", "x_0", "domain", "x_1"], ["label", "domain", "features"])
    assert found.features == ("x_0", "x_1")
    # a feature that is called as a label usually is
    found = find_roles(["y", "target", "domain"], ["label", "domain"], features=["y"])
    assert (found.label, found.features, found.guessed) == ("target", ("y",), ("label", "domain"))


def test_a_split_may_be_the_domain_too():
    found = find_roles(["text", "label", "fold"], ["label"], domains=["fold"], split="fold")
    assert (found.domains, found.split, found.guessed) == (("fold",), "fold", ("label",))


def test_a_pattern_stands_for_the_columns_that_match_it():
    names = ["id_label", "p", "id_m", "id_f", "id_x", "other", "run[1]"]
    found = find_roles(names, label="id_label", domains=["id_*", "other"])
    assert found.domains == ("id_m", "id_f", "id_x", "other")
    assert str(found) == (
        "label 'id_label'; score 'p' (guessed); domain 'id_m', 'id_f', 'id_x', 'other' (matching 'id_*')"
    )
    # a column that is called like a pattern is that column
    assert find_roles(names, label="id_label", domains=["run[1]"]).domains == ("run[1]",)
    assert find_roles(names, label="id_label", domains=["id_[mf]"]).domains == ("id_m", "id_f")


def test_what_need_not_be_there_is_left_out_where_it_is_unclear():
    found = find_roles(["y", "p", "domain", "weight", "frequency"], optional=["weight"])
    assert (found.weight, dict(found.unclear)) == (None, {"weight": ("weight", "frequency")})
    assert str(found).endswith("; no weight (it could be 'weight' or 'frequency')")
    found = find_roles(["text", "state", "country"], ["input"], optional=["domain"], kind="text")
    assert (found.domains, found.to_be_said) == ((), True)
    assert str(found) == "input 'text' (guessed); no domain (it could be 'state' or 'country')"
