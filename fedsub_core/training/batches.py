"""Mini-batches: the samples of one step of several clients, and how a model did on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from fedsub_core.models.model import Params
from fedsub_core.pytorch import Tensor
from fedsub_core.seeds import derive_seed
from fedsub_core.turn import Turn


@dataclass(frozen=True)
class Streams:
    """Where what models draw in a step comes from: streams of each client's own.

    They go by the step's number in its epoch, which no other client changes.
    """

    turn: Turn
    clients: tuple[str, ...]
    name: str
    number: int = 0

    def of(self, some: slice) -> Streams:
        """Return some clients' alone."""
        return replace(self, clients=self.clients[some])

    def seeds(self) -> tuple[int, ...]:
        """Return each client's seed."""
        round, what = self.turn.round, f"{self.name}: draws of step {self.number}"
        return tuple(derive_seed(self.turn.seed, c, round, what) for c in self.clients)


@dataclass(frozen=True)
class Batch:
    """One step's samples of the clients that still have some.

    Parameters
    ----------
    x : [clients, samples, *features], as a model sees them
    y : int64 [clients, samples]
    weight : [clients, samples], each sample's share in its client's mean; 0 where padded.
    number : steps of the phase that came before.
    streams : where what a model draws in this step comes from; None: nobody draws.
    rows : of each client, samples and the context that the model sees beside them; () where there
        is none.
    whole : `y` and `weight` of the clients' whole epoch; None: the batch is all that they have.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    number: int
    streams: Streams | None = None
    rows: tuple[int, ...] = ()
    whole: tuple[Tensor, Tensor] | None = None

    @cached_property
    def real(self) -> tuple[int, ...]:
        """Samples of each client without padding, context included."""
        return self.rows or tuple((self.weight > 0).sum(1).tolist())

    def alike(self, most: int) -> list[slice]:
        """Return the clients as runs of at most `most` that have equally many samples."""
        found, begin = list[slice](), 0
        for _, run in groupby(self.real):
            end = begin + len(list(run))
            found += [slice(i, min(i + most, end)) for i in range(begin, end, most)]
            begin = end
        return found

    def of(self, some: slice) -> Batch:
        """Return the batch of some clients, who have equally many samples, without padding."""
        real = self.real[some.start]
        x, y, weight = (t[some, :real] for t in (self.x, self.y, self.weight))
        streams = None if self.streams is None else self.streams.of(some)
        whole = None if self.whole is None else (self.whole[0][some], self.whole[1][some])
        return Batch(x, y, weight, self.number, streams, self.rows[some], whole)

    def at(self, i: int) -> str:
        """Return the name of the `i`-th client, and the round, in words."""
        if self.streams is None:
            return f"the stack's client {i}"
        return f"client {self.streams.clients[i]!r}, round {self.streams.turn.round}"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Each client's seed for what is drawn in this step; () where nobody draws."""
        return () if self.streams is None else self.streams.seeds()


class Met(NamedTuple):
    """How a model did on a batch before a step; losses are computed of all steps together.

    Parameters
    ----------
    chosen : probability that each sample's class got, ``[clients, samples]``.
    weight : the batch's.
    """

    chosen: Tensor
    weight: Tensor


Batches = Sequence[Batch]
#: Changes stacked tensors in place: gets their rows of the clients that are active, and batches.
Step = Callable[[Params, Batches], Met]
