"""A device and a server that exchange uploads, and rows that drift over rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows
from fedsub_core.wire.v1 import exchange_pb2 as pb

from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import Download, UnitRows, Upload
from fedsub_core.wire.codec import (
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import Encoding, parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import open_frame

MODEL = mlp(6, 4, hidden=(16, 8))


def drifting_uploads(seed: int, rounds: int, share: float = 0.7) -> Iterator[Upload]:
    """Yield uploads whose rows change a little and whose units change altogether."""
    rng = np.random.default_rng(seed)
    whole = {x.name: rng.standard_normal((x.units, x.fan_in + 1), np.float32) for x in MODEL.affine}
    for _ in range(rounds):
        layers = {}
        for name, rows in whole.items():
            rows += 0.05 * rng.standard_normal(rows.shape, np.float32)
            units = rng.random(len(rows)) < share
            layers[name] = UnitRows(units, rows[units])
        yield Upload(examples=1, layers=layers)


@dataclass
class Exchange:
    """A device and a server, and what each remembers."""

    encoding: Encoding
    device: Memory = field(default_factory=lambda: Memory.empty(MODEL))
    server: Memory = field(default_factory=lambda: Memory.empty(MODEL))
    round: int = 0

    def send(self, upload: Upload) -> bytes:
        self.round += 1
        return encode_upload(upload, "anna", self.round, self.encoding, self.device)

    def receive(self, data: bytes) -> Upload:
        envelope = Envelope("anna", self.round, MODEL, memory=self.server.copy())
        upload = decode_upload(data, envelope)
        if upload.reference == 0:
            self.server.forget()
        remember_rows(self.server, upload.layers, self.round)
        return upload

    def exchange(self, upload: Upload) -> Upload:
        return self.receive(self.send(upload))

    def hear(self) -> None:
        """Let the device learn what the server holds, as every download tells it."""
        data = encode_download(Download(), "anna", self.round + 1, self.encoding, self.server)
        envelope = Envelope("anna", self.round + 1, MODEL, memory=self.device)
        if decode_download(data, envelope).reference != self.device.round:
            self.device.forget()

    def agree(self) -> None:
        """Check that both sides remember the same round and the same bits."""
        assert self.device.round == self.server.round == self.round
        assert self.device.rows.keys() == self.server.rows.keys()
        for name, rows in self.device.rows.items():
            assert rows.tobytes() == self.server.rows[name].tobytes(), name

    @staticmethod
    def same(got: Upload | Download, wanted: Upload | Download) -> None:
        """Check that two messages' rows are equal bit for bit."""
        assert got.layers.keys() == wanted.layers.keys()
        for name, layer in got.layers.items():
            np.testing.assert_array_equal(layer.units, wanted.layers[name].units)
            assert layer.rows.tobytes() == wanted.layers[name].rows.tobytes(), name

    @staticmethod
    def error(got: Upload | Download, wanted: Upload | Download) -> float:
        """Return the greatest distance between a number of two messages' rows."""
        pairs = [(layer.rows, wanted.layers[name].rows) for name, layer in got.layers.items()]
        return max(float(np.abs(ours - theirs).max(initial=0)) for ours, theirs in pairs)

    @staticmethod
    def parsed(data: bytes) -> pb.Upload:
        """Return an upload as its protobuf message."""
        return pb.Upload.FromString(open_frame(data, 1 << 20, Envelope("anna", 1, MODEL).refuse))


@pytest.fixture
def exchange() -> Callable[[str], Exchange]:
    """Return a maker of a device and a server that have not met, with an encoding's text."""
    return lambda text: Exchange(parse_encoding(text))


@pytest.fixture(name="drifting_uploads")
def drifting_uploads_fixture() -> Callable[..., Iterator[Upload]]:
    return drifting_uploads
