"""FIARSE, the device half (Wu et al. 2024): the largest numbers train, and what sinks is out."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.training import Batches, Gradient, Met, Own, Turn
from fedsub_papers.client.parts.sparse import SparseLearner
from fedsub_papers.methods.elements import layer_of, scales

_HELD, _LEAST, _DROPS = "held/", "least/", "drops"


class FIARSELearner(SparseLearner):
    """Trains what it was sent, as far as it stays large."""

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt what is sent, train it, send it back; what sank is 0 in the model that is kept."""
        state = self.receive(state, received)
        params, masks = self.get(state, "model"), self.masks(state)
        gradient = ImportanceGradient(self.model, self.loss)
        gradient.factor = self.hyper.factor
        gradient.scales = scales(self.model.parameter_shapes, self.hyper.score)
        gradient.chosen = chosen(params, masks, gradient.scales, self.hyper.scope)
        params, loss = self.train(params, data, turn, gradient=gradient)
        uploads = self.sparse_uploads(params, masks, data)
        used = gradient.used(params, gradient.chosen)
        return state | self.put(used, "model"), uploads, reported(training_loss=loss)


class ImportanceGradient(Gradient):
    """The gradient at the numbers that are large, times how importance bends it.

    With a score s and a threshold th it is multiplied by ``1 + 2 th s / (s + th)**2`` where
    ``s >= th``, else by 0: through the mask goes the gradient of ``(s - th) / (s + th)``. Wu et al.
    2024, section 3.
    """

    factor: bool
    #: What makes sizes scores, by tensor; and what :func:`chosen` gives.
    scales: Mapping[str, float]
    chosen: Params

    def stacked(self) -> Params:
        """Return the terms' tensors, and the thresholds of the numbers that are held."""
        return super().stacked() | {f"chosen/{n}": t for n, t in self.chosen.items()}

    def split(self, stacked: Params) -> Own:
        """Return every term's own tensors, and last what is held."""
        mine = {n.partition("/")[2]: t for n, t in stacked.items() if n.startswith("chosen/")}
        terms = {n: t for n, t in stacked.items() if not n.startswith("chosen/")}
        return [*super().split(terms), mine]

    def into(self, params: Params, batches: Batches, own: Own, into: Params, keep: float) -> Met:
        """See :class:`Gradient`."""
        *terms, mine = own
        used = self.used(params, mine)
        found = {name: torch.zeros_like(buffer) for name, buffer in into.items()}
        met = super().into(used, batches, terms, found, 0.0)
        for name, gradient in found.items():
            buffer = into[name].mul_(keep).add_(self._bent(name, params[name], gradient, mine))
            if f"{_HELD}{name}" in mine:  # what sank is not moved by what moved it before
                buffer.mul_(self._large(name, params[name], mine))
        return met

    def used(self, params: Params, mine: Params) -> Params:
        """Return the parameters that a forward pass sees: what is not held, or sank, is 0."""
        names = [n.removeprefix(_HELD) for n in mine if n.startswith(_HELD)]
        return params | {n: params[n].where(self._large(n, params[n], mine), 0.0) for n in names}

    def _large(self, name: str, tensor: Tensor, mine: Params) -> Tensor:
        least = mine[f"{_LEAST}{name}"] * mine[_DROPS]
        return mine[f"{_HELD}{name}"] & (tensor.abs() * self.scales[name] >= over(least, tensor))

    def _bent(self, name: str, tensor: Tensor, gradient: Tensor, mine: Params) -> Tensor:
        if not self.factor or f"{_LEAST}{name}" not in mine:
            return gradient
        size, least = tensor.abs() * self.scales[name], over(mine[f"{_LEAST}{name}"], tensor)
        both = (size + least).square_().clamp_(min=torch.finfo(size.dtype).tiny)
        return gradient * (1 + 2 * least * size / both)


def chosen(params: Params, masks: Params, scaled: Mapping[str, float], scope: str) -> Params:
    """Return the mask of held numbers, their least score and whether others drop, by client.

    Parameters
    ----------
    masks : bool [clients, ...], by the names of the tensors that are masked.
    scaled : what makes sizes scores.
    scope : whether a threshold is ``global``, or each ``layer``'s.

    Returns
    -------
    ``held/<tensor>`` bool [clients, ...]; ``least/<tensor>`` [clients], the threshold;
    ``drops`` [clients], 0 for who holds everything, else 1.
    """
    least: dict[str, Tensor] = {}
    for name, mask in masks.items():
        scores = (params[name].abs() * scaled[name]).masked_fill(~mask, torch.inf)
        group = layer_of(name) if scope == "layer" else ""
        lowest = scores.flatten(1).amin(1)
        least[group] = torch.minimum(least[group], lowest) if group in least else lowest
    every = [mask.flatten(1).all(1) for mask in masks.values()]
    found: dict[str, Any] = {_DROPS: (~torch.stack(every).all(0)).float()}
    for name, mask in masks.items():
        group = layer_of(name) if scope == "layer" else ""
        # Where nothing is held there is no threshold either.
        found |= {f"{_HELD}{name}": mask, f"{_LEAST}{name}": least[group].nan_to_num(0, posinf=0)}
    return found


def over(clients: Tensor, like: Tensor) -> Tensor:
    """Return values [clients], one for all numbers of each client of a stacked tensor."""
    return clients.view(-1, *[1] * (like.dim() - 1))
