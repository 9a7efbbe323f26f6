"""A person's mixture: several models of one architecture, and how much each is believed.

What a device is tested with, exports and predicts with, where a method gives a person more than one
model. Its parameters are plain named tensors, as a single model's are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from fedsub_client.methods.fedsub_gated.probabilities import (
    HELD,
    MEANS,
    OPEN,
    SPREAD,
    TEMPERATURE,
    TINY,
    WEIGHTS,
    distances,
    finite,
    of_held,
    tempered,
    unit_length,
)
from fedsub_client.predictor import Predictor
from fedsub_core.methods.fedsub_gated_experts import FUSED, HEAD, names
from fedsub_core.models.architecture import Shape
from fedsub_core.models.model import Model, Params
from fedsub_core.models.to_torch import to_torch

#: How far away a sample must be, in the person's own distances, for the common model's word on
#: classes that the person lacks to count as it stands; the greatest distance that is distinguished.
FAR, FARTHEST = 5.0, 1e3


class Common(NamedTuple):
    """The common model's output.

    Parameters
    ----------
    probabilities : [clients, samples, classes]
    embedding : [clients, samples, d], of length 1.
    """

    probabilities: Tensor
    embedding: Tensor


@dataclass(frozen=True)
class Mixture(Predictor):
    """Experts of one architecture, mixed by weights of the person's own.

    ``p = sum_e w_e p_e``, with p_e an expert's probabilities to the power of 1 / T_e, over their
    sum: T > 1 for one that is surer than it is right. Where classes that the person lacks are open,
    the odds that a sample is of one of these are ``m sqrt(o (d / 5)**3)``: o are the odds that the
    common model gives, which it overstates, d is the squared distance from the nearest of the
    person's class means, as a multiple of what the person's own samples have, m how much the common
    model's word counts. It shares the probability of lacking classes among these, the mixture the
    rest among the person's. The own head answers the person's classes alone.

    Parameters
    ----------
    experts : their names. All but :data:`HEAD` have a model each; :data:`FUSED` always has.

    Notes
    -----
    Parameters, of one client: ``<expert>.<parameter>`` of every model, and ``head.<parameter>`` of
    the last layer; ``gate.weights`` [experts], which sum to 1, and ``gate.temperature`` [experts],
    > 0; ``gate.held`` [classes], 1 for the person's classes; ``gate.open`` [2], how much the common
    model's word counts for others (0: not at all), and whether distances count; ``nearest.means``
    [classes, d] of the person's embeddings of length 1, and ``nearest.spread`` [d], their variance
    around these, as far as few samples tell it.
    """

    experts: tuple[str, ...]

    computes: ClassVar[str] = (
        "each expert's probabilities are softmax(layers({seen})) with its parameters "
        "<expert>.<layer>, of head with fused's but for the last layer; to the power "
        "1 / gate.temperature, over their sum, gate.weights mix them; gate.open says how much "
        "fused counts for classes that gate.held lacks, and whether by the distances of its "
        "embedding from nearest.means, each dimension by its nearest.spread"
    )

    @classmethod
    def of(cls, model: Model, hyper: Any) -> Mixture:
        """Return the mixture that the hyperparameters name."""
        return cls(model, names(hyper))

    @classmethod
    def described(cls, model: Model, facts: Mapping[str, Any]) -> Mixture:
        """Inverse of :meth:`describe`."""
        return cls(model, tuple(facts["experts"]))

    def describe(self) -> dict[str, Any]:
        """Return the names of the experts."""
        return {"experts": self.experts}

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the experts that are whole models, the common one first."""
        return (FUSED, *[e for e in self.experts if e not in (FUSED, HEAD)])

    @cached_property
    def tensor_shapes(self) -> dict[str, Shape]:
        """Shape of every parameter of one client."""
        shapes = {
            f"{name}.{key}": shape
            for name in self.models
            for key, shape in self.model.tensor_shapes.items()
        }
        if HEAD in self.experts:
            own = self.head.parameter_shapes.items()
            shapes |= {f"{HEAD}.{key}": shape for key, shape in own}
        return shapes | self.gate_shapes

    @cached_property
    def gate_shapes(self) -> dict[str, Shape]:
        """Shape of every parameter of one client that is no model's."""
        classes, embedding = self.model.classes, self.model.embedding_size
        return {
            WEIGHTS: (len(self.experts),),
            TEMPERATURE: (len(self.experts),),
            HELD: (classes,),
            OPEN: (2,),
            MEANS: (classes, embedding),
            SPREAD: (embedding,),
        }

    @cached_property
    def body(self) -> Model:
        """The architecture up to the embedding."""
        return self.model.cut()[0]

    @cached_property
    def head(self) -> Model:
        """The architecture from the embedding on."""
        return self.model.cut()[1]

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return log probabilities ``[clients, samples, classes]``, which are logits.

        `params` and ``x [clients, samples, *features]`` are stacked.
        """
        common, own = self.each(params, x)
        return self.mixed(params, common, self.stacked(common, own))

    def each(self, params: Params, x: Tensor) -> tuple[Common, dict[str, Tensor]]:
        """Return the common model's output, and the other experts' probabilities by name."""
        shared = self.expert(params, FUSED)
        features = self.body.forward(shared, x)
        probabilities = finite(self.head.forward(shared, features).softmax(2))
        own = {
            name: finite(self.model.forward(self.expert(params, name), x).softmax(2))
            for name in self.models[1:]
        }
        if HEAD in self.experts:
            logits = self.head.forward(self.head_of(params, HEAD), features)
            own[HEAD] = finite(of_held(params, logits).softmax(2))
        return Common(probabilities, unit_length(features.flatten(2))), own

    def stacked(self, common: Common, own: Mapping[str, Tensor]) -> Tensor:
        """Return every expert's probabilities ``[clients, samples, experts, classes]``."""
        each = {FUSED: common.probabilities, **own}
        return torch.stack([each[name] for name in self.experts], 2)

    def mixed(self, params: Params, common: Common, each: Tensor) -> Tensor:
        """Return log probabilities of all experts' probabilities `each`: see the class.

        Of `params` only :attr:`gate_shapes`'s are read.
        """
        each = tempered(each, params[TEMPERATURE])
        mix = (params[WEIGHTS][:, None, :, None] * each).sum(2)
        held, (mass, by_distance) = params[HELD][:, None], params[OPEN][:, None, :, None].unbind(2)
        away = distances(params, common.embedding).masked_fill(held == 0, torch.inf)
        far = (away.amin(2, keepdim=True) / FAR).clamp(max=FARTHEST)
        lacking, known = common.probabilities * (1 - held), mix * held
        some = lacking.sum(2, keepdim=True).clamp(min=TINY)
        others = (common.probabilities * held).sum(2, keepdim=True).clamp(min=TINY)
        odds = some / others * (1 + by_distance * (far**3 - 1))
        lacking = mass * odds.sqrt() * lacking / some
        opened = lacking + known / known.sum(2, keepdim=True).clamp(min=TINY)
        opened = opened / opened.sum(2, keepdim=True)
        return torch.where(mass > 0, opened, mix).clamp(min=TINY).log()

    def fatal(self, params: Params, broken: Collection[str]) -> list[str]:
        """Return the `broken` parameters of one client, not finite, that leave no answer.

        A model that diverged says nothing, and those that are believed answer without it: none of
        its parameters counts while another has weight.
        """
        owner = {name: name.partition(".")[0] for name in broken}
        # The own head answers by the common model's embedding.
        lost = set(owner.values()) | ({HEAD} if FUSED in owner.values() else set())
        weights = dict(zip(self.experts, params[WEIGHTS].tolist(), strict=True))
        answers = any(weight > 0 for name, weight in weights.items() if name not in lost)
        return [name for name in broken if name in self.gate_shapes or not answers]

    def to_torch(self, params: Params) -> nn.Module:
        """Return a module of one client's mixture, samples to log probabilities."""
        return MixtureModule(self, params)

    def expert(self, params: Params, name: str) -> Params:
        """Return one of the models."""
        return {key: params[f"{name}.{key}"] for key in self.model.tensor_shapes}

    def head_of(self, params: Params, name: str) -> Params:
        """Return the last layer of one of the models, or the person's own head."""
        return {key: params[f"{name}.{key}"] for key in self.head.parameter_shapes}


