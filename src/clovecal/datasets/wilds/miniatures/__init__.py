"""Generated folders in the layout of each WILDS data set, with a planted invariant signal and a planted spurious one.

The invariant signal agrees with the label equally often in every domain. The spurious one agrees more often in most
training domains and mostly disagrees where the model is tested, so that a model which trusts it fails there, and shows
it beforehand by being calibrated differently in the training domains.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from clovecal._checks import check_choice, check_count
from clovecal.datasets.wilds import amazon, camelyon17, civilcomments, fmow, poverty
from clovecal.datasets.wilds._base import MINIATURE, Published, release_file
from clovecal.datasets.wilds.miniatures import _images, _texts
from clovecal.datasets.wilds.miniatures._planting import INVARIANT
from clovecal.errors import InputError

_Writer = Callable[[Path, int, int, np.random.Generator], None]


def _sizeless(writer: Callable[[Path, int, np.random.Generator], None]) -> _Writer:
    """Give the writer of texts the signature of one of images."""
    return lambda folder, rows, _size, rng: writer(folder, rows, rng)


_WRITERS: dict[str, tuple[_Writer, Published, int]] = {  # with the fewest rows that fill every split
    "camelyon17": (_images.camelyon17, camelyon17.PUBLISHED, 50),
    "civilcomments": (_sizeless(_texts.civilcomments), civilcomments.PUBLISHED, 50),
    "fmow": (_images.fmow, fmow.PUBLISHED, 100),
    "poverty": (_images.poverty, poverty.PUBLISHED, 46),
    "amazon": (_sizeless(_texts.amazon), amazon.PUBLISHED, 100),
}
_EDITION = 1  # raise it when the generated content changes


def write(name: str, root: str | Path, *, rows: int = 1000, size: int = 32, seed: int = 0) -> Path:
    """Write a miniature of a WILDS data set, and return its folder.

    Parameters
    ----------
    name
        "camelyon17", "civilcomments", "fmow", "poverty" or "amazon".
    root
        The folder to put ``<name>_v<version>`` into; made if need be.
    rows
        Rows of the table.
    size
        Height and width of the images in pixels; without meaning for texts.
    seed
        The same seed gives the same rows, texts and pixels.

    Returns
    -------
    Path
        The folder, complete. If it is there already, made with the same options, it is left as it is.

    Notes
    -----
    The invariant signal is right in 3 of 4 rows (for poverty, the label plus noise) everywhere: tumour is a dark disc
    in the centre, land use a pattern, wealth the daylight bands, toxicity and stars a word. The spurious one is the
    tint of an image, the lights at night, another word. The tables have two columns more than the published ones,
    ``planted_invariant`` and ``planted_spurious``, which no reader looks at.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as root:
    ...     folder = write("civilcomments", root, rows=60)
    ...     print(folder.name, sorted(path.name for path in folder.iterdir()))
    civilcomments_v1.0 ['RELEASE_v1.0.txt', 'all_data_with_identities.csv']
    """
    check_choice(name, "name", tuple(_WRITERS))
    writer, published, fewest = _WRITERS[name]
    rows, size = check_count(rows, "rows", at_least=fewest), check_count(size, "size", at_least=8)
    root = Path(root)
    folder = root / f"{name}_v{published.versions[0]}"
    made = f"{MINIATURE} of {name}: rows={rows}, size={size}, seed={seed}, edition={_EDITION}\n"
    if folder.exists():
        release = release_file(folder)
        if release.is_file() and release.read_text(encoding="utf-8", errors="replace") == made:
            return folder
        raise InputError(f"folder {str(folder)!r}", "holds something else", "choose another root or remove it")
    root.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=root))
    try:
        writer(unfinished, rows, size, np.random.default_rng(seed))
        (unfinished / release_file(folder).name).write_text(made, encoding="utf-8")
        unfinished.chmod(0o755)  # mkdtemp's folders are for their maker alone
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


__all__ = ["INVARIANT", "write"]
