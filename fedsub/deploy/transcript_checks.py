"""Checks of a transcript of secure sums by itself: whoever has the file can make them."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isclose, sqrt

import numpy as np

from fedsub_core.secure.chain import Line, key_commitment, sealed_seed, seed_commitment
from fedsub_core.secure.chain_form import NOISE, PROMISE, SUM
from fedsub_core.secure.messages import TOLD_BYTES, Name
from fedsub_core.secure.people_list import leaf
from fedsub_core.secure.roster import Roster
from fedsub_core.secure.signed_sums import quorum, said_of_keys, said_of_view, view_of

#: Deviations by which that of redrawn noise may miss what was promised.
_FAR = 6.0
#: Numbers that are drawn at once.
_AT_ONCE = 2**20


@dataclass(frozen=True)
class Finding:
    """One line of what a check says.

    Parameters
    ----------
    fault : whether the transcript cannot be trusted for it.
    """

    text: str
    fault: bool = False


Findings = Iterator[Finding]


def fault(line: Line, what: str, got: object, expected: object) -> Finding:
    """Return the finding that something in a sum is not as it must be."""
    return Finding(f"round {line.round}, {what}: got {got}, expected {expected}", fault=True)


def sums_of(lines: Sequence[Line], opened: bool = True) -> list[Line]:
    """Return the lines of sums; with `opened` of those alone that were."""
    return [line for line in lines if line.kind == SUM and (line.opened or not opened)]


def named(line: Line, leaves: Sequence[str]) -> tuple[set[str], int]:
    """Return the ids of people of a sum, and the number of those without a name."""
    ids = {line.people[one][0] for one in leaves if one in line.people}
    return ids, len(leaves) - len(ids)


def check_people(lines: Sequence[Line]) -> Findings:
    """Check that names and keys are those of the leaves in the chain."""
    every = people = 0
    for line in sums_of(lines, opened=False):
        listed = line.entry["people"]
        for at, (client, keys, _) in line.people.items():
            if at not in listed or leaf(client, bytes.fromhex(keys)).hex() != at:
                yield fault(line, f"client {client!r}", "a name or keys", "those in the chain")
        twice = len(line.people) - len({own[0] for own in line.people.values()})
        if twice or listed != sorted(set(listed)):
            yield fault(line, "people", "somebody twice", "each once")
        every, people = every + len(listed), people + len(line.people)
    less = f"; {every - people} have no name: they were forgotten, or taken out"
    yield Finding(f"people: {people} names and keys fit the chain{less if every > people else ''}")


def check_thresholds(lines: Sequence[Line]) -> Findings:
    """Check that each sum is of people enough, and counts each vector once."""
    opened, sessions, vectors = sums_of(lines), set[str](), dict[str, int]()
    for line in sums_of(lines, opened=False):
        entry, who = line.entry, {*line.entry["sent"]}
        if line.session in sessions:
            yield fault(line, "session", f"{line.session[:16]}... twice", "each sum once")
        sessions.add(line.session)
        if not who <= {*entry["people"]} or who & {*entry["silent"]}:
            yield fault(line, "who sent a vector", "somebody else", "people who showed keys")
        for vector in entry["sent"].values():
            if vector in vectors:
                yield fault(line, "a vector", f"that of round {vectors[vector]}", "each once")
            vectors[vector] = line.round
        if line.opened and len(who) < entry["least"]:
            yield fault(line, "vectors in the sum", len(who), f"{entry['least']} at least")
    few = min((len(line.entry["sent"]) for line in opened), default=0)
    yield Finding(f"thresholds: {len(opened)} opened sums, the smallest of {few} people")


def check_differences(
    lines: Sequence[Line], least: int = 0, helped: Collection[str] = ()
) -> Findings:
    """Check that no two opened sums of the same vectors differ by few people.

    Those of a name are compared in the whole run, others in each round.

    Parameters
    ----------
    least : people by which they must differ at least; more where the run says so.
    helped : sessions of sums that may have been opened, whatever the server says.
    """
    alike, pairs = defaultdict[tuple[object, ...], list[Line]](list), 0
    for line in sums_of(lines, opened=False):
        if not line.opened and line.session not in helped:
            continue
        once = line.entry["once"]
        alike[line.entry["plan"]["method"], once or line.round, bool(once)].append(line)
    for group in alike.values():
        for one, other in combinations(group, 2):
            pairs += 1
            (ids, unnamed), (others, more) = (
                named(line, [*line.entry["sent"]]) for line in (one, other)
            )
            # Who has no name may be in both: so it is by these at least.
            few = len(ids ^ others) + abs(unnamed - more)
            needed = max(least, one.entry["least"], other.entry["least"])
            if 0 < few < needed:
                who = ", ".join(sorted(ids ^ others)) or "people without a name"
                what = f"sum of {other.entry['once'] or 'the round'} again"
                yield fault(other, what, f"one that differs by {few} ({who})", f"0, or {needed}")
    yield Finding(f"differences: {pairs} pairs of sums of the same vectors compared")


def check_noise(lines: Sequence[Line]) -> Findings:
    """Check that what is promised of noise never changes, and each sum's noise stands there."""
    promises = [line for line in lines if line.kind == PROMISE]
    if not promises:
        yield Finding("noise: none is promised")
        return
    promised = {key: promises[0].entry[key] for key in ("noise", "secret")}
    for line in promises[1:]:
        if any(line.entry[key] != value for key, value in promised.items()):
            text = "noise: got another promise, or another secret, than at first, expected the same"
            yield Finding(text, fault=True)
    noise, nothing, drawn = promised["noise"], 0, 0
    from_then = lines[lines.index(promises[0]) :]
    found = {line.session: line for line in from_then if line.kind == NOISE}
    for line in sums_of(from_then):
        if (own := found.pop(line.session, None)) is None:
            yield fault(line, "noise", "no entry of it", f"noise as promised, {noise}")
            continue
        drawn, nothing = drawn + bool(own.entry["draws"]), nothing + (not own.entry["draws"])
        for one in own.entry["draws"]:
            for _, deviation in one["draws"]:
                expected = noise.get("dp-noise", 0) * noise.get("dp-clip", 0)
                if expected and not isclose(deviation, expected, rel_tol=1e-9):
                    yield fault(line, "noise", f"a deviation of {deviation:g}", f"{expected:g}")
    if found:
        yield Finding("noise: got some of no opened sum, expected one of each", fault=True)
    of_none = f"; of {nothing} nothing was released, as the server says" if nothing else ""
    yield Finding(f"noise: {noise} promised, committed to for {drawn} sums{of_none}")


