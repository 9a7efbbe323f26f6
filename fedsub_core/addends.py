"""What a person adds to a round's sum, as a method's card says it: cards import no NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, bits


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
