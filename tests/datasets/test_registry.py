"""Data sets are found in the user's folder or a cache, and a download is kept only if it is the published file."""

from __future__ import annotations

import hashlib
import http.client
import io
import re
import subprocess
import sys
import urllib.error

import numpy as np
import pytest

from clovecal import InputError, cli
from clovecal.datasets import DATA_SETS, DomainDataset, load_dataset, register_dataset, registry
from clovecal.datasets.registry import DataFile, DataSet, fetch, find_file, is_intact
from clovecal.progress import calling

CONTENT = {"a.gz": b"first file" * 20_000, "b.gz": b"second file"}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Publish a data set of two files under file:// addresses, with an empty cache."""
    source = tmp_path / "published"
    source.mkdir()
    files = []
    for name, content in CONTENT.items():
        (source / name).write_bytes(content)
        files.append(DataFile(name, (source / name).as_uri(), hashlib.sha256(content).hexdigest()))
    monkeypatch.setitem(registry.DATA_SETS, "toy", DataSet("toy", files.copy, "two small files", tuple(files)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CLOVECAL_DATA", raising=False)
    return source


@pytest.fixture
def tides(tmp_path, monkeypatch):
    """Register a user's own data set of one file, which its loader reads."""
    content = b"height,coast,high\n0.1,north,0\n0.7,south,1\n"
    (tmp_path / "tides.csv").write_bytes(content)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CLOVECAL_DATA", raising=False)
    file = DataFile("tides.csv", (tmp_path / "tides.csv").as_uri(), hashlib.sha256(content).hexdigest())

    def load_tides(unit=1.0):
        lines = fetch("tides")[0].read_text().splitlines()[1:]
        height, coast, high = zip(*(line.split(",") for line in lines), strict=True)
        X = unit * np.array(height, dtype=float)[:, None]
        return DomainDataset(X, np.array(high, dtype=np.int8), np.array(coast), ("height",), "tides", "Two tides.")

    register_dataset("tides", load_tides, description="2 tides at 2 coasts; label: high", files=[file])
    yield
    del DATA_SETS["tides"]


def run_data(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["clovecal", "data", *arguments])
    try:
        cli.main()
    except SystemExit as stop:
        return stop.code, capsys.readouterr().err
    return 0, capsys.readouterr().out


def test_a_data_set_of_ones_own_is_loaded_by_name_like_any_other(tides):
    data = load_dataset("tides", unit=100.0)
    assert (data.X.ravel().tolist(), data.domains.tolist()) == ([10.0, 70.0], ["north", "south"])
    assert load_dataset("flights").name == "flights"
    with pytest.raises(InputError, match=r"^data set 'tide' is not known; choose one of flights, mnist, .*, tides\."):
        load_dataset("tide")
    with pytest.raises(InputError) as caught:
        register_dataset("a/b", list, description="")
    assert caught.value.argument == "name"


def test_a_data_set_of_ones_own_is_listed_fetched_and_checked(tides, monkeypatch, capsys):
    code, said = run_data(monkeypatch, capsys, "check", "tides")
    assert code == 2
    assert said.startswith("clovecal: data set 'tides' lacks tides.csv; get it with")
    assert "tides      2 tides at 2 coasts; label: high" in run_data(monkeypatch, capsys, "list")[1]
    assert run_data(monkeypatch, capsys, "fetch", "tides")[0] == 0
    assert run_data(monkeypatch, capsys, "check", "tides") == (0, "tides: all 1 files are there and intact.\n")


def test_what_data_sets_are_made_of_does_not_load_the_readers_of_wilds():
    code = "import sys; from clovecal.datasets import Inputs; print('clovecal.datasets.wilds' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    assert not re.search(r"[a-z)]\. [A-Z]", str(caught.value))
    return str(caught.value)


def left_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_what_is_missing_is_downloaded_into_the_cache(published, tmp_path):
    bytes_read = []
    paths = fetch("toy", progress=calling(lambda done, _: bytes_read.append(done)))
    assert paths == [tmp_path / "cache" / "clovecal" / "toy" / name for name in CONTENT]
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert {len(content) for content in CONTENT.values()} <= set(bytes_read)  # each file counts from 0
    assert left_in(paths[0].parent) == ["a.gz", "b.gz"]


def test_what_is_there_is_not_downloaded_again(published, monkeypatch):
    first = fetch("toy")
    monkeypatch.setattr(registry.urllib.request, "urlopen", lambda *_, **__: pytest.fail("downloaded again"))
    assert fetch("toy") == first


def test_the_users_folder_comes_before_the_cache(published, tmp_path, monkeypatch):
    (cached, *_) = fetch("toy")
    own = tmp_path / "own" / "toy"
    own.mkdir(parents=True)
    file = registry.data_set("toy").files[0]
    monkeypatch.setenv("CLOVECAL_DATA", str(tmp_path / "own"))
    assert find_file("toy", file) == cached
    (own / "a.gz").write_bytes(CONTENT["a.gz"])
    assert find_file("toy", file) == own / "a.gz"
    assert [path.parent.parent.name for path in fetch("toy")] == ["own", "clovecal"]


def test_nothing_is_found_where_nothing_is(published):
    assert [find_file("toy", file) for file in registry.data_set("toy").files] == [None, None]


def test_without_a_cache_folder_of_its_own_the_homes_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert registry.cache_folder() == tmp_path / ".cache" / "clovecal"


def test_a_download_that_is_not_the_published_file_is_not_kept(published, tmp_path):
    (published / "b.gz").write_bytes(b"something else")
    said = refusal(lambda: fetch("toy"))
    assert re.search(r"^file:.*b\.gz is not the published file \(its checksum differs\); nothing was kept", said)
    assert left_in(tmp_path / "cache" / "clovecal" / "toy") == ["a.gz"]


def test_a_file_that_has_changed_is_told_not_replaced(published, tmp_path):
    path = fetch("toy")[1]
    path.write_bytes(b"changed")
    said = refusal(lambda: fetch("toy"))
    assert re.search(
        r"^file '.*b\.gz' is not the published one \(its checksum differs\); remove it and fetch again", said
    )
    assert path.read_bytes() == b"changed"
    assert not is_intact(registry.data_set("toy").files[1], path)


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("no network"),
        urllib.error.HTTPError("https://x", 404, "Not Found", None, io.BytesIO()),
        TimeoutError("timed out"),
        http.client.BadStatusLine("nonsense"),
        ConnectionResetError("reset"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_without_network_the_user_hears_where_to_put_the_file(published, monkeypatch, tmp_path, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(registry.urllib.request, "urlopen", fail)
    said = refusal(lambda: fetch("toy"))
    assert re.search(
        r"a\.gz cannot be downloaded \(.*\); put a\.gz into a folder 'toy' inside \$CLOVECAL_DATA instead", said
    )
    assert left_in(tmp_path / "cache" / "clovecal" / "toy") == []


def test_a_download_that_breaks_off_leaves_nothing(published, monkeypatch, tmp_path):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 0:
                raise ConnectionResetError("reset")
            return super().read(size)

    monkeypatch.setattr(registry.urllib.request, "urlopen", lambda *_, **__: Broken(CONTENT["a.gz"]))
    assert "cannot be downloaded (reset)" in refusal(lambda: fetch("toy"))
    assert left_in(tmp_path / "cache" / "clovecal" / "toy") == []


def test_an_unknown_data_set_is_told_with_those_that_are_known(published):
    assert refusal(lambda: fetch("cifar")).startswith("data set 'cifar' is not known; choose one of flights, mnist, ")


def test_the_built_in_set_has_no_files_and_published_ones_have_checksums():
    assert fetch("flights") == []
    for one in registry.DATA_SETS.values():
        assert one.description
        for file in one.files:
            if file.url is None:
                assert file.source
            else:
                assert file.url.startswith("https://")
                assert file.url.endswith(file.name)
            if file.sha256 is None:  # everybody makes it, by a script of the repository
                assert "scripts/" in file.source
            else:
                assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)


def test_the_command_fetches_lists_and_checks(published, monkeypatch, capsys):
    def run(*arguments):
        return run_data(monkeypatch, capsys, *arguments)

    assert run("check", "toy") == (2, "clovecal: data set 'toy' lacks a.gz; get it with: clovecal data fetch toy.\n")
    code, out = run("fetch", "toy")
    assert (code, out) == (0, f"toy is in {registry.cache_folder() / 'toy'}.\n")
    assert run("check", "toy") == (0, "toy: all 2 files are there and intact.\n")
    assert f"[{registry.cache_folder() / 'toy'}]" in run("list")[1]
    (registry.cache_folder() / "toy" / "b.gz").write_bytes(b"changed")
    code, err = run("check", "toy")
    assert code == 2
    assert re.search(
        r"^clovecal: file '.*b\.gz' is not the published one \(its checksum differs\); remove it and fetch again\.$",
        err,
    )
