"""Miniatures of the two text data sets: comments and reviews."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from clovecal.datasets.wilds.civilcomments import IDENTITIES
from clovecal.datasets.wilds.miniatures._planting import INVARIANT, deal, plant, write_table

# How often the spurious word is the label's, in comments that mention no identity and in those that mention one (the
# lowest counts where there are several). Nothing is unseen here: the shift is between subpopulations.
WORD_WITHOUT_IDENTITY = 0.9
WORD_BY_IDENTITY = np.array([0.9, 0.85, 0.3, 0.9, 0.35, 0.75, 0.25, 0.8])  # in the order of IDENTITIES
# The same by reviewer: in turn for those of train, id_val and id_test, then of val, then of test.
WORD_BY_REVIEWER = {"train": (0.95, 0.9, 0.5, 0.95), "val": (0.8, 0.6), "test": (0.1, 0.05)}

_FILLERS = (
    "the",
    "a",
    "this",
    "of",
    "to",
    "and",
    "on",
    "for",
    "with",
    "that",
    "it",
    "as",
    "from",
    "was",
    "will",
    "some",
)
_CIVIL, _TOXIC = ("agree", "thanks", "fair"), ("rubbish", "stupid", "liar")
_TONE = ("perhaps", "honestly")
_MENTIONS = ("men", "women", "gay", "christians", "muslims", "hindus", "black", "white")
_BY_STARS = ("terrible", "poor", "okay", "good", "excellent")
_TOPIC = ("box", "gift", "battery", "novel", "charger")
_REVIEWERS = {"train": 12, "val": 6, "test": 6}
_SPLIT_CODES = {"train": 0, "val": 1, "id_val": 2, "test": 3, "id_test": 4}


def civilcomments(folder: Path, rows: int, rng: np.random.Generator) -> None:
    """Write comments: a word tells toxicity, another one mostly does, depending on the identity mentioned."""
    y = (rng.uniform(size=rows) < 0.4).astype(np.int64)
    member = (rng.uniform(size=(rows, 8)) < 0.2) & (rng.uniform(size=(rows, 1)) < 0.4)
    member[np.arange(8), np.arange(8)] = True  # every identity is there, however few the rows
    agreement = np.where(member, WORD_BY_IDENTITY, WORD_WITHOUT_IDENTITY).min(axis=1)
    word, tone = plant(y, INVARIANT, 2, rng), plant(y, agreement, 2, rng)
    comments = []
    for row in range(rows):
        words = [str(rng.choice(_TOXIC if word[row] else _CIVIL)), _TONE[tone[row]]]
        words += [name for name, mentioned in zip(_MENTIONS, member[row], strict=True) if mentioned]
        comments.append(_sentence(words, rng))
    split = deal(np.array(["train"] * 6 + ["val"] + ["test"] * 3), rows, rng)
    rated = member.any(axis=1) | (rng.uniform(size=rows) < 0.5)
    shares = {
        name: np.where(rated, _rating(member[:, i], rng).astype(np.str_), "") for i, name in enumerate(IDENTITIES)
    }
    further = ("severe_toxicity", "obscene", "threat", "insult", "identity_attack", "sexual_explicit")
    write_table(
        folder / "all_data_with_identities.csv",
        {
            "id": np.arange(rows) + 239_000, "split": split, "comment_text": np.array(comments),
            "toxicity": _rating(y == 1, rng), **shares, "identity_any": np.where(member.any(axis=1), 1.0, 0.0),
            **{name: _rating((y == 1) & (rng.uniform(size=rows) < 0.2), rng) for name in further},
            "planted_invariant": word, "planted_spurious": tone,
        },
        index=True,
    )  # fmt: skip


def amazon(folder: Path, rows: int, rng: np.random.Generator) -> None:
    """Write reviews: a word tells the stars, another one mostly does, depending on the reviewer."""
    kind = deal(np.array(["train"] * 6 + ["val"] * 2 + ["test"] * 2), rows, rng)
    number = rng.integers(0, np.array([_REVIEWERS[one] for one in kind]))
    agreement = np.array([WORD_BY_REVIEWER[a][b % len(WORD_BY_REVIEWER[a])] for a, b in zip(kind, number, strict=True)])
    y = deal(np.arange(5), rows, rng)
    word, topic = plant(y, INVARIANT, 5, rng), plant(y, agreement, 5, rng)
    part = np.where(kind == "train", rng.choice(["train", "id_val", "id_test"], p=[0.7, 0.15, 0.15], size=rows), kind)
    code = np.array([_SPLIT_CODES[one] for one in part])
    code[rng.uniform(size=rows) < 0.05] = -1  # in no split
    year = rng.integers(2000, 2019, size=rows)
    write_table(
        folder / "reviews.csv",
        {
            "reviewerID": np.array([f"A{a.upper()}{b:03d}" for a, b in zip(kind, number, strict=True)]),
            "asin": np.array([f"B{one:05d}" for one in rng.integers(0, 200, size=rows)]),
            "overall": (y + 1).astype(np.float64),
            "reviewTime": np.array([f"07 {one % 28 + 1}, {one}" for one in year]),
            "unixReviewTime": (year - 1970) * 31_556_952,
            "reviewText": np.array(
                [_sentence([_BY_STARS[a], _TOPIC[b]], rng) for a, b in zip(word, topic, strict=True)]
            ),
            "summary": np.array([str(rng.choice(_FILLERS)) for _ in range(rows)]),
            "verified": rng.uniform(size=rows) < 0.9,
            "category": np.array([str(rng.choice(["Books", "Electronics", "Pet_Supplies"])) for _ in range(rows)]),
            "reviewYear": year,
            "planted_invariant": word,
            "planted_spurious": topic,
        },
        quote=True,
    )
    write_table(folder / "splits" / "user.csv", {"split": code})


def _sentence(words: list[str], rng: np.random.Generator) -> str:
    """Return the words among fillers in random order; some with quotes, commas or a line break, as people write."""
    mixed = [*words, *rng.choice(_FILLERS, size=int(rng.integers(5, 12))).tolist()]
    text = [mixed[i] for i in rng.permutation(len(mixed))]
    text[0] = rng.choice(["{}", "{}", "{}", '"{}"', "{},", "{}\n", "{}…"]).format(text[0])
    return " ".join(text) + "."


def _rating(positive: npt.NDArray[np.bool_], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return shares of raters: at least one half where positive, less elsewhere."""
    return np.where(positive, rng.integers(5, 11, size=len(positive)), rng.integers(0, 5, size=len(positive))) / 10
