"""Tables of several domains: their label, domains and features, gaps filled; and where a file comes from."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest

from clovecal import InputError
from clovecal.datasets import DATA_SETS, load_dataset, load_table
from clovecal.datasets.registry import DataFile, DataSet, find_file

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

NAMES = [name for name, one in DATA_SETS.items() if one.files and one.files[0].url is None]


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Return what puts a small file in place of a table's own, and lets it pass for the published one."""
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path))

    def place(name: str, write) -> None:
        one = DATA_SETS[name]
        path = tmp_path / one.folder / one.files[0].name
        path.parent.mkdir()
        write(path)
        file = DataFile(path.name, None, hashlib.sha256(path.read_bytes()).hexdigest(), source="it is made up")
        monkeypatch.setitem(DATA_SETS, name, DataSet(name, one.load, "A few rows", (file,), one.folder))

    return place


HEART = """age,cp,num,domain,label
50.0,1.0,0,north,0
,2.0,2,north,1
70.0,,1,south,1
90.0,2.0,0,south,0
"""


def test_gaps_are_filled_and_categories_become_columns(put):
    put("heart", lambda path: path.write_text(HEART))
    heart = load_table("heart")
    # the median of 50, 70 and 90 is 70; the commonest of 1, 2 and 2 is 2; num is the label before it was cut
    assert heart.feature_names == ("age", "cp=1.0", "cp=2.0")
    assert heart.X.tolist() == [[50, 1, 0], [70, 0, 1], [70, 0, 1], [90, 0, 1]]
    assert heart.X.dtype == np.float32
    assert (heart.y.tolist(), heart.y.dtype) == ([0, 1, 1, 0], np.int8)
    assert heart.domains.tolist() == ["north", "north", "south", "south"]
    assert (heart.name, heart.description) == ("heart", "A few rows.\n\nSource: it is made up.\n")


def test_a_label_in_words_and_texts_with_gaps(put):
    rows = "job,duration,month,y,age\ncook,9,may,no,30\n,8,may,yes,40\ncook,7,jun,yes,50\nnurse,6,jun,no,60\n"
    put("bank", lambda path: path.write_text(rows))
    bank = load_dataset("bank")
    assert bank.feature_names == ("job=cook", "job=nurse", "age")  # without the duration of the call
    assert bank.X.tolist() == [[1, 0, 30], [1, 0, 40], [1, 0, 50], [0, 1, 60]]
    assert bank.y.tolist() == [0, 1, 1, 0]
    assert bank.domains.tolist() == ["may", "may", "jun", "jun"]
    assert load_dataset("bank", without=["job"]).feature_names == ("age",)


def test_parquet_files_and_their_categories_are_read(put):
    table = pa.table(
        {
            "y": pa.array([1, 0], pa.int8()),
            "domain": pa.array(["TIRILAZAD", "EBIC"]).dictionary_encode(),
            "age": pa.array([0.5, -0.5], pa.float32()),
        }
    )
    put("impact", lambda path: parquet.write_table(table, path))
    impact = load_table("impact")
    assert impact.X.tolist() == [[0.5], [-0.5]]
    assert impact.domains.tolist() == ["TIRILAZAD", "EBIC"]
    assert impact.domains.dtype.kind == "U"


def test_arrays_are_read_and_named_by_position(put):
    X = np.array([[1, 2], [3, 4]], dtype=np.float16)
    put("amazon25", lambda path: np.savez(path, X=X, y=np.array([0, 1]), domain=np.array(["books", "toys"])))
    amazon = load_table("amazon25", without=["feature_0"])
    assert amazon.feature_names == ("feature_1",)
    assert amazon.X.tolist() == [[2], [4]]
    assert amazon.X.dtype == np.float32


def test_a_column_that_is_not_there_is_named_with_those_that_are(put):
    put("heart", lambda path: path.write_text(HEART))
    with pytest.raises(InputError, match=r"^without names 'sex'; choose from age, cp\.$"):
        load_table("heart", without=["sex"])


def test_a_table_that_is_not_known_is_told():
    with pytest.raises(InputError, match=r"^table 'flights' is not known; choose one of abort, birds, "):
        load_table("flights")


def test_an_absent_file_is_told_with_its_source_and_its_place(tmp_path, monkeypatch):
    monkeypatch.delenv("CLOVECAL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(InputError) as raised:
        load_dataset("impact")
    assert re.fullmatch(
        r"data set 'impact' lacks impact\.parquet, which cannot be downloaded \(it is made from impact of the R "
        r"package metamisc .*\); put it into a folder 'multi_domain' inside \$CLOVECAL_DATA\.",
        str(raised.value),
    )
    assert not any(tmp_path.iterdir())


def test_another_file_than_the_recorded_one_is_refused(put):
    put("heart", lambda path: path.write_text(HEART))
    path = find_file("heart", DATA_SETS["heart"].files[0])
    path.write_text(HEART.replace("90.0", "91.0"))
    with pytest.raises(InputError, match=r"is not the published one \(its checksum differs\); put the original there"):
        load_table("heart")


def test_features_that_everybody_makes_are_taken_whatever_their_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path))
    (tmp_path / "pacs").mkdir()
    X = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float16)
    domain = np.array(["photo", "sketch", "photo"])
    path = tmp_path / "pacs" / "pacs_efficientnet_lite0.npz"
    np.savez(path, X=X, y=np.array([0, 6, 3], dtype=np.int8), domain=domain, classes=np.array(list("abcdefg")))
    pacs = load_dataset("pacs")
    assert pacs.X.tolist() == X.tolist()
    assert (pacs.y.tolist(), pacs.domains.tolist()) == ([0, 6, 3], domain.tolist())
    assert "scripts/pacs_features.py" in pacs.description


def test_every_table_says_where_its_file_comes_from():
    assert len(NAMES) == 18
    for one in map(DATA_SETS.__getitem__, NAMES):
        assert one.files[0].source.startswith("it is ")


@pytest.mark.parametrize("name", NAMES)
def test_the_real_table_has_the_rows_and_domains_that_its_description_says(name):
    one = DATA_SETS[name]
    if not (Path(os.environ.get("CLOVECAL_DATA", "")) / one.folder / one.files[0].name).is_file():
        pytest.skip(f"CLOVECAL_DATA has no {one.folder}/{one.files[0].name}")
    data = load_dataset(name)
    rows, domains = re.findall(r"[\d,]+(?= )", one.description)[:2]
    assert data.X.shape == (int(rows.replace(",", "")), len(data.feature_names))
    assert len(np.unique(data.domains)) == int(domains)
    assert set(np.unique(data.y)) == set(range(7 if name == "pacs" else 2))
    assert np.isfinite(data.X).all()
