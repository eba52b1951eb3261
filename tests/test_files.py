"""Files of our own: where they may be written, and whether what is read is one."""

from __future__ import annotations

import os

import pytest

from clovecal.errors import InputError
from clovecal.files import Defect, check_format, check_writable


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
