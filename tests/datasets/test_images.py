"""Images of one size, and what is said of those that are not or cannot be read."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from PIL import Image

from clovecal import InputError
from clovecal.datasets.folder import check_images, image_folder, images_in
from clovecal.datasets.images import ResizedImage, resized_to


def save(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path)


def refusal(call, *arguments, **options):
    with pytest.raises(InputError) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_resized_image_is_the_whole_one_averaged(tmp_path):
    # Left half 0, right half 200: at half the size each pixel of the halves' insides keeps its value, and the mean of
    # all pixels stays 100; nothing is cut off, though 8×4 becomes 4×4.
    save(tmp_path / "a.png", np.repeat(np.repeat([[0, 200]], 4, axis=1), 4, axis=0)[:, :, None].repeat(3, axis=2))
    small = ResizedImage(4, 4)(tmp_path / "a.png")
    assert small.shape == (4, 4, 3)
    assert small[:, 0].max() <= 1
    assert small[:, 3].min() >= 199
    assert small.mean() == pytest.approx(100, abs=1)


def test_a_large_photograph_is_decoded_small_and_looks_the_same(tmp_path):
    ramp = np.broadcast_to(np.linspace(0, 255, 640)[None, :, None], (480, 640, 3))
    Image.fromarray(ramp.astype(np.uint8)).save(tmp_path / "a.jpg", quality=95)
    with Image.open(tmp_path / "a.jpg") as whole:
        slow = np.asarray(whole.convert("RGB").resize((20, 10), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(ResizedImage(20, 10)(tmp_path / "a.jpg").astype(int) - slow).max() <= 3


def test_an_image_of_the_wanted_size_is_left_as_it_is(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3))
    save(tmp_path / "a.png", pixels)
    assert (ResizedImage(7, 5)(tmp_path / "a.png") == pixels).all()


def test_a_folder_is_resized_by_one_number_or_two(tmp_path):
    save(tmp_path / "in" / "a.png", np.zeros((3, 5, 3)))
    save(tmp_path / "in" / "b.png", np.zeros((4, 9, 3)))
    (tmp_path / "t.csv").write_text("file,label,domain\na.png,0,x\nb.png,1,x\n")
    for size, shape in ((6, (6, 6, 3)), ((8, 2), (2, 8, 3))):
        data = image_folder(tmp_path / "in", tmp_path / "t.csv", size=size, validation=1)
        assert [data.inputs[row].shape for row in range(2)] == [shape, shape]
        check_images(data.inputs)
        assert resized_to(data.inputs) == (shape[1], shape[0])
        assert pickle.loads(pickle.dumps(data.inputs))[1].shape == shape  # as a worker gets it
    own = image_folder(tmp_path / "in", tmp_path / "t.csv", validation=1)
    assert resized_to(own.inputs) is None
    assert own.inputs[1].shape == (4, 9, 3)
    assert "size (width) is 0" in refusal(image_folder, tmp_path / "in", tmp_path / "t.csv", size=(0, 4))


def test_all_images_of_a_folder_are_found_in_order(tmp_path):
    for name in ("b.png", "deep/er/a.JPG", ".hidden.png", "c.jpeg"):
        save(tmp_path / name, np.full((2, 2, 3), 7))
    (tmp_path / "notes.txt").write_text("no image")
    found = images_in(tmp_path)
    assert found.names.tolist() == ["b.png", "c.jpeg", "deep/er/a.JPG"]
    assert found[0].tolist() == np.full((2, 2, 3), 7).tolist()


def test_images_of_several_sizes_are_named_with_both(tmp_path):
    for name, shape in (("a.png", (3, 5, 3)), ("b.png", (3, 5, 3)), ("c.png", (3, 6, 3))):
        save(tmp_path / name, np.zeros(shape))
    said = refusal(check_images, images_in(tmp_path))
    assert re.search(r"c\.png' is 6×3 pixels where 5×3 is the first one's; pass size", said)
    said = refusal(check_images, images_in(tmp_path), expected=(6, 3))
    assert re.search(r"a\.png' is 5×3 pixels where 6×3 is what the network was trained on; resize it", said)
    check_images(images_in(tmp_path, size=4))


def test_files_that_are_no_images_are_counted_whatever_the_size(tmp_path):
    save(tmp_path / "a.png", np.zeros((2, 2, 3)))
    for name in ("b.png", "c.png"):
        (tmp_path / name).write_bytes(b"not an image")
    for size in (None, 4):
        said = refusal(check_images, images_in(tmp_path, size=size))
        assert re.search(r"b\.png' cannot be read as an image, and 1 more cannot be read; replace them", said)
    (tmp_path / "c.png").unlink()
    assert refusal(check_images, images_in(tmp_path)).endswith(
        "b.png' cannot be read as an image; replace it, or leave it out."
    )


def test_a_file_that_went_missing_is_not_called_a_broken_one(tmp_path):
    save(tmp_path / "a.png", np.zeros((2, 2, 3)))
    found = images_in(tmp_path)
    (tmp_path / "a.png").unlink()
    assert refusal(check_images, found).endswith("a.png' is missing; replace it, or leave it out.")


@pytest.mark.parametrize(("name", "dtype"), [("a.png", np.uint16), ("a.tif", np.float32), ("a.tif", np.int32)])
@pytest.mark.parametrize("size", [None, 4])
def test_images_of_more_than_8_bits_are_refused_as_they_would_become_white(tmp_path, name, dtype, size):
    # 0 … 3750 in steps of 250: as 8 bits all but the first two would be 255.
    Image.fromarray((np.arange(16).reshape(4, 4) * 250).astype(dtype)).save(tmp_path / name)
    found = images_in(tmp_path, size=size)
    assert (found[0] == 255).mean() > 0.8
    assert re.search(r"' has more than 8 bits per channel.*; scale such", refusal(check_images, found))


@pytest.mark.parametrize("size", [(8,), (8, 8, 3), 8.5, "8", (8, 0), True])
def test_a_size_that_is_none_is_one_sentence(tmp_path, size):
    save(tmp_path / "a.png", np.zeros((2, 2, 3)))
    assert refusal(images_in, tmp_path, size=size).startswith("size ")


def test_a_folder_without_images_or_none_at_all(tmp_path):
    assert "has no image (.bmp, " in refusal(images_in, tmp_path)
    assert "does not exist" in refusal(images_in, tmp_path / "x")
