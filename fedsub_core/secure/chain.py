"""A transcript of a run's sums: entries in a chain, each with the hash of the entry before it.

A server writes one line for each sum, and tells devices the hash of the last one, the head, in the
plan of the next sum. Masks cancel only between devices that were told the same head. So all who are
in a sum have seen one chain, and nobody can change an entry later without being found out.

The hash is of the part ``entry`` of a line, in which people are leaves of the list of people
(:func:`fedsub_core.secure.people_list.leaf`). The rest of the line opens these leaves: ids, keys
and signatures. So a person can be taken out of it, and the chain still holds.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from fedsub_core.errors import cut
from fedsub_core.secure.chain_form import NOISE, START, SUM, are_people, are_seeds, is_entry
from fedsub_core.secure.transcript import digest

#: Form of the file.
FORM = 1
KEY_BYTES = SEED_BYTES = 32

Entry = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """A line of a transcript.

    Parameters
    ----------
    entry : what the chain's hashes are of; bytes in hexadecimal.
    people : of each leaf in the entry that has a name: id, keys, and their signature or "".
    sealed : seeds of noise, which the owner of the transcript's key can read.
    """

    entry: Entry
    people: dict[str, list[str]] = field(default_factory=dict)
    sealed: list[str] = field(default_factory=list)

    @property
    def hash(self) -> str:
        """The hash of the entry, in hexadecimal."""
        return digest(self.entry)

    @property
    def kind(self) -> str:
        """The kind of the entry."""
        return str(self.entry["kind"])

    @property
    def opened(self) -> bool:
        """Whether it is of a sum that was opened."""
        return self.kind == SUM and bool(self.entry["sum"])

    @property
    def session(self) -> str:
        """The session of a sum, or of the sum that noise follows, in hexadecimal."""
        return str(self.entry["plan"]["session"] if self.kind == SUM else self.entry["session"])

    @property
    def round(self) -> int:
        """The round of a sum."""
        return int(self.entry["plan"]["round"])

    def written(self) -> bytes:
        """Return the line as bytes."""
        parts: Entry = {"entry": self.entry}
        parts |= {"people": self.people} if self.people else {}
        parts |= {"sealed": self.sealed} if self.sealed else {}
        return json.dumps(parts, sort_keys=True, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Inverse of :meth:`written`; raises ValueError if it is none."""
        try:
            parts = json.loads(data)
            line = cls(parts["entry"], parts.get("people", {}), parts.get("sealed", []))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            line = cls({})
        fits = is_entry(line.entry) and are_people(line.people) and are_seeds(line.sealed)
        if not fits or (line.kind == NOISE and len(line.sealed) != len(line.entry["draws"])):
            raise ValueError(f"got {cut(data[:60].decode(errors='replace'))}, expected an entry")
        return line


def read_chain(data: bytes) -> list[Line]:
    """Return the lines of a transcript, each of which follows on the one before.

    A file of it begins with its start, which a later file has again. So the first line may follow
    on a line of a file that is not here.

    Raises ValueError; with the number of the line, if one is damaged, or does not follow.
    """
    lines, before = list[Line](), ""
    if data and not data.endswith(b"\n"):
        raise ValueError("got a last line that is cut off, expected a whole one")
    for number, text in enumerate(data.splitlines(), start=1):
        try:
            line = Line.read(text)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        begins = number == 1 or (line.kind == START and _start(line) == _start(lines[0]))
        if (line.kind == START) != begins or line.entry.get("form", FORM) != FORM:
            expected = f"the start of one transcript of form {FORM}, as the first line of a file"
            raise ValueError(
                f"line {number}: got an entry of kind {line.kind!r}, expected {expected}"
            )
        if number > 1 and line.entry["before"] != before:
            got = f"an entry that follows on {cut(line.entry['before'])[:16]}..."
            raise ValueError(
                f"line {number}: got {got}, expected one that follows on line {number - 1}, "
                f"{before[:16]}...: lines lack here, or were changed or exchanged"
            )
        lines.append(line)
        before = line.hash
    if not lines:
        raise ValueError("got an empty file, expected a transcript")
    return lines


def _start(line: Line) -> Entry:
    return {key: value for key, value in line.entry.items() if key != "before"}


def older_files(path: Path) -> list[Path]:
    """Return the files of a transcript before its newest, which lie beside it, in their order."""
    return sorted(path.parent.glob(f"{path.stem}-{'[0-9]' * 8}{path.suffix}"))


# Commitments, which the owner of the transcript's key can open.


def key_commitment(key: bytes) -> str:
    """Return the commitment to a transcript's key, in hexadecimal, as all of these."""
    return _hash("key", key)


def sum_commitment(key: bytes, session: str, words: bytes) -> str:
    """Return the commitment to an opened sum: without the key nobody can check a guess of it."""
    return _hash("sum", key, session.encode(), words)


def secret_commitment(key: bytes, secret: int) -> str:
    """Return the commitment to the secret that a run's noise follows from."""
    return _hash("noise secret", key, str(secret).encode())


def seed_commitment(key: bytes, session: str, number: int, seed: bytes) -> str:
    """Return the commitment to the seed of the `number`-th noise after a sum."""
    return _hash("noise", key, f"{session} {number}".encode(), seed)


def sealed_seed(key: bytes, session: str, number: int, seed: bytes) -> bytes:
    """Return such a seed as the owner of the key alone can read it; its own inverse."""
    stream = bytes.fromhex(_hash("noise seed", key, f"{session} {number}".encode()))
    return bytes(a ^ b for a, b in zip(seed, stream, strict=True))


def _hash(what: str, *parts: bytes) -> str:
    return hashlib.sha256(f"fedsub {what} ".encode() + b" ".join(parts)).hexdigest()
