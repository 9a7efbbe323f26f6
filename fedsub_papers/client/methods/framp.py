"""FRAMP, the device half: the numbers that are sent train, class means are pulled together."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.parts.embeddings import embeddings
from fedsub_client.parts.prototype_means import HELD, PrototypeLearner
from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.data.stacks import Stack, inputs
from fedsub_core.errors import ConfigError
from fedsub_core.method_parts.prototypes import PROTOTYPES
from fedsub_core.models.kinds import build_model
from fedsub_core.models.model import Model, Params
from fedsub_core.seeds import generator
from fedsub_core.training import CE, Turn, train
from fedsub_core.training.objectives import Forward, OfPrototypes
from fedsub_core.wire.bundles import Floats
from fedsub_papers.client.parts.sparse import SparseLearner
from fedsub_papers.methods.framp import (
    DESCRIPTOR,
    OF_SAMPLES,
    WANTED,
    FRAMPHyperparameters,
)

#: What the tensors of a trained extractor of features are called in a client's state.
EXTRACTOR = "extractor"


class FRAMPLearner(SparseLearner, PrototypeLearner):
    """Trains what it was sent; says once, where it is asked, what its data are like."""

    def check(self) -> None:
        """Refuse a descriptor of token ids, of which random features are no more than ids.

        And to describe anew what is no description of data.
        """
        super().check()
        kind, samples = self.hyper.descriptor, self.model.input_shape
        if self.hyper.descriptor_every and kind not in OF_SAMPLES:
            raise ConfigError(
                f"framp.descriptor-every: got {self.hyper.descriptor_every} beside descriptor = "
                f"{kind}, which stays as it is, expected 0, or descriptor = {OF_SAMPLES[0]}"
            )
        if kind in OF_SAMPLES and isinstance(samples, Tokens):
            raise ConfigError(
                f"framp.descriptor: got {kind!r} of token ids, whose numbers say nothing; set "
                "framp.descriptor = drawn, or none"
            )
        if kind == "trained" and isinstance(samples, Nodes):
            raise ConfigError(
                "framp.descriptor: got 'trained' of a graph, expected features: the extractor "
                "sees no edges"
            )

    @cached_property
    def extractor(self) -> Model:
        """The layer of features that a device trains, below a linear classifier."""
        shape, classes = self.model.input_shape, self.model.classes
        return build_model("mlp", shape, classes, hidden=str(self.hyper.size))

    def init(self, clients: int, seed: int) -> State:
        """Return the shared start; where devices train features, these are random."""
        state = super().init(clients, seed)
        if self.hyper.descriptor == "trained":
            state |= extracting(self.extractor.init(clients, seed))
        return state

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train under the mask and the pull, send the numbers held and the new class means."""
        state = self.receive(state, received)
        params, masks = self.get(state, "model"), self.masks(state)
        pull = ClassMeanPull(state[PROTOTYPES], state[HELD], self.hyper.lam)
        params, loss = self.train_masked(params, masks, data, turn, objective=self.loss + pull)
        uploads = self.sparse_uploads(params, masks, data)
        asked = [i for i, bundle in enumerate(received) if WANTED in bundle.tensors]
        state, described = self.described(state, asked, data, turn)
        for i, own in enumerate(self.prototype_parts(params, data, turn)):
            if i in described:
                own[DESCRIPTOR] = Floats(described[i].numpy())
            uploads[i] = replace(uploads[i], tensors={**uploads[i].tensors, **own})
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    def described(
        self, state: State, asked: Sequence[int], data: Stack, turn: Turn
    ) -> tuple[State, dict[int, Tensor]]:
        """Return the descriptors, float32 [size], of clients at places of the stack.

        Where devices train their features, they do so first, and keep them in the state.
        """
        size, seed = self.hyper.size, turn.seed
        if self.hyper.descriptor != "trained" or not asked:
            return state, {i: descriptor(data, i, size, seed) for i in asked}
        own = {name: state[f"{EXTRACTOR}.{name}"] for name in self.extractor.tensor_shapes}
        few, at = data.select(asked), list(asked)
        begun = {name: tensor[at] for name, tensor in own.items()}
        after, _ = train(
            self.extractor, begun, few, turn, settings=self.settings, objective=CE, phase=DESCRIPTOR
        )
        features = embeddings(self.extractor, after, few.x, scale=few.scale)
        means = (features * few.valid.unsqueeze(2)).sum(1) / few.valid.sum(1, keepdim=True)
        places = torch.tensor(at, device=means.device)
        kept = {name: own[name].index_copy(0, places, tensor) for name, tensor in after.items()}
        return state | extracting(kept), dict(zip(at, means.cpu(), strict=True))

    def class_means(self, params: Params, data: Stack, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return each class's mean embedding, perturbed where it is so configured (D.6)."""
        means, counts = super().class_means(params, data, turn)
        return perturbed(means, data.clients, turn, self.hyper), counts


def extracting(params: Params) -> State:
    """Return an extractor's parameters as a part of a client's state."""
    return {f"{EXTRACTOR}.{name}": tensor for name, tensor in params.items()}


def perturbed(
    means: Tensor, clients: Sequence[str], turn: Turn, hyper: FRAMPHyperparameters
) -> Tensor:
    """Return prototypes ``[clients, classes, d]`` rotated and with noise: ``Q P + eps``.

    Q is one orthogonal matrix for all; eps has the standard deviation ``a ||P||`` of each number.
    """
    d = means.shape[2]
    if hyper.prototype_rotation:
        drawn = torch.randn(d, d, generator=generator(turn.seed, "", 0, "prototype rotation"))
        means = means @ torch.linalg.qr(drawn).Q.T.to(means)
    if hyper.prototype_noise:
        streams = [generator(turn.seed, c, turn.round, "prototype noise") for c in clients]
        noise = torch.stack([torch.randn(means.shape[1:], generator=own) for own in streams])
        means = means + hyper.prototype_noise * means.norm(dim=2, keepdim=True) * noise.to(means)
    return means


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
