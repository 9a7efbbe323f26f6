"""What a person adds to a round's sum, as a method's card says it, and in which order it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, bits

Array = NDArray[np.floating]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Addend:
    """One of the things that a person adds to a sum.

    Parameters
    ----------
    name : by which device and server know it.
    shape : along the first axis stand its entries, such as units or classes.
    mask : the tensor of a download that asks for some of the entries; "": all are added in each
        round.
    counts : the mask for whose entries this counts people. A person adds 1 for each entry that it
        has, and a later round asks for what enough people have; "": it counts nobody.
    weighted : whether it is the change of a tensor that was sent, which counts by samples; else
        each person counts once.
    """

    name: str
    shape: tuple[int, ...]
    mask: str = ""
    counts: str = ""
    weighted: bool = False


@dataclass(frozen=True)
class Sums:
    """How a method goes by sums of what people send (``secure-aggregation``).

    Parameters
    ----------
    learner, strategy : where the halves live that serve runs of sums, ``module:class``; "": the
        method's own.
    refuses : of hyperparameters, what does not go with sums, and what is expected instead; "": all
        goes.
    adds : of a model and hyperparameters, what a person adds; None: what the halves say.
    """

    learner: str = ""
    strategy: str = ""
    refuses: Callable[[Any], str] = lambda hyper: ""
    adds: Callable[[Architecture, Any], Sequence[Addend]] | None = None


#: The server half makes of a round's uploads nothing but their mean, weighted by samples, and sends
#: all the same: it can do with the mean alone, and with noise on it (``dp-noise``).
MEANS = Sums()


def counting(adds: Sequence[Addend]) -> list[Addend]:
    """Return the addends that count people."""
    return [added for added in adds if added.counts]


def masks(adds: Sequence[Addend]) -> Declaration:
    """Declare the masks by which a download asks for entries."""
    return {count.counts: bits(count.shape, optional=True) for count in counting(adds)}


def once(adds: Sequence[Addend]) -> list[Addend]:
    """Return the addends in which each person counts once; they stand behind the others."""
    return [added for added in adds if not added.weighted]


def asked_for(adds: Sequence[Addend], asked: Mapping[str, Bools]) -> Bools:
    """Return the mask of the numbers that are asked for, of all addends in a row, bool [numbers].

    `asked` : the masks of a download, by name.
    """
    each = [
        (asked[added.mask] if added.mask else np.ones(added.shape[0], bool), prod(added.shape[1:]))
        for added in once(adds)
    ]
    return np.concatenate([entries.repeat(size) for entries, size in each])


def by_name(numbers: Array, adds: Sequence[Addend]) -> dict[str, Array]:
    """Return views of these addends' numbers [numbers] by name, in their shapes."""
    every = once(adds)
    ends = np.cumsum([prod(added.shape) for added in every])
    of = zip(every, np.split(numbers, ends[:-1]), strict=True)
    return {added.name: part.reshape(added.shape) for added, part in of}


def digest_of(which: Bools) -> int:
    """Return a digest of which numbers are asked for, of 63 bits."""
    digest = hashlib.sha256(np.packbits(which).tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
