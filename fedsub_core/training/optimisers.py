"""Optimisers over stacks of clients: every client has buffers of its own.

SGD and Adam step whole stacks, equal to ``torch.optim.SGD`` and ``torch.optim.Adam`` on each client
alone; :mod:`fedsub_core.training.torch_optimisers` has all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fedsub_core.config.settings import TrainingSettings
from fedsub_core.models.model import Model, Params
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.training.batches import Batch, Met
from fedsub_core.training.gradients import Gradient
from fedsub_core.training.objectives import Objective, Term
from fedsub_core.turn import Turn

#: Sets ``into = keep * into + gradient``.
IntoBuffer = Callable[[Params, float], Met]
_BETAS, _EPSILON = (0.9, 0.999), 1e-8


class Optimiser(Protocol):
    """Changes parameters in place, step by step."""

    def buffers(self, params: Params) -> Params:
        """Return the buffers of the parameters that are trained, as they are at the start."""

    def step(self, params: Params, buffers: Params, gradient: IntoBuffer) -> Met:
        """Take one step; return how the model did before it."""


class SGD:
    """Stochastic gradient descent with momentum, weight decay and clipping."""

    def __init__(self, settings: TrainingSettings, round: int) -> None:
        self.settings, self.rate = settings, settings.rate(round)

    def buffers(self, params: Params) -> Params:
        """Momentum, zero at the start."""
        return {name: zeros(tensor) for name, tensor in params.items()}

    def step(self, params: Params, buffers: Params, gradient: IntoBuffer) -> Met:
        """Take one step."""
        s = self.settings
        if s.clip_norm:
            fresh, met = clipped(gradient, buffers, s.clip_norm)
            torch._foreach_mul_(list(buffers.values()), s.momentum)
            torch._foreach_add_(list(buffers.values()), list(fresh.values()))
        else:
            met = gradient(buffers, s.momentum)
        trained = [params[name] for name in buffers]
        if s.weight_decay:
            torch._foreach_add_(list(buffers.values()), trained, alpha=s.weight_decay)
        torch._foreach_add_(trained, list(buffers.values()), alpha=-self.rate)
        return met


class Adam:
    """Adam (Kingma and Ba, ICLR 2015), with weight decay as an L2 penalty."""

    def __init__(self, settings: TrainingSettings, round: int) -> None:
        self.settings, self.rate = settings, settings.rate(round)

    def buffers(self, params: Params) -> Params:
        """First and second moments, and each client's number of steps."""
        moments = {
            f"{part}/{name}": zeros(tensor)
            for part in ("first", "second")
            for name, tensor in params.items()
        }
        clients = next(iter(params.values()))
        return moments | {"steps": clients.new_zeros(len(clients))}

    def step(self, params: Params, buffers: Params, gradient: IntoBuffer) -> Met:
        """Take one step."""
        s, steps = self.settings, buffers["steps"].add_(1)
        firsts = {n.removeprefix("first/"): t for n, t in buffers.items() if n.startswith("first/")}
        fresh, met = clipped(gradient, firsts, s.clip_norm)
        for name, first in firsts.items():
            second, grad = buffers[f"second/{name}"], fresh[name]
            if s.weight_decay:
                grad = grad.add(params[name], alpha=s.weight_decay)
            first.lerp_(grad, 1 - _BETAS[0])
            second.mul_(_BETAS[1]).addcmul_(grad, grad, value=1 - _BETAS[1])
            shape = (-1,) + (1,) * (first.dim() - 1)
            unbiased = [(1 - beta**steps).view(shape) for beta in _BETAS]
            spread = (second / unbiased[1]).sqrt_().add_(_EPSILON)
            params[name].sub_(self.rate * (first / unbiased[0]) / spread)
        return met


def optimiser_of(settings: TrainingSettings, round: int) -> Optimiser:
    """Return the run's optimiser before its first step of a round.

    Raises ConfigError if there is none of that name, or it does not take such arguments.
    """
    ours: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}
    if settings.rule in ours:
        return ours[settings.rule](settings, round)
    from fedsub_core.training.torch_optimisers import TorchOptimiser

    return TorchOptimiser(settings, round)


def zeros(like: Tensor) -> Tensor:
    """Return zeros of a tensor's shape, each client's together however those of `like` lie."""
    return torch.zeros_like(like, memory_format=torch.contiguous_format)


def clipped(gradient: IntoBuffer, like: Params, most: float) -> tuple[Params, Met]:
    """Return the gradient, each client's scaled to an L2 norm of at most `most` (0: as it is)."""
    fresh = {name: zeros(tensor) for name, tensor in like.items()}
    met = gradient(fresh, 0.0)
    if most:
        squares = [tensor.flatten(1).square().sum(1) for tensor in fresh.values()]
        scale = (most / (torch.stack(squares).sum(0).sqrt() + 1e-6)).clamp(max=1)
        for tensor in fresh.values():
            tensor.mul_(scale.view((-1,) + (1,) * (tensor.dim() - 1)))
    return fresh, met


class Descent:
    """Steps of a run's optimiser on models that stand in one set of stacked tensors.

    For methods that train several models in turn on each batch. A model's buffers stand beside it,
    as ``<model>'s <buffer>``.
    """

    def __init__(
        self, model: Model, objective: Term | Objective, settings: TrainingSettings, turn: Turn
    ) -> None:
        self.gradient = Gradient(model, objective)
        self.optimiser = optimiser_of(settings, turn.round)

    def buffers(self, name: str, params: Params) -> Params:
        """Return the buffers of the model `name` before its first step."""
        return {f"{name}'s {key}": t for key, t in self.optimiser.buffers(params).items()}

    def step(
        self, rows: Params, name: str, params: Params, batch: Batch, at: Params | None = None
    ) -> Met:
        """Move `params`, the model `name` in `rows`, by its gradient, or by that `at` another.

        Returns how it did before the step.
        """
        prefix, where = f"{name}'s ", params if at is None else at
        own = self.gradient.split(self.gradient.stacked())
        buffers = {k.removeprefix(prefix): t for k, t in rows.items() if k.startswith(prefix)}

        def into(buffers: Params, keep: float) -> Met:
            return self.gradient.into(where, [batch], own, buffers, keep)

        return self.optimiser.step(params, buffers, into)
