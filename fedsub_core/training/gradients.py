"""The gradient of an objective on a batch, for every client of a stack.

Cross-entropy, pulls, also to prototypes, and masks have theirs written out, in the compiled kernels
and in PyTorch; whatever else an objective holds goes through autograd, over the same stacked
forward pass.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

from fedsub_core.backend import Backend, for_gradients, for_training
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.kernels.library import Kernels
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.model import Model, Params
from fedsub_core.training.batches import Batch, Batches, Met
from fedsub_core.training.compiled import Compiled
from fedsub_core.training.objectives import (
    CE,
    CrossEntropy,
    Forward,
    Masked,
    Objective,
    Own,
    PrototypePull,
    Pull,
    Term,
    terms_of,
)


class Gradient:
    """Computes gradients of one objective, or of it where only some layers are trained.

    A method whose steps need more than one batch overrides :meth:`into` and `group`.

    Parameters
    ----------
    model : the architecture.
    objective : what is minimised.
    only : layers that are trained; None: all.
    written_out : take the written out gradient where all terms have one; else autograd finds it.
    """

    #: Batches of one step.
    group = 1

    def __init__(
        self,
        model: Model,
        objective: Term | Objective,
        only: Collection[str] | None = None,
        written_out: bool = True,
    ) -> None:
        self.model, self.only = model, only
        self.terms = terms_of(objective)
        self.names = model.trained_of(None if only is None else set(only))
        once = sum(isinstance(term, CrossEntropy) for term in self.terms) == 1
        #: The model's layers where the compiled kernels know them; else ().
        self.layers = model.known if type(model) is Chain and written_out and once else ()
        written_out &= once and all(term.written_out for term in self.terms)
        #: The model where its gradient is written out; None: autograd finds it.
        self.chain = model if written_out and isinstance(model, Chain) else None

    def backend(self, x: Tensor) -> Backend:
        """Return who computes it on batches such as `x`."""
        return for_gradients(self.layers, self.terms, x)

    def trained_by(self, x: Tensor, settings: TrainingSettings) -> Backend:
        """Return who takes whole epochs of steps by it on samples such as `x`."""
        own_steps = type(self) is not Gradient
        return for_training(self.layers, self.terms, x, settings, own_steps)

    def compiled(self, kernels: Kernels) -> Compiled:
        """Return it for the kernels to compute."""
        return Compiled(kernels, self.layers, self.terms, self.names)

    def stacked(self) -> Params:
        """Return all that the terms need, by the term's place and the tensor's name."""
        return {
            f"{place}/{name}": tensor
            for place, term in enumerate(self.terms)
            for name, tensor in term.stacked().items()
        }

    def split(self, stacked: Params) -> Own:
        """Return every term's own tensors out of :meth:`stacked`'s."""
        own: list[Params] = [{} for _ in self.terms]
        for key, tensor in stacked.items():
            place, _, name = key.partition("/")
            own[int(place)][name] = tensor
        return own

    def into(self, params: Params, batches: Batches, own: Own, into: Params, keep: float) -> Met:
        """Set ``into = keep * into + gradient``; return how the model did on the (last) batch.

        With ``keep = momentum`` this is SGD's momentum update. `into` holds the trained parameters.
        """
        (batch,) = batches
        if (kernels := self.backend(batch.x).kernels) is not None:
            chosen = self.compiled(kernels).accumulate(params, batch, own, into, keep)
            return Met(chosen, batch.weight)
        if self.chain is not None:
            chosen = self._written_out(self.chain, params, batch, own, into, keep)
        elif isinstance(self.model, Chain):
            chosen = self._autograd(params, batch, own, into, keep)
        else:
            chosen = self._in_groups(params, batch, own, into, keep)
        for term, tensors in zip(self.terms, own, strict=True):
            if isinstance(term, Masked):
                term.mask_gradient(tensors, into)
        return Met(chosen, batch.weight)

    def _written_out(
        self, model: Chain, params: Params, batch: Batch, own: Own, into: Params, keep: float
    ) -> Tensor:
        tape: list[Step] = []
        grad = model.forward(params, batch.x, tape).softmax(-1)
        y = batch.y.unsqueeze(-1)
        chosen = grad.gather(-1, y).squeeze(-1)
        grad.scatter_add_(-1, y, grad.new_full((1, 1, 1), -1.0).expand(*batch.y.shape, 1))
        grad.mul_(batch.weight.unsqueeze(-1))
        beside = None
        for term, tensors in zip(self.terms, own, strict=True):
            if isinstance(term, PrototypePull):
                pulled = term.gradient(tape[model.embedding_at].x, batch, tensors)
                beside = pulled if beside is None else beside + pulled
        model.accumulate_gradients(params, tape, grad, into, keep, self.only, beside)
        for term, tensors in zip(self.terms, own, strict=True):
            if isinstance(term, Pull):
                term.add_gradient(params, tensors, into)
        return chosen

    def _autograd(
        self, params: Params, batch: Batch, own: Own, into: Params, keep: float
    ) -> Tensor:
        with torch.enable_grad():
            leaves = {
                name: tensor.detach().requires_grad_(name in self.names)
                for name, tensor in params.items()
            }
            outputs, embedding = self.model.training_pass(leaves, batch.x, self.only, batch.seeds)
            forward = Forward(leaves, batch, outputs, embedding)
            losses = [t.loss(forward, o) for t, o in zip(self.terms, own, strict=True)]
            trained = [leaves[name] for name in self.names]
            found = torch.autograd.grad(torch.stack(losses).sum(), trained, allow_unused=True)
        torch._foreach_mul_([into[name] for name in self.names], keep)
        # None: no term depends on it.
        moved = [(into[n], g) for n, g in zip(self.names, found, strict=True) if g is not None]
        if moved:
            torch._foreach_add_(*map(list, zip(*moved, strict=True)))
        return outputs[-1].detach().softmax(-1).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)

    def _in_groups(
        self, params: Params, batch: Batch, own: Own, into: Params, keep: float
    ) -> Tensor:
        """Pass clients with equally many samples together, as many as the model takes at once.

        So each sees its real samples alone. Where that is one client, one graph is held.
        """
        chosen = batch.weight.new_zeros(batch.weight.shape)
        for some in batch.alike(self.model.together(batch.x, training=True)):
            part = batch.of(some)
            each = ({n: t[some] for n, t in tensors.items()} for tensors in (params, into))
            terms = [{n: t[some] for n, t in tensors.items()} for tensors in own]
            mine, grads = each
            if part.y.shape[1]:
                chosen[some, : part.y.shape[1]] = self._autograd(mine, part, terms, grads, keep)
            else:  # their samples count nothing
                for gradient in grads.values():
                    gradient.mul_(keep)
        return chosen

    def value(self, params: Params, batch: Batch) -> tuple[Params, Met]:
        """Return the gradient on one batch as new tensors, and how the model did on it.

        For objectives whose terms need no stacked tensors of their own, or those of these clients.
        """
        whole = torch.contiguous_format
        found = {n: torch.zeros_like(params[n], memory_format=whole) for n in self.names}
        met = Gradient.into(self, params, [batch], self.split(self.stacked()), found, keep=0.0)
        return found, met


def batch_gradient(
    model: Model,
    params: Params,
    batch: Batch,
    objective: Term | Objective = CE,
    only: Collection[str] | None = None,
) -> Params:
    """Return the gradient of one batch, changing nothing; tensors ``[clients, ...]`` by name."""
    return Gradient(model, objective, only).value(params, batch)[0]
