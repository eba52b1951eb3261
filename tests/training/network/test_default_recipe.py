"""How a network is trained where its user does not say."""

from __future__ import annotations

import pytest

from clovecal import InputError
from clovecal.training import default_recipe


def test_the_warm_up_is_counted_in_steps():
    # 650 rows in batches of 4·32 are 5 steps per epoch; a fifth of 20 epochs are 4 of them
    recipe = default_recipe("tiny-image", 650, objective="clove")
    assert (recipe.batch_size, recipe.epochs, recipe.anneal, recipe.penalty) == (128, 20, 20, 100.0)
    assert default_recipe("tiny-image", 650, objective="irm", warm_up=3).anneal == 61  # 3 · 650 / 32 = 60.9
    assert default_recipe("tiny-image", 650, objective="coral").anneal == 0
    assert default_recipe("tiny-image", 650).anneal == 0


def test_a_kind_of_network_has_its_own_ways():
    bert = default_recipe("bert-base-uncased", 1000)
    assert (bert.optimizer, bert.learning_rate, bert.schedule, bert.clip_norm) == ("adamw", 1e-5, "linear", 1.0)
    assert bert.pretrained  # it cannot do without
    assert default_recipe("bert-base-uncased", 1000, objective="clove").batch_size == bert.batch_size
    fresh, pretrained = (default_recipe("resnet18", 1000, pretrained=one) for one in (False, True))
    assert (fresh.learning_rate, pretrained.learning_rate) == (1e-3, 1e-4)
    assert not fresh.pretrained


def test_what_is_said_holds_and_none_is_not_said():
    recipe = default_recipe(
        "tiny-text", 100, objective="clove", batch_size=8, learning_rate=0.5, penalty=3, epochs=None
    )
    assert (recipe.batch_size, recipe.learning_rate, recipe.penalty, recipe.epochs) == (8, 0.5, 3, 20)
    assert recipe.anneal == 50  # 4 · 100 / 8


def test_a_batch_with_fewer_rows_has_a_longer_warm_up():
    # 5 domains in batches of 32 have 6 rows each, 30 in all: 2 · 600 / 30 steps
    recipe = default_recipe("tiny-image", 600, n_domains=5, objective="irm", warm_up=2)
    assert recipe.rows_per_batch(600, 5) == 30
    assert recipe.anneal == 40


@pytest.mark.parametrize("objective", ["erm", "group-dro"])
def test_an_algorithm_without_a_penalty_has_no_warm_up_either(objective):
    for options in ({"penalty": 1.0}, {"warm_up": 0}):
        with pytest.raises(InputError, match=f"{objective} has none; leave it out"):
            default_recipe("tiny-image", 100, objective=objective, **options)


def test_a_warm_up_has_an_end():
    with pytest.raises(InputError, match="warm_up is 21 of 20 epochs; pass fewer"):
        default_recipe("tiny-image", 100, objective="clove", warm_up=21)
    with pytest.raises(InputError, match="backbone is 'vgg'"):
        default_recipe("vgg", 100)
