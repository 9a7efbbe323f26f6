"""FlexFL, the device half (Chen et al. 2024): smaller models of the pool teach the trained one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State
from fedsub_client.parts.activity import activity
from fedsub_client.parts.slices import SliceLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.flexfl import APOZ
from fedsub_core.models.chain import Chain, require_chain
from fedsub_core.models.model import Model, Params
from fedsub_core.models.pools import numbers, widths_for, with_counts
from fedsub_core.placement import Placement
from fedsub_core.training import Trained, Turn, train
from fedsub_core.training.objectives import Forward, Term
from fedsub_core.wire.bundles import Bundle, Floats


class FlexFLLearner(SliceLearner):
    """Trains what it was sent; says how silent each layer is where nobody knows it yet."""

    def trained(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train; who was not told of zeros says its own."""
        state, uploads, reports = super().trained(state, received, data, turn)
        if all(APOZ in bundle.tensors for bundle in received):
            return state, uploads, reports
        model, block = require_chain(self.model), self.settings.batch_size
        often = activity(model, self.get(state, "model"), data, block, often=True)
        said = [share.mean(1) for share in often.values()] or [torch.ones(len(uploads))]
        zeros = 1 - torch.stack(said, 1).float()
        for i, upload in enumerate(uploads):
            if APOZ not in received[i].tensors:
                own = {APOZ: Floats(zeros[i].cpu().numpy())}
                uploads[i] = replace(upload, tensors={**upload.tensors, **own})
        return state, uploads, reports

    def told(self, received: Bundle) -> Any:
        """Return everybody's zeros, from which the pool follows."""
        return tuple(received.floats(APOZ)) if APOZ in received.tensors else None

    def train_part(
        self, model: Model, params: Params, received: Bundle, data: Stack, turn: Turn
    ) -> Trained:
        """Train a part of the model, taught by the smaller models of the pool."""
        taught = Taught(
            tuple(self._smaller(require_chain(model), received)),
            self.hyper.gamma,
            self.hyper.temperature,
        )
        return train(model, params, data, turn, self.settings, objective=self.loss + taught)

    def _smaller(self, model: Chain, received: Bundle) -> list[Chain]:
        """Return the pool's models that have fewer numbers than the one in training."""
        if APOZ not in received.tensors:
            return []
        whole, zeros = require_chain(self.model), received.floats(APOZ).tolist()
        pool = (widths_for(whole, zeros, share) for share in self.hyper.shares())
        smaller = [require_chain(with_counts(whole, counts)) for counts in pool]
        return [one for one in smaller if numbers(one) < numbers(model) and inside(one, model)]


def inside(small: Chain, large: Chain) -> bool:
    """Return whether a model's tensors are no larger than another one's."""
    pairs = zip(small.parameter_shapes.values(), large.parameter_shapes.values(), strict=True)
    return all(a <= b for one, other in pairs for a, b in zip(one, other, strict=True))


@dataclass(frozen=True, eq=False)
class Taught(Term):
    """What smaller models say, who are the trained one's first units, and constants.

    ``weight / n * sum_j T**2 KL(softmax(z_j / T) || softmax(z / T))`` over n smaller models, the
    mean over the batch and the classes.
    """

    smaller: tuple[Model, ...]
    weight: float
    temperature: float

    @property
    def active(self) -> bool:
        """Whether anybody teaches."""
        return self.weight != 0 and bool(self.smaller)

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`."""
        said = (forward.outputs[-1] / self.temperature).log_softmax(-1)
        total = said.new_zeros(())
        for model in self.smaller:
            with torch.no_grad():
                teacher = model.forward(first_of(forward.params, model), forward.batch.x)
                target = (teacher / self.temperature).log_softmax(-1)
            apart = (target.exp() * (target - said)).mean(-1)
            total = total + (apart * forward.batch.weight).sum()
        return self.weight * self.temperature**2 / len(self.smaller) * total


def first_of(params: Params, model: Model) -> Params:
    """Return the first entries of stacked tensors, as many as a smaller model has."""
    found = {}
    for name, shape in model.parameter_shapes.items():
        tensor = params[name].detach()
        at = Placement.leading(shape, tensor.shape[1:])
        found[name] = at.take(tensor, stacked=1).contiguous()
    return found
