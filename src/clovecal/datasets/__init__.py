"""Data sets whose rows know their domain: the package's own, a user's, and what both are made of.

`load_dataset` loads one by name, and `register_dataset` makes a user's own known. `clovecal.datasets.folder` reads your
own images and texts, `clovecal.datasets.wilds` those of the paper's tables 2 and 3.
"""

from clovecal.datasets._base import DomainDataset
from clovecal.datasets._colored import colored_digits
from clovecal.datasets._flights import load_flights
from clovecal.datasets._lazy import Files, Inputs, LazyDataset, Texts, combined, decode_image, decode_npz
from clovecal.datasets._mnist import Digits, load_digits, load_mnist
from clovecal.datasets._tables import load_table
from clovecal.datasets.images import check_images, existing_folder, image_files, images_in, resized_to
from clovecal.datasets.registry import DATA_SETS, DataFile, DataSet, load_dataset, register_dataset

__all__ = [
    "DATA_SETS",
    "DataFile",
    "DataSet",
    "Digits",
    "DomainDataset",
    "Files",
    "Inputs",
    "LazyDataset",
    "Texts",
    "check_images",
    "colored_digits",
    "combined",
    "decode_image",
    "decode_npz",
    "existing_folder",
    "image_files",
    "images_in",
    "load_dataset",
    "load_digits",
    "load_flights",
    "load_mnist",
    "load_table",
    "register_dataset",
    "resized_to",
]
