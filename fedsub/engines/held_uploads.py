"""A CohortGrid that keeps its clients' uploads of a round, and adds them up where they are."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from socket import gethostname
from typing import Any

import numpy as np
from flwr.app import Message, MessageType
from numpy.typing import NDArray

from fedsub.engines.cohort_grid import CohortGrid
from fedsub_client.split_client import SplitClient
from fedsub_core.addends import MEANS
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.config.robust import RobustSettings
from fedsub_core.errors import RunError
from fedsub_core.exact_sums import Sums, add_up, squared_length
from fedsub_core.mapped_file import release
from fedsub_core.methods.table import method
from fedsub_core.remote_numbers import RemoteNumbers
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, FloatArray, Floats
from fedsub_core.wire.in_process_message import InProcessMessage, content_of
from fedsub_core.wire.lazy_message import LazyMessage, Tensors
from fedsub_core.wire.raw_tensor import RawTensor
from strategies.rounds.on_disk import OnDisk

#: The place of each client; and by tensor where each one's numbers begin, and these in a row. Of
#: many people's small arrays Python's objects would take most of the memory.
Thinned = tuple[dict[str, int], dict[str, tuple[NDArray[np.int64], FloatArray]]]


class HoldingGrid(CohortGrid):
    """A CohortGrid whose uploads stay here until the next round's; replies have their bounds."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: As it was asked for last; 0: not yet.
        self._step = 0
        self._begin(0)

    def _begin(self, round: int) -> None:
        """Let go of uploads of another round."""
        self._round, self._uploads = round, dict[str, Bundle]()
        self._on_disk = OnDisk((), simulated=True)
        #: What the first was sent; of who was sent the same, the squared length of each tensor's
        #: way from there; and every `_step`-th number. They are noted while uploads are in memory.
        self._sent = dict[str, FloatArray]()
        self._squares = dict[str, dict[str, float]]()
        self._thinned = dict[str, dict[str, FloatArray]]()

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let the addressed clients work; keep what they upload.

        Raises RunError if it cannot be written into files, as many people's is.
        """
        if (round := trained_round(messages)) not in (0, self._round):
            self._begin(round)
        alike = self._sent_alike(messages) if round else set()
        for reply in super().answers(messages):
            carried = reply.carried if isinstance(reply, InProcessMessage) else None
            if isinstance(carried, dict) and not reply.has_error():
                payload = carried.get(exchange.PAYLOAD)
                if isinstance(payload, LazyMessage) and not payload.zstd:
                    kept = self._kept(payload, reply.metadata.src_node_id in alike)
                    carried[exchange.PAYLOAD] = kept
            yield reply

    def _sent_alike(self, messages: Sequence[Message]) -> set[int]:
        """Return the nodes that are sent what the first of the round was."""
        alike, nodes = dict[tuple[int, ...], bool](), set[int]()
        for message in messages:
            sent = whole_tensors(content_of(message).get(exchange.PAYLOAD))
            self._sent = self._sent or sent
            if (key := tuple(map(id, sent.values()))) not in alike:
                alike[key] = sent.keys() == self._sent.keys() and all(
                    np.array_equal(one, self._sent[name]) for name, one in sent.items()
                )
            if alike[key]:
                nodes.add(message.metadata.dst_node_id)
        return nodes

    def _kept(self, upload: LazyMessage, alike: bool) -> LazyMessage:
        """Keep an upload's whole tensors; return it without their numbers.

        `alike` : whether its client was sent what the first was.
        """
        client, own, tensors = upload.header.client_id, dict[str, Floats](), []
        for one in upload.tensors:
            if isinstance(one, RawTensor) and isinstance(one.part, Floats):
                part = own[one.name] = one.part
                remote: Any = RemoteNumbers(client, one.name, part.values)
                if part.at.everywhere:
                    one = replace(one, part=Floats(remote, part.at))
            tensors.append(one)
        self._uploads[client] = kept = Bundle(tensors=own)
        if alike:
            both = self._sent.keys() & {n for n, part in own.items() if part.at.everywhere}
            self._squares[client] = {n: _square(own[n].values, self._sent[n]) for n in both}
        if self._step:
            self._thinned[client] = _thinned(kept, self._step)
        try:
            self._on_disk.put(client, self._uploads)
        except RunError as error:
            raise on_node(error) from error
        return replace(upload, tensors=Tensors(tensors))

    def numbers(self, client: str, name: str) -> FloatArray:
        """Return a tensor of a client's upload."""
        return self._uploads[client].floats(name)

    def summed(self, weights: Mapping[str, float], bounds: Mapping[str, float]) -> dict[str, Sums]:
        """Return the sums of tensors by clients' weights: :func:`.exact_sums.add_up`."""
        first = self._uploads[next(iter(weights))]
        sizes = [first.floats(name).size for name in bounds]
        terms = (([self.numbers(c, name) for name in bounds], by) for c, by in weights.items())
        return dict(zip(bounds, add_up(terms, sizes, [*bounds.values()]), strict=True))

    def squared_lengths(self, start: Mapping[str, FloatArray]) -> dict[str, float]:
        """Return the squared length of every whole upload's way from `start`, by client."""
        whole = {c: own for c, own in self._uploads.items() if start.keys() <= own.tensors.keys()}
        same = {
            n for n in self._sent.keys() & start.keys() if np.array_equal(self._sent[n], start[n])
        }
        lengths = dict.fromkeys(whole, 0.0)
        for client, upload in whole.items():
            noted = self._squares.get(client, {})
            for name, begun in start.items():
                known = noted.get(name) if name in same else None
                lengths[client] += _square(upload.floats(name), begun) if known is None else known
        return lengths

    def every_thinned(self, step: int) -> Thinned:
        """Return every `step`-th number of each tensor of all clients' uploads; copies."""
        if step != self._step:
            self._step = step
            self._thinned = {client: _thinned(one, step) for client, one in self._uploads.items()}
        pieces = defaultdict[str, list[FloatArray]](list)
        for n, client in enumerate(self._uploads):
            for name, own in self._thinned[client].items():
                pieces[name] += [*[own[:0]] * (n - len(pieces[name])), own]
        ends = {name: np.cumsum([0, *map(len, own)]) for name, own in pieces.items()}
        rows = {name: (ends[name], np.concatenate(own)) for name, own in pieces.items()}
        return {client: i for i, client in enumerate(self._uploads)}, rows


