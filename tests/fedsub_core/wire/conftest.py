"""Declarations and bundles that fit them, and a device and a server that exchange them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from fedsub_core.methods.fedsub import FedSubHyperparameters
from fedsub_core.methods.table import method
from fedsub_core.models.kinds import mlp
from fedsub_core.placement import Placement, owned
from fedsub_core.wire import bundles
from fedsub_core.wire.bundles import Bits, BoolArray, Bundle, Declaration, Floats, Kind, Part, Whole
from fedsub_core.wire.codec import (
    Address,
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import Encoding, parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import open_frame
from fedsub_core.wire.references import Reference
from fedsub_core.wire.v2 import exchange_pb2 as pb

MODEL = mlp(6, 4, hidden=(16, 8))
#: One tensor of each kind and more: a sub-model's layers follow each other's units, the last behind
#: Flatten, where each of the 4 channels of `conv` has 3 positions.
ALL_KINDS: Declaration = {
    "dense": bundles.dense((3, 4)),
    "bias": bundles.dense((5,)),
    "counts": bundles.dense((4,), exact=True),
    "rows": bundles.rows((6, 3)),
    "chosen": bundles.bits((2, 6)),
    "first": bundles.sliced((5, 3), ""),
    "conv": bundles.sliced((4, 5, 2), "first"),
    "linear": bundles.sliced((6, 12), "conv"),
    "sparse": bundles.elements((4, 6)),
    "thresholds": bundles.elements((7,)),
    "mean": bundles.rows((4, 2), optional=True),
    "tally": bundles.rows((4, 2), optional=True, exact=True),
    "sums": bundles.whole((3, 5)),
}


def drifting_bundles(
    seed: int, rounds: int, declared: Declaration, share: float = 0.7, step: float = 0.05
) -> Iterator[Bundle]:
    """Yield bundles whose numbers change a little and whose masks change altogether."""
    rng = np.random.default_rng(seed)
    sums = np.random.default_rng(seed)
    whole = {
        name: rng.standard_normal(one.shape, np.float32)
        for name, one in declared.items()
        if one.kind is not Kind.WHOLE
    }
    for _ in range(rounds):
        tensors: dict[str, Part] = {}
        for name, one in declared.items():
            if one.kind is Kind.WHOLE:
                drawn = sums.integers(-(2**15), 2**15, one.shape)
                tensors[name] = Whole(drawn.astype(np.int16))
                continue
            values = whole[name]
            values += step * rng.standard_normal(values.shape, np.float32)
            mask = rng.random(one.shape) < share
            units = rng.random(one.shape[0]) < share
            units[0] = True  # a layer without a unit is none
            if one.kind is Kind.DENSE:
                tensors[name] = Floats(values.copy())
            elif one.kind is Kind.ROWS:
                tensors[name] = Floats.rows(units, values[units])
            elif one.kind is Kind.ELEMENTS:
                tensors[name] = Floats.elements(mask, values[mask])
            elif one.kind is Kind.BITS:
                tensors[name] = Bits(mask)
            else:
                columns, followed = None, tensors.get(one.follows)
                if isinstance(followed, Floats) and followed.at.rows is not None:
                    each = one.shape[1] // declared[one.follows].shape[0]
                    columns = owned(followed.at.rows, each)
                tensors[name] = Floats.of(values, Placement(units.nonzero()[0], columns))
        yield Bundle(12, 2**63 - 1, tensors)


@dataclass
class Exchange:
    """A device and a server, and what each remembers."""

    encoding: Encoding
    sends: Declaration
    device: Reference = field(init=False)
    server: Reference = field(init=False)
    round: int = 0

    def __post_init__(self) -> None:
        self.device, self.server = Reference.empty(self.sends), Reference.empty(self.sends)

    def send(self, upload: Bundle) -> bytes:
        self.round += 1
        address = Address("anna", self.round)
        return encode_upload(upload, address, self.sends, self.encoding, self.device)

    def receive(self, data: bytes) -> Bundle:
        envelope = Envelope("anna", self.round, self.sends, self.server.copy())
        upload = decode_upload(data, envelope)
        self.server.remember(upload, self.round)
        return upload

    def exchange(self, upload: Bundle) -> Bundle:
        return self.receive(self.send(upload))

    def hear(self) -> None:
        """Let the device learn what the server holds, as every download tells it."""
        address = Address("anna", self.round + 1)
        data = encode_download(Bundle(), address, {}, self.encoding, self.server)
        envelope = Envelope("anna", self.round + 1, {}, self.device)
        if decode_download(data, envelope).reference != self.device.round:
            self.device.forget()

    def agree(self) -> None:
        """Check that both sides remember the same round and the same bits."""
        assert self.device.round == self.server.round == self.round
        assert self.device.tensors.keys() == self.server.tensors.keys()
        for name, tensor in self.device.tensors.items():
            assert tensor.tobytes() == self.server.tensors[name].tobytes(), name

    @staticmethod
    def same(got: Bundle, wanted: Bundle) -> None:
        """Check that two bundles' tensors are equal bit for bit."""
        assert got.tensors.keys() == wanted.tensors.keys()
        for name, part in got.tensors.items():
            other = wanted.tensors[name]
            assert type(part) is type(other), name
            assert getattr(part, "at", None) == getattr(other, "at", None), name
            assert part.values.shape == other.values.shape, name
            assert part.values.dtype == other.values.dtype, name
            assert part.values.tobytes() == other.values.tobytes(), name

    @staticmethod
    def errors(got: Bundle, wanted: Bundle) -> dict[str, float]:
        """Return the greatest distance between a number of two bundles, by tensor."""
        assert got.tensors.keys() == wanted.tensors.keys()
        return {
            name: float(np.abs(got.floats(name) - wanted.floats(name)).max(initial=0))
            for name, part in wanted.tensors.items()
            if isinstance(part, Floats)
        }

    def error(self, got: Bundle, wanted: Bundle) -> float:
        """Return the greatest distance between a number of two bundles."""
        return max(self.errors(got, wanted).values())

    def parsed(self, data: bytes) -> pb.Bundle:
        """Return a message, opened."""
        opened = open_frame(data, 1 << 20, Envelope("anna", 1, self.sends).refuse)
        return pb.Bundle.FromString(opened)


