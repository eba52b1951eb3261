"""Predictions of a trained network for new images or texts, with labels and domains where they are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from clovecal._checks import AnyArray
from clovecal.datasets import Inputs, Texts, check_images, existing_folder, image_files, images_in
from clovecal.errors import InputError
from clovecal.tables import Columns, Roles, read_columns
from clovecal.tables.writing import as_table
from clovecal.training.network.columns import find_roles
from clovecal.training.network.exporting import predicted_columns
from clovecal.training.network.folder import Description, TrainedNetwork
from clovecal.training.network.training import predict

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class NewRows:
    """New rows to predict.

    Attributes
    ----------
    inputs
        Images or texts.
    kept
        Columns that are written beside the predictions: which row it is, labels as numbers of classes, domains.
    roles
        The table's columns; None without a table.
    """

    inputs: Inputs
    kept: Mapping[str, AnyArray]
    roles: Roles | None

    def __len__(self) -> int:
        return len(self.inputs)


def read_new(
    network: TrainedNetwork,
    table: str | Path | None,
    *,
    images: str | Path | None = None,
    input: str | None = None,
    label: str | None = None,
    domains: Sequence[str] = (),
) -> NewRows:
    """Read new images or texts for a network, and check that it can read them.

    Parameters
    ----------
    network
        From `load_network`.
    table
        File with an image's name or a text in each row; None: every image of the folder.
    images
        Folder of the images; None: the table has texts.
    input, label, domains
        Columns; guessed when not given, and label and domains may be missing.
    """
    described = network.description
    kind = described.kind
    if images is None and kind == "image":
        raise InputError("images", "is missing", "this network reads images: name their folder")
    if images is not None and kind == "text":
        raise InputError("images", f"is {str(images)!r}", "this network reads texts: leave it out")
    size = described.image[:2] if described.image is not None and described.resized else None
    if table is None:
        if images is None:
            raise InputError("table", "is missing", "name the table of the texts")
        files = images_in(images, size=size)
        check_images(files, expected=_size(described))
        return NewRows(inputs=files, kept={"file": files.names}, roles=None)
    roles = find_roles(table, kind, input=input, label=label, domains=domains, training=False)
    assert roles.input is not None  # a table without one was refused
    columns = read_columns(table, tuple(dict.fromkeys(roles.used)))
    kept: dict[str, AnyArray] = {"row": columns.rows}
    inputs: Inputs
    if images is None:
        inputs = Texts(columns.texts(roles.input))
    else:
        files = image_files(existing_folder(images), columns.texts(roles.input), columns.rows, size)
        check_images(files, expected=_size(described))
        kept[roles.input], inputs = files.names, files
    if roles.label is not None and (label is not None or (columns.texts(roles.label) != "").any()):
        kept[roles.label] = _labels(columns, roles.label, described)
    for name in roles.domains:
        kept[name] = columns.labels(name) if len(roles.domains) == 1 else columns.whole(name)
    return NewRows(inputs=inputs, kept=kept, roles=roles)


def predictions(network: TrainedNetwork, rows: NewRows, *, features: bool = False) -> pa.Table:
    """Return a table of the rows' known columns and p (or ``p_0`` and so on), the predicted label, and the features.

    Parameters
    ----------
    network
        From `load_network`.
    rows
        From `read_new`.
    features
        Whether to add the features ``emb_0`` and so on, which a head reads.
    """
    described = network.description
    outputs = predict(network.module, described.recipe, rows.inputs, resources=network.resources)
    made = predicted_columns(outputs, described.task, features=features)
    if described.task != "regression":
        made["predicted"] = np.array(described.classes)[outputs.labels()]
    return as_table(made, kept=rows.kept)


def _labels(columns: Columns, name: str, described: Description) -> AnyArray:
    if described.task == "regression":
        return columns.finite(name)
    labels = columns.labels(name)
    numbers = {known: number for number, known in enumerate(described.classes)}
    unknown = np.array([label not in numbers for label in labels.tolist()])
    found = str(labels[np.argmax(unknown)])
    known = ", ".join(described.classes[:12])
    columns.reject(
        name, unknown, f"is {found!r}, a label that the network was not trained on ({known})", "drop such rows"
    )
    return np.array([numbers[label] for label in labels.tolist()])


def _size(described: Description) -> tuple[int, int] | None:
    return None if described.image is None else described.image[:2]
