"""The server's transcript of a run's secure sums, which devices can check later.

It is a file beside what the run leaves, to which entries are added, and each is on the disk before
its sum is used. A long one has older files, each named by its last round. The key that opens its
commitments lies beside it, and stays on the server.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from fedsub_core.errors import RunError
from fedsub_core.files import private, write_new, write_whole
from fedsub_core.secure.chain import (
    FORM,
    KEY_BYTES,
    SEED_BYTES,
    Entry,
    Line,
    key_commitment,
    older_files,
    read_chain,
    sealed_seed,
    secret_commitment,
    seed_commitment,
    sum_commitment,
)
from fedsub_core.secure.chain_form import NOISE, PROMISE, START, SUM
from fedsub_core.secure.keys import Words
from fedsub_core.secure.people_list import leaf
from fedsub_core.secure.summation import Summation
from strategies.rounds.context import DrawnNoise, PromisedNoise

log = logging.getLogger("fedsub")
#: How the name of the key's file ends, in place of the transcript's ending.
KEY_ENDING = ".key"
#: Bytes of a file beyond which another one is begun.
FILE_BYTES = 2**26


class SumTranscript:
    """A transcript, begun or gone on with.

    Parameters
    ----------
    path : its file; None: nothing is written, and plans have no head.
    run, method : whose sums it is of.

    Raises RunError if the file is damaged, is of another run, or its key is missing.
    """

    def __init__(self, path: Path | None = None, run: str = "", method: str = "") -> None:
        self.head, self._path, self._promised = b"", path, Entry()
        #: The session of a sum whose noise is not written yet.
        self._owes = ""
        if path is None:
            return
        older = older_files(path)
        lines = _whole_lines(path) or (_whole_lines(older[-1]) if older else [])
        self._key = _key(path.with_suffix(KEY_ENDING), bool(lines))
        start = {"form": FORM, "run": run, "method": method, "key": key_commitment(self._key)}
        #: How each file begins, and the round of the last sum.
        self._start, self._last = start, 0
        if not lines:
            self._append(START, start)
            return
        first = {key: lines[0].entry[key] for key in start}
        if first != start:
            raise RunError(f"{path}: got a transcript of {first}, expected {start}")
        self._last = max((line.round for line in lines if line.kind == SUM), default=0)
        self.head = bytes.fromhex(lines[-1].hash)
        for line in lines:
            if line.kind == PROMISE:
                self._promised = {key: line.entry[key] for key in ("noise", "secret")}
        self._owes = lines[-1].session if lines[-1].opened else ""
        self._begin_file()

    def head_of_plans(self) -> bytes:
        """Return the hash of the last entry, for a new sum's plans; a long file is ended before."""
        if self._path is not None:
            self._begin_file()
        return self.head

    def _begin_file(self) -> None:
        """Begin the newest file, if there is none or it is long; that is named by its round."""
        assert self._path is not None
        path, older = self._path, self._path.with_stem(f"{self._path.stem}-{self._last:08d}")
        if path.is_file() and path.stat().st_size > FILE_BYTES and not older.exists():
            self.drawn([])  # what is released of a sum stands in the same file
            path.rename(older)
        if not path.is_file() or not path.stat().st_size:
            self._append(START, self._start)
            if self._promised:
                self._append(PROMISE, self._promised)

    def promise(self, noise: PromisedNoise | None) -> None:
        """Write the noise that a run promises, where it is not written yet."""
        if self._path is None or noise is None:
            return
        secret = secret_commitment(self._key, noise.secret)
        promised: Entry = {"noise": dict(noise.options), "secret": secret}
        if promised != self._promised:
            self._append(PROMISE, promised)
            self._promised, self._owes = promised, ""  # moments of before get none

    def add(self, one: Summation, words: Words | None) -> None:
        """Write a sum that was opened, or that could not be: without `words`."""
        if self._path is None:
            return
        # Of the sum before nothing was released: it was of no use, or the process died.
        self.drawn([])
        joined = {client: keys.joined() for client, keys in one.keys.items()}
        leaves = {client: leaf(client, joined[client]).hex() for client in joined}
        session = one.name.session.hex()
        made = {
            "plan": {k: v.hex() if isinstance(v, bytes) else v for k, v in one.plan.items()},
            "once": one.once,
            "least": one.least,
            "people": sorted(leaves.values()),
            "sent": {leaves[client]: one.vectors[client] for client in one.sent},
            "silent": sorted(leaves[client] for client in one.sealed.keys() - one.sent),
            "views": {leaves[client]: view.hex() for client, view in one.views.items()},
            "told": one.transcript,
            "sum": "",
        }
        if words is not None:
            data = words.astype("<u4", copy=False).tobytes()
            made["sum"] = sum_commitment(self._key, session, data)
        signed = {client: one.signatures.get(client, b"").hex() for client in leaves}
        people = {leaves[c]: [c, joined[c].hex(), signed[c]] for c in sorted(leaves)}
        self._append(SUM, made, people)
        self._last = one.name.round
        self._owes = session if words is not None else ""

    def drawn(self, noise: Sequence[DrawnNoise]) -> None:
        """Write the noise on what is released of the last opened sum; none: nothing is."""
        if self._path is None or not self._promised or not self._owes:
            return
        draws, sealed = list[Entry](), list[str]()
        for number, one in enumerate(noise):
            seed = one.seed.to_bytes(SEED_BYTES, "big")
            commitment = seed_commitment(self._key, self._owes, number, seed)
            draws.append({"seed": commitment, "draws": [list(draw) for draw in one.draws]})
            sealed.append(sealed_seed(self._key, self._owes, number, seed).hex())
        self._append(NOISE, {"session": self._owes, "draws": draws}, sealed=sealed)
        self._owes = ""

    def _append(
        self,
        kind: str,
        entry: Entry,
        people: dict[str, list[str]] | None = None,
        sealed: list[str] | None = None,
    ) -> None:
        assert self._path is not None
        whole = {"kind": kind, "before": self.head.hex(), **entry}
        line = Line(whole, people or {}, sealed or [])
        try:
            with open(self._path, "ab", opener=private) as file:
                file.write(line.written())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(
                f"{self._path}: could not be written ({error}). Free some space"
            ) from None
        self.head = bytes.fromhex(line.hash)