def sent_entries(tensor: pb.Tensor, entries: int) -> BoolArray:
    """Return which of a message's entries are sent, bool [entries]."""
    bits = np.unpackbits(np.frombuffer(tensor.sent, np.uint8), bitorder="little")
    return bits[:entries].astype(np.bool_)


def declarations() -> dict[str, Declaration]:
    """Return what methods of different kinds send."""
    fedsub, fedavg = method("fedsub"), method("fedavg")
    return {
        "fedsub": fedsub.sends(MODEL, FedSubHyperparameters()),
        "model": fedavg.sends(MODEL, fedavg.hyperparameters()),
        "kinds": ALL_KINDS,
    }


@pytest.fixture(scope="session", name="declarations")
def declarations_fixture() -> dict[str, Declaration]:
    return declarations()


@pytest.fixture(params=["fedsub", "model", "kinds"])
def declared(request: pytest.FixtureRequest) -> Declaration:
    """What a device sends, of several methods in turn."""
    return declarations()[request.param]


@pytest.fixture
def exchange() -> Callable[[str, Declaration], Exchange]:
    """Return a maker of a device and a server that have not met."""
    return lambda text, declared: Exchange(parse_encoding(text), declared)


@pytest.fixture(scope="session", name="drifting_bundles")
def drifting_bundles_fixture() -> Callable[..., Iterator[Bundle]]:
    return drifting_bundles


@pytest.fixture(scope="session", name="sent_entries")
def sent_entries_fixture() -> Callable[[pb.Tensor, int], BoolArray]:
    return sent_entries
