"""Means of tensors over clients' uploads, and what keeps a few of them from deciding the mean.

In the order in which they are applied: clipping, leaving out, and one of three means.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf
from typing import Literal

import torch
from torch import Tensor

from fedsub_core.config.robust import RobustSettings
from fedsub_core.mapped_file import release
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.clipping import Clip, clip
from strategies.parts.robust_means import ROBUST_MEANS
from strategies.parts.upload_sums import summed

#: What a number becomes that not all uploads hold: see :func:`weighted_mean`.
Rule = Literal["holders", "residual"]
#: Numbers of people's updates that are in memory at once, in the order of their ids: a mean that
#: shortens some is the sum of their blocks' sums.
BLOCK_NUMBERS = 2**25


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
    total = sum(counts)
    return [count / total for count in counts]


def weighted_mean(
    uploads: Mapping[str, Bundle],
    start: Mapping[str, Tensor],
    counted: Sequence[float],
    rule: Rule = "holders",
    begun: float = 0.0,
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
    begun : weight of what they began from, where all hold the same numbers; 1 with the others.
    """
    means, every_part = dict[str, Tensor](), dict[str, list[Floats]]()
    for name in start:
        every_part[name] = [upload.part(name) for upload in uploads.values()]
    places = {name: {part.at for part in parts} for name, parts in every_part.items()}
    alike = {name: next(iter(at)) for name, at in places.items() if len(at) == 1}
    totals = summed({name: [one.values for one in every_part[name]] for name in alike}, counted)
    for name, before in start.items():
        parts = every_part[name]
        if (first := alike.get(name)) is not None:
            total = torch.from_numpy(totals[name])
            if begun:
                total += begun * first.take(before).double().flatten()
            mean = total.float().view(first.shape(before.shape))
            means[name] = mean if first.everywhere else first.put(before.clone(), mean)
            continue
        mean, held, every = torch.zeros(before.shape), torch.zeros(before.shape), torch.zeros(())
        for share, part in zip(counted, parts, strict=True):
            _add(mean, part.at, _values(part), share)
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
    most : see :func:`~strategies.parts.clipping.scales`.

    Notes
    -----
    ``clip``: an update that adds more to the mean, its weight times its length, than some medians
    of what those add who hold the same numbers is shortened to that
    (:func:`~strategies.parts.clipping.clip`; norm clipping as in
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
    clipped = clip(uploads, start, counted, longest, most) if settings.clip else None
    by = torch.tensor(counted, dtype=torch.float64)
    alone = not settings.multi_krum and settings.mean == "mean"
    if alone and (mean := _one_sum(uploads, start, counted, clipped, rule)) is not None:
        return mean
    f, people = malicious(settings, len(by)), list(uploads.values())
    if settings.multi_krum or settings.mean != "mean":  # by what everybody sent, at once
        moves = _ways(people, start, clipped, 0)
        if settings.multi_krum:
            kept = krum(torch.cdist(moves, moves), f)
            moves, by, people = moves[kept], by[kept], [people[i] for i in kept.tolist()]
        by /= by.sum()
        centre = ROBUST_MEANS[settings.mean](moves, by, f)
    else:
        by /= by.sum()
        centre = _summed(by, start, lambda i, j: _ways(people[i:j], start, clipped, i))
    whole = all(one.part(name).at.everywhere for one in people for name in start)
    if settings.mean == "mean" and rule == "holders" and not whole:
        held = _summed(by, start, lambda i, j: torch.stack([_held(p, start) for p in people[i:j]]))
        centre /= held.where(held > 0, 1.0)
    parts = torch.split(centre.float(), [tensor.numel() for tensor in start.values()])
    return {
        name: before + part.view(before.shape)
        for (name, before), part in zip(start.items(), parts, strict=True)
    }


def _one_sum(
    uploads: Mapping[str, Bundle],
    start: Mapping[str, Tensor],
    counted: Sequence[float],
    clipped: Clip | None,
    rule: Rule,
) -> dict[str, Tensor] | None:
    """Return a mean as one sum; None where uploads are shortened otherwise at other numbers."""
    if clipped is None or not clipped.shortens:
        return weighted_mean(uploads, start, counted, rule)
    places = ({upload.part(name).at for upload in uploads.values()} for name in start)
    if clipped.column is not None or any(len(at) > 1 for at in places):
        return None
    factors = clipped.factors[:, -1].tolist()
    counted = [by * factor for by, factor in zip(counted, factors, strict=True)]
    # What is cut off an update stays where it began.
    return weighted_mean(uploads, start, counted, rule, 1 - sum(counted))


def _summed(by: Tensor, start: Mapping[str, Tensor], rows: Callable[[int, int], Tensor]) -> Tensor:
    """Return the sum of people's `rows` by their weights, one block after another, [numbers].

    `rows` : those of people from one place to another, float64 [people, numbers].
    """
    numbers = sum(map(torch.numel, start.values()))
    block, total = max(1, BLOCK_NUMBERS // max(numbers, 1)), torch.zeros(numbers).double()
    for i in range(0, len(by), block):
        total += by[i : i + block] @ rows(i, i + block)
    return total


def _ways(
    people: Sequence[Bundle], start: Mapping[str, Tensor], clipped: Clip | None, first: int
) -> Tensor:
    """Return the ways of a round's uploads from its `first` on, shortened, [uploads, numbers]."""
    numbers = sum(map(torch.numel, start.values()))
    moves = torch.empty((len(people), numbers), dtype=torch.float64)
    for move, upload in zip(moves, people, strict=True):
        move.copy_(way_to(upload, start))
    if clipped is not None:
        clipped.shorten(moves, first)
    return moves


def _values(part: Floats) -> Tensor:
    """Return a copy of an upload's numbers; what lies in a file takes no memory any more."""
    values = torch.from_numpy(part.values.copy())
    release(part.values)
    return values


def way_to(upload: Bundle, start: Mapping[str, Tensor]) -> Tensor:
    """Return an upload's update of `start`, all tensors in a row, float64; 0 for what it lacks."""
    ways = []
    for name, before in start.items():
        part = upload.part(name)
        way = _values(part).double() - part.at.take(before).double()
        if not part.at.everywhere:
            way = part.at.put(torch.zeros(before.shape, dtype=torch.float64), way)
        ways.append(way.flatten())
    return torch.cat(ways)


def _held(upload: Bundle, start: Mapping[str, Tensor]) -> Tensor:
    """Return the mask of an upload's numbers, all tensors in a row, 1 or 0 in float64."""
    held = [torch.from_numpy(upload.part(n).at.held(t.shape)) for n, t in start.items()]
    return torch.cat([one.flatten() for one in held]).double()


def malicious(settings: RobustSettings, clients: int) -> int:
    """Return the number of clients to be reckoned malicious, of so many."""
    return ceil(settings.share * clients)


def krum(distances: Tensor, f: int) -> Tensor:
    """Return the points of n that multi-Krum keeps, ascending, by their distances [n, n].

    Ties by place.
    """
    near = max(1, len(distances) - f - 2)
    # The nearest is the point itself, at 0.
    scores = distances.square().sort(dim=1).values[:, 1 : near + 1].sum(1)
    keep = max(1, len(distances) - f)
    return scores.argsort(stable=True)[:keep].sort().values
