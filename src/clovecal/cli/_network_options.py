"""Options of ``clovecal finetune`` that are of a whole network on images or texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def network_options(command: F) -> F:
    """Add the options of a whole network."""
    for option in reversed(
        (
            click.option(
                "--images",
                type=click.Path(path_type=Path),
                metavar="FOLDER",
                help="Train a network on the images in this folder, which TABLE names.",
            ),
            click.option("--texts", is_flag=True, help="Train a network on the texts in TABLE."),
            click.option(
                "--input", metavar="NAME", help="Column of images' files, or of texts (guessed: file, text, …)."
            ),
            click.option("--split", metavar="NAME", help="Column that says train, val or test (guessed: split)."),
            click.option(
                "--test-domain",
                "test_domains",
                multiple=True,
                metavar="DOMAIN",
                help="Keep this domain out of training and test on it; once per domain, instead of --split.",
            ),
            click.option(
                "--validation",
                type=click.FloatRange(0, 1, min_open=True, max_open=True),
                default=0.2,
                show_default=True,
                help="Share of every other domain's rows to validate on.",
            ),
            click.option(
                "--task",
                type=click.Choice(["classification", "regression"]),
                default="classification",
                show_default=True,
                help="What the label is.",
            ),
            click.option(
                "--size", metavar="PIXELS", help="Resize each image, whole, to 224 or 320x240 (width x height)."
            ),
            click.option(
                "--backbone",
                metavar="NAME",
                help="tiny-image or tiny-text (default: small, for trying out); resnet18, 34, 50, densenet121, 169, "
                "201; bert-base-uncased, bert-base-cased, bert-large-uncased.",
            ),
            click.option(
                "--weights",
                metavar="PATH",
                help="Start from these weights: a file, for BERT a folder; or cache, for those that torchvision or "
                "transformers keep there.",
            ),
            click.option("--epochs", type=click.IntRange(1), help="Passes over the rows; default: by the backbone."),
            click.option("--lr", type=float, help="Learning rate; default: by the backbone."),
            click.option("--weight-decay", type=click.FloatRange(0), help="Weight decay; default: by the backbone."),
            click.option(
                "--warm-up",
                type=click.IntRange(0),
                metavar="EPOCHS",
                help="Epochs before the penalty has its weight; default: a fifth for clove and irm, else 0.",
            ),
            click.option(
                "--domains-per-batch",
                type=click.IntRange(1),
                help="Domains that a batch has rows of, where there are many; default: all. Of no use to erm.",
            ),
            click.option("--flips", is_flag=True, help="Mirror images at random in training."),
            click.option(
                "--max-tokens", type=click.IntRange(1), help="Tokens of a text that BERT reads; default: 300."
            ),
            click.option("--precision", type=click.Choice(["bf16", "fp16"]), help="Train in half precision."),
            click.option(
                "--workers", type=click.IntRange(0), default=0, show_default=True, help="Processes that read inputs."
            ),
            click.option(
                "--checkpoint-every",
                type=click.IntRange(1),
                metavar="STEPS",
                help="Steps that a killed run may lose; default: an epoch, within 50 to 500.",
            ),
        )
    ):
        command = option(command)
    return command
