"""Per-FedAvg, the device half (Fallah et al. 2020, algorithm 1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fedsub_client.learner import State
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_core.config.schedules import CONSTANT
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.training import Batches, Gradient, Met, Own, Trained, Turn


class PerFedAvgLearner(FedAvgLearner):
    """FedAvg's, whose gradients are those after an inner step, and which adapts before use."""

    def train(self, params: Params, data: Stack, turn: Turn, **options: Any) -> Trained:
        """Train with the meta-gradient."""
        gradient = MetaGradient(self.model, self.loss)
        gradient.alpha, gradient.delta = self.hyper.alpha, self.hyper.delta
        gradient.group = 2 if self.hyper.first_order else 3
        return super().train(params, data, turn, gradient=gradient, **options)

    def adapt(self, state: State, data: Stack, turn: Turn) -> State:
        """Take plain steps on training batches."""
        params = self.get(state, "model")
        plain = replace(self.settings.plain(), lr=self.hyper.alpha, lr_decay=1.0, schedule=CONSTANT)
        few = {"settings": plain, "phase": "personalise", "steps": self.hyper.adapt_steps}
        return state | self.put(super().train(params, data, turn, **few).params, "model")


class MetaGradient(Gradient):
    """``g = grad f(p - alpha * grad f(p; B1); B2)``; of three batches ``g - alpha * H(p; B3) g``.

    The product with the Hessian H is a central difference of step `delta` (Hessian-free).
    """

    alpha: float
    delta: float

    def into(self, params: Params, batches: Batches, own: Own, into: Params, keep: float) -> Met:
        """See :class:`Gradient`."""
        inner = self._moved(params, self.value(params, batches[0])[0], -self.alpha)
        if len(batches) == 2:
            return super().into(inner, batches[1:], own, into, keep)
        found, met = self.value(inner, batches[1])
        ends = [self._moved(params, found, sign * self.delta) for sign in (1, -1)]
        above, below = (self.value(end, batches[2])[0] for end in ends)
        for name, g in found.items():
            product = (above[name] - below[name]) / (2 * self.delta)
            into[name].mul_(keep).add_(g - self.alpha * product)
        return met

    @staticmethod
    def _moved(params: Params, direction: Params, by: float) -> Params:
        moved = {name: params[name].add(step, alpha=by) for name, step in direction.items()}
        return params | moved
