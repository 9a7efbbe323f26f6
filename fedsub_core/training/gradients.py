"""The gradient of an objective on a batch, for every client of a stack.

The compiled kernels have that of cross-entropy, pulls, pulls to prototypes, and masks. For whatever
they do not know, autograd goes over the stacked forward pass.
"""

from __future__ import annotations

from collections.abc import Collection

from fedsub_core.backend import Backend, for_gradients, for_training
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.data.target import predicted
from fedsub_core.kernels.library import Kernels
from fedsub_core.models.chain import Chain
from fedsub_core.models.model import Model, Params
from fedsub_core.pytorch import Tensor, torch
from fedsub_core.training.batches import Batch, Batches, Met
from fedsub_core.training.compiled import Compiled
from fedsub_core.training.objectives import (
    CE,
    CrossEntropy,
    Forward,
    Masked,
    Objective,
    Own,
    Term,
    terms_of,
)
from fedsub_core.training.own_losses import OwnLoss


class Gradient:
    """Computes gradients of one objective, or of it where only some layers are trained.

    A method whose steps need more than one batch overrides :meth:`into` and `group`.

    Parameters
    ----------
    only : layers that are trained; None: all.
    """

    #: Batches of one step.
    group = 1

    def __init__(
        self,
        model: Model,
        objective: Term | Objective,
        only: Collection[str] | None = None,
    ) -> None:
        self.model, self.only = model, only
        self.terms = terms_of(objective)
        self.names = model.trained_of(None if only is None else set(only))
        once = sum(isinstance(term, CrossEntropy | OwnLoss) for term in self.terms) == 1
        #: The model's layers where the compiled kernels know them; else ().
        self.layers = model.known if type(model) is Chain and once else ()

    def backend(self, x: Tensor) -> Backend:
        """Return the backend of the gradient on batches such as `x`."""
        return for_gradients(self.layers, self.terms, x)

    def trained_by(self, x: Tensor, settings: TrainingSettings) -> Backend:
        """Return the backend of whole epochs of steps on samples such as `x`."""
        own_steps = type(self) is not Gradient
        return for_training(self.layers, self.terms, x, settings, own_steps)

    def compiled(self, kernels: Kernels) -> Compiled:
        """Return the gradient as the kernels compute it."""
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
            met = self.compiled(kernels).accumulate(params, batch, own, into, keep)
            return Met(met, batch.weight)
        if isinstance(self.model, Chain):
            met = self._autograd(params, batch, own, into, keep)
        else:
            met = self._in_groups(params, batch, own, into, keep)
        # A mask is last: it applies to what the others add.
        terms = zip(self.terms, own, strict=True)
        for term, tensors in sorted(terms, key=lambda pair: isinstance(pair[0], Masked)):
            term.change(params, tensors, into)
        return Met(met, batch.weight)

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
            values = [t.loss(forward, o) for t, o in zip(self.terms, own, strict=True)]
            loss = torch.stack([value for value in values if value is not None]).sum()
            trained = [leaves[name] for name in self.names]
            found = torch.autograd.grad(loss, trained, allow_unused=True)
        for name, gradient in zip(self.names, found, strict=True):
            if gradient is None:  # no term depends on it
                into[name].mul_(keep)
            else:
                torch.add(gradient, into[name], alpha=keep, out=into[name])
        return chosen(outputs[-1].detach(), batch.y)

    def _in_groups(
        self, params: Params, batch: Batch, own: Own, into: Params, keep: float
    ) -> Tensor:
        """Pass clients with equally many samples together, as many as the model takes at once.

        So each sees its real samples alone. Where that is one client, one graph is held.
        """
        met = batch.weight.new_zeros(batch.weight.shape)
        for some in batch.alike(self.model.together(batch.x, training=True)):
            part = batch.of(some)
            each = ({n: t[some] for n, t in tensors.items()} for tensors in (params, into))
            terms = [{n: t[some] for n, t in tensors.items()} for tensors in own]
            mine, grads = each
            if part.y.shape[1]:
                met[some, : part.y.shape[1]] = self._autograd(mine, part, terms, grads, keep)
            else:  # their samples count nothing
                for gradient in grads.values():
                    gradient.mul_(keep)
        return met

    def value(self, params: Params, batch: Batch) -> tuple[Params, Met]:
        """Return the gradient on one batch as new tensors, and how the model did on it.

        For objectives whose terms need no stacked tensors of their own, or those of these clients.
        """
        whole = torch.contiguous_format
        found = {n: torch.zeros_like(params[n], memory_format=whole) for n in self.names}
        met = Gradient.into(self, params, [batch], self.split(self.stacked()), found, keep=0.0)
        return found, met


def chosen(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the probability that each sample's class got, ``[clients, samples]``.

    Of a target that of which the squared error is the negative logarithm.
    """
    if y.is_floating_point():
        likely: Tensor = (-((predicted(outputs) - y) ** 2)).exp()
        return likely
    return outputs.softmax(-1).gather(-1, y.unsqueeze(-1)).squeeze(-1)


def batch_gradient(
    model: Model,
    params: Params,
    batch: Batch,
    objective: Term | Objective = CE,
    only: Collection[str] | None = None,
) -> Params:
    """Return the gradient of one batch, changing nothing; tensors ``[clients, ...]`` by name."""
    return Gradient(model, objective, only).value(params, batch)[0]
