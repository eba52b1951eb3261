"""Each published layout, written by hand with a few rows, is read as its authors meant it."""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest

from clovecal.datasets import wilds
from clovecal.datasets.splits import hold_out
from clovecal.datasets.wilds import amazon, civilcomments, fmow, poverty
from clovecal.tables import formats

CAMELYON = (
    ",patient,node,x_coord,y_coord,tumor,slide,center,split",
    "0,004,4,3328,21792,1,0,0,0",
    "1,004,4,3200,22272,0,0,0,1",
    "2,020,2,96,128,0,10,1,0",
    "3,020,2,96,160,1,10,1,1",
    "4,042,3,64,32,1,23,2,0",
    "5,060,1,64,64,0,30,3,0",
    "6,060,1,64,96,1,30,3,0",
    "7,081,0,32,32,0,45,4,0",
    "8,081,0,32,64,1,45,4,0",
)
COMMENTS = (
    ",id,comment_text,split,toxicity,male,female,LGBTQ,christian,muslim,other_religions,black,white,identity_any,"
    "severe_toxicity,obscene,threat,insult,identity_attack,sexual_explicit",
    '0,7,"Hello, ""you""\nthere",train,0.5,0.5,1.0,0,0,0,0,0,0,True,0,0,0,0.9,0,0',
    "1,8,None,val,0.49,0.4,,,,,,,,False,0,0,0,0,0,0",
    "2,9,NA,test,1.0,0,0,0,0,0,0,0,1.0,1.0,0.5,0,0,0,0,0",
)
LAND_USE = (
    "split,category,country_code,timestamp",
    "train,airport,KEN,2012-12-31T23:59:59Z",  # 0: train
    "train,zoo,KEN,2013-01-01T00:00:00Z",  # 1: too late to train on
    "seq,zoo,KEN,2010-01-01T00:00:00Z",  # 2: sequestered, and yet counted
    "val,zoo,USA,2009-05-05T10:00:00Z",  # 3: id_val
    "val,zoo,USA,2015-12-31T23:59:59Z",  # 4: val
    "val,zoo,USA,2016-01-01T00:00:00Z",  # 5: too late to validate on
    "test,barn,XKX,2012-06-01T00:00:00Z",  # 6: id_test
    "test,barn,ATA,2016-01-01T00:00:00Z",  # 7: test
    "test,barn,USA,2014-01-01T00:00:00Z",  # 8: too early to test on
)
REGIONS = ("name,alpha-2,alpha-3,region", "Kenya,KE,KEN,Africa", "United States,US,USA,Americas", "Antarctica,AQ,ATA,")
REVIEWS = (
    '"reviewerID","asin","overall","reviewTime","unixReviewTime","reviewText","summary","verified","category",'
    '"reviewYear"',
    '"A1","B1",5.0,"07 1, 2014",1,"Great, ""really""","s",True,"Books",2014',
    '"A2","B2",1.0,"07 1, 2015",2,"dropped","s",True,"Books",2015',
    '"A3","B1",3.0,"07 1, 2016",3,"","s",False,"Toys",2016',
    '"A1","B3",4.0,"07 1, 2017",4,"NA","s",False,"Toys",2017',
)


def texts_of(data):
    return [data.inputs[i] for i in range(len(data))]


# ------------------------------------------------------------------------------------------------------------ by hand


def test_camelyon17_as_wilds_splits_it(by_hand, patch):
    root = by_hand("camelyon17", table=CAMELYON)
    patches = root / "camelyon17_v1.0" / "patches"
    patch(patches / "patient_004_node_4" / "patch_patient_004_node_4_x_3200_y_22272.png", (10, 20, 30))
    data = wilds.load("camelyon17", root, splits="wilds")
    # hospital 1 is val and hospital 2 test, whatever the column split says; elsewhere 1 means id_val
    assert data.split.tolist() == ["train", "id_val", "val", "val", "test", "train", "train", "train", "train"]
    assert data.y.tolist() == [1, 0, 0, 1, 1, 0, 1, 0, 1]
    assert data.y.dtype == np.int64
    assert data.domains[[0, 2, 4]].tolist() == ["hospital 0", "hospital 1", "hospital 2"]
    assert data.metadata["slide"].tolist() == [0, 0, 10, 10, 23, 30, 30, 45, 45]
    assert data.metadata["patient"][0] == "004"
    image = data.inputs[1]
    assert image.shape == (4, 5, 3)  # height, width, colours of an image 5 wide and 4 high
    assert image.dtype == np.uint8
    assert image[3, 4].tolist() == [10, 20, 30]


