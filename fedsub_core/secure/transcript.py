"""What somebody was told of a sum, as a hash: masks of a pair cancel only where both were told it.

A server that tells people different things could let all but one add zeros, and read that one's
vector off the sum. So what all are told alike is in the derivation of each pair's mask
(:func:`fedsub_core.secure.participant.between`). Records are hashed whole, but for what differs
from person to person: a key that a later release adds counts, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_core.wire.bundles import Bundle, Floats, Part

#: Of a plan, and of a turn, what differs from person to person.
OWN_OF_PLAN = frozenset({"clients", "values", "salt"})
OWN_OF_TURN = frozenset({"evaluate", "salt"})


@dataclass(frozen=True)
class Addend:
    """What a person's vector is.

    Parameters
    ----------
    once : what it says, if all sums of it in a run must be of the same people, for it stays the
        same from round to round; "": it does not.
    made_of : hash of what the person was told that the vector was made of.
    outside : the round of whose sum the person was told that it was not in it; 0: of none.
    """

    once: str = ""
    made_of: str = ""
    outside: int = 0


def digest(said: object) -> str:
    """Return a hash of plain values, in hexadecimal.

    It is SHA-256 of their JSON text with sorted keys, without blanks, bytes in hexadecimal.
    """
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), default=bytes.hex)
    return hashlib.sha256(text.encode()).hexdigest()


def alike(record: Mapping[str, object], own: Collection[str]) -> dict[str, object]:
    """Return a record without what is of one person alone."""
    return {key: value for key, value in record.items() if key not in own}


def beside_download(turn: Mapping[str, object], config: Mapping[str, object]) -> str:
    """Return a hash of what a device is told beside its download.

    Parameters
    ----------
    turn : the record of that name.
    config : the run's configuration, as it came.
    """
    return digest({"config": dict(config), "turn": alike(turn, OWN_OF_TURN)})


def of_bundle(bundle: Bundle) -> str:
    """Return a hash of what a download says."""
    tensors = {name: _hashes(part) for name, part in bundle.tensors.items()}
    return digest({"examples": bundle.examples, "tensors": tensors, "version": bundle.version})


def _hashes(part: Part) -> dict[str, str]:
    """Return a hash of a tensor's numbers, and of where they stand, each as it travels."""
    found = {"values": _packed(part.values)}
    if isinstance(part, Floats):
        at = {"rows": part.at.rows, "columns": part.at.columns, "elements": part.at.elements}
        found |= {name: _packed(one) for name, one in at.items() if one is not None}
    return {name: hashlib.sha256(one).hexdigest() for name, one in found.items()}


def _packed(values: np.ndarray) -> bytes:
    if values.dtype == np.bool_:
        return np.packbits(values, bitorder="little").tobytes()
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
