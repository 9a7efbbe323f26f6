"""Means of tensors over clients' uploads, and what keeps a few of them from deciding the mean.

In the order in which they are applied: clipping, leaving out, and one of three means.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, inf

import numpy as np
import torch
from torch import Tensor

from fedsub_core.config.settings import RobustSettings
from fedsub_core.wire.bundles import Bundle

#: Most that an upload may add to a mean, its weight times the length of its update, over what the
#: median upload of the round adds. Weight and length have one bound together: a device says itself
#: how many samples it has.
MOST_ADDED = 3.0


def weights(uploads: Mapping[str, Bundle], most: float = 0.0) -> list[float]:
    """Return each client's weight in a mean, by its samples; they sum to 1.

    Samples count up to `most` times their median (0: all): a client that says it has more than
    all others together would be the mean.
    """
    return shares([upload.examples for upload in uploads.values()], most)


def shares(examples: Sequence[float], most: float) -> list[float]:
    """Return everybody's weight, of their samples; see :func:`weights`."""
    bound = most * statistics.median_high(examples) if most else inf
    counts = [min(count, bound) for count in examples]
    return [count / sum(counts) for count in counts]


def scales(added: Sequence[float]) -> list[float]:
    """Return what shortens each update to the longest that ``clip`` allows; 1 where it is shorter.

    `added` is each one's weight times its length.
    """
    most = MOST_ADDED * statistics.median_low(added)
    return [min(1.0, most / one) if one > 0 else 1.0 for one in added]


def weighted_mean(
    uploads: Mapping[str, Bundle], names: Iterable[str], most_examples: float = 0.0
) -> dict[str, Tensor]:
    """Return the mean of each whole tensor in `names`, each client weighted by its samples.

    McMahan et al. 2017, eq. 4: ``sum(n_i * x_i) / sum(n_i)`` over the uploads of a round; with
    `most_examples` see :func:`weights`.
    """
    counted = weights(uploads, most_examples)
    means: dict[str, Tensor] = {}
    for name in names:
        for share, upload in zip(counted, uploads.values(), strict=True):
            values = torch.from_numpy(upload.floats(name).copy())
            mean = means.setdefault(name, torch.zeros_like(values))
            mean.add_(values, alpha=share)
    return means


def robust_mean(
    uploads: Mapping[str, Bundle], start: Mapping[str, Tensor], settings: RobustSettings
) -> dict[str, Tensor]:
    """Return the mean of whole tensors over uploads, filtered.

    Parameters
    ----------
    start : the tensors that uploads began from, by name: lengths are those of the way from there.
    settings : which filters.

    Notes
    -----
    ``clip``: an update that adds more to the mean, its weight times its length, than
    :data:`MOST_ADDED` times what the round's median adds is shortened to that (norm clipping as in
    Sun et al., Can You Really Backdoor Federated Learning?, 2019, with a bound that follows the
    round, on weight and length together). ``multi-krum``: of n uploads, f of them malicious,
    the n - f are kept whose n - f - 2 nearest others are nearest (Blanchard et al., NeurIPS 2017).
    ``trimmed-mean``: of every number the f largest and f smallest are left out; ``median``: of
    every number the one with half of the people on either side, however many samples they say that
    they have (Yin et al., ICML 2018).
    """
    if not uploads or not start:  # nobody sent, or a method sends nothing, as local
        return dict(start)
    counted = weights(uploads, settings.most_examples)
    shortened = scales(_added(uploads, start, counted)) if settings.clip else [1.0] * len(uploads)
    if not settings.multi_krum and settings.mean == "mean" and min(shortened) == 1.0:
        return weighted_mean(uploads, start, settings.most_examples)
    by = torch.tensor(counted, dtype=torch.float64)
    moves = torch.stack([_update(upload, start) for upload in uploads.values()])
    moves.mul_(torch.tensor(shortened, dtype=torch.float64).unsqueeze(1))
    f = malicious(settings, len(moves))
    if settings.multi_krum:
        kept = krum(torch.cdist(moves, moves), f)
        moves, by = moves[kept], by[kept]
    moved = MEANS[settings.mean](moves, by / by.sum(), f)
    parts = torch.split(moved.float(), [tensor.numel() for tensor in start.values()])
    return {
        name: before + part.view(before.shape)
        for (name, before), part in zip(start.items(), parts, strict=True)
    }


def _update(upload: Bundle, start: Mapping[str, Tensor]) -> Tensor:
    """Return the way from `start` to an upload, all tensors in a row, float64."""
    return torch.cat(
        [
            (torch.from_numpy(upload.floats(name).copy()).double() - before.double()).flatten()
            for name, before in start.items()
        ]
    )


def _added(
    uploads: Mapping[str, Bundle], start: Mapping[str, Tensor], counted: Sequence[float]
) -> list[float]:
    """Return each upload's weight times the length of its update."""
    begun = {name: tensor.numpy() for name, tensor in start.items()}
    adds = []
    for share, upload in zip(counted, uploads.values(), strict=True):
        away = ((upload.floats(name) - before).ravel() for name, before in begun.items())
        adds.append(share * sum(float(np.dot(move, move)) for move in away) ** 0.5)
    return adds


def malicious(settings: RobustSettings, clients: int) -> int:
    """Return how many of some clients are to be reckoned malicious."""
    return ceil(settings.share * clients)


def krum(distances: Tensor, f: int) -> Tensor:
    """Return which of n points multi-Krum keeps, ascending, by their distances [n, n].

    Ties by place.
    """
    near = max(1, len(distances) - f - 2)
    # The nearest is the point itself, at 0.
    scores = distances.square().sort(dim=1).values[:, 1 : near + 1].sum(1)
    keep = max(1, len(distances) - f)
    return scores.argsort(stable=True)[:keep].sort().values


def _weighted(moves: Tensor, shares: Tensor, f: int) -> Tensor:
    return shares @ moves


def _trimmed(moves: Tensor, shares: Tensor, f: int) -> Tensor:
    """Leave out the `f` largest and smallest of every number; the others keep their weights."""
    f = min(f, (len(moves) - 1) // 2)
    pieces = []
    for columns in _columns(moves):
        values, order = columns.sort(dim=0)
        values, kept = values[f : len(moves) - f], shares[order[f : len(moves) - f]]
        pieces.append((values * kept).sum(0) / kept.sum(0))
    return torch.cat(pieces)


def _median(moves: Tensor, shares: Tensor, f: int) -> Tensor:
    """Take of every number the lower median of those with a weight, each of whom counts alike."""
    return torch.cat([columns.median(dim=0).values for columns in _columns(moves[shares > 0])])


def _columns(moves: Tensor) -> Iterator[Tensor]:
    """Yield some numbers of all clients at a time: sorting needs several copies."""
    yield from torch.split(moves, max(1, 2**22 // len(moves)), dim=1)


#: By name: of points [n, numbers] float64 with weights [n] that sum to 1, f of them malicious.
MEANS = {"mean": _weighted, "trimmed-mean": _trimmed, "median": _median}