def test_camelyon17_as_the_paper_splits_it(by_hand, patch):
    root = by_hand("camelyon17", table=CAMELYON)
    (root / "camelyon17_v1.0" / "patches").mkdir()
    data = wilds.load("camelyon17", root, validation=1)
    # one of the two patches of each of the four hospitals, and hospital 2 whole
    assert data.split_counts == {"train": 4, "val": 4, "test": 1}
    for hospital in (0, 1, 3, 4):
        assert sorted(data.split[data.domains == f"hospital {hospital}"]) == ["train", "val"]
    assert data.split[4] == "test"


def test_the_papers_rule_at_full_size_leaves_310900_patches_to_train_on():
    # The published table: 302,436 + 33,560 patches in hospitals 0, 3 and 4; 34,904 in 1; 85,054 in 2.
    # Four hospitals have 335,996 + 34,904 = 370,900; less 4 × 15,000 for validation is 310,900.
    counts = wilds.published("camelyon17").counts
    seen = counts["train"] + counts["id_val"]
    assert seen == 335_996  # the count that the appendix states for four hospitals
    sizes = [seen - 2 * 100_000, counts["val"], counts["test"], 100_000, 100_000]
    split = hold_out(np.repeat(list("01234"), sizes), test=["2"], validation=15_000, seed=0)
    assert [int((split == part).sum()) for part in ("train", "val", "test")] == [310_900, 60_000, 85_054]


def test_civilcomments(by_hand):
    data = wilds.load("civilcomments", by_hand("civilcomments", table=COMMENTS))
    # one half is enough to be toxic, or to mention an identity; an empty cell mentions none
    assert data.y.tolist() == [1, 0, 1]
    assert data.domain_names == civilcomments.IDENTITIES
    assert data.domains.astype(int).tolist() == [[1, 1, 0, 0, 0, 0, 0, 0], [0] * 8, [0] * 7 + [1]]
    assert data.split.tolist() == ["train", "val", "test"]
    assert texts_of(data) == ['Hello, "you"\nthere', "None", "NA"]  # the latter two are texts, not gaps
    assert data.metadata["identity_any"].tolist() == [True, False, True]
    assert data.metadata["insult"].tolist() == [True, False, False]
    # the middle comment is in no domain; five identities are mentioned by nobody
    domains = data.as_domains()
    assert domains.counts == {"male": 1, "female": 1, "white": 1}
    assert domains.rows_in_no_domain == 1


def test_fmow(by_hand, patch):
    root = by_hand("fmow", table=LAND_USE, country_code_mapping=REGIONS)
    patch(root / "fmow_v1.1" / "images" / "rgb_img_7.png", (1, 2, 3))
    data = wilds.load("fmow", root)
    assert data.metadata["row"].tolist() == [0, 3, 4, 6, 7]
    assert data.split.tolist() == ["train", "id_val", "val", "id_test", "test"]
    assert [data.classes[one] for one in data.y] == ["airport", "zoo", "zoo", "barn", "barn"]
    assert data.y[:2].tolist() == [0, 61]
    assert data.metadata["year"].tolist() == [2012, 2009, 2015, 2012, 2016]
    # Kosovo's code is not in the mapping, and Antarctica has no region there
    assert data.domains.tolist() == [
        "Africa, before 2013",
        "Americas, before 2013",
        "Americas, 2013 to 2015",
        "Other, before 2013",
        "Other, from 2016",
    ]
    assert data.part("test").inputs[0][0, 0].tolist() == [1, 2, 3]  # the file's number counts rows in no split
    by_year = data.grouped_by("region", "year")
    assert by_year.domains[0] == "Africa, 2012"
    assert by_year.domain_names == ("Africa, 2012", "Americas, 2009", "Americas, 2015", "Other, 2012", "Other, 2016")


