"""The gradient of an objective on a batch, for every client of a stack.

Cross-entropy, pulls, also to prototypes, and masks take a kernel in which everything is written
out; whatever else an objective holds goes through autograd, over the same stacked forward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from fedsub_core.models.chain import Model, Params, Step
from fedsub_core.training.batches import Batch, Batches, Met
from fedsub_core.training.compiled import KNOWN, accumulate, known_to_kernels
from fedsub_core.training.objectives import (
    CE,
    Forward,
    Masked,
    Objective,
    PrototypePull,
    Pull,
    Term,
    terms_of,
)

#: Every term's own tensors, in the order of the terms.
Own = Sequence[Params]


class Gradient:
    """Computes gradients of one objective, or of it where only some layers are trained.

    A method whose steps need more than one batch overrides :meth:`into` and `group`.

    Parameters
    ----------
    model : the architecture.
    objective : what is minimised.
    only : layers that are trained; None: all.
    written_out : take the kernel where it knows all terms.
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
        self.names = tuple(
            model.parameter_shapes if only is None else model.parameters_of(set(only))
        )
        others = [term for term in self.terms if not isinstance(term, KNOWN)]
        self.written_out = written_out and others == [CE]
        #: The model's layers where compiled kernels compute the gradient; else ().
        self.known = known_to_kernels(model, self.terms) if self.written_out else ()

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
        if (met := accumulate(self, params, batch, own, into, keep)) is not None:
            return Met(met, batch.weight)
        compute = self._kernel if self.written_out else self._autograd
        chosen = compute(params, batch, own, into, keep)
        for term, tensors in zip(self.terms, own, strict=True):
            if isinstance(term, Masked):
                term.mask_gradient(tensors, into)
        return Met(chosen, batch.weight)

    def _kernel(self, params: Params, batch: Batch, own: Own, into: Params, keep: float) -> Tensor:
        tape: list[Step] = []
        grad = self.model.forward(params, batch.x, tape).softmax(-1)
        y = batch.y.unsqueeze(-1)
        chosen = grad.gather(-1, y).squeeze(-1)
        grad.scatter_add_(-1, y, grad.new_full((1, 1, 1), -1.0).expand(*batch.y.shape, 1))
        grad.mul_(batch.weight.unsqueeze(-1))
        beside = None
        for term, tensors in zip(self.terms, own, strict=True):
            if isinstance(term, PrototypePull):
                pulled = term.gradient(tape[self.model.embedding_at].x, batch, tensors)
                beside = pulled if beside is None else beside + pulled
        self.model.accumulate_gradients(params, tape, grad, into, keep, self.only, beside)
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
            tape: list[Step] = []
            outputs = self.model.outputs(leaves, batch.x, tape)
            forward = Forward(leaves, batch, outputs, tape[self.model.embedding_at].x)
            losses = [t.loss(forward, o) for t, o in zip(self.terms, own, strict=True)]
            trained = [leaves[name] for name in self.names]
            found = torch.autograd.grad(torch.stack(losses).sum(), trained, allow_unused=True)
        for name, gradient in zip(self.names, found, strict=True):
            into[name].mul_(keep)
            if gradient is not None:  # None: no term depends on it
                into[name].add_(gradient)
        return outputs[-1].detach().softmax(-1).gather(-1, batch.y.unsqueeze(-1)).squeeze(-1)

    def value(self, params: Params, batch: Batch) -> tuple[Params, Met]:
        """Return the gradient on one batch as new tensors, and how the model did on it.

        For objectives whose terms need no stacked tensors of their own, or those of these clients.
        """
        found = {name: torch.zeros_like(params[name]) for name in self.names}
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
