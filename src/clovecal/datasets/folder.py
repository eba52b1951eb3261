"""Your own images or texts of several domains, in the shape of the paper's WILDS data sets (its appendix B).

A table in any format that `clovecal.tables` reads has a label and a domain in each row, and the name of an image file
or a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clovecal._checks import AnyArray, FloatArray, check_choice, check_count
from clovecal.datasets._lazy import Inputs, LazyDataset, Texts
from clovecal.datasets._scores import average, by_domain, check_predicted, label_accuracy, pearson, worst
from clovecal.datasets.images import check_images, existing_folder, image_files, images_in
from clovecal.datasets.splits import hold_out
from clovecal.errors import InputError
from clovecal.tables.columns import Columns, read_columns

_VALIDATION_SHARE = 0.2


def image_folder(
    folder: str | Path,
    table: str | Path,
    *,
    file: str = "file",
    label: str = "label",
    domain: str | Sequence[str] = "domain",
    split: str | None = None,
    test_domains: Sequence[str] = (),
    validation: float | int = _VALIDATION_SHARE,
    task: str = "classification",
    size: int | tuple[int, int] | None = None,
    seed: int = 0,
) -> LazyDataset:
    r"""Read a folder of images and the table that describes them.

    Parameters
    ----------
    folder
        Where the images are.
    table
        File with a row per image.
    file, label
        Columns of the image's path inside ``folder`` and of its label.
    domain
        Column of domain labels; or several columns of 0 and 1, for domains that overlap.
    split
        Column that says which split a row is in ("train", "val", "test"); None: made from ``test_domains``.
    test_domains
        Without ``split``: domains to test on, whole.
    validation
        Without ``split``: rows of each other domain to validate on, or the share of its rows.
    task
        "classification" or "regression".
    size
        Width and height to resize every image to, or one number for both; None: images keep their size.
    seed
        Without ``split``: seed of the choice of validation rows.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is a (height, width, 3) uint8 image, ``y`` the label's place in ``classes``, which are sorted;
        ``metadata`` has row.

    Notes
    -----
    A name that leads out of ``folder`` is refused. Every image is looked for beforehand, and decoded when asked for. A
    resized image is the whole one, stretched where its proportions are others. Without ``size`` the images of a batch
    must be equal, which `check_images` tells.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as name:
    ...     for number, colour in enumerate(["red", "green", "blue", "white", "black", "grey"]):
    ...         Image.new("RGB", (4, 3), colour).save(Path(name) / f"{number}.png")
    ...     table = Path(name) / "photos.csv"
    ...     rows = "0.png,cat,home|1.png,dog,home|2.png,dog,street|3.png,cat,street|4.png,cat,zoo|5.png,dog,zoo"
    ...     _ = table.write_text("file,label,domain\n" + rows.replace("|", "\n"))
    ...     photos = image_folder(name, table, test_domains=["zoo"], validation=1)
    ...     print(photos.classes, photos.split_counts, photos.part("test").inputs[0].shape)
    ('cat', 'dog') {'train': 2, 'val': 2, 'test': 2} (3, 4, 3)
    """
    place = existing_folder(folder)
    columns = read_columns(Path(table), _named(file, label, domain, split))
    inputs = image_files(place, columns.texts(file), columns.rows, size)
    absent = next((index for index in range(len(inputs)) if not inputs.path(index).is_file()), None)
    if absent is not None:
        raise inputs.error(absent, f"is missing, which {str(table)!r} names", "add it, or drop the row")
    return _dataset(columns, inputs, label, domain, split, test_domains, validation, task, seed)


def text_table(
    table: str | Path,
    *,
    text: str = "text",
    label: str = "label",
    domain: str | Sequence[str] = "domain",
    split: str | None = None,
    test_domains: Sequence[str] = (),
    validation: float | int = _VALIDATION_SHARE,
    task: str = "classification",
    seed: int = 0,
) -> LazyDataset:
    r"""Read a table with a text, a label and a domain in each row.

    Parameters
    ----------
    table
        The file.
    text
        Column of the texts.
    label, domain, split, test_domains, validation, task, seed
        As in `image_folder`.

    Returns
    -------
    LazyDataset
        ``inputs[i]`` is a text.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as name:
    ...     table = Path(name) / "reviews.csv"
    ...     rows = '"good, cheap",1,books|bad,0,books|fine,1,food|poor,0,food'
    ...     _ = table.write_text("text,label,domain\n" + rows.replace("|", "\n"))
    ...     reviews = text_table(table, test_domains=["food"], validation=1)
    ...     print(reviews.inputs[0], reviews.y, reviews.split_counts)
    good, cheap [1 0 1 0] {'train': 1, 'val': 1, 'test': 2}
    """
    columns = read_columns(Path(table), _named(text, label, domain, split))
    return _dataset(columns, Texts(columns.texts(text)), label, domain, split, test_domains, validation, task, seed)


def evaluate(data: LazyDataset, y_pred: Any) -> dict[str, float]:
    """Score predicted labels by accuracy, or values by Pearson's r: over all rows, on average and at worst by domain.

    Examples
    --------
    >>> import numpy as np
    >>> from clovecal.datasets import LazyDataset, Texts
    >>> three = LazyDataset(
    ...     "reviews", "binary", ("bad", "good"), Texts(np.array(["a", "b", "c"])), np.array([0, 1, 1]),
    ...     np.array(["books", "food", "food"]), np.array(["test"] * 3),
    ... )
    >>> evaluate(three, [0, 1, 0])["worst_domain_accuracy"]
    0.5
    """
    predicted = check_predicted(data, y_pred)
    name, score = ("pearson", pearson) if data.task == "regression" else ("accuracy", label_accuracy)
    domains = by_domain(data, predicted)
    return {
        name: score(data.y, predicted),
        f"average_domain_{name}": average(domains.values()),
        f"worst_domain_{name}": worst(domains.values()),
    }


def _named(first: str, label: str, domain: str | Sequence[str], split: str | None) -> tuple[str, ...]:
    domains = (domain,) if isinstance(domain, str) else tuple(domain)
    if not domains:
        raise InputError("domain", "is empty", "name the column of domain labels")
    return tuple(dict.fromkeys((first, label, *domains, *([split] if split else []))))


def _dataset(
    columns: Columns,
    inputs: Inputs,
    label: str,
    domain: str | Sequence[str],
    split: str | None,
    test_domains: Sequence[str],
    validation: float | int,
    task: str,
    seed: int,
) -> LazyDataset:
    check_choice(task, "task", ("classification", "regression"))
    check_count(seed, "seed", at_least=0)
    domains, overlapping = _domains(columns, domain)
    if split is not None:
        if test_domains:
            raise InputError("test_domains and split", "are both given", "pass one of them")
        parts = columns.labels(split)
    elif overlapping:
        raise InputError(
            "domain", "has several columns, of domains that overlap", "name the column of splits with split"
        )
    else:
        # A table's domains are texts here, also those that are numbers in a list of domains to test on.
        test = [test_domains] if isinstance(test_domains, str) else [str(name) for name in test_domains]
        parts = hold_out(domains, test=test, validation=validation, seed=seed)
        if not (parts == "train").any():
            raise InputError("test_domains", "names every domain", "leave at least one to train on")
    classes, y = ((), columns.finite(label)) if task == "regression" else _classes(columns, label)
    kind = task if task == "regression" else "binary" if len(classes) == 2 else "multiclass"
    return LazyDataset(
        name=columns.path.stem,
        task=kind,
        classes=classes,
        inputs=inputs,
        y=y,
        domains=domains,
        split=parts,
        metadata={"row": columns.rows},
        overlapping=overlapping,
    )


def _domains(columns: Columns, domain: str | Sequence[str]) -> tuple[AnyArray, tuple[str, ...]]:
    if isinstance(domain, str) or len(domain) == 1:
        return columns.labels(domain if isinstance(domain, str) else domain[0]), ()
    membership = []
    for name in domain:
        values: FloatArray = columns.finite(name)
        wrong = ~np.isin(values, (0, 1))
        remedy = "it must hold 0 or 1, as domains that overlap do"
        columns.reject(name, wrong, f"is {values[np.argmax(wrong)]:g}", remedy)
        membership.append(values == 1)
    return np.column_stack(membership), tuple(domain)


def _classes(columns: Columns, label: str) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Return the distinct labels, sorted as numbers where they all are, and each row's place among them."""
    labels = columns.labels(label)
    names, codes = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            f"column {label!r}", f"of {str(columns.path)!r} is {str(names[0])!r} in every row", "give two classes"
        )
    try:
        order = np.argsort(names.astype(np.float64), kind="stable")
    except ValueError:
        order = np.arange(len(names))
    return tuple(names[order].tolist()), np.argsort(order)[codes].astype(np.int64)


__all__ = ["check_images", "evaluate", "image_folder", "images_in", "text_table"]
