"""Mutated messages are refused, or decode to something whole, quickly and in little memory.

Every mutant follows from its seed alone; a failure names it: ``run(range(seed, seed + 1), ...)``
repeats it.
"""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import process_time

import numpy as np
import pytest
from google.protobuf.message import Message

from fedsub_core.errors import MessageRefused
from fedsub_core.methods.fedsub import FedSubHyperparameters
from fedsub_core.methods.table import method
from fedsub_core.models.kinds import mlp
from fedsub_core.placement import Shape, owned
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Floats, Kind, Part, Whole, kinds
from fedsub_core.wire.codec import (
    Address,
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import compress
from fedsub_core.wire.references import Reference
from fedsub_core.wire.v2 import exchange_pb2 as pb

Mutate = Callable[[Sequence[bytes], Message, Random], bytes]
Drift = Callable[..., Iterator[Bundle]]

ROUND = 7
SECONDS, BYTES = 0.5, 2 << 20
ENCODINGS = [
    ",".join(filters)
    for numbers in ("float32", "bfloat16", "int8")
    for filters in ((numbers,), (numbers, "delta"), (numbers, "delta", "top-k:0.5"))
]


@dataclass(frozen=True)
class Target:
    """A receiver, what it remembers of the round before, and valid messages to it."""

    is_upload: bool
    declared: Declaration
    held: Reference
    valid: Sequence[bytes]

    def envelope(self, remembers: bool = True) -> Envelope:
        """Return what it checks a message against."""
        return Envelope("anna", ROUND, self.declared, self.held.copy() if remembers else None)


def make_target(is_upload: bool, declared: Declaration, drift: Drift) -> Target:
    """Return a target with messages in every encoding, with and without a reference."""
    rng = np.random.default_rng(1)
    held = Reference.empty(declared)
    held.round = ROUND - 1
    for tensor in held.tensors.values():
        tensor[:-1] = rng.standard_normal(tensor[:-1].shape)  # the last entry was never sent
    messages, bundles = [], drift(2, 2 * len(ENCODINGS), declared)
    for text in ENCODINGS:
        encoding = parse_encoding(text)
        for reference in (held, Reference.empty(declared)):
            bundle, address = next(bundles), Address("anna", ROUND)
            if is_upload:
                kept = reference.copy()
                messages.append(encode_upload(bundle, address, declared, encoding, kept))
            elif encoding.top_k == 1:
                messages.append(encode_download(bundle, address, declared, encoding, reference))
    return Target(is_upload, declared, held, messages)


@pytest.fixture(scope="module")
def targets(declarations: dict[str, Declaration], drifting_bundles: Drift) -> list[Target]:
    """Return servers and devices of several methods."""
    down = method("fedsub").receives(mlp(6, 4, hidden=(16, 8)), FedSubHyperparameters())
    return [
        *(make_target(True, declared, drifting_bundles) for declared in declarations.values()),
        *(
            make_target(False, declared, drifting_bundles)
            for declared in (down, declarations["model"], declarations["kinds"])
        ),
    ]


@dataclass(frozen=True)
class Mutant:
    """A message that may be broken, and who receives it."""

    target: Target
    data: bytes
    envelope: Envelope


def mutant(seed: int, targets: Sequence[Target], mutate: Mutate) -> Mutant:
    random = Random(seed)
    target = random.choice(targets)
    data = mutate(target.valid, pb.Bundle(), random)
    return Mutant(target, data, target.envelope(random.random() < 0.8))


# What must hold.


def expected_shape(part: Part, whole: Shape) -> Shape:
    if not isinstance(part, Floats):
        return whole
    if part.at.elements is not None:
        return (int(part.at.elements.sum()),)
    each = zip((part.at.rows, part.at.columns), whole, strict=False)
    return (*(n if one is None else len(one) for one, n in each), *whole[2:])


def assert_part_fits(name: str, tensors: dict[str, Part], declared: Declaration) -> None:
    part, one = tensors[name], declared[name]
    assert one.kind in kinds(part)
    assert part.values.shape == expected_shape(part, one.shape)
    if isinstance(part, Bits):
        assert part.values.dtype == np.bool_
        return
    if isinstance(part, Whole):
        assert part.values.dtype == np.int16
        return
    assert part.values.dtype == np.float32
    assert (np.abs(part.values) <= 1e6).all()
    assert part.at.held(one.shape).sum() == part.values.size
    if one.kind is Kind.SLICED and one.follows:
        followed = tensors[one.follows]
        assert isinstance(followed, Floats) and followed.at.rows is not None
        each = one.shape[1] // declared[one.follows].shape[0]
        np.testing.assert_array_equal(part.at.columns, owned(followed.at.rows, each))


def assert_fits(got: Bundle, target: Target) -> None:
    """Check all that a learner or a strategy may take for granted."""
    declared = target.declared
    assert 0 <= got.examples < 2**48 and 0 <= got.version < 2**63
    for name in got.tensors:
        assert_part_fits(name, dict(got.tensors), declared)
    if target.is_upload:
        assert got.reference in (0, ROUND - 1)
    if target.is_upload or got.tensors:
        assert {n for n, one in declared.items() if not one.optional} <= got.tensors.keys()


def content(reference: Reference | None) -> object:
    return reference and (reference.round, {n: t.tobytes() for n, t in reference.tensors.items()})


def check(mutant: Mutant) -> str:
    """Return what was refused, or "" if the mutant was taken."""
    decode = decode_upload if mutant.target.is_upload else decode_download
    before, start, refused = content(mutant.envelope.reference), process_time(), ""
    try:
        assert_fits(decode(mutant.data, mutant.envelope), mutant.target)
    except MessageRefused as error:
        assert len(str(error)) < 1000
        refused = error.what
    assert process_time() - start < SECONDS
    assert content(mutant.envelope.reference) == before
    return refused


def with_kind(what: str, declared: Declaration) -> str:
    """Return what was refused, with the kind of a tensor in place of its name."""
    words, of, name = what.partition(",")[0].rpartition(" of ")
    if name not in declared:
        return what
    return f"{words}{of}{'exact ' * declared[name].exact}{declared[name].kind.value}"


def check_memory(mutant: Mutant) -> str:
    """Check a mutant, and the memory that it takes; counting slows everything down."""
    tracemalloc.start()
    try:
        refused = check(mutant)
        assert tracemalloc.get_traced_memory()[1] < BYTES
    finally:
        tracemalloc.stop()
    return refused


def run(seeds: range, targets: Sequence[Target], mutate: Mutate) -> Counter[str]:
    """Check the mutants of `seeds`, the memory of every fourth; count what was refused."""
    results: Counter[str] = Counter()
    for seed in seeds:
        try:
            broken = mutant(seed, targets, mutate)
            what = check(broken) if seed % 4 else check_memory(broken)
        except Exception as error:
            raise AssertionError(f"mutant {seed}: {error!r}") from error
        results[with_kind(what, broken.target.declared)] += 1
    return results


#: What a mutant can break: unless all were met, the mutations reach too little.
PARTS = {
    *("size when decompressed", "zstd frame", "message", "schema version", "client id", "round"),
    *("number format", "reference", "version", "examples", "tensors", "tensor", "sent entries"),
    *("Dense", "exact Dense", "Rows", "Sliced", "Elements", "Bits"),  # their numbers
    *(f"shape of {kind}" for kind in ("Dense", "Rows", "Sliced", "Elements", "Bits")),
    *(f"units of {kind}" for kind in ("Dense", "Rows", "Sliced", "Elements", "Bits")),
    *(f"elements of {kind}" for kind in ("Dense", "Rows", "Sliced", "Elements", "Bits")),
    *(f"values of {kind}" for kind in ("Dense", "exact Dense", "Rows", "Sliced", "Elements")),
    *(f"scales of {kind}" for kind in ("Dense", "exact Dense", "Rows", "Sliced", "Elements")),
    *(f"sent entries of {kind}" for kind in ("Dense", "exact Dense", "Rows", "Sliced")),
    *("sent entries of Elements", "scales of Bits", "inputs of Sliced"),
}


def assert_reached(results: Counter[str]) -> None:
    assert results.keys() >= PARTS, PARTS - results.keys()
    assert 0.05 < results[""] / results.total() < 0.6


def test_what_is_valid_is_taken(targets: list[Target]) -> None:
    for target in targets:
        assert len(target.valid) >= 12
        for data in target.valid:
            for message in (data, compress(data)):
                assert check(Mutant(target, message, target.envelope())) == ""


@pytest.mark.filterwarnings("error")
def test_mutants_are_refused_or_whole(targets: list[Target], mutate: Mutate) -> None:
    assert_reached(run(range(6_000), targets, mutate))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
@pytest.mark.release
def test_many_mutants_are_refused_or_whole(targets: list[Target], mutate: Mutate) -> None:
    assert_reached(run(range(10_000, 70_000), targets, mutate))