def check_roster(lines: Sequence[Line], roster: Roster) -> Findings:
    """Check that each person of the roster signed its keys, and enough the same view."""
    signatures = 0
    for line in sums_of(lines):
        entry, plan = line.entry, line.entry["plan"]
        name = Name(line.round, bytes.fromhex(line.session), plan["run"], plan["method"])
        for at in entry["people"]:
            if at not in line.people:
                yield fault(line, "people", "somebody without a name", "each one's signature")
                continue
            client, keys, signature = line.people[at]
            said = said_of_keys(name, bytes.fromhex(keys))
            signatures += 1
            if wrong := roster.fault(client, bytes.fromhex(signature), said):
                yield fault(line, "keys", *wrong)
        (sent, _), (silent, _) = (named(line, [*entry[key]]) for key in ("sent", "silent"))
        view, same = view_of(entry["told"], sent, silent), 0
        for at, signed in entry["views"].items():
            seen, signed = signed[: 2 * TOLD_BYTES], signed[2 * TOLD_BYTES :]
            client = line.people.get(at, ["?"])[0]
            if wrong := roster.fault(client, bytes.fromhex(signed), said_of_view(name, seen)):
                yield fault(line, "view", *wrong)
            same += seen == view and at in entry["sent"]
        if same < (needed := quorum(len(entry["people"]))):
            yield fault(line, "views", f"{same} of who sent a vector", f"{needed} at least")
    yield Finding(f"roster: {signatures} signatures of keys are those of the roster's people")


def _deviation(stream: np.random.Generator, deviation: float, numbers: int) -> float:
    """Return the deviation of so many numbers of noise, drawn few at a time."""
    sizes = (min(_AT_ONCE, numbers - i) for i in range(0, numbers, _AT_ONCE))
    squares = sum(float(np.sum(stream.normal(0.0, deviation, size) ** 2)) for size in sizes)
    return sqrt(squares / numbers)


def check_key(lines: Sequence[Line], key: bytes) -> Findings:
    """Check noise with the transcript's key: draw it again from the committed seeds."""
    if key_commitment(key) != lines[0].entry["key"]:
        yield Finding("key: got another than this transcript's, expected that", fault=True)
        return
    drawn = 0
    for line in lines:
        for number, one in enumerate(line.entry["draws"] if line.kind == NOISE else []):
            where = f"key: noise {number} of session {line.session[:16]}..."
            seed = sealed_seed(key, line.session, number, bytes.fromhex(line.sealed[number]))
            if seed_commitment(key, line.session, number, seed) != one["seed"]:
                yield Finding(f"{where}: got another seed, expected the committed one", fault=True)
                continue
            stream = np.random.default_rng(int.from_bytes(seed, "big"))
            for numbers, deviation in one["draws"]:
                found = _deviation(stream, deviation, numbers)
                if abs(found - deviation) > _FAR * deviation / sqrt(2 * numbers):
                    got = f"{numbers} numbers of deviation {found:g}"
                    yield Finding(f"{where}: got {got}, expected {deviation:g}", fault=True)
                drawn += 1
    yield Finding(f"key: {drawn} draws of noise were drawn again and are as large as promised")
