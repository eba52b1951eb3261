"""Image files before training: finding them, checking their sizes, and resizing them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clovecal._checks import check_count
from clovecal.datasets._lazy import Files, Inputs, decode_image, need_pillow
from clovecal.errors import InputError
from clovecal.tables.columns import TextArray

_ENDINGS = frozenset((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp", ".gif", ".ppm", ".pgm"))


@dataclass(frozen=True)
class ResizedImage:
    """Decodes an image file and resizes it, whole: nothing is cut off, so that its proportions may change.

    Attributes
    ----------
    width, height
        In pixels.
    """

    width: int
    height: int

    def __call__(self, path: Path) -> npt.NDArray[np.uint8]:
        """Return the image as (height, width, 3) uint8."""
        from PIL import Image

        with Image.open(path) as image:
            # A photograph is decoded at a fraction of its size where twice the wanted size is left, several times
            # faster; the filter then averages over what goes into a pixel.
            image.draft("RGB", (2 * self.width, 2 * self.height))
            return np.asarray(image.convert("RGB").resize((self.width, self.height), Image.Resampling.BILINEAR))


def image_files(
    folder: Path, names: TextArray, rows: npt.NDArray[np.int64] | None, size: int | tuple[int, int] | None
) -> Files:
    """Return image files that decode to their own size, or to one size; names that lead out of the folder are refused.

    Parameters
    ----------
    folder, names, rows
        As in `Files`.
    size
        None, the width and the height, or one number for both.

    Notes
    -----
    A table may come from a stranger, the folder does not: a link in it is followed wherever it leads.
    """
    need_pillow()
    files = Files(folder, names, rows, decode_image)
    outside = next((index for index, name in enumerate(names.tolist()) if _leads_out(folder, name)), None)
    if outside is not None:
        raise files.error(
            outside, "is outside the folder of images", "name images by their paths inside it, or name another folder"
        )
    if size is None:
        return files
    pair = tuple(size) if isinstance(size, (tuple, list)) else (size, size)
    if len(pair) != 2:
        raise InputError("size", f"is {size!r}", "pass the width and the height, or one number for both")
    resized = ResizedImage(check_count(pair[0], "size (width)"), check_count(pair[1], "size (height)"))
    return Files(folder, names, rows, resized)


def _leads_out(folder: Path, name: str) -> bool:
    """Whether a name in a table climbs, or is of a file that is not below the folder; links are not looked at."""
    path = Path(name)
    return ".." in path.parts or (path.is_absolute() and not path.is_relative_to(folder.absolute()))


def images_in(folder: str | Path, *, size: int | tuple[int, int] | None = None) -> Files:
    """Return every image in a folder and the folders below it, in the order of their paths.

    Parameters
    ----------
    folder
        Where to look. Images are recognised by the ending of their names; hidden files are left out.
    size
        As in `clovecal.datasets.folder.image_folder`.
    """
    place = existing_folder(folder)
    found = sorted(
        path.relative_to(place).as_posix()
        for path in place.rglob("*")
        if path.suffix.lower() in _ENDINGS and not path.name.startswith(".") and path.is_file()
    )
    if not found:
        raise InputError(f"folder {str(place)!r}", f"has no image ({', '.join(sorted(_ENDINGS))})", "check its name")
    return image_files(place, np.array(found, dtype=np.dtypes.StringDType()), None, size)


def check_images(inputs: Inputs, *, expected: tuple[int, int] | None = None) -> None:
    """Raise if an image file is missing, has no readable header, more than 8 bits per channel, or another size.

    Parameters
    ----------
    inputs
        Of a data set; other than image files they are left unread.
    expected
        Width and height that every image must have, a network's; None: the first one's. Of images that are resized any
        will do.

    Notes
    -----
    Only the headers are read, of every file: a file cut off in its middle is found when its turn comes. Images of 16 or
    32 bits are refused, because pillow would cut their values off at 255, which makes most of them white.

    Examples
    --------
    >>> import tempfile
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as name:
    ...     Image.new("RGB", (4, 3)).save(Path(name) / "a.png")
    ...     Image.new("RGB", (4, 4)).save(Path(name) / "b.png")
    ...     check_images(images_in(name, size=4))
    ...     try:
    ...         check_images(images_in(name))
    ...     except InputError as error:
    ...         print(str(error).partition("; ")[2])
    pass size, the width and height to which all are resized.
    """
    if not isinstance(inputs, Files) or not (inputs.decode is decode_image or isinstance(inputs.decode, ResizedImage)):
        return
    need_pillow()
    from PIL import Image

    broken, size = [], expected
    for index in range(len(inputs)):
        if not inputs.path(index).is_file():  # a pipe would be waited for, a device have no end
            broken.append(index)
            continue
        try:
            with Image.open(inputs.path(index)) as image:
                found, deep = image.size, image.mode in ("I", "F") or image.mode.startswith("I;16")
        except Exception:  # a damaged file makes decoders raise nearly anything
            broken.append(index)
            continue
        if deep:
            raise inputs.error(
                index, "has more than 8 bits per channel, which would be cut off", "scale such images to 8 bits first"
            )
        size = size or found
        if found != size and inputs.decode is decode_image:
            wanted = "what the network was trained on" if expected else "the first one's"
            raise inputs.error(
                index,
                f"is {found[0]}×{found[1]} pixels where {size[0]}×{size[1]} is {wanted}",
                "resize it first" if expected else "pass size, the width and height to which all are resized",
            )
    if broken:
        wrong = "cannot be read as an image" if inputs.path(broken[0]).exists() else "is missing"
        more = f", and {len(broken) - 1} more cannot be read" if len(broken) > 1 else ""
        remedy = "replace them, or leave them out" if more else "replace it, or leave it out"
        raise inputs.error(broken[0], f"{wrong}{more}", remedy)


def resized_to(inputs: Inputs) -> tuple[int, int] | None:
    """Return the width and height that images are resized to, or None where they keep theirs."""
    if isinstance(inputs, Files) and isinstance(inputs.decode, ResizedImage):
        return inputs.decode.width, inputs.decode.height
    return None


def existing_folder(folder: str | Path) -> Path:
    """Return the path of a folder of images, or raise if it is none."""
    place = Path(folder)
    if not place.is_dir():
        raise InputError(f"folder {str(place)!r}", "does not exist", "name the folder that holds the images")
    return place


__all__ = ["ResizedImage", "check_images", "existing_folder", "image_files", "images_in", "resized_to"]
