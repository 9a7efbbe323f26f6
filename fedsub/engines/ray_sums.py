"""The sums over uploads that lie with the workers of a Ray cluster."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from flwr.app import Message

from fedsub.engines.held_uploads import HoldingGrid, Thinned
from fedsub_core.exact_sums import Sums
from fedsub_core.remote_numbers import RemoteNumbers
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import FloatArray
from fedsub_core.wire.in_process_message import content_of
from fedsub_core.wire.lazy_message import LazyMessage
from fedsub_core.wire.raw_tensor import RawTensor


class RaySums:
    """The :class:`~fedsub_core.remote_numbers.Holder` of what all workers hold.

    Parameters
    ----------
    ask : lets workers do work on their grids, and returns what they found.
    worker_of : each client's worker.
    """

    def __init__(
        self, ask: Callable[[Mapping[int, Any]], dict[int, Any]], worker_of: Mapping[str, int]
    ) -> None:
        self._ask, self._worker_of = ask, worker_of
        #: By step and worker.
        self._thinned: dict[int, dict[int, Thinned]] = {}
        #: Workers that hold uploads of this round; others may hold some of a round before.
        self._holding = set[int]()

    def begin(self) -> None:
        """Forget what was asked of another round's uploads."""
        self._thinned, self._holding = {}, set()

    def take(self, w: int, replies: Iterable[Message]) -> None:
        """Say of numbers that stayed with the `w`-th worker that they are had from here."""
        for reply in replies:
            payload = None if reply.has_error() else content_of(reply).get(exchange.PAYLOAD)
            for one in payload.tensors if isinstance(payload, LazyMessage) else ():
                values: Any = one.part.values if isinstance(one, RawTensor) else None
                if isinstance(values, RemoteNumbers):
                    values.holder = self
                    self._holding.add(w)

    def numbers(self, client: str, name: str) -> FloatArray:
        """Return a tensor of a client's upload."""
        w = self._worker_of[client]
        asked = {w: partial(HoldingGrid.numbers, client=client, name=name)}
        found: FloatArray = self._ask(asked)[w]
        return found

    def summed(self, weights: Mapping[str, float], bounds: Mapping[str, float]) -> dict[str, Sums]:
        """Return the sums of tensors by clients' weights, of one sum from each worker."""
        by_worker = defaultdict[int, dict[str, float]](dict)
        for client, weight in weights.items():
            by_worker[self._worker_of[client]][client] = weight
        asked = {
            w: partial(HoldingGrid.summed, weights=own, bounds=bounds)
            for w, own in by_worker.items()
        }
        totals: dict[str, Sums]
        totals, *others = self._ask(asked).values()
        for other in others:
            for name, total in totals.items():
                total += other[name]
        return totals

    def squared_lengths(self, start: Mapping[str, FloatArray]) -> dict[str, float]:
        """Return the squared length of every upload's way from `start`, by client."""
        found = self._of_all(partial(HoldingGrid.squared_lengths, start=start))
        return {client: one for own in found.values() for client, one in own.items()}

    def thinned(self, client: str, name: str, step: int) -> FloatArray:
        """Return every `step`-th number of a tensor of a client's upload."""
        if step not in self._thinned:
            self._thinned[step] = self._of_all(partial(HoldingGrid.every_thinned, step=step))
        places, rows = self._thinned[step][self._worker_of[client]]
        (ends, numbers), i = rows[name], places[client]
        return numbers[ends[i] : ends[i + 1]]

    def _of_all(self, work: Callable[[HoldingGrid], Any]) -> dict[int, Any]:
        return self._ask(dict.fromkeys(sorted(self._holding), work))
