"""An objective in the shape of a DomainBed ``Algorithm``."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from clovecal.errors import InputError
from clovecal.training.batch_domains import BatchDomains
from clovecal.training.loop.resets import ResetAtAnneal
from clovecal.training.loop.run import MakeOptimizer
from clovecal.training.objectives import Objective


class DomainBedAlgorithm(nn.Module):
    """Train a featurizer and a classifier by an objective, as DomainBed's scripts call it.

    Parameters
    ----------
    featurizer, classifier
        Modules: inputs to features, features to (n, C) logits.
    objective
        What to minimise; a copy of it is trained with and counts the updates.
    optimizer
        Called with the parameters; None: Adam with learning rate 0.001.
    reset_at_anneal
        Let the optimizer forget its moments where an annealed penalty gets its weight, as DomainBed's IRM and V-REx do.

    Notes
    -----
    ``update`` takes a list of (x, y), one of each training domain, and ``predict`` returns logits, as there; the state
    dict has the objective's counts and weights, not the optimizer's, as there. All rows go through the network at once
    (DomainBed's CORAL calls it for each domain, which differs where there is batch normalisation). Risks are means
    over rows, which with DomainBed's equal minibatches are means over domains. Annealed objectives of ours divide the
    loss by λ unless they are made with ``rescale=False``; DomainBed's do not.

    References
    ----------
    I. Gulrajani and D. Lopez-Paz (2021), In search of lost domain generalization, ICLR.

    Examples
    --------
    Beside the algorithms of a copy of DomainBed this is what gives CLOvE a name there::

        class CLOvE(DomainBedAlgorithm):
            def __init__(self, input_shape, num_classes, num_domains, hparams):
                featurizer = networks.Featurizer(input_shape, hparams)
                classifier = networks.Classifier(featurizer.n_outputs, num_classes, hparams["nonlinear_classifier"])
                make = partial(torch.optim.Adam, lr=hparams["lr"], weight_decay=hparams["weight_decay"])
                objective = clovecal.training.CLOvE(hparams["clove_lambda"], anneal=hparams["clove_anneal"])
                super().__init__(featurizer, classifier, objective, optimizer=make)

    >>> from clovecal.training import CLOvE
    >>> algorithm = DomainBedAlgorithm(nn.Linear(3, 4), nn.Linear(4, 2), CLOvE(10.0, anneal=500))
    >>> minibatches = [(torch.randn(8, 3), torch.arange(8) % 2) for _ in range(3)]
    >>> sorted(algorithm.update(minibatches))
    ['CLOvE', 'CLOvE weight', 'loss', 'risk']
    >>> algorithm.predict(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        featurizer: nn.Module,
        classifier: nn.Module,
        objective: Objective,
        *,
        optimizer: MakeOptimizer | None = None,
        reset_at_anneal: bool = True,
    ) -> None:
        super().__init__()
        self.featurizer, self.classifier, self.objective = featurizer, classifier, copy.deepcopy(objective)
        self.network = nn.Sequential(featurizer, classifier)
        trained = [one for one in self.parameters() if one.requires_grad]
        self.optimizer = (optimizer or torch.optim.Adam)(trained)
        self._reset = ResetAtAnneal(self.optimizer, self.objective) if reset_at_anneal else None

    def update(
        self, minibatches: Sequence[tuple[Tensor, Tensor]], unlabeled: Sequence[Tensor] | None = None
    ) -> dict[str, float]:
        """Take one step on a minibatch of each domain, and return the loss and its terms.

        Parameters
        ----------
        minibatches
            (x, y) of each domain, in the same order at each call.
        unlabeled
            Not looked at.
        """
        if not minibatches:
            raise InputError("minibatches", "is empty", "pass (x, y) of at least one domain")
        y = torch.cat([labels for _, labels in minibatches])
        rows = torch.tensor([len(labels) for _, labels in minibatches], device=y.device)
        codes = torch.repeat_interleave(torch.arange(len(rows), device=y.device), rows, output_size=len(y))
        features = self.featurizer(torch.cat([x for x, _ in minibatches]))
        if self._reset is not None:
            self._reset.before(int(self.objective.step))
        loss = self.objective(
            logits=self.classifier(features),
            y=y,
            domains=BatchDomains.of(codes, len(y), n_domains=len(minibatches)),
            features=features,
        )
        self.optimizer.zero_grad()
        loss.total.backward()
        self.optimizer.step()
        return {"loss": loss.total.item(), **{name: term.item() for name, term in loss.terms.items()}}

    def predict(self, x: Tensor) -> Tensor:
        """Return (n, C) logits."""
        logits: Tensor = self.network(x)
        return logits
