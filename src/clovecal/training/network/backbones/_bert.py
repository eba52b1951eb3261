"""BERT of transformers: texts as tokens, and the cls token's mean over the last four layers (paper: appendix B)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clovecal.datasets import Inputs
from clovecal.errors import InputError
from clovecal.training.network.backbones.classifier import one_column

_LAYERS = 4  # whose cls tokens are averaged


@dataclass(frozen=True, eq=False)
class Tokens:
    """Texts as padded token numbers and a mask."""

    inputs: Inputs
    tokenizer: Any
    length: int

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        read = self.tokenizer(
            str(self.inputs[index]),
            padding="max_length",
            truncation=True,
            max_length=self.length,
            return_tensors="pt",
        )
        return {name: read[name][0] for name in ("input_ids", "attention_mask")}


class BertClassifier(nn.Module):
    """BERT with dropout and a linear layer on its pooled cls token, as WILDS fine-tunes it.

    Parameters
    ----------
    name
        As transformers names it.
    weights
        "cache": from the cache of the hub; or a folder with configuration and weights.
    n_outputs
        1, or the number of classes.

    Notes
    -----
    The features are not what the last layer sees: they are the paper's, the mean of the cls token over the last four
    layers. Padding that no text of a batch needs is cut off, which changes no output.
    """

    def __init__(self, name: str, weights: str | Path | None, n_outputs: int) -> None:
        super().__init__()
        self.bert = _pretrained("BertModel", name, weights, add_pooling_layer=True)
        config = self.bert.config
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.top = nn.Linear(config.hidden_size, n_outputs)

    def forward(self, tokens: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return logits and features."""
        mask = tokens["attention_mask"]
        longest = int(mask.sum(dim=1).max())
        read = self.bert(
            input_ids=tokens["input_ids"][:, :longest], attention_mask=mask[:, :longest], output_hidden_states=True
        )
        features = torch.stack([layer[:, 0] for layer in read.hidden_states[-_LAYERS:]]).mean(dim=0)
        return one_column(self.top(self.dropout(read.pooler_output))), features


def bert(name: str, *, n_outputs: int, weights: str | Path | None, **_: Any) -> nn.Module:
    return BertClassifier(name, weights, n_outputs)


def tokens(name: str, inputs: Inputs, *, weights: str | Path | None, max_tokens: int) -> Any:
    """Return texts as this BERT's tokens."""
    return Tokens(inputs, _pretrained("BertTokenizerFast", name, weights), max_tokens)


def _pretrained(kind: str, name: str, weights: str | Path | None, **options: Any) -> Any:
    """Load from a folder or the cache; nothing is downloaded here."""
    transformers = import_module("transformers")
    if weights is None:
        raise InputError("weights", "is missing", f"{name} needs 'cache' or a folder with its vocabulary and weights")
    place = name if weights == "cache" else str(weights)
    if weights != "cache" and not Path(place).is_dir():
        raise InputError(
            f"weights {place!r}", "is not a folder", f"name the folder that holds {name} as transformers saves it"
        )
    try:
        return getattr(transformers, kind).from_pretrained(place, local_files_only=True, **options)
    except (OSError, ValueError):
        raise InputError(
            "the cache of the hub" if weights == "cache" else f"folder {place!r}",
            f"does not hold {name}",
            f"download {name} from the hub into a folder, and pass that folder as weights",
        ) from None
