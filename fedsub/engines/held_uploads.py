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
        self._begin(0)

    def _begin(self, round: int) -> None:
        """Let go of uploads of another round."""
        self._round, self._uploads = round, dict[str, Bundle]()
        self._on_disk = OnDisk((), simulated=True)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let the addressed clients work; keep what they upload.

        Raises RunError if it cannot be written into files, as many people's is.
        """
        if (round := trained_round(messages)) not in (0, self._round):
            self._begin(round)
        for reply in super().answers(messages):
            carried = reply.carried if isinstance(reply, InProcessMessage) else None
            if isinstance(carried, dict) and not reply.has_error():
                payload = carried.get(exchange.PAYLOAD)
                if isinstance(payload, LazyMessage) and not payload.zstd:
                    carried[exchange.PAYLOAD] = self._kept(payload)
            yield reply

    def _kept(self, upload: LazyMessage) -> LazyMessage:
        """Keep an upload's whole tensors; return it without their numbers."""
        client, own, tensors = upload.header.client_id, dict[str, Floats](), []
        for one in upload.tensors:
            if isinstance(one, RawTensor) and isinstance(one.part, Floats):
                part = own[one.name] = one.part
                remote: Any = RemoteNumbers(client, one.name, part.values)
                if part.at.everywhere:
                    one = replace(one, part=Floats(remote, part.at))
            tensors.append(one)
        self._uploads[client] = Bundle(tensors=own)
        try:
            self._on_disk.put(client, self._uploads)
        except RunError as error:
            raise on_node(error) from error
        return replace(upload, tensors=Tensors(tensors))

    def numbers(self, client: str, name: str) -> FloatArray:
        """Return a tensor of a client's upload."""
        return self._uploads[client].floats(name)

    def summed(self, name: str, weights: Mapping[str, float], bound: float) -> Sums:
        """Return the sum of a tensor by clients' weights: :func:`.exact_sums.add_up`."""
        terms = ((self.numbers(client, name), weight) for client, weight in weights.items())
        return add_up(terms, self.numbers(next(iter(weights)), name).size, bound)

    def squared_lengths(self, start: Mapping[str, FloatArray]) -> dict[str, float]:
        """Return the squared length of every whole upload's way from `start`, by client."""
        whole = {c: own for c, own in self._uploads.items() if start.keys() <= own.tensors.keys()}
        lengths = dict.fromkeys(whole, 0.0)
        for client, upload in whole.items():
            for name, begun in start.items():
                values = upload.floats(name)
                lengths[client] += squared_length(values.reshape(begun.shape), begun)
                release(values)
        return lengths

    def every_thinned(self, step: int) -> Thinned:
        """Return every `step`-th number of each tensor of all clients' uploads; copies."""
        pieces = defaultdict[str, list[FloatArray]](list)
        for n, upload in enumerate(self._uploads.values()):
            for name in upload.tensors:
                values = upload.floats(name)
                nothing = [values[:0].reshape(-1)] * (n - len(pieces[name]))
                pieces[name] += [*nothing, values.reshape(-1)[::step].copy()]
                release(values)
        ends = {name: np.cumsum([0, *map(len, own)]) for name, own in pieces.items()}
        rows = {name: (ends[name], np.concatenate(own)) for name, own in pieces.items()}
        return {client: i for i, client in enumerate(self._uploads)}, rows


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
