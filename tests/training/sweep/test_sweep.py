import numpy as np
import pytest
import torch

from clovecal import InputError, accuracy
from clovecal.training.head.files import load_head
from clovecal.training.loop.fitting import fit
from clovecal.training.loop.predicting import predict_logits
from clovecal.training.loop.stopping import probabilities
from clovecal.training.mlp import MLP
from clovecal.training.objectives import CLOvE
from clovecal.training.sweep.running import read_sweep, read_sweep_data, train_members

CONFIG = """
[data]
file = "rows.npz"
validation = 0.25

[sweep]
members = 3
seed = 5
steps = 12
batch_size = 30
learning_rate = {log10 = [-3, -2]}
weight_decay = {choice = [0, 0.001]}
hidden = {log2 = [2, 4], layers = 2}

[[objective]]
name = "clove"
penalty = {log10 = [1, 3]}
anneal = {uniform = [2, 6]}
of = "positive"

[[objective]]
name = "erm"
members = 2
hidden = [4]
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    inputs = 100 + 10 * rng.normal(size=(200, 3)) + 10 * y[:, None]
    np.savez(tmp_path / "rows.npz", X=inputs, y=y, domains=np.array(["A", "B"])[rng.integers(0, 2, 200)])
    return tmp_path


class Watched:
    """A progress that notes what is done of how much."""

    def __init__(self, steps):
        self.steps = steps

    def task(self, what, total=None):
        self.total = total
        return self

    def at(self, done, total=None):
        self.steps.append((done, self.total))


def sweep_of(folder, text=CONFIG):
    path = folder / "sweep.toml"
    path.write_text(text)
    return read_sweep(path)


def test_what_is_fixed_is_the_same_for_all_members_and_the_defaults_are_those_documented(folder):
    text = '[data]\nfile = "rows.npz"\n[sweep]\nsteps = 7\nmembers = 2\n[[objective]]\nname = "irm"\npenalty = 10\n'
    one, other = sweep_of(folder, text).members("rows")
    assert (one.name, other.name) == ("irm-000", "irm-001")
    assert (one.objective, one.options, one.penalty, one.anneal) == ("irm", {}, 10.0, 0)
    assert (one.hidden, one.learning_rate, one.weight_decay) == ((256, 256), 1e-3, 0.0)
    assert (one.steps, one.batch_size, one.balance, one.optimizer, one.precision) == (7, 512, True, "adam", None)
    assert one.seed != other.seed
    assert sweep_of(folder).source.validation == 0.25


def test_ranges_are_drawn_from_within_their_ends(folder):
    members = sweep_of(folder, CONFIG.replace("members = 3", "members = 400")).members("rows")[:400]
    penalty = np.log10([member.penalty for member in members])
    assert 1 <= penalty.min() < 1.1
    assert 2.9 < penalty.max() <= 3
    assert np.mean(penalty) == pytest.approx(2, abs=0.1)
    assert {member.anneal for member in members} == {2, 3, 4, 5}  # rounded down
    assert {member.weight_decay for member in members} == {0.0, 0.001}
    widths = {member.hidden for member in members}
    assert min(widths) == (4, 4)
    assert max(widths) == (15, 15)
    assert abs(np.corrcoef(penalty, np.log10([member.learning_rate for member in members]))[0, 1]) < 0.2


def test_a_larger_sweep_begins_with_the_members_of_a_smaller_one(folder):
    small = sweep_of(folder).members("rows")
    large = sweep_of(folder, CONFIG.replace("members = 3", "members = 6")).members("rows")
    assert small[:3] == large[:3]
    assert small[3:] == large[6:]


def test_another_seed_draws_other_members_and_holds_other_rows_out(folder):
    one, other = sweep_of(folder), sweep_of(folder, CONFIG.replace("seed = 5", "seed = 6"))
    assert one.members("rows")[0].penalty != other.members("rows")[0].penalty
    assert read_sweep_data(one).fingerprint != read_sweep_data(other).fingerprint
    assert read_sweep_data(one).fingerprint == read_sweep_data(sweep_of(folder)).fingerprint


def test_a_share_of_each_domain_is_held_out_and_features_are_standardised_by_the_others(folder):
    data = read_sweep_data(sweep_of(folder))
    assert len(data.y) == pytest.approx(50, abs=1)
    assert len(data.training) + len(data.y) == 200
    (domain,) = data.domains.values()
    whole = np.load(folder / "rows.npz")["domains"]
    for name in ("A", "B"):
        assert np.sum(domain == name) == pytest.approx(np.sum(whole == name) / 4, abs=1)
    np.testing.assert_allclose(data.training.inputs.mean(dim=0), 0, atol=1e-5)
    np.testing.assert_allclose(data.training.inputs.std(dim=0, correction=0), 1, atol=1e-4)


def test_each_member_is_what_fit_gives(folder):
    sweep = sweep_of(folder)
    data = read_sweep_data(sweep)
    (member, outcome), *_ = train_members(sweep.members(data.fingerprint), data, device="cpu")
    model = MLP(3, hidden=member.hidden, seed=member.seed)
    fit(
        model,
        data.training,
        CLOvE(member.penalty, anneal=member.anneal, of="positive"),
        steps=12,
        batch_size=30,
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=member.learning_rate),
        weight_decay=member.weight_decay,
        seed=member.seed,
        device="cpu",
    )
    p = probabilities(predict_logits(model, data.inputs, device="cpu"))
    np.testing.assert_allclose(outcome.p, p, atol=1e-5)
    assert outcome.summary["accuracy"] == accuracy(data.y, outcome.p)
    assert set(outcome.summary) == {"risk", "CLOvE", "CLOvE weight", "accuracy", "log-loss"}


def test_the_size_of_the_chunks_does_not_matter(folder):
    sweep = sweep_of(folder)
    data = read_sweep_data(sweep)
    members = sweep.members(data.fingerprint)
    steps = []
    whole = list(train_members(members, data, device="cpu", progress=Watched(steps)))
    assert steps[-1] == (60, 60)
    for (one, outcome), (other, by_parts) in zip(
        whole, train_members(members, data, chunk=2, device="cpu"), strict=True
    ):
        assert one == other
        np.testing.assert_allclose(outcome.p, by_parts.p, atol=1e-6)


def test_a_chunk_is_handed_over_before_the_next_is_trained(folder):
    sweep = sweep_of(folder)
    data = read_sweep_data(sweep)
    steps = []
    outcomes = train_members(
        sweep.members(data.fingerprint),
        data,
        chunk=2,
        device="cpu",
        progress=Watched(steps),
    )
    next(outcomes)
    next(outcomes)
    assert steps[-1] == (24, 60)  # two of five members, 12 steps each
    next(outcomes)
    assert steps[-1] == (36, 60)  # the third is the last with its objective


def test_a_saved_head_takes_the_features_of_the_file(folder):
    sweep = sweep_of(folder)
    data = read_sweep_data(sweep)
    whole = np.load(folder / "rows.npz")
    standardised = (whole["X"] - data.head.mean_) / data.head.scale_  # no row has a twin, and none is clipped
    held = [int(np.argmin(np.abs(standardised - row).sum(axis=1))) for row in data.inputs.numpy()]
    for number, (_, outcome) in enumerate(train_members(sweep.members(data.fingerprint), data, device="cpu")):
        outcome.head.save(folder / f"{number}.safetensors")
        head = load_head(folder / f"{number}.safetensors", device="cpu")
        p = head.predict_proba(whole["X"])[:, 1]
        np.testing.assert_allclose(p[held], outcome.p, atol=1e-6)
        assert head.classes_.tolist() == [0, 1]


def test_several_classes_give_a_column_each(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    np.savez(
        tmp_path / "rows.npz", X=rng.normal(size=(90, 2)), y=np.array(["a", "b", "c"])[y], domains=y * 0 + [0, 1] * 45
    )
    sweep = sweep_of(tmp_path, CONFIG.replace('of = "positive"', ""))
    data = read_sweep_data(sweep)
    assert data.classes.tolist() == ["a", "b", "c"]
    for _, outcome in train_members(sweep.members(data.fingerprint), data, device="cpu"):
        assert outcome.p.shape == (len(data.y), 3)
        np.testing.assert_allclose(outcome.p.sum(axis=1), 1)


def test_a_member_that_diverges_has_a_sentence_and_no_predictions(folder):
    text = CONFIG.replace("hidden = [4]", "hidden = [4]\nlearning_rate = 1e38")
    sweep = sweep_of(folder, text)
    data = read_sweep_data(sweep)
    outcomes = [outcome for _, outcome in train_members(sweep.members(data.fingerprint), data, device="cpu")]
    assert [outcome.p is None for outcome in outcomes] == [False] * 3 + [True] * 2
    assert outcomes[4].diverged.startswith("Training diverged: the loss (risk nan) was not finite at step 2;")
    assert outcomes[4].head is None
    assert outcomes[4].summary == {"risk": None}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[data]", "[data", "config 'PATH' is not valid TOML"),
        ('file = "rows.npz"', "", "data.file is missing; add it."),
        ("validation = 0.25", "validation = 25", "data.validation is 25; pass a number between 0 and 1"),
        (
            "validation = 0.25",
            'colour = "red"',
            "data.colour is not a setting; the settings here are file, features, label",
        ),
        ("validation = 0.25", "label = 3", "data.label is 3; pass a text."),
        ("validation = 0.25", "domain = []", "data.domain is []; pass a name, or a list of names."),
        ("steps = 12", "", "sweep.steps is missing; add it."),
        ("steps = 12", "steps = 0", "sweep.steps is 0; pass a whole number of at least 1."),
        ("steps = 12", "steps = 12\nspeed = 1", "sweep.speed is not a setting; the settings here are members"),
        ("batch_size = 30", "batch_size = -1", "sweep.batch_size is -1; pass a whole number of at least 0."),
        ("batch_size = 30", "batch_size = 30\nbalance = 1", "sweep.balance is 1; pass true or false."),
        ("batch_size = 30", 'optimizer = "sgd"', "sweep.optimizer is 'sgd'; choose one of 'adam', 'adagrad'."),
        (
            "{log10 = [-3, -2]}",
            "{log10 = [-2, -3]}",
            "sweep.learning_rate.log10 is [-2, -3]; pass the low end, then the high end.",
        ),
        (
            "{log10 = [-3, -2]}",
            "{log10 = [-3, true]}",
            "sweep.learning_rate.log10 is [-3, True]; pass a list of numbers.",
        ),
        (
            "{log10 = [-3, -2]}",
            "{normal = [-3, -2]}",
            "sweep.learning_rate.normal is not a kind of range; pass a number, {uniform",
        ),
        ("{log10 = [-3, -2]}", '"small"', "sweep.learning_rate is 'small'; pass a number, {uniform"),
        ("{log10 = [-3, -2]}", "{uniform = [0, 1]}", "sweep.learning_rate can be 0; it must be above 0."),
        ("{choice = [0, 0.001]}", "-1", "sweep.weight_decay can be -1; it must be 0 or more."),
        ("{log2 = [2, 4], layers = 2}", "256", "sweep.hidden is 256; pass a list of widths, or a range such as {log2"),
        ("{log2 = [2, 4], layers = 2}", "[8, 0]", "sweep.hidden is 0; pass a whole number of at least 1."),
        (
            "{log2 = [2, 4], layers = 2}",
            "{uniform = [0, 9], layers = 2}",
            "sweep.hidden can be 0; it must be 1 or more.",
        ),
        ('name = "clove"', 'name = "clover"', "objective[0].name is 'clover'; choose one of 'clove', 'erm', 'irm'"),
        ("penalty = {log10 = [1, 3]}", "", "objective[0].penalty is missing; add it."),
        ('of = "positive"', 'of = "all"', "objective[0].of is 'all'; choose one of 'confidence', 'positive'."),
        ('of = "positive"', "gamma = -1", "objective[0].gamma is -1; pass a positive number."),
        (
            'of = "positive"',
            "gamma = {log10 = [0, 1]}",
            "objective[0].gamma is {'log10': [0, 1]}; pass one value, it is the same for all",
        ),
        ('of = "positive"', "unbiased = 1", "objective[0].unbiased is 1; pass true or false."),
        ('of = "positive"', 'label = "a/b"', "objective[0].label is 'a/b'; files are named after it"),
        (
            "hidden = [4]",
            "penalty = 1",
            "objective[1].penalty is not a setting; the settings here are name, label, members",
        ),
        (
            "hidden = [4]",
            'label = "clove"',
            "objective.label is 'clove' twice; give each objective a label of its own.",
        ),
        ("[[objective]]", "[[aim]]", "objective is missing; add it."),
    ],
)
def test_a_wrong_entry_is_told_by_its_key(folder, old, new, message):
    with pytest.raises(InputError) as error:
        sweep_of(folder, CONFIG.replace(old, new))
    assert str(error.value).replace(str(folder / "sweep.toml"), "PATH").startswith(message)


def test_objectives_that_are_no_list_and_files_that_are_missing_are_told(folder):
    with pytest.raises(InputError, match=r"objective is not a list of tables; write \[\[objective\]\] above each\."):
        sweep_of(folder, '[data]\nfile = "rows.npz"\n[sweep]\nsteps = 1\n[objective]\nname = "erm"\n')
    with pytest.raises(InputError, match=r"config 'nowhere.toml' does not exist; check the name\."):
        read_sweep("nowhere.toml")
    with pytest.raises(InputError, match=r"no\.npz' does not exist; check the name\."):
        read_sweep_data(sweep_of(folder, CONFIG.replace("rows.npz", "no.npz")))


def test_rows_of_one_domain_or_one_class_are_told(tmp_path):
    for y, domains, message in (
        (
            np.arange(40) % 2,
            np.zeros(40, int),
            "data.domain has one domain only, 0; give rows of at least two domains.",
        ),
        (np.zeros(40, int), np.arange(40) % 2, "data.label has one class only, 0; pass rows of at least two classes."),
    ):
        np.savez(tmp_path / "rows.npz", X=np.arange(40.0)[:, None], y=y, domains=domains)
        with pytest.raises(InputError) as error:
            read_sweep_data(sweep_of(tmp_path))
        assert str(error.value) == message


def test_a_feature_that_the_table_lacks_is_told(folder):
    (folder / "rows.csv").write_text("y,domain,a\n0,A,1\n1,B,2\n")
    text = CONFIG.replace('file = "rows.npz"', 'file = "rows.csv"\nfeatures = ["a", "b"]')
    with pytest.raises(
        InputError, match=r"data\.features has 'b', but .*rows\.csv' has no such column; check the name\."
    ):
        read_sweep_data(sweep_of(folder, text))


@pytest.mark.parametrize("features", ['["a"]', '"f_"'])
def test_names_of_features_are_columns_of_a_table(folder, features):
    with pytest.raises(InputError, match=r"data\.features names columns of a table; the features of an npz"):
        read_sweep_data(sweep_of(folder, CONFIG.replace("validation =", f"features = {features}\nvalidation =")))


def test_a_table_without_features_is_told(folder):
    (folder / "rows.csv").write_text("y,domain\n0,A\n1,B\n")
    with pytest.raises(InputError, match=r"rows\.csv' has no column of numbers besides the label and the domain"):
        read_sweep_data(sweep_of(folder, CONFIG.replace("rows.npz", "rows.csv")))


def test_targets_of_a_regression_are_told(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(40, 2)), y=rng.normal(size=40), domains=np.arange(40) % 2)
    with pytest.raises(InputError, match=r"Unknown label type: continuous") as caught:
        read_sweep_data(sweep_of(tmp_path))
    assert caught.value.argument == "data.label"
