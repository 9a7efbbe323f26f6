"""What keeps a few updates from deciding a mean: how much one may add to what the others do.

Where devices hold different parts of a model, this is asked of each number's holders: three whole
devices among ten have numbers that nobody else has, and there one of them is one of three.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.exact_sums import squared_length
from fedsub_core.mapped_file import release
from fedsub_core.wire.bundles import Bundle
from strategies.parts.upload_sums import remote_lengths

#: Most that an upload may add to a mean, its weight times the length of its update, over what the
#: median upload of the round adds. Weight and length have one bound together: a device says itself
#: how many samples it has. Of few uploads it is less: see :func:`most_added`.
MOST_ADDED = 3.0
#: Of fewer nobody can say which is the odd one, and the shortest alone would be the bound.
FEWEST = 3


def most_added(uploads: int) -> float:
    """Return the number of medians that one upload may add to a mean of so many `uploads`.

    A third of how many others there are, from 1 to :data:`MOST_ADDED`: where the others add the
    median, nobody adds more than a third of what they do together (of three people half). Three
    medians are more than the other two of three add.
    """
    return MOST_ADDED if uploads < FEWEST else max(1.0, min(MOST_ADDED, (uploads - 1) / 3))


def scales(added: Sequence[float], most: float = 0.0) -> list[float]:
    """Return the factor of each update to the longest that ``clip`` allows; 1 where it is shorter.

    Parameters
    ----------
    added : each one's weight times its length.
    most : how many medians are allowed; 0: as many as of so many uploads (:func:`most_added`).
    """
    longest = (most or most_added(len(added))) * statistics.median_low(added)
    return [min(1.0, longest / length) if length > 0 else 1.0 for length in added]


@dataclass(frozen=True)
class Clip:
    """The factors that shorten each upload's update, by how many uploads hold a number.

    Parameters
    ----------
    factors : float64 [uploads, k], of numbers that equally many uploads hold, ascending.
    column : the column of each number, all tensors in a row, int64 [numbers]; None where all that
        are held by some are held by all.
    """

    factors: Tensor
    column: Tensor | None

    @property
    def shortens(self) -> bool:
        """Whether any update is too long."""
        return bool((self.factors < 1).any())

    def shorten(self, moves: Tensor, first: int = 0) -> None:
        """Shorten the ways [some uploads, numbers], float64, in place; `first` : whose they are."""
        factors_of = self.factors[first : first + len(moves)]
        if self.column is None:
            moves.mul_(factors_of[:, -1:])
            return
        for move, factors in zip(moves, factors_of, strict=True):
            move.mul_(factors[self.column])


def clip(
    uploads: Mapping[str, Bundle],
    start: Mapping[str, Tensor],
    counted: Sequence[float],
    longest: float = inf,
    most: float = 0.0,
) -> Clip:
    """Return the factors of uploads by which no holder of a number adds too much to it.

    Numbers that equally many hold have one bound: :func:`most_added` of their holders, times the
    median of what those add who hold some of them. What one or two hold nobody can vouch for:
    there no update is longer than :data:`MOST_ADDED` times the round's median length. Lengths
    are those of :func:`moved`, for the numbers in question.

    Parameters
    ----------
    counted : each upload's weight.
    longest : the length to which an update is shortened besides.
    most : see :func:`scales`.
    """
    n, every = len(uploads), sum(tensor.numel() for tensor in start.values())
    holders = {name: _holders(uploads, name, tensor) for name, tensor in start.items()}
    by = np.unique(np.concatenate([np.unique(one) for one in holders.values()]))
    columns = {name: np.searchsorted(by, one) for name, one in holders.items()}
    squares, held = _squares(uploads, start, columns, len(by))
    shortening = torch.from_numpy(factors(squares, held, by, every, counted, longest, most))
    if not held[:, by < n].any():
        return Clip(shortening, None)
    each = (np.broadcast_to(columns[name], tensor.shape) for name, tensor in start.items())
    return Clip(shortening, torch.from_numpy(np.concatenate([one.ravel() for one in each])))


def factors(
    squares: NDArray[np.float64],
    held: NDArray[np.int64],
    by: NDArray[np.int64],
    every: int,
    counted: Sequence[float],
    longest: float = inf,
    most: float = 0.0,
) -> NDArray[np.float64]:
    """Return the factors of n updates, by how many hold a number, float64 [n, k].

    Parameters
    ----------
    squares, held : [n, k], squared lengths and numbers of each update, by how many hold these.
    by : how many hold the numbers of each column, [k]; ascending.
    every : numbers of a whole update.
    """
    n = len(squares)
    lengths, vouched = _as_if_whole(squares, held, every), inf
    if n >= FEWEST and held[:, by < FEWEST].any():
        whole = _as_if_whole(squares.sum(1), held.sum(1), every)
        vouched = MOST_ADDED * statistics.median_low(whole.tolist())
    shortening = np.ones(held.shape)
    for column in np.flatnonzero(held.any(axis=0)).tolist():
        k, own = int(by[column]), np.flatnonzero(held[:, column]).tolist()
        far = lengths[own, column].tolist()
        added = [counted[i] * one for i, one in zip(own, far, strict=True)]
        bounds = scales(added, most or most_added(k))
        limit = min(longest, vouched) if k < FEWEST else longest
        by_length = (limit / one if one > limit else 1.0 for one in far)
        shortening[own, column] = [min(both) for both in zip(bounds, by_length, strict=True)]
    return shortening


def moved(uploads: Mapping[str, Bundle], start: Mapping[str, Tensor]) -> list[float]:
    """Return the length of each upload's way from `start`, as if it held all numbers."""
    squares, held = _squares(uploads, start, dict.fromkeys(start, 0), 1)
    every = sum(tensor.numel() for tensor in start.values())
    lengths: list[float] = _as_if_whole(squares.sum(1), held.sum(1), every).tolist()
    return lengths


