"""A hypernetwork: a network on the server that makes every client's model from a vector.

One hidden layer with ReLU and one linear layer for each of the model's tensors (Shamsian et al.,
Personalized Federated Learning using Hypernetworks, ICML 2021).
"""

import statistics
from collections.abc import Callable, Mapping
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from fedsub_core.config.robust import RobustSettings
from strategies.parts.averaging import krum, malicious
from strategies.parts.clipping import Clip, factors, scales

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
#: By how much more than needed too long a step is shortened: it is no straight line.
SHORTER = 0.95
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
        along = (_in_a_row(made) * moves).sum()
        found = torch.autograd.grad(along / len(vectors), list(leaves.values()))
    return {n: t + rate * g for (n, t), g in zip(phi.items(), found, strict=True)}


def added(phi: Mapping[str, Tensor], vectors: Tensor, moves: Tensor) -> Tensor:
    """Return the length of what each client's move adds to a network, ``J_n^T move_n``, [n].

    Two moves of one length may add very different amounts: what is made of a long vector, or of one
    that others pushed far, has a great Jacobian.
    """
    before = vectors @ phi["hidden.weight"].T + phi["hidden.bias"]
    weights = torch.cat([t.flatten(0, -2) for n, t in phi.items() if n.startswith(_WEIGHT)])
    back = (moves @ weights) * (before > 0)
    last = moves.square().sum(1) * (1 + before.relu().square().sum(1))
    return (last + back.square().sum(1) * (1 + vectors.square().sum(1))).sqrt()


def no_farther(phi: Mapping[str, Tensor], after: Tensors, vectors: Tensor, most: float) -> Tensors:
    """Return `after`, or a network on the way to it that moves the median model by at most `most`.

    A step's length follows the Jacobian's square, which steps make larger: without a bound a few
    large moves make models that run away from everybody, faster in every round. It is the median's,
    as one device with an unusual vector would else shorten everybody's steps. A step to where no
    numbers are is not made.
    """
    begun = _in_a_row(generated(phi, vectors))
    while True:
        ways = (_in_a_row(generated(after, vectors)) - begun).norm(dim=1)
        if (far := statistics.median_low(ways.tolist())) <= most:
            return after
        if not isfinite(far):
            return dict(phi)
        share = SHORTER * most / far
        after = {name: t + share * (after[name] - t) for name, t in phi.items()}


def learnt(
    phi: Tensors, vectors: Tensor, moves: Tensor, held: Tensor, rate: float, robust: RobustSettings
) -> Tensors:
    """Return a network after a round: :func:`stepped`, by what :func:`filtered` leaves of moves.

    With ``clip`` the median model that is made goes no farther in a round than the median client
    moved its own: what each moved by is bounded, but not yet what all lead to.
    """
    lengths = added(phi, vectors, moves)
    moves, kept = filtered(moves, held, lengths, robust)
    after = stepped(phi, vectors[kept], moves, rate)
    if not robust.clip:
        return after
    ways = moves.norm(dim=1) / _share(held[kept])
    return no_farther(phi, after, vectors[kept], statistics.median_low(ways.tolist()))


def filtered(
    moves: Tensor, held: Tensor, lengths: Tensor, robust: RobustSettings
) -> tuple[Tensor, Tensor]:
    """Return moves [n, d] that a few cannot decide, and which clients they are of.

    ``clip`` and ``multi-krum`` as in :func:`~strategies.parts.averaging.robust_mean`. Here is no
    mean of numbers that could be trimmed: what ``trimmed-mean`` would leave out of a number is
    moved to the outermost that it keeps, with ``median`` all is moved there.

    Parameters
    ----------
    held : bool [n, d], the numbers that each client has; its move is 0 in others.
    lengths : of what each move adds, [n], by which ``clip`` compares: see :func:`added`.
    """
    kept, f = torch.arange(len(moves)), malicious(robust, len(moves))
    if robust.clip:
        if not held.all():
            by_holders = _shortened(moves, held, lengths)
            lengths = lengths * by_holders.norm(dim=1) / moves.norm(dim=1).clamp(min=1e-12)
            moves = by_holders
        moves = moves * torch.tensor(scales((lengths / _share(held)).tolist())).unsqueeze(1)
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


def _shortened(moves: Tensor, held: Tensor, lengths: Tensor) -> Tensor:
    """Return moves of which none adds too much where few hold a number.

    What makes a number is learnt from the moves of its holders alone; what makes all, from
    everybody's, whom the bound on whole lengths is for.
    """
    n, every = moves.shape
    holders = held.sum(0)
    each = (lengths / moves.norm(dim=1).clamp(min=1e-12)).unsqueeze(1)
    squares, counts = np.zeros((n, n + 1)), np.zeros((n, n + 1), np.int64)
    for i, added in enumerate((moves.double() * each).square()):
        of_each = holders[held[i]].numpy()
        squares[i] = np.bincount(of_each, added[held[i]].numpy(), n + 1)
        counts[i] = np.bincount(of_each, minlength=n + 1)
    found, shorter = factors(squares, counts, np.arange(n + 1), every, [1.0] * n), moves.clone()
    Clip(torch.from_numpy(found), holders).shorten(shorter)
    return shorter


def _share(held: Tensor) -> Tensor:
    """Return of a move's length which share a client's numbers `held` [n, d] make, [n]."""
    return held.float().mean(1).clamp(min=1e-12).sqrt()


def _in_a_row(made: Mapping[str, Tensor]) -> Tensor:
    return torch.cat([tensor.flatten(1) for tensor in made.values()], 1)
