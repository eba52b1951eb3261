"""Files of our own: where they may be written, and whether what is read is one."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from clovecal.errors import InputError, OutputExists
from clovecal.files import Defect, check_format, check_writable, replacing


def names(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_during_the_run_is_left_alone(tmp_path, monkeypatch, links):
    if not links:  # as on a USB stick's FAT

        def refuse(*names, **options):
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "out.json"
    writing = replacing(path, overwrite=False)
    writing.__enter__().write_text("ours")
    path.write_text("theirs")
    with pytest.raises(OutputExists):
        writing.__exit__(None, None, None)
    assert (path.read_text(), names(tmp_path)) == ("theirs", ["out.json"])
    path.unlink()
    with replacing(path, overwrite=False) as temporary:
        temporary.write_text("ours")
    assert (path.read_text(), names(tmp_path)) == ("ours", ["out.json"])


def test_a_replaced_file_keeps_its_permissions_and_a_new_one_has_the_usual_ones(tmp_path):
    path, other = tmp_path / "out.json", tmp_path / "new.json"
    path.touch()
    path.chmod(0o600)
    other.touch()  # with the usual ones
    usual = stat.S_IMODE(other.stat().st_mode)
    other.unlink()
    for one in (path, other):
        with replacing(one) as temporary:
            temporary.write_text("ours")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(other.stat().st_mode) == usual


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_link_is_followed_and_stays_a_link(tmp_path, overwrite):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "real.json", tmp_path / "link.json"
    link.symlink_to("elsewhere/real.json")
    if overwrite:
        target.write_text("old")
    with replacing(check_writable(link, overwrite=overwrite), overwrite=overwrite) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert names(target.parent) == ["real.json"]


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(link.name)
    with pytest.raises(InputError, match="leads nowhere"):
        check_writable(link, overwrite=True)
    link.unlink()
    link.symlink_to("absent/out.json")
    with pytest.raises(InputError, match="is in a folder that does not exist"):
        check_writable(link, overwrite=True)


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_pipe_or_a_device_is_not_replaced(tmp_path, overwrite):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    link = tmp_path / "null.json"
    link.symlink_to("/dev/null")
    for path in (pipe, link, "/dev/null"):
        with pytest.raises(InputError, match="is a device or a pipe, not a regular file; name a file"):
            check_writable(path, overwrite=overwrite)


def test_a_long_name_has_room_for_a_temporary_one(tmp_path):
    for path in (tmp_path / f"{'ä' * 120}.json", tmp_path / f"a.{'b' * 250}"):
        with replacing(path) as temporary:
            temporary.write_text("ours")
        assert path.read_text() == "ours"


WRITER = """
import sys, time
from clovecal.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half of it")
    print("writing", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_writer_leaves_is_removed_by_the_next_and_a_living_ones_is_not(tmp_path):
    path = tmp_path / "out.json"
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout.readline() == "writing\n"
        with replacing(path) as temporary:
            temporary.write_text("ours")
        assert len(names(tmp_path)) == 2  # the other still writes
        writer.send_signal(signal.SIGKILL)
    assert len(names(tmp_path)) == 2
    others = tmp_path / ".out.json.swp"  # an editor's, say
    others.touch()
    with replacing(path) as temporary:
        temporary.write_text("ours again")
    assert names(tmp_path) == [".out.json.swp", "out.json"]
    assert path.read_text() == "ours again"


def test_a_folder_that_may_not_be_written_to_is_named_before_any_work(tmp_path, monkeypatch):
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and may(path, mode))  # root may write anywhere
    with pytest.raises(InputError, match=r"^path '.*out\.json' is in a folder that you may not write to; choose"):
        check_writable(tmp_path / "out.json", overwrite=False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "its format is not 'us'"),
        ({"version": 1}, "its format is not 'us'"),
        ({"format": "us"}, "its version is None"),
        ({"format": "us", "version": True}, "its version is True"),
        ({"format": "us", "version": 0}, "its version is 0"),
        (
            {"format": "us", "version": 3},
            "it has version 3 and this clovecal reads up to 2, so upgrade clovecal first",
        ),
    ],
)
def test_what_is_not_of_our_format_is_told(content, words):
    with pytest.raises(Defect) as caught:
        check_format(content, "us", 2)
    assert str(caught.value) == words


def test_our_format_is_accepted_in_every_version_so_far():
    check_format({"format": "us", "version": 1}, "us", 2)
    check_format({"format": "us", "version": 2}, "us", 2)