class MixtureModule(nn.Module):
    """``x [batch, *features]``, standardised, to a mixture's log probabilities, for an export.

    Parameters
    ----------
    mixture : which experts.
    params : without a client axis; they are copied.
    """

    def __init__(self, mixture: Mixture, params: Params) -> None:
        super().__init__()
        self.mixture = mixture
        common, *others = mixture.models
        self.body = to_torch(mixture.body, mixture.expert(params, common))
        self.head = to_torch(mixture.head, mixture.expert(params, common))
        if HEAD in mixture.experts:
            self.own_head = to_torch(mixture.head, mixture.head_of(params, HEAD))
        models = {name: to_torch(mixture.model, mixture.expert(params, name)) for name in others}
        self.models = nn.ModuleDict(models)
        for name in mixture.gate_shapes:
            self.register_buffer(name.replace(".", "_"), params[name].clone()[None])

    def forward(self, x: Tensor) -> Tensor:
        """Return the log probability of every class."""
        gate = {n: self.get_buffer(n.replace(".", "_")) for n in self.mixture.gate_shapes}
        seen = self.body(x)
        word = finite(self.head(seen).softmax(1))[None]
        common = Common(word, unit_length(seen.flatten(1)[None]))
        own = {name: finite(model(x).softmax(1))[None] for name, model in self.models.items()}
        if HEAD in self.mixture.experts:
            own[HEAD] = finite(of_held(gate, self.own_head(seen)[None]).softmax(2))
        return self.mixture.mixed(gate, common, self.mixture.stacked(common, own))[0]
