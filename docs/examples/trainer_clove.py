"""The Trainer of transformers: V-REx in `compute_loss`, with the shop of each text in the batch.

python docs/examples/trainer_clove.py [FOLDER FOR THE TRAINER]
"""

import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from clovecal import accuracy, ece
from clovecal.training import VREx
from clovecal.training.adapters import DomainLog

SHOPS = {
    "north": 0.95,
    "south": 0.7,
}  # how often the brand says what the label is; in the new shop it says the opposite
CLS, WORDS, BRANDS, FILLER = 1, (2, 3), (4, 5), 6


def reviews(shops: dict[str, float], n: int, seed: int) -> list[dict]:
    """Return texts of a word that is right about 85% of them in every shop, a brand, and filler."""
    draw, rows = torch.Generator().manual_seed(seed), []
    for domain, share in enumerate(shops.values()):
        for _ in range(n):
            y = int(torch.randint(2, (), generator=draw))
            word, brand = (y if float(torch.rand((), generator=draw)) < right else 1 - y for right in (0.85, share))
            tokens = torch.tensor([CLS, WORDS[word], FILLER, BRANDS[brand]])
            rows.append({"input_ids": tokens, "labels": y, "domain": domain})
    return rows


class Invariant(Trainer):
    """Minimises an objective of clovecal instead of the model's own loss."""

    def __init__(self, *args, objective, **kwargs):
        super().__init__(*args, **kwargs)
        self.objective = objective

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        inputs = dict(inputs)
        y, domain = inputs.pop("labels"), inputs.pop("domain")
        outputs = model(**inputs)
        objective = self.objective.to(y.device).train(model.training)
        objective.step.fill_(self.state.global_step)  # steps of the optimizer, also in a run that is resumed
        loss = objective(logits=outputs.logits, y=y, domains=domain).total
        return (loss, outputs) if return_outputs else loss


def by_shop(prediction):
    """Return what the Trainer logs of each evaluation."""
    y, domain = prediction.label_ids
    log = DomainLog(tuple(SHOPS), metrics=(ece, accuracy))
    log.add(prediction.predictions, y, domain)
    return log.values()


if __name__ == "__main__":
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=8, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
    )
    arguments = TrainingArguments(
        output_dir=sys.argv[1] if len(sys.argv) > 1 else "trainer",
        max_steps=400,
        eval_strategy="steps",
        eval_steps=100,
        per_device_train_batch_size=256,  # a penalty compares the shops of one batch, so leave accumulation at 1
        per_device_eval_batch_size=1000,
        learning_rate=2e-3,
        label_names=["labels", "domain"],  # both come to compute_metrics
        remove_unused_columns=False,  # the model does not know "domain"
        use_cpu=True,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=0,
    )
    trainer = Invariant(
        BertForSequenceClassification(config),
        arguments,
        train_dataset=reviews(SHOPS, 2000, 0),
        eval_dataset=reviews(SHOPS, 500, 1),
        compute_metrics=by_shop,
        objective=VREx(100.0, anneal=100),
    )
    trainer.train()
    for name, value in trainer.evaluate().items():
        if "/" in name:
            print(f"{name} {value:.3f}")
    new = trainer.predict(reviews({"new": 0.1}, 1000, 2), metric_key_prefix="new")
    print(f"new shop: accuracy {accuracy(new.label_ids[0], torch.tensor(new.predictions).softmax(1).numpy()):.3f}")
