"""Mutated messages are refused, or decode to something whole, quickly and in little memory.

Every mutant follows from its seed alone; a failure names it: ``run(range(seed, seed + 1), mutate)``
repeats it.
"""

from __future__ import annotations

import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from time import process_time

import numpy as np
import pytest
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.v1 import exchange_pb2 as pb
from google.protobuf.message import Message

from fedsub_core.errors import MessageRefused
from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import Download, UnitRows, Upload
from fedsub_core.wire.codec import (
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import compress

Mutate = Callable[[Sequence[bytes], Message, Random], bytes]

MODEL = mlp(3, 4, hidden=(10, 5))
ROUND, PROTOTYPE_SIZE = 7, 3
SECONDS, BYTES = 0.5, 2 << 20
ENCODINGS = [
    ",".join(filters)
    for numbers in ("float32", "bfloat16", "int8")
    for filters in ((numbers,), (numbers, "delta"), (numbers, "delta", "top-k:0.5"))
]


@dataclass(frozen=True)
class Mutant:
    """A message that may be broken, and who receives it."""

    is_upload: bool
    data: bytes
    envelope: Envelope


def rows_for(rng: np.random.Generator) -> dict[str, UnitRows]:
    layers = {}
    for layer in MODEL.affine:
        units = rng.random(layer.units) < 0.6
        rows = rng.standard_normal((units.sum(), layer.fan_in + 1), np.float32)
        layers[layer.name] = UnitRows(units, rows)
    return layers


@cache
def held() -> Memory:
    """Return what a receiver remembers of the round before; one unit was never sent."""
    rng = np.random.default_rng(1)
    memory = Memory.empty(MODEL)
    memory.round = ROUND - 1
    for rows in memory.rows.values():
        rows[:-1] = rng.standard_normal(rows[:-1].shape)
    return memory


@cache
def valid_messages(upload: bool) -> list[bytes]:
    """Return valid messages of all encodings, with and without a reference."""
    rng = np.random.default_rng(2)
    messages = []
    for text in ENCODINGS:
        for memory in (held(), Memory.empty(MODEL)):
            encoding, layers = parse_encoding(text), rows_for(rng)
            dense = {"linear1.bias": rng.standard_normal(10, np.float32)}
            if not upload and encoding.top_k < 1:
                continue
            if not upload:
                download = Download(layers, dense, prototype_version=5)
                messages.append(encode_download(download, "anna", ROUND, encoding, memory))
                continue
            labels = np.array([0, 2, 3])
            sent = Upload(
                examples=12,
                layers=layers,
                masks={
                    n: x.units & (rng.random((3, len(x.units))) < 0.7) for n, x in layers.items()
                },
                labels=labels,
                scores=rng.random(3).astype(np.float32),
                prototypes={int(y): rng.standard_normal(3, np.float32) for y in labels},
                prototype_version=2**60,
                dense=dense,
            )
            messages.append(encode_upload(sent, "anna", ROUND, encoding, memory.copy()))
    return messages


def mutant(seed: int, mutate: Mutate) -> Mutant:
    random = Random(seed)
    is_upload = random.random() < 0.7
    scratch = pb.Upload() if is_upload else pb.Download()
    data = mutate(valid_messages(is_upload), scratch, random)
    memory = held().copy() if random.random() < 0.8 else None
    return Mutant(is_upload, data, Envelope("anna", ROUND, MODEL, PROTOTYPE_SIZE, memory))


# What must hold.


def assert_layers_fit(layers: dict[str, UnitRows]) -> None:
    shapes = {x.name: (x.units, x.fan_in + 1) for x in MODEL.affine}
    for name, layer in layers.items():
        units, width = shapes[name]
        assert layer.units.dtype == np.bool_
        assert layer.units.shape == (units,)
        assert layer.rows.dtype == np.float32
        assert layer.rows.shape == (layer.units.sum(), width)
        assert np.isfinite(layer.rows).all()


def assert_fits(got: Upload | Download) -> None:
    """Check all that a learner or a strategy may take for granted."""
    assert_layers_fit(got.layers)
    for name, values in got.dense.items():
        assert values.shape == MODEL.parameter_shapes[name]
        assert np.isfinite(values).all()
    assert 0 <= got.prototype_version < 2**63
    if isinstance(got, Download):
        return
    assert 0 <= got.examples < 2**63
    assert got.reference in (0, ROUND - 1)
    assert all(0 <= label < MODEL.classes for label in got.labels.tolist())
    assert (np.diff(got.labels) > 0).all()
    assert got.scores.shape == got.labels.shape
    assert np.isfinite(got.scores).all() and (got.scores >= 0).all()
    assert set(got.prototypes) <= set(got.labels.tolist())
    for prototype in got.prototypes.values():
        assert prototype.shape == (PROTOTYPE_SIZE,)
        assert np.isfinite(prototype).all()
    assert got.masks.keys() == got.layers.keys()
    for name, masks in got.masks.items():
        assert masks.dtype == np.bool_
        assert masks.shape == (len(got.labels), len(got.layers[name].units))
        assert not (masks & ~got.layers[name].units).any()


def content(memory: Memory | None) -> object:
    return memory and (memory.round, {name: rows.tobytes() for name, rows in memory.rows.items()})


def check(mutant: Mutant) -> str:
    """Return what was refused, or "" if the mutant was taken."""
    before, start, refused = content(mutant.envelope.memory), process_time(), ""
    try:
        if mutant.is_upload:
            assert_fits(decode_upload(mutant.data, mutant.envelope))
        else:
            assert_fits(decode_download(mutant.data, mutant.envelope))
    except MessageRefused as error:
        assert len(str(error)) < 1000
        refused = error.what
    assert process_time() - start < SECONDS
    assert content(mutant.envelope.memory) == before
    return refused


def run(seeds: range, mutate: Mutate) -> Counter[str]:
    """Check the mutants of `seeds`; count what was refused, without its numbers."""
    results: Counter[str] = Counter()
    for seed in seeds:
        broken = mutant(seed, mutate)
        tracemalloc.start()
        try:
            results[re.sub(r"\d", "", check(broken))] += 1
            assert tracemalloc.get_traced_memory()[1] < BYTES
        except Exception as error:
            raise AssertionError(f"mutant {seed}: {error!r}") from error
        finally:
            tracemalloc.stop()
    return results


#: What a mutant can break: unless all were met, the mutations reach too little.
PARTS = {
    *("size when decompressed", "zstd frame", "message", "schema version", "client id", "round"),
    *("number format", "reference", "prototype version", "examples"),
    *("layer", "units of layer linear", "rows of layer linear"),
    *("scales of layer linear", "sent rows of layer linear", "sent rows"),
    *("classes", "labels", "scores", "prototype of class "),
    *("masks of class ", "mask of class , layer linear"),
    *("tensor", "shape of linear.bias", "linear.bias"),
}


def assert_reached(results: Counter[str]) -> None:
    assert results.keys() >= PARTS
    assert 0.05 < results[""] / results.total() < 0.6


def test_what_is_valid_is_taken() -> None:
    for is_upload in (True, False):
        for data in valid_messages(is_upload):
            envelope = Envelope("anna", ROUND, MODEL, PROTOTYPE_SIZE, held())
            for message in (data, compress(data)):
                assert check(Mutant(is_upload, message, envelope)) == ""


@pytest.mark.filterwarnings("error")
def test_mutants_are_refused_or_whole(mutate: Mutate) -> None:
    assert_reached(run(range(6_000), mutate))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_many_mutants_are_refused_or_whole(mutate: Mutate) -> None:
    assert_reached(run(range(10_000, 230_000), mutate))


@pytest.mark.parametrize("empty", [b"\x2a\x00", b"\x32\x00", b"\x3a\x00", b"\x32\x02\x22\x00"])
def test_a_message_full_of_empty_parts_is_refused_in_little_memory(empty: bytes) -> None:
    resource = pytest.importorskip("resource", reason="this platform does not count memory")
    envelope = Envelope("anna", ROUND, MODEL, limit=1 << 20)
    head = pb.Upload(schema_version=1, client_id="anna", round=ROUND).SerializeToString()
    data = head + empty * ((envelope.limit - len(head)) // len(empty))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert check(Mutant(True, data, envelope)) in {"layer", "classes", "tensor"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024  # KiB


def test_a_refusal_quotes_little_of_a_hostile_message() -> None:
    envelope = Envelope("anna", ROUND, MODEL, limit=1 << 20)
    data = pb.Upload(schema_version=1, client_id="x" * (1 << 19)).SerializeToString()
    with pytest.raises(MessageRefused, match=r"client id: got 'x+\.\.\. \(524290 char") as refused:
        decode_upload(data, envelope)
    assert len(str(refused.value)) < 400
    with pytest.raises(MessageRefused, match="size: got"):
        decode_upload(data, replace(envelope, limit=1 << 18))
