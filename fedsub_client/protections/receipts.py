"""A device's receipts: what it was told of each sum that it sent a vector to, one line each.

They are kept in its state-dir, a file for each run. By them ``fedsub deploy verify`` checks a
server's transcript.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from fedsub_client.state_files import run_digest
from fedsub_core.errors import RunError
from fedsub_core.files import make_folder, private

FOLDER = "state-dir"
#: A run's receipts: what stands before and behind a digest of its name.
PREFIX, ENDING = "receipts-", ".jsonl"
#: Options of a run that promise noise on means; a method has one of its own beside.
DP_NOISE, DP_CLIP = "dp-noise", "dp-clip"


@dataclass(frozen=True)
class Receipt:
    """A device's receipt of a sum that it sent a vector to; hashes in hexadecimal.

    Parameters
    ----------
    client, run, round, session : whose it is, and of which sum.
    head : of the transcript, as the plan had it; "": it had none.
    plan, people, transcript : hashes of the plan, the list of people, and all that it was told.
    leaf : the person in that list.
    vector, numbers : hash of the vector under masks, and its length.
    once : the name of a vector that stays the same from round to round.
    least : of how many people it demanded the sum to be.
    noise : the options by which the run promises noise.
    opened : whether the device helped to open the sum.
    """

    client: str
    run: str
    round: int
    session: str
    head: str
    plan: str
    people: str
    transcript: str
    leaf: str
    vector: str
    numbers: int
    once: str
    least: int
    noise: dict[str, float] = field(default_factory=dict)
    opened: bool = False

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Self:
        """Return the receipt of plain values; raises ValueError if it is none."""
        try:
            return cls(**facts)
        except TypeError as error:
            raise ValueError(str(error)) from None


def promised(config: Mapping[str, Any], method: str) -> dict[str, float]:
    """Return the options of a run by which it promises noise, with their values."""
    keys = [f"{method}.noise", *((DP_NOISE, DP_CLIP) if config.get(DP_NOISE) else ())]
    return {key: float(config[key]) for key in keys if config.get(key)}


def note_receipt(node: Mapping[str, Any], client: str, run: str, facts: Mapping[str, Any]) -> None:
    """Keep a receipt, or that its sum was opened; nothing without a state-dir.

    Raises RunError where it cannot be written, as on a full disk.
    """
    if not node.get(FOLDER):
        return
    path = receipts_file(Path(str(node[FOLDER])) / client, run)
    try:
        make_folder(path.parent)
        with open(path, "a+b", opener=private) as file:
            # A device that died while it wrote left a part of a line.
            if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                file.write(b"\n")
            file.write(json.dumps(facts).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        why = f"{path} could not be written ({error}). Free some space"
        raise RunError(f"client {client!r}: {why}") from error


def receipts_file(folder: Path, run: str) -> Path:
    """Return the file of a run's receipts in a device's folder."""
    return folder / f"{PREFIX}{run_digest(run)}{ENDING}"


def read_receipts(path: Path) -> tuple[list[Receipt], int]:
    """Return the receipts in a file, the last of each session, and how many lines are damaged.

    Raises OSError if it cannot be read.
    """
    found, damaged = dict[str, Receipt](), 0
    for line in path.read_bytes().splitlines():
        try:
            facts = json.loads(line)
            session = facts["session"]
            before = asdict(found[session]) if session in found else {}
            found[session] = Receipt.of(before | facts)
        except (ValueError, KeyError, TypeError):
            damaged += 1
    return list(found.values()), damaged
