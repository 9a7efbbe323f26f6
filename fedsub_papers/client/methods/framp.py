"""FRAMP, the device half: the numbers that are sent train, class means are pulled together."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.parts.prototype_means import HELD, PrototypeLearner
from fedsub_core.data.samples import Tokens
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.errors import ConfigError
from fedsub_core.method_parts.prototypes import PROTOTYPES
from fedsub_core.models.model import Params
from fedsub_core.seeds import generator
from fedsub_core.training import Turn
from fedsub_core.training.objectives import Forward, OfPrototypes
from fedsub_core.wire.bundles import Floats
from fedsub_papers.client.parts.sparse import SparseLearner
from fedsub_papers.methods.framp import DESCRIPTOR, WANTED


class FRAMPLearner(SparseLearner, PrototypeLearner):
    """Trains what it was sent; says once, where it is asked, what its data are like."""

    def check(self) -> None:
        """Refuse a descriptor of token ids, of which random features are no more than ids.

        And to describe anew what is no description of data.
        """
        super().check()
        if self.hyper.descriptor_every and self.hyper.descriptor != "features":
            raise ConfigError(
                f"framp.descriptor-every: got {self.hyper.descriptor_every} beside descriptor = "
                f"{self.hyper.descriptor}, which stays as it is, expected 0, or descriptor = "
                "features"
            )
        ids = isinstance(self.model.input_shape, Tokens)
        if ids and self.hyper.descriptor == "features":
            raise ConfigError(
                "framp.descriptor: got 'features' of token ids, whose numbers say nothing; set "
                "framp.descriptor = drawn, or none"
            )

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train under the mask and the pull, send the numbers held and the new class means."""
        state = self.receive(state, received)
        params, masks = self.get(state, "model"), self.masks(state)
        pull = ClassMeanPull(state[PROTOTYPES], state[HELD], self.hyper.lam)
        params, loss = self.train_masked(params, masks, data, turn, objective=self.loss + pull)
        uploads = self.sparse_uploads(params, masks, data)
        for i, own in enumerate(self.prototype_parts(params, data, turn)):
            if WANTED in received[i].tensors:
                own[DESCRIPTOR] = Floats(descriptor(data, i, self.hyper.size, turn.seed).numpy())
            uploads[i] = replace(uploads[i], tensors={**uploads[i].tensors, **own})
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)


def descriptor(data: Stack, i: int, size: int, seed: int) -> Tensor:
    """Return the mean over the `i`-th client's samples of random features, float32 [size].

    Features are the outputs of a layer with ReLU that the run's seed alone decides: the same for
    all. Its weights are as large as those of a plain start.
    """
    scale = None if data.scale is None else data.scale[i : i + 1]
    x = inputs(data.x[i : i + 1, : data.counts[i]], scale)[0].flatten(1).double().cpu()
    x = x[:, 1:] if data.context else x  # a node's number says nothing of it
    stream, bound = generator(seed, "", 0, "descriptor"), x.shape[1] ** -0.5
    weight, bias = (
        (torch.rand(shape, generator=stream, dtype=torch.float64) * 2 - 1) * bound
        for shape in ((x.shape[1], size), (size,))
    )
    mean: Tensor = (x @ weight + bias).relu().mean(0)
    return mean.float()


class ClassMeanPull(OfPrototypes):
    """Pulls each class's mean embedding in a batch to its prototype.

    ``weight * sum_c mean((mean_{x of c} h(x) - prototype_c)**2)`` over the classes of the batch
    that have a prototype; the inner mean is over the embedding's numbers. FRAMP, eq. 4.
    """

    @property
    def active(self) -> bool:
        """Whether it pulls anybody: with nobody's prototype, the kernels train."""
        return super().active and bool(self.held.any())

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`."""
        embedding, batch = forward.embedding.flatten(2), forward.batch
        of_class = F.one_hot(batch.y, own["held"].shape[1]) * (batch.weight > 0).unsqueeze(2)
        counts = of_class.sum(1)
        sums = of_class.to(embedding.dtype).transpose(1, 2).bmm(embedding)
        away = sums / counts.clamp(min=1).unsqueeze(2) - own["prototypes"]
        return self.weight * (away.square().mean(2) * (own["held"] & (counts > 0))).sum()
