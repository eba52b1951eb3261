"""Lightning: CLOvE in `training_step`, and the calibration error of every domain in the log of each epoch.

python docs/examples/lightning_clove.py [FOLDER OF THE LOG]
"""

import sys

import lightning
import torch
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

from clovecal.training import CLOvE
from clovecal.training.adapters import DomainLog

SITES = ("north", "east", "south", "west")
STRENGTH = torch.tensor([2.0, 1.0, 0.0, -0.5])  # of the second feature, which means something else at each site


def rows(n: int, seed: int) -> TensorDataset:
    """Return inputs, labels and the number of the site."""
    draw = torch.Generator().manual_seed(seed)
    site, y = torch.arange(n) % len(SITES), torch.randint(2, (n,), generator=draw)
    centres = torch.stack([torch.ones(n), STRENGTH[site]], dim=1) * (2 * y - 1)[:, None]
    return TensorDataset(centres + torch.randn(n, 2, generator=draw), y, site)


class Calibrated(lightning.LightningModule):
    """A linear classifier that is calibrated at every site."""

    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Linear(2, 1)
        # A part of the module, so that a checkpoint has its count of steps and validation does not count.
        self.objective = CLOvE(4000.0, anneal=100, of="positive", gamma=10.0)
        self.by_site = DomainLog(SITES)

    def training_step(self, batch, _):
        inputs, y, site = batch
        loss = self.objective(logits=self.network(inputs).squeeze(1), y=y, domains=site)
        self.log_dict(dict(loss.terms), on_step=False, on_epoch=True)
        return loss.total

    def validation_step(self, batch, _):
        inputs, y, site = batch
        self.by_site.add(self.network(inputs), y, site)

    def on_validation_epoch_end(self):
        self.log_dict(self.by_site.values())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.1)


if __name__ == "__main__":
    lightning.seed_everything(0, verbose=False)
    model = Calibrated()
    trainer = lightning.Trainer(
        max_epochs=125,
        accelerator="cpu",
        logger=CSVLogger(sys.argv[1] if len(sys.argv) > 1 else "lightning_logs"),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
        num_sanity_val_steps=0,
    )
    # Batches as large as fit: a penalty compares the sites of one batch. accumulate_grad_batches would average the
    # penalties of small batches, which is not the penalty of a large one.
    trainer.fit(model, DataLoader(rows(8000, 0), batch_size=2000, shuffle=True), DataLoader(rows(4000, 1), 2000))
    for name, value in trainer.callback_metrics.items():
        print(f"{name} {float(value):.3f}")
    print("weights", [round(weight, 2) for weight in model.network.weight[0].tolist()])  # the second one is near 0