def whole_tensors(payload: object) -> dict[str, FloatArray]:
    """Return the whole float tensors of a payload that goes by reference; none of another."""
    tensors = payload.tensors if isinstance(payload, LazyMessage) else ()
    return {
        one.name: one.part.values
        for one in tensors
        if isinstance(one, RawTensor) and isinstance(one.part, Floats) and one.part.at.everywhere
    }


def _square(values: FloatArray, begun: FloatArray) -> float:
    """Return the squared length of the way of an upload's tensor."""
    square = squared_length(values.reshape(begun.shape), begun)
    release(values)
    return square


def _thinned(upload: Bundle, step: int) -> dict[str, FloatArray]:
    """Return every `step`-th number of each tensor of an upload; copies."""
    thinned = dict[str, FloatArray]()
    for name in upload.tensors:
        values = upload.floats(name)
        thinned[name] = values.reshape(-1)[::step].copy()
        release(values)
    return thinned


def on_node(error: Exception) -> RunError:
    """Return an error that names the node which it happened on."""
    return RunError(f"Ray node {gethostname()}: {error}")


def trained_round(messages: Sequence[Message]) -> int:
    """Return the round that messages ask to train; 0 if they ask for something else."""
    kinds = (m for m in messages if m.metadata.message_type == MessageType.TRAIN)
    if (first := next(kinds, None)) is None:
        return 0
    return exchange.read_instructions(content_of(first)[exchange.TURN]).turn.round


def adds_up(
    settings: DeviceSettings, robust: RobustSettings, clients: Sequence[SplitClient]
) -> bool:
    """Return whether uploads can be added up where they are made, as only their mean is needed.

    Medians and ``multi-krum`` compare everybody's numbers. Weak devices' stand at other places.
    """
    of_mean = robust.mean == "mean" and not robust.multi_krum
    protected = settings.secure.secure_aggregation or settings.noise.dp_noise
    whole = all(one.capacity == 1 and not one.drawn for one in clients)
    return method(settings.method).sums is MEANS and of_mean and not protected and whole
