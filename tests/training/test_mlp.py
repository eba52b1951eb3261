import math

import pytest
import torch

from clovecal import InputError
from clovecal.training.mlp import MLP


def test_a_tiny_perceptron_by_hand():
    # hidden = relu([2·1 − 1, −2·1 + 0]) = [1, 0]; logit = 3·1 + 5·0 + 0.5
    model = MLP(1, hidden=(2,))
    with torch.no_grad():
        for parameter, values in zip(
            model.parameters(), ([[2.0], [-2.0]], [-1.0, 0.0], [[3.0, 5.0]], [0.5]), strict=True
        ):
            parameter.copy_(torch.tensor(values))
    logits, features = model(torch.tensor([[1.0]]))
    assert logits.tolist() == [3.5]
    assert features.tolist() == [[1.0, 0.0]]


def test_the_shapes_follow_the_outputs_and_images_are_flattened():
    logits, features = MLP(12, hidden=(5, 4), n_outputs=3)(torch.zeros(7, 3, 4))
    assert logits.shape == (7, 3)
    assert features.shape == (7, 4)
    logits, features = MLP(12, hidden=())(torch.ones(7, 12))
    assert logits.shape == (7,)
    assert features.shape == (7, 12)


def test_bytes_and_double_precision_are_converted():
    model = MLP(3, hidden=(2,))
    inputs = torch.tensor([[0, 128, 255]])
    for dtype in (torch.uint8, torch.int64, torch.float64):
        assert torch.equal(model(inputs.to(dtype))[0], model(inputs.float())[0])


def test_weights_start_xavier_uniform_and_biases_at_zero():
    model = MLP(300, hidden=(500,), seed=3, dtype=torch.float64)
    weight, bias, *_ = model.parameters()
    bound = math.sqrt(6 / (300 + 500))
    assert float(weight.detach().abs().max()) == pytest.approx(bound, rel=1e-3)
    assert float(weight.detach().var()) == pytest.approx(bound**2 / 3, rel=0.02)
    assert not bias.any()


def test_the_seed_alone_decides_the_weights_whatever_the_dtype_and_the_global_state():
    torch.manual_seed(1)
    single = MLP(4, hidden=(3, 3), seed=5)
    torch.manual_seed(2)
    double = MLP(4, hidden=(3, 3), seed=5, dtype=torch.float64)
    for one, other in zip(single.parameters(), double.parameters(), strict=True):
        assert torch.equal(one, other.float())
    other_seed = MLP(4, hidden=(3, 3), seed=6)
    assert not torch.equal(next(single.parameters()), next(other_seed.parameters()))


def test_making_one_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    MLP(4, hidden=(3,))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_inputs": 0}, "n_inputs is 0; pass a whole number of at least 1."),
        ({"n_inputs": 2, "hidden": (3, 0)}, "hidden is 0; pass a whole number of at least 1."),
        ({"n_inputs": 2, "n_outputs": 1.5}, "n_outputs is 1.5; pass a whole number of at least 1."),
    ],
)
def test_wrong_sizes_are_named(options, message):
    with pytest.raises(InputError) as error:
        MLP(**options)
    assert str(error.value) == message
