"""A transcript's lines: read as they were written, and refused where one lacks or lies."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.secure.chain import (
    Line,
    key_commitment,
    read_chain,
    sealed_seed,
    secret_commitment,
    seed_commitment,
    sum_commitment,
)
from fedsub_core.secure.chain_form import NOISE, PROMISE, START, SUM

KEY = bytes(range(32))
SESSIONS = [f"{i:032x}" for i in range(4)]


def chain() -> list[Line]:
    """Return a start, a promise, and a sum with its noise."""
    sent = {"a" * 64: "b" * 64}
    plan = {"round": 1, "session": SESSIONS[1], "run": "run", "method": "fedavg", "later": 1.5}
    entries: list[dict[str, Any]] = [
        {"kind": START, "form": 1, "run": "run", "method": "fedavg", "key": "c" * 64},
        {"kind": PROMISE, "noise": {"dp-noise": 0.1}, "secret": "d" * 64},
        {"kind": SUM, "plan": plan, "once": "", "least": 1, "people": ["a" * 64], "sent": sent,
         "silent": [], "views": {}, "told": "e" * 64, "sum": "f" * 64},
        {"kind": NOISE, "session": SESSIONS[1], "draws": [{"seed": "a" * 64, "draws": [[3, 0.1]]}]},
    ]  # fmt: skip
    lines, before = list[Line](), ""
    for entry in entries:
        people = {"a" * 64: ["anna", "0" * 192, ""]} if entry["kind"] == SUM else {}
        sealed = ["0" * 64] if entry["kind"] == NOISE else []
        lines.append(Line({"before": before, **entry}, people, sealed))
        before = lines[-1].hash
    return lines


def written(lines: list[Line]) -> bytes:
    return b"".join(line.written() for line in lines)


def test_lines_are_read_as_they_were_written() -> None:
    lines = chain()
    assert read_chain(written(lines)) == lines
    assert [line.opened for line in lines] == [False, False, True, False]
    assert (lines[2].round, lines[2].session, lines[3].session) == (1, *SESSIONS[1:2] * 2)


def test_a_name_that_is_taken_out_leaves_the_hash() -> None:
    one = chain()[2]
    assert Line(one.entry).hash == one.hash


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda lines: lines[:1] + lines[2:], 2),
        (lambda lines: [lines[0], lines[1], lines[3], lines[2]], 3),
        (lambda lines: [*lines[:3], lines[2]], 4),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[0], *lines], 2),
        (lambda lines: [lines[0], Line(lines[1].entry | {"secret": "0" * 64}), *lines[2:]], 3),
    ],
    ids=["cut in the middle", "exchanged", "twice", "cut at the start", "two starts", "changed"],
)
def test_a_line_that_does_not_follow_is_refused(
    change: Callable[[list[Line]], list[Line]], number: int
) -> None:
    with refused(ValueError, f"line {number}"):
        read_chain(written(change(chain())))


def test_a_line_that_is_cut_off_is_refused() -> None:
    with refused(ValueError, got="cut off"):
        read_chain(written(chain())[:-20])
    with refused(ValueError, got="an empty file"):
        read_chain(b"")


@pytest.mark.parametrize(
    ("at", "key", "value"),
    [
        (0, "form", 2),
        (0, "form", True),
        (0, "kind", "other"),
        (0, "kind", []),
        (0, "run", None),
        (1, "noise", {"dp-noise": -1.0}),
        (1, "noise", {"dp-noise": float("nan")}),
        (2, "plan", {}),
        (2, "plan", {"round": 1, "session": "0", "run": "", "method": ""}),
        (2, "plan", {"round": 1, "session": SESSIONS[0], "run": "", "method": "", "later": []}),
        (2, "plan", {"round": -1, "session": SESSIONS[0], "run": "", "method": ""}),
        (2, "people", ["A" * 64]),
        (2, "people", [3]),
        (2, "sent", {"a" * 64: "b" * 63}),
        (2, "sent", ["a" * 64]),
        (2, "least", -1),
        (2, "views", {"a" * 64: "b"}),
        (2, "told", "x" * 64),
        (3, "draws", [{"seed": "a" * 64, "draws": [[3]]}]),
        (3, "draws", [{"seed": "a" * 64, "draws": [[2**31, 0.1]]}]),
        (3, "draws", [{"seed": "a" * 64, "draws": [[0, 0.1]]}]),
        (3, "draws", []),
    ],
)
def test_what_is_no_entry_is_refused(at: int, key: str, value: object) -> None:
    lines = chain()
    lines[at] = Line(lines[at].entry | {key: value}, lines[at].people, lines[at].sealed)
    with refused(ValueError, f"line {at + 1}"):
        read_chain(written(lines))


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"entry": 1}', '{"entry": {}}', "[" * 9999])
def test_what_is_no_line_is_refused(text: str) -> None:
    with refused(ValueError, "line 1"):
        read_chain(text.encode() + b"\n")


@pytest.mark.parametrize("people", [[], {"a": []}, {"a" * 64: ["anna", "0", ""]}, {"a" * 64: 1}])
def test_what_are_no_people_are_refused(people: object) -> None:
    with refused(ValueError, expected="an entry"):
        Line.read(json.dumps({"entry": chain()[2].entry, "people": people}).encode())


def test_a_sealed_seed_is_read_with_the_key_alone() -> None:
    seed = bytes(31) + b"\x07"
    sealed = sealed_seed(KEY, SESSIONS[0], 0, seed)
    assert sealed != seed and sealed_seed(KEY, SESSIONS[0], 0, sealed) == seed
    others = [(bytes(32), SESSIONS[0], 0), (KEY, SESSIONS[1], 0), (KEY, SESSIONS[0], 1)]
    assert all(sealed_seed(*one, sealed) != seed for one in others)


def test_commitments_are_those_of_the_wire_formats_page() -> None:
    def hashed(*parts: bytes) -> str:
        return hashlib.sha256(b"".join(parts)).hexdigest()

    session, words, seed = SESSIONS[1], bytes(8), bytes(32)
    about = f"{session} 2".encode()
    assert key_commitment(KEY) == hashed(b"fedsub key ", KEY)
    made = hashed(b"fedsub sum ", KEY, b" ", session.encode(), b" ", words)
    assert sum_commitment(KEY, session, words) == made
    assert secret_commitment(KEY, 17) == hashed(b"fedsub noise secret ", KEY, b" 17")
    made = hashed(b"fedsub noise ", KEY, b" ", about, b" ", seed)
    assert seed_commitment(KEY, session, 2, seed) == made
    assert sealed_seed(KEY, session, 2, seed).hex() == hashed(
        b"fedsub noise seed ", KEY, b" ", about
    )