@pytest.fixture
def in_new_york(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def test_a_time_stamp_with_an_offset_counts_in_universal_time(by_hand, in_new_york):
    root = by_hand("fmow", table=(LAND_USE[0], "test,zoo,USA,2015-12-31T23:30:00-05:00"), country_code_mapping=REGIONS)
    (root / "fmow_v1.1" / "images").mkdir()
    assert wilds.load("fmow", root).metadata["year"].tolist() == [2016]


def test_povertymap(by_hand):
    places = ("kenya", "kenya", "togo", "togo", "angola", "benin")
    rows = [f"{country},{wealth},{urban}" for country, wealth, urban in zip(places, range(6), [1, 0] * 3, strict=True)]
    root = by_hand("poverty", table=("country,wealthpooled,urban", *rows))
    images = root / "poverty_v1.1" / "images"
    images.mkdir()
    for row in range(6):
        np.savez(images / f"landsat_poverty_img_{row}.npz", x=np.full((8, 2, 3), row, dtype=np.float64))
    data = wilds.load("poverty", root, in_domain=2)
    # fold A tests on Angola's set and validates on Benin's; of the four others one is id_val and one id_test
    assert data.split_counts == {"train": 2, "id_val": 1, "id_test": 1, "val": 1, "test": 1}
    assert data.split[[4, 5]].tolist() == ["test", "val"]
    assert data.domains[[0, 1, 5]].tolist() == ["kenya, urban", "kenya, rural", "benin, rural"]
    assert data.y.tolist() == [0, 1, 2, 3, 4, 5]
    assert data.y.dtype == np.float64
    image = data.inputs[4]
    assert image.shape == (8, 2, 3)
    assert image.dtype == np.float32
    assert (image == 4).all()
    # fold B tests on Benin's set and validates on Cameroon's, which has no row here
    assert wilds.load("poverty", root, fold="B", in_domain=2).split[[4, 5]].tolist() != ["test", "val"]
    assert wilds.load("poverty", root, fold="B", in_domain=2).split[5] == "test"


def test_povertymap_of_version_1_0_is_one_array_with_channels_last(by_hand):
    root = by_hand(
        "poverty", folder="poverty_v1.0", table=("country,wealthpooled,urban", "kenya,1,1", "togo,2,0", "togo,3,0")
    )
    array = np.arange(3 * 2 * 4 * 8, dtype=np.float64).reshape(3, 2, 4, 8)
    np.save(root / "poverty_v1.0" / "landsat_poverty_imgs.npy", array)
    data = wilds.load("poverty", root, in_domain=1)
    image = data.select(np.array([2])).inputs[0]
    assert image.shape == (8, 2, 4)
    assert image.dtype == np.float32
    assert image[5, 1, 3] == array[2, 1, 3, 5]
    assert pickle.loads(pickle.dumps(data.inputs))[1][0, 0, 0] == array[1, 0, 0, 0]


def test_version_1_1_is_preferred_to_1_0(by_hand, tmp_path):
    table = ("country,wealthpooled,urban", "kenya,1,1", "togo,2,0", "togo,3,0")
    by_hand("poverty", folder="poverty_v1.0", table=table)
    np.save(tmp_path / "poverty_v1.0" / "landsat_poverty_imgs.npy", np.zeros((3, 2, 2, 8)))
    root = by_hand("poverty", table=table[:3])
    (root / "poverty_v1.1" / "images").mkdir()
    assert len(wilds.load("poverty", root, in_domain=1)) == 2


def test_amazon(by_hand):
    data = wilds.load("amazon", by_hand("amazon", table=REVIEWS, users=("split", "0", "-1", "3", "2")))
    assert data.split.tolist() == ["train", "test", "id_val"]
    assert data.y.tolist() == [4, 2, 3]  # five stars are class 4
    assert data.classes[0] == "1 star"
    assert data.domains.tolist() == ["A1", "A3", "A1"]
    assert texts_of(data) == ['Great, "really"', "", "NA"]
    assert data.metadata["product"].tolist() == ["B1", "B1", "B3"]
    assert data.metadata["category"].tolist() == ["Books", "Toys", "Toys"]
    assert data.metadata["year"].tolist() == [2014, 2016, 2017]
    assert data.metadata["row"].tolist() == [0, 2, 3]


# --------------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("name", wilds.NAMES)
def test_the_parts_are_the_whole(name, small_root):
    data = wilds.load(name, small_root)
    assert sum(data.split_counts.values()) == len(data)
    assert {"train", "val", "test"} <= set(data.split_counts)
    for split, count in data.split_counts.items():
        part = data.part(split)
        assert len(part) == len(part.inputs) == count
        assert part.metadata["row"].tolist() == data.metadata["row"][data.split == split].tolist()


@pytest.mark.parametrize("name", wilds.NAMES)
def test_reading_twice_gives_the_same(name, small_root):
    first, second = (wilds.load(name, small_root) for _ in range(2))
    assert first.split.tolist() == second.split.tolist()
    assert np.array_equal(first.domains, second.domains)


@pytest.mark.parametrize("name", ["civilcomments", "fmow", "poverty", "amazon"])
def test_the_two_choices_of_splits_differ_for_camelyon17_alone(name, small_root):
    paper, official = (wilds.load(name, small_root, splits=splits) for splits in ("paper", "wilds"))
    assert paper.split.tolist() == official.split.tolist()


@pytest.mark.parametrize("name", wilds.NAMES)
def test_data_survive_pickling_and_hold_no_open_file(name, small_root):
    data = wilds.load(name, small_root).part("train")
    copy = pickle.loads(pickle.dumps(data))
    for index in (0, 7, -1):
        assert np.array_equal(copy.inputs[index], data.inputs[index])
    assert len(list(copy.inputs)) == len(data)  # a sequence ends where it ends
    assert copy.metadata["row"].tolist() == data.metadata["row"].tolist()


def test_another_seed_validates_on_other_patches_and_as_many(small_root):
    one, other = (wilds.load("camelyon17", small_root, seed=seed) for seed in (0, 1))
    assert one.split_counts == other.split_counts
    assert (one.split != other.split).any()
    assert ((one.split == "test") == (other.split == "test")).all()


def test_povertymaps_folds_are_five_disjoint_sets_of_the_23_countries():
    assert len(poverty.COUNTRIES) == len(set(poverty.COUNTRIES)) == 23


def test_fmow_has_62_categories_in_order():
    assert len(fmow.CATEGORIES) == 62
    assert list(fmow.CATEGORIES) == sorted(fmow.CATEGORIES)


def test_published_counts_add_up_to_the_published_tables():
    assert sum(wilds.published("camelyon17").counts.values()) == 455_954
    assert sum(wilds.published("civilcomments").counts.values()) == 448_000
    assert sum(wilds.published("poverty").counts.values()) == 19_669
    assert sum(wilds.published("amazon").counts.values()) == 539_502


# -------------------------------------------------------------------------------------------------------------- scores


def test_civilcomments_scores_by_hand(by_hand):
    data = wilds.load("civilcomments", by_hand("civilcomments", table=COMMENTS))
    # labels 1, 0, 1 predicted 1, 0, 0: two of three are right. Groups: toxic and male 1/1, toxic and female 1/1,
    # toxic and white 0/1; no others have rows. Domains: male 1, female 1, white 0.
    scores = wilds.evaluate(data, [1, 0, 0])
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["average_group_accuracy"] == pytest.approx(2 / 3)
    assert scores["worst_group_accuracy"] == 0
    assert scores["average_domain_accuracy"] == pytest.approx(2 / 3)
    assert scores["worst_domain_accuracy"] == 0


def test_comments_without_any_identity_have_no_domain_scores(by_hand):
    data = wilds.load("civilcomments", by_hand("civilcomments", table=COMMENTS)).part("val")
    scores = wilds.evaluate(data, [0])
    assert scores["accuracy"] == 1
    assert np.isnan(scores["worst_group_accuracy"])
    assert np.isnan(scores["average_domain_accuracy"])


def test_amazons_tenth_percentile_by_hand(by_hand):
    data = wilds.load("amazon", by_hand("amazon", table=REVIEWS, users=("split", "0", "0", "0", "0")))
    # A1 is right in one of two, A2 in one of one, A3 in none of one: 0, 1/2, 1; a tenth of 2 steps is 0.2 of the first
    assert wilds.evaluate(data, [4, 0, 0, 0])["tenth_percentile_accuracy"] == pytest.approx(0.2 * 0.5)


@pytest.mark.parametrize("name", wilds.NAMES)
def test_the_truth_scores_best_and_the_headline_is_one_of_the_scores(name, small_root):
    data = wilds.load(name, small_root).part("test")
    scores = wilds.evaluate(data, data.y)
    assert scores.pop("mean_squared_error", 0.0) == 0
    assert list(scores.values()) == pytest.approx([1.0] * len(scores))
    assert wilds.published(name).headline in scores


def test_a_constant_prediction_has_no_correlation(small_root):
    data = wilds.load("poverty", small_root).part("test")
    assert np.isnan(wilds.evaluate(data, np.zeros(len(data)))["pearson"])


def test_amazon_is_known_by_its_module_too(small_root):
    data = amazon.load(small_root)
    assert amazon.evaluate(data, data.y) == wilds.evaluate(data, data.y)


@pytest.mark.parametrize("name", ["civilcomments", "amazon"])
def test_a_table_read_in_many_pieces_is_the_same_table(name, small_root, monkeypatch):
    whole = wilds.load(name, small_root)
    monkeypatch.setattr(formats, "BLOCK_BYTES", 700)  # a few rows
    pieces = wilds.load(name, small_root)
    assert texts_of(pieces) == texts_of(whole)
    assert pieces.y.tolist() == whole.y.tolist()
    assert np.array_equal(pieces.domains, whole.domains)