def forget_in_transcript(path: Path, client: str) -> None:
    """Take a client's name, keys and signatures out of a transcript, whose chain holds without.

    Raises RunError if it is damaged, or cannot be written.
    """
    files = [(one, _whole_lines(one)) for one in (*older_files(path), path)]
    for one, lines in files:
        left = [
            Line(
                line.entry,
                {at: own for at, own in line.people.items() if own[0] != client},
                line.sealed,
            )
            for line in lines
        ]
        if left != lines:
            write_whole(one, b"".join(line.written() for line in left))


def _whole_lines(path: Path) -> list[Line]:
    """Return the lines of a transcript, without one at whose writing a process died."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        # No device has heard of it: it was not on the disk yet.
        log.warning("%s: the last line was not written whole, and is removed", path)
        write_whole(path, whole)
    try:
        return read_chain(whole) if whole else []
    except ValueError as error:
        raise RunError(
            f"{path}: {error}. Put a whole copy there; without one begin a new run: devices would "
            "find that the chain broke"
        ) from None


def _key(path: Path, begun: bool) -> bytes:
    """Return the key of a transcript, which is made with it."""
    if not begun:
        path.unlink(missing_ok=True)  # of a process that died before the first entry
        write_new(path, secrets.token_bytes(KEY_BYTES), 0o600)
    try:
        key = path.read_bytes()
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}, expected the transcript's key") from None
    if len(key) != KEY_BYTES:
        raise RunError(f"{path}: got {len(key)} bytes, expected a key of {KEY_BYTES}")
    return key
