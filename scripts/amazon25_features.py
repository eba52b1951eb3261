"""Turn the reviews of 25 product lines into the features that ``clovecal.datasets.load_dataset("amazon25")`` reads.

Usage::

    pip install sentence-transformers pandas numpy
    python scripts/amazon25_features.py reviews.csv $CLOVECAL_DATA/amazon25/amazon25_minilm.npz

The reviews are those that M. Yu et al., Diverse Few-Shot Text Classification with Multiple Metrics, NAACL 2018, chose
from the Amazon reviews of J. Blitzer, M. Dredze and F. Pereira; the copy behind ``experiments/amazon25`` is the public
repository Gorov/DiverseFewShot_Amazon, which has removed stop words and states no licence: use them and publish none.
``reviews.csv`` has a row for each review: ``text``, ``domain`` (the product line) and ``label`` (1: five stars, 0:
fewer); bringing that repository's files into this form is left to you. Weights are those of
``sentence-transformers/all-MiniLM-L6-v2``, which the package downloads.

**This script has not been run as it stands**: it was written where there are neither the reviews nor a network. It
follows what is known of the file that was used: MiniLM-L6, 384 values in half precision.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reviews", type=Path, help="the table of reviews")
    parser.add_argument("output", type=Path, help="the npz file to write")
    given = parser.parse_args()

    import pandas as pd
    from sentence_transformers import SentenceTransformer

    table = pd.read_csv(given.reviews)
    if missing := {"text", "domain", "label"} - set(table.columns):
        raise SystemExit(f"{given.reviews} lacks the columns {', '.join(sorted(missing))}.")
    network = SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    embedded = network.encode(table["text"].astype(str).tolist(), batch_size=256, show_progress_bar=True)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        given.output,
        X=embedded.astype(np.float16),
        y=table["label"].to_numpy().astype(np.int8),
        domain=table["domain"].to_numpy().astype(np.str_),
        n_chars=table["text"].str.len().to_numpy().astype(np.int32),
    )
    print(f"{len(table):,} reviews; the study's file has 31,501.")


if __name__ == "__main__":
    main()
