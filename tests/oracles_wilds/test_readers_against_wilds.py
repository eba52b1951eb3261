"""Every row that clovecal reads from a WILDS folder is the row that the package wilds 2.0.0 reads from it."""

from __future__ import annotations

import numpy as np
import pytest

from clovecal.datasets import wilds

pytest.importorskip("wilds", reason="run with: make test-wilds")
pytestmark = pytest.mark.filterwarnings("ignore")


def both(name, root, theirs, *, splits="wilds", ours_options=None, **options):
    """Return our data, their data set and the places of our rows in it: they keep rows that are in no split."""
    ours = wilds.load(name, root, splits=splits, **{**(ours_options or {}), **options})
    dataset = theirs(name, **options)
    code_to_split = {code: split for split, code in dataset.split_dict.items()}
    their_split = np.array([code_to_split.get(int(code), "") for code in dataset.split_array])
    places = np.flatnonzero(their_split != "")
    assert len(places) == len(ours)
    assert ours.split.tolist() == their_split[places].tolist()
    assert set(ours.split) == set(dataset.split_dict)  # a miniature fills every split, so that each is compared
    return ours, dataset, places


def metadata_of(dataset, places, field):
    return dataset.metadata_array[:, dataset.metadata_fields.index(field)].numpy()[places]


@pytest.mark.parametrize("name", ["camelyon17", "civilcomments", "fmow", "amazon"])
def test_splits_and_labels_agree_row_by_row(name, root, theirs):
    ours, dataset, places = both(name, root, theirs)
    assert ours.y.tolist() == dataset.y_array.numpy()[places].tolist()
    assert len(ours.classes) == dataset.n_classes
    assert len(set(ours.y.tolist())) >= 2


@pytest.mark.parametrize("fold", ["A", "B", "C", "D", "E"])
def test_povertymaps_splits_and_labels_agree_row_by_row_in_every_fold(fold, root, theirs):
    ours, dataset, places = both("poverty", root, theirs, fold=fold, ours_options={"in_domain": 2000})
    assert ours.y.astype(np.float32).tolist() == dataset.y_array.numpy()[places, 0].tolist()


@pytest.mark.parametrize("name", ["camelyon17", "fmow"])
def test_every_pixel_agrees(name, root, theirs):
    ours, dataset, places = both(name, root, theirs)
    for i, place in enumerate(places):
        assert np.array_equal(ours.inputs[i], np.asarray(dataset.get_input(place)))


def test_every_value_of_povertymaps_images_agrees(root, theirs):
    ours, dataset, places = both("poverty", root, theirs, ours_options={"in_domain": 2000})
    for i, place in enumerate(places):
        assert np.array_equal(ours.inputs[i], dataset.get_input(place).numpy())


@pytest.mark.parametrize("name", ["civilcomments", "amazon"])
def test_every_text_agrees(name, root, theirs):
    ours, dataset, places = both(name, root, theirs)
    texts = [ours.inputs[i] for i in range(len(ours))]
    assert texts == [dataset.get_input(place) for place in places]
    assert any('"' in text for text in texts)
    assert any("\n" in text for text in texts)


def test_camelyon17s_hospitals_and_slides_agree(root, theirs):
    ours, dataset, places = both("camelyon17", root, theirs)
    hospital = metadata_of(dataset, places, "hospital")
    assert ours.domains.tolist() == [f"hospital {one}" for one in hospital]
    assert ours.metadata["slide"].tolist() == metadata_of(dataset, places, "slide").tolist()


def test_the_papers_camelyon17_has_the_same_test_hospital_and_validates_on_the_four_others(root, theirs):
    official, _, _ = both("camelyon17", root, theirs)
    paper = wilds.load("camelyon17", root, splits="paper")
    assert ((paper.split == "test") == (official.split == "test")).all()
    assert set(paper.domains[paper.split == "val"]) == {f"hospital {one}" for one in (0, 1, 3, 4)}
    assert paper.y.tolist() == official.y.tolist()


def test_civilcomments_identities_and_ratings_agree(root, theirs):
    ours, dataset, places = both("civilcomments", root, theirs)
    for column, identity in enumerate(ours.overlapping):
        assert ours.domains[:, column].astype(int).tolist() == metadata_of(dataset, places, identity).tolist()
    ratings = [name for name in ours.metadata if name != "row"]
    assert len(ratings) == 7
    for name in ratings:
        assert ours.metadata[name].astype(int).tolist() == metadata_of(dataset, places, name).tolist()


def test_fmows_regions_and_years_agree(root, theirs):
    ours, dataset, places = both("fmow", root, theirs)
    regions = np.array(dataset.metadata_map["region"])[metadata_of(dataset, places, "region")]
    assert ours.metadata["region"].tolist() == regions.tolist()
    assert "Other" in regions
    assert (ours.metadata["year"] - 2002).tolist() == metadata_of(dataset, places, "year").tolist()


def test_povertymaps_countries_and_areas_agree(root, theirs):
    ours, dataset, places = both("poverty", root, theirs, ours_options={"in_domain": 2000})
    countries = np.array(dataset.metadata_map["country"])[metadata_of(dataset, places, "country").astype(int)]
    area = np.where(metadata_of(dataset, places, "urban") == 1, "urban", "rural")
    assert ours.domains.tolist() == [f"{a}, {b}" for a, b in zip(countries, area, strict=True)]


def test_amazons_reviewers_products_categories_and_years_agree(root, theirs):
    ours, dataset, places = both("amazon", root, theirs)
    for field, column in (
        ("user", ours.domains),
        ("product", ours.metadata["product"]),
        ("category", ours.metadata["category"]),
        ("year", ours.metadata["year"]),
    ):
        named = np.array(dataset.metadata_map[field])[metadata_of(dataset, places, field)]
        assert column.tolist() == named.tolist()
