"""FlexFL, the device half (Chen et al. 2024): smaller models of the pool teach the trained one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Model, Params
from fedsub_core.placement import Placement
from fedsub_core.training import Trained, Turn, train
from fedsub_core.training.objectives import Forward, Term
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.parts.activity import activity
from fedsub_papers.client.parts.slices import SliceLearner
from fedsub_papers.methods.flexfl import APOZ
from fedsub_papers.models.pools import numbers, numbers_at, widths_for

#: A smaller model, and where its numbers stand in the one that it is a part of.
Part = tuple[Model, Mapping[str, Placement]]


class FlexFLLearner(SliceLearner):
    """Trains what it was sent; says how silent each layer is where nobody knows it yet."""

    def trained(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train; who was not told of zeros says its own."""
        state, uploads, reports = super().trained(state, received, data, turn)
        if all(APOZ in bundle.tensors for bundle in received):
            return state, uploads, reports
        params, block = self.get(state, "model"), self.settings.batch_size
        often = activity(self.model, params, data, block, often=True)
        said = [share.mean(1) for share in often.values()] or [torch.ones(len(uploads))]
        zeros = 1 - torch.stack(said, 1).float()
        for i, upload in enumerate(uploads):
            if APOZ not in received[i].tensors:
                own = {APOZ: Floats(zeros[i].cpu().numpy())}
                uploads[i] = replace(upload, tensors={**upload.tensors, **own})
        return state, uploads, reports

    def stacked_by(self, received: Bundle) -> Any:
        """Return everybody's zeros, from which the pool follows."""
        return tuple(received.floats(APOZ)) if APOZ in received.tensors else None

    def train_part(
        self, model: Model, params: Params, received: Bundle, data: Stack, turn: Turn
    ) -> Trained:
        """Train a part of the model, taught by the smaller models of the pool."""
        smaller = tuple(self._smaller(model, received))
        taught = Taught(smaller, self.hyper.gamma, self.hyper.temperature)
        return train(model, params, data, turn, self.settings, objective=self.loss + taught)

    def _smaller(self, model: Model, received: Bundle) -> Iterator[Part]:
        """Yield the pool's models that have fewer numbers than the one in training."""
        if APOZ not in received.tensors:
            return
        zeros, sizes = received.floats(APOZ).tolist(), {g.name: g.size for g in model.unit_groups}
        for share in self.hyper.shares():
            counts = widths_for(self.model, zeros, share)
            inside = all(count <= sizes[name] for name, count in counts.items())
            if inside and numbers_at(self.model, counts) < numbers(model):
                yield model.narrow({name: np.arange(count) for name, count in counts.items()})


@dataclass(frozen=True, eq=False)
class Taught(Term):
    """What smaller models say, who are parts of the trained one, and constants.

    ``weight / n * sum_j T**2 KL(softmax(z_j / T) || softmax(z / T))`` over n smaller models, the
    mean over the batch and the classes.
    """

    smaller: tuple[Part, ...]
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
        for model, places in self.smaller:
            with torch.no_grad():
                part = {n: at.take(forward.params[n], 1).contiguous() for n, at in places.items()}
                teacher = model.forward(part, forward.batch.x)
                target = (teacher / self.temperature).log_softmax(-1)
            apart = (target.exp() * (target - said)).mean(-1)
            total = total + (apart * forward.batch.weight).sum()
        return self.weight * self.temperature**2 / len(self.smaller) * total
