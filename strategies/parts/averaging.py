"""Means of tensors over clients' uploads, and what keeps a few of them from deciding the mean.

In the order in which they are applied: clipping, leaving out, and one of three means.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fedsub_core.config.settings import RobustSettings
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle

#: What a number becomes that not all uploads hold: see :func:`weighted_mean`.
Rule = Literal["holders", "residual"]
#: Most that an upload may add to a mean, its weight times the length of its update, over what the
#: median upload of the round adds. Weight and length have one bound together: a device says itself
#: how many samples it has. Of few uploads it is less: see :func:`most_added`.
MOST_ADDED = 3.0
#: Of fewer nobody can say which is the odd one, and the shortest alone would be the bound.
FEWEST = 3


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


def most_added(uploads: int) -> float:
    """Return how many medians one of so many `uploads` may add to a mean.

    A third of how many others there are, from 1 to :data:`MOST_ADDED`: where the others add the
    median, nobody adds more than a third of what they do together (of three people half). Three
    medians are more than the other two of three add.
    """
    return MOST_ADDED if uploads < FEWEST else max(1.0, min(MOST_ADDED, (uploads - 1) / 3))


def scales(added: Sequence[float], most: float = 0.0) -> list[float]:
    """Return what shortens each update to the longest that ``clip`` allows; 1 where it is shorter.

    Parameters
    ----------
    added : each one's weight times its length.
    most : how many medians are allowed; 0: as many as of so many uploads (:func:`most_added`).
    """
    longest = (most or most_added(len(added))) * statistics.median_low(added)
    return [min(1.0, longest / one) if one > 0 else 1.0 for one in added]


def weighted_mean(
    uploads: Mapping[str, Bundle],
    start: Mapping[str, Tensor],
    counted: Sequence[float],
    rule: Rule = "holders",
) -> dict[str, Tensor]:
    """Return the mean of each tensor in `start` over uploads, of which each may hold some numbers.

    Where all hold all it is McMahan et al. 2017, eq. 4: ``sum(a_i * x_i)``. ``holders``: a number
    is the mean over those who hold it (Diao et al., HeteroFL, ICLR 2021); what nobody holds stays
    as it was. ``residual``: for who does not hold it, it counts as it was (Jiang et al., FedMP,
    ICDE 2022).

    Parameters
    ----------
    start : whole tensors that the uploads began from, by name.
    counted : each upload's weight; they sum to 1.
    """
    means: dict[str, Tensor] = {}
    for name, before in start.items():
        parts = [upload.part(name) for upload in uploads.values()]
        first, *others = {part.at for part in parts}
        if not others:
            mean = torch.zeros(first.shape(before.shape))
            for share, part in zip(counted, parts, strict=True):
                mean.add_(torch.from_numpy(part.values.copy()), alpha=share)
            means[name] = mean if first.everywhere else first.put(before.clone(), mean)
            continue
        mean, held, every = torch.zeros(before.shape), torch.zeros(before.shape), torch.zeros(())
        for share, part in zip(counted, parts, strict=True):
            _add(mean, part.at, torch.from_numpy(part.values.copy()), share)
            _add(held, part.at, torch.ones(part.values.shape), share)
            every.add_(torch.ones(()), alpha=share)
        if rule == "holders":
            # Divided by exactly 1 where all hold the number.
            means[name] = torch.where(held > 0, mean / (held / every), before)
        else:
            means[name] = mean + (every - held) * before
    return means


def _add(whole: Tensor, at: Placement, values: Tensor, share: float) -> None:
    if at.everywhere:
        whole.add_(values, alpha=share)
    else:
        at.put(whole, at.take(whole).add_(values, alpha=share))


def robust_mean(
    uploads: Mapping[str, Bundle],
    start: Mapping[str, Tensor],
    settings: RobustSettings,
    longest: float = inf,
    rule: Rule = "holders",
    most: float = 0.0,
) -> dict[str, Tensor]:
    """Return the mean of tensors over uploads, filtered.

    Parameters
    ----------
    start : the tensors that uploads began from, by name: lengths are those of the way from there.
    settings : which filters.
    longest : to what an update is shortened besides, by ``clip``: where these uploads are few,
        what is usual is known from others.
    rule : see :func:`weighted_mean`. In a trimmed mean and a median a number counts as it was for
        who does not hold it.
    most : see :func:`scales`.

    Notes
    -----
    ``clip``: an update that adds more to the mean, its weight times its length, than
    :func:`most_added` times what the round's median adds is shortened to that (norm clipping as in
    Sun et al., Can You Really Backdoor Federated Learning?, 2019, with a bound that follows the
    round, on weight and length together; of who holds few numbers the length counts as if it were
    as great in all). ``multi-krum``: of n uploads, f of them malicious,
    the n - f are kept whose n - f - 2 nearest others are nearest (Blanchard et al., NeurIPS 2017).
    ``trimmed-mean``: of every number the f largest and f smallest are left out; ``median``: of
    every number the one with half of the people on either side, however many samples they say that
    they have (Yin et al., ICML 2018).
    """
    if not uploads or not start:  # nobody sent, or a method sends nothing, as local
        return dict(start)
    counted = weights(uploads, settings.most_examples)
    shortened = [1.0] * len(uploads)
    if settings.clip:
        lengths = moved(uploads, start)
        added = [share * length for share, length in zip(counted, lengths, strict=True)]
        bounds = scales(added, most)
        by_others = (longest / length if length > longest else 1.0 for length in lengths)
        shortened = [min(both) for both in zip(bounds, by_others, strict=True)]
    if not settings.multi_krum and settings.mean == "mean" and min(shortened) == 1.0:
        return weighted_mean(uploads, start, counted, rule)
    by = torch.tensor(counted, dtype=torch.float64)
    moves = torch.stack([_update(upload, start) for upload in uploads.values()])
    moves.mul_(torch.tensor(shortened, dtype=torch.float64).unsqueeze(1))
    f, people = malicious(settings, len(moves)), list(uploads.values())
    if settings.multi_krum:
        kept = krum(torch.cdist(moves, moves), f)
        moves, by, people = moves[kept], by[kept], [people[i] for i in kept.tolist()]
    by /= by.sum()
    centre = MEANS[settings.mean](moves, by, f)
    whole = all(one.part(name).at.everywhere for one in people for name in start)
    if settings.mean == "mean" and rule == "holders" and not whole:
        held = by @ torch.stack([_held(upload, start) for upload in people])
        centre /= held.where(held > 0, 1.0)
    parts = torch.split(centre.float(), [tensor.numel() for tensor in start.values()])
    return {
        name: before + part.view(before.shape)
        for (name, before), part in zip(start.items(), parts, strict=True)
    }


def _update(upload: Bundle, start: Mapping[str, Tensor]) -> Tensor:
    """Return the way from `start` to an upload, all tensors in a row, float64; 0 where it lacks."""
    ways = []
    for name, before in start.items():
        part = upload.part(name)
        way = torch.from_numpy(part.values.copy()).double() - part.at.take(before).double()
        if not part.at.everywhere:
            way = part.at.put(torch.zeros(before.shape, dtype=torch.float64), way)
        ways.append(way.flatten())
    return torch.cat(ways)


def _held(upload: Bundle, start: Mapping[str, Tensor]) -> Tensor:
    """Return which numbers an upload holds, all tensors in a row, 1 or 0 in float64."""
    held = [torch.from_numpy(upload.part(n).at.held(t.shape)) for n, t in start.items()]
    return torch.cat([one.flatten() for one in held]).double()


def moved(uploads: Mapping[str, Bundle], start: Mapping[str, Tensor]) -> list[float]:
    """Return the length of each upload's way from `start`, as if it held all numbers."""
    begun = {name: tensor.numpy() for name, tensor in start.items()}
    every = sum(before.size for before in begun.values())
    lengths = []
    for upload in uploads.values():
        parts = [(upload.part(name), before) for name, before in begun.items()]
        away = ((part.values - part.at.take(before)).ravel() for part, before in parts)
        length = sum(float(np.dot(move, move)) for move in away) ** 0.5
        held = sum(part.values.size for part, _ in parts)
        lengths.append(length / (held / every) ** 0.5 if held else 0.0)
    return lengths


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
