"""A hypernetwork: a network on the server that makes every client's model from a vector.

One hidden layer with ReLU and one linear layer for each of the model's tensors (Shamsian et al.,
Personalized Federated Learning using Hypernetworks, ICML 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from fedsub_core.config.settings import RobustSettings
from strategies.parts.averaging import krum, malicious, scales

Tensors = dict[str, Tensor]
#: Makes tensors ``[n, *shape]`` of a network's own and of vectors ``[n, size]``.
Generate = Callable[[Mapping[str, Tensor], Tensor], Tensors]
#: Squared length of the hidden layer for a vector of usual length. A step of rate .12 then moves
#: models somewhat farther than the mean of what training moved them by, of which much is 0 where
#: weak devices hold nothing: with a third of it they learn far slower.
HIDDEN_SQUARED = 24.0
#: How far a person's first model is from the plain start, in standard deviations of it. Farther
#: apart, people of few numbers learn less from others.
APART = 0.1
_WEIGHT, _BIAS = "weight.", "bias."


def network(
    start: Mapping[str, Tensor], size: int, hidden: int, stream: torch.Generator
) -> Tensors:
    """Return a network that makes exactly the tensors of `start` of a vector of zeros.

    ``hidden.weight [hidden, size]``, ``hidden.bias [hidden]`` and of each tensor
    ``weight.<name> [*shape, hidden]`` and ``bias.<name> [*shape]``.
    """
    deviation = (HIDDEN_SQUARED / hidden) ** 0.5
    made = {
        "hidden.weight": torch.randn(hidden, size, generator=stream) * deviation / size**0.5,
        "hidden.bias": torch.randn(hidden, generator=stream) * deviation,
    }
    for name, tensor in start.items():
        spread = float(tensor.std(correction=0)) * APART / (HIDDEN_SQUARED / 2) ** 0.5
        made[f"{_WEIGHT}{name}"] = torch.randn(*tensor.shape, hidden, generator=stream) * spread
        made[f"{_BIAS}{name}"] = torch.zeros(tensor.shape)
    at_first = generated(made, torch.zeros(1, size))
    return made | {f"{_BIAS}{name}": t - at_first[name][0] for name, t in start.items()}


def generated(phi: Mapping[str, Tensor], vectors: Tensor) -> Tensors:
    """Return the tensors ``[n, *shape]`` that a network makes of vectors ``[n, size]``."""
    hidden = (vectors @ phi["hidden.weight"].T + phi["hidden.bias"]).relu()
    biases = {n.removeprefix(_BIAS): t for n, t in phi.items() if n.startswith(_BIAS)}
    return {
        name: torch.tensordot(hidden, phi[f"{_WEIGHT}{name}"], ([1], [-1])) + bias
        for name, bias in biases.items()
    }


def stepped(
    phi: Mapping[str, Tensor],
    vectors: Tensor,
    moves: Tensor,
    rate: float,
    generate: Generate = generated,
) -> Tensors:
    """Return ``phi + rate * mean_n J_n^T move_n``, J_n being the Jacobian of what is made of n.

    Parameters
    ----------
    vectors : [n, size]
    moves : how each client's tensors moved, after less before, all numbers in a row [n, d]; 0 where
        not held.
    """
    with torch.enable_grad():
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in phi.items()}
        made = generate(leaves, vectors)
        along = (torch.cat([tensor.flatten(1) for tensor in made.values()], 1) * moves).sum()
        found = torch.autograd.grad(along / len(vectors), list(leaves.values()))
    return {n: t + rate * g for (n, t), g in zip(phi.items(), found, strict=True)}


def filtered(moves: Tensor, held: Tensor, robust: RobustSettings) -> tuple[Tensor, Tensor]:
    """Return moves [n, d] that a few cannot decide, and which clients they are of.

    ``clip`` and ``multi-krum`` as in :func:`~strategies.parts.averaging.robust_mean`. Here is no
    mean of numbers that could be trimmed: what ``trimmed-mean`` would leave out of a number is
    moved to the outermost that it keeps, with ``median`` all is moved there.

    Parameters
    ----------
    held : bool [n, d], the numbers that each client has; its move is 0 in others.
    """
    kept, f = torch.arange(len(moves)), malicious(robust, len(moves))
    if robust.clip:
        share = held.float().mean(1).clamp(min=1e-12).sqrt()
        moves = moves * torch.tensor(scales((moves.norm(dim=1) / share).tolist())).unsqueeze(1)
    if robust.multi_krum:
        kept = krum(torch.cdist(moves, moves), f)
        moves, held = moves[kept], held[kept]
    if robust.mean != "mean":
        last = len(moves) - 1
        out = last // 2 if robust.mean == "median" else min(f, last // 2)
        values = moves.sort(0).values
        top = out if robust.mean == "median" else last - out
        moves = torch.minimum(torch.maximum(moves, values[out]), values[top]) * held
    return moves, kept