def _holders(uploads: Mapping[str, Bundle], name: str, before: Tensor) -> int | NDArray[np.int64]:
    """Return the uploads that hold each number, counted [*shape]; one count where all hold all."""
    places = [upload.part(name).at for upload in uploads.values()]
    if len(set(places)) == 1:
        return len(places)
    holders = np.zeros(before.shape, np.int64)
    for at in places:
        holders += at.held(before.shape)
    return holders


def _squares(
    uploads: Mapping[str, Bundle],
    start: Mapping[str, Tensor],
    columns: Mapping[str, int | np.intp | NDArray[np.intp]],
    many: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return each way's squared length and how many numbers it has, both [uploads, `many`].

    `columns` : of each tensor's numbers [*shape], or of all of them.
    """
    n = len(uploads)
    squares, held = np.zeros((n, many)), np.zeros((n, many), np.int64)
    begun = {name: tensor.numpy() for name, tensor in start.items()}
    if (lengths := remote_lengths(uploads, begun)) is not None:
        squares[:, 0], held[:, 0] = lengths, sum(array.size for array in begun.values())
        return squares, held
    for i, upload in enumerate(uploads.values()):
        for name, before in begun.items():
            part, column = upload.part(name), columns[name]
            if isinstance(column, np.ndarray):
                move = (part.values - part.at.take(before)).ravel()
                of_each = part.at.take(column).ravel()
                squares[i] += np.bincount(of_each, np.square(move, dtype=np.float64), many)
                held[i] += np.bincount(of_each, minlength=many)
            else:
                squares[i, column] += squared_length(part.values, part.at.take(before))
                held[i, column] += part.values.size
            release(part.values)
    return squares, held


def _as_if_whole(
    squares: NDArray[np.float64], held: NDArray[np.int64], every: int
) -> NDArray[np.float64]:
    """Return lengths of updates of `held` numbers, as if they moved as far in `every` number."""
    share = held / max(every, 1)
    found: NDArray[np.float64] = np.sqrt(squares) / np.sqrt(np.where(held > 0, share, 1.0))
    return found
