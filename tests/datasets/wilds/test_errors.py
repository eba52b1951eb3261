"""What is wrong with a folder is said in one sentence, before any work."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

from clovecal.datasets import wilds

NAMES = wilds.NAMES


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def set_cell(path, column, row, value):
    """Replace one cell of a table without quotes."""
    lines = path.read_text(encoding="utf-8").splitlines()
    cells = lines[row + 1].split(",")
    cells[lines[0].split(",").index(column)] = value
    lines[row + 1] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_root(name, tmp_path, refusal):
    assert "is not a folder; name the folder that holds" in refusal(wilds.load, name, tmp_path / "nowhere")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_folder(name, tmp_path, refusal):
    message = refusal(wilds.load, name, tmp_path)
    assert f"{name} must be in {name}_v{wilds.published(name).versions[0]}" in message


def test_a_folder_of_another_version(tmp_path, refusal):
    (tmp_path / "fmow_v1.0").mkdir()
    assert "has only fmow_v1.0, a version this cannot read" in refusal(wilds.load, "fmow", tmp_path)


def test_the_data_sets_own_folder_as_root(own_miniature, refusal):
    folder = own_miniature("fmow")
    assert "is the folder of fmow itself; name the one that holds it" in refusal(wilds.load, "fmow", folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_release_file(name, own_miniature, refusal):
    folder = own_miniature(name)
    release = next(folder.glob("RELEASE*"))
    release.unlink()
    assert f"must have {release.name} and has no such file" in refusal(wilds.load, name, folder.parent)


def test_a_release_file_of_another_version(own_miniature, refusal):
    folder = own_miniature("camelyon17")
    (folder / "RELEASE_v1.0.txt").rename(folder / "RELEASE_v0.9.txt")
    assert "must have RELEASE_v1.0.txt and has RELEASE_v0.9.txt instead" in refusal(
        wilds.load, "camelyon17", folder.parent
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_table_or_folder(name, own_miniature, refusal, tmp_path):
    folder = own_miniature(name)
    for need in wilds.published(name).needs:
        (folder / need).rename(tmp_path / "away")
        assert f"lacks {need}; get the whole folder again" in refusal(wilds.load, name, tmp_path)
        (tmp_path / "away").rename(folder / need)


def test_povertymap_without_its_images(own_miniature, refusal, tmp_path):
    folder = own_miniature("poverty")
    (folder / "images").rename(tmp_path / "away")
    assert "lacks images" in refusal(wilds.load, "poverty", tmp_path)


@pytest.mark.parametrize(
    ("name", "table", "column"),
    [
        ("camelyon17", "metadata.csv", "tumor"),
        ("civilcomments", "all_data_with_identities.csv", "muslim"),
        ("fmow", "rgb_metadata.csv", "timestamp"),
        ("fmow", "country_code_mapping.csv", "region"),
        ("poverty", "dhs_metadata.csv", "wealthpooled"),
        ("amazon", "reviews.csv", "reviewText"),
        ("amazon", "splits/user.csv", "split"),
    ],
)
def test_a_missing_column(name, table, column, own_miniature, refusal):
    folder = own_miniature(name)
    edit(folder / table, column, f"x{column}")
    message = refusal(wilds.load, name, folder.parent)
    assert f"has no column {column!r}; it has " in message
    assert table.rpartition("/")[2] in message


@pytest.mark.parametrize(
    ("name", "table", "column", "value", "said"),
    [
        ("camelyon17", "metadata.csv", "tumor", "x", "column 'tumor' .* at data row 4 is 'x'; it must hold a number"),
        (
            "camelyon17",
            "metadata.csv",
            "tumor",
            "",
            "column 'tumor' .* at data row 4 is empty; .* a finite number",
        ),
        ("camelyon17", "metadata.csv", "center", "0.5", "column 'center' .* at data row 4 is 0.5; .* a whole number"),
        ("camelyon17", "metadata.csv", "split", "2", "column 'split' .* at data row 4 is 2; it must be 0 or 1"),
        ("fmow", "rgb_metadata.csv", "category", "igloo", "column 'category' .* at data row 4 is 'igloo'"),
        (
            "fmow",
            "rgb_metadata.csv",
            "timestamp",
            "soon",
            "column 'timestamp' .* at data row 4 is 'soon'; .* a time",
        ),
        ("fmow", "rgb_metadata.csv", "split", "", "column 'split' .* at data row 4 is empty; it must hold a label"),
        ("poverty", "dhs_metadata.csv", "country", "france", "column 'country' .* at data row 4 is 'france'"),
        (
            "poverty",
            "dhs_metadata.csv",
            "wealthpooled",
            "inf",
            "'wealthpooled' .* data row 4 is inf; .* a finite number",
        ),
        ("amazon", "splits/user.csv", "split", "9", "column 'split' .* at data row 4 is 9; it must be −1 to 4"),
    ],
)
def test_a_wrong_cell(name, table, column, value, said, own_miniature, refusal):
    folder = own_miniature(name)
    set_cell(folder / table, column, 3, value)
    assert re.search(said, refusal(wilds.load, name, folder.parent, splits="wilds"))


def test_an_unknown_split_in_civilcomments(own_miniature, refusal):
    folder = own_miniature("civilcomments")
    edit(folder / "all_data_with_identities.csv", ",val,", ",extra,")
    message = refusal(wilds.load, "civilcomments", folder.parent)
    assert re.search(r"at data row \d+ is 'extra'", message)
    assert "it must be train, val or test" in message


def test_six_stars(own_miniature, refusal):
    folder = own_miniature("amazon")
    edit(folder / "reviews.csv", ",5.0,", ",6.0,")
    assert "column 'overall'" in (message := refusal(wilds.load, "amazon", folder.parent))
    assert "stars are 1 to 5" in message


@pytest.mark.parametrize(
    ("change", "said"), [("drop", "has more rows than the expected 119"), ("add", "has 120 rows, not the expected 121")]
)
def test_tables_of_different_lengths(change, said, own_miniature, refusal):
    users = (folder := own_miniature("amazon")) / "splits" / "user.csv"
    lines = users.read_text().splitlines()
    users.write_text("\n".join(lines[:-1] if change == "drop" else [*lines, "0"]) + "\n")
    assert re.search(said, refusal(wilds.load, "amazon", folder.parent))


def test_a_table_without_rows(by_hand, refusal):
    root = by_hand("poverty", table=("country,wealthpooled,urban",))
    (root / "poverty_v1.1" / "images").mkdir()
    assert "dhs_metadata.csv" in refusal(wilds.load, "poverty", root)


def test_a_corrupt_image_names_its_file_and_row(own_miniature, refusal):
    folder = own_miniature("camelyon17")
    data = wilds.load("camelyon17", folder.parent).part("test")
    path = data.inputs.folder / data.inputs.names[4]
    path.write_bytes(path.read_bytes()[:60])
    message = refusal(data.inputs.__getitem__, 4)
    assert str(path) in message
    assert f"at data row {data.metadata['row'][4] + 1} cannot be decoded" in message


def test_a_missing_image_names_its_file_and_row(own_miniature, refusal):
    folder = own_miniature("fmow")
    data = wilds.load("fmow", folder.parent)
    path = data.inputs.folder / data.inputs.names[2]
    path.unlink()
    assert f"{str(path)!r} at data row {data.metadata['row'][2] + 1} is missing" in refusal(data.inputs.__getitem__, 2)


@pytest.mark.parametrize("content", [b"", b"not an archive", "other"])
def test_a_corrupt_array_names_its_file_and_row(content, own_miniature, refusal):
    folder = own_miniature("poverty")
    path = folder / "images" / "landsat_poverty_img_5.npz"
    if content == "other":
        np.savez(path, y=np.zeros(3))
    else:
        path.write_bytes(content)
    assert "landsat_poverty_img_5.npz' at data row 6 cannot be decoded" in refusal(
        wilds.load("poverty", folder.parent).inputs.__getitem__, 5
    )


def test_an_array_that_is_too_short(by_hand, refusal):
    root = by_hand("poverty", folder="poverty_v1.0", table=("country,wealthpooled,urban", "kenya,1,1", "togo,2,0"))
    np.save(root / "poverty_v1.0" / "landsat_poverty_imgs.npy", np.zeros((1, 2, 2, 8)))
    inputs = wilds.load("poverty", root, in_domain=1).inputs
    assert "has 1 images, none for data row 2" in refusal(inputs.__getitem__, 1)


def test_unknown_names_and_choices(small_root, refusal):
    assert "name is 'iwildcam'; choose one of 'camelyon17'" in refusal(wilds.load, "iwildcam", small_root)
    assert "splits is 'official'; choose one of 'paper', 'wilds'" in refusal(
        wilds.load, "fmow", small_root, splits="official"
    )
    assert "fold is 'F'" in refusal(wilds.load, "poverty", small_root, fold="F")


def test_an_unknown_split(small_root, refusal):
    data = wilds.load("camelyon17", small_root)
    assert refusal(data.part, "id_val") == "split is 'id_val'; camelyon17 has train, val, test."


@pytest.mark.parametrize("validation", [24, 0, -1, 1.5, True, "many"])
def test_a_number_of_validation_patches_that_cannot_be(validation, small_root, refusal):
    message = refusal(wilds.load, "camelyon17", small_root, validation=validation)
    assert message.startswith(f"validation is {validation!r}")


def test_the_papers_15000_patches_need_the_full_data(own_miniature, refusal):
    folder = own_miniature("camelyon17")
    (folder / "RELEASE_v1.0.txt").write_text("A release.")  # no miniature any more
    message = refusal(wilds.load, "camelyon17", folder.parent)
    assert message.startswith("validation is 15000 but domain hospital 0 has 24 rows")


def test_wrong_predictions(small_root, refusal):
    data = wilds.load("fmow", small_root).part("test")
    n = len(data)
    assert f"y_pred has 1 rows but data has {n}" in refusal(wilds.evaluate, data, [0])
    assert "y_pred at row 0 is 62; pass predicted labels, whole numbers 0 to 61" in refusal(
        wilds.evaluate, data, [62] * n
    )
    assert "y_pred at row 0 is 0.5" in refusal(wilds.evaluate, data, [0.5] * n)


@pytest.mark.parametrize("name", ["camelyon17", "fmow"])
def test_without_pillow(name, small_root, refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert refusal(wilds.load, name, small_root) == (
        "decoding images needs the package PIL; install it with pip install 'clovecal[images]'."
    )


def test_without_pyarrow(small_root, refusal, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "needs the package pyarrow; install it with" in refusal(wilds.load, "amazon", small_root)
