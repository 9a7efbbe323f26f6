"""A bound on the distance of one client's rows from everybody's.

Lengths alone bound no direction: rows as long as the longest honest ones, all of one direction, are
many times farther from everybody's than honest ones are from each other. In a cluster of two
nobody can tell who is the odd one, so that distances are from the centre of everybody's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from strategies.methods.fedsub.bounds import median
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.fusion import chunks
from strategies.methods.fedsub.holdings import Block, Holdings
from strategies.methods.fedsub.robust import FEWEST

#: Farthest rows, over the median distance from the centre.
FARTHEST = 3.0
#: Steps to the centre. The first is the mean, and each takes the far ones' share out of the last.
STEPS = 4


@dataclass(frozen=True)
class _Rows:
    """A layer's numbers that the same people hold.

    Parameters
    ----------
    name : of the layer's rows.
    block : whose numbers, and which.
    selected : bool [holders, units], the units that each selected.
    centre : float32 [units, columns], made step by step.
    """

    name: str
    block: Block
    selected: Tensor
    centre: Tensor


def nearer(cache: Cache, layers: Mapping[str, str], holdings: Holdings) -> Cache:
    """Return the cache, in which rows too far from everybody's are moved to the usual distance.

    The centre is that of centred clipping (Karimireddy et al., Learning from History for Byzantine
    Robust Optimization, ICML 2021), from the mean on. A distance is a root mean square over all
    layers' numbers that a client holds in units that it selected. It is not one for each layer:
    where all others are alike, one honest person's last layer was ten times as far as theirs.
    Where nothing is changed, the tensors are the very same.

    Parameters
    ----------
    layers : of each rows' name the layer that they are of.
    holdings : what each client holds.
    """
    if len(cache.roster.clients) < FEWEST:
        return cache
    every = list(_every(cache, layers, holdings))
    factors = cache.tensors["omega"].new_ones(len(cache.roster.clients))
    for _ in range(STEPS):
        squares, numbers = torch.zeros_like(factors), torch.zeros_like(factors)
        for part in every:
            _step(part, cache.tensors[f"rows.{part.name}"], factors, squares, numbers)
        far = (squares / numbers.clamp(min=1)).sqrt()
        usual = median(far)
        factors = torch.where(far > FARTHEST * usual, usual / far, 1.0)
        if (far > 0).sum() < FEWEST or not (factors < 1).any():
            return cache
    tensors = dict(cache.tensors)
    for part in every:
        rows = cache.tensors[f"rows.{part.name}"]
        if tensors[f"rows.{part.name}"] is rows:
            tensors[f"rows.{part.name}"] = rows.clone()
        block = part.block
        for i, client in enumerate(block.holders.tolist()):
            if factors[client] < 1:
                own = tensors[f"rows.{part.name}"][client]
                far = own[block.units[:, None], block.columns]
                near = part.centre + factors[client] * (far - part.centre)
                block.put(own, near.where(part.selected[i, :, None], far))
    return replace(cache, tensors=tensors)


def _every(cache: Cache, layers: Mapping[str, str], holdings: Holdings) -> Iterator[_Rows]:
    """Yield the rows of all layers, block by block, with centres of 0."""
    for name, layer in layers.items():
        _, units, width = cache.tensors[f"rows.{name}"].shape
        for block in holdings.blocks(name, (units, width)):
            selected = block.masks(cache.tensors[f"masks.{layer}"]).any(1)
            centre = torch.zeros(len(block.units), len(block.columns))
            yield _Rows(name, block, selected, centre)


def _step(part: _Rows, whole: Tensor, factors: Tensor, squares: Tensor, numbers: Tensor) -> None:
    """Move a centre by the mean of the shortened ways to it; add up the distances that are left.

    Parameters
    ----------
    whole : float32 [n, units, width], the layer's rows.
    factors : float32 [n], by what each client's way is shortened.
    squares, numbers : float32 [n], added to: of numbers that enough people selected.
    """
    rows, selected, holders = part.block.rows(whole), part.selected, part.block.holders
    count = selected.sum(0)
    share = factors[holders, None] * selected / count.clamp(min=1)
    known = selected & (count >= FEWEST)
    numbers[holders] += known.sum(1) * float(rows.shape[2])
    for units in chunks(rows):
        ways = rows[:, units] - part.centre[units]
        moved = (ways * share[:, units, None]).sum(0)
        part.centre[units] += moved
        away = torch.linalg.vector_norm(ways.sub_(moved), dim=-1)
        squares[holders] += (away.square() * known[:, units]).sum(1)
