"""The transcript of a sum: a hash of what a person was told, on which its pairs' masks depend.

A server that tells people different things could let all but one add zeros, and read that one's
vector off the sum. So each pair's mask is derived from the transcript
(:func:`fedsub_core.secure.participant.between`), and two masks cancel only if both people were
told the same. Records are hashed whole, but for what differs from person to person. So a key that
a later release adds counts, too.
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
class Origin:
    """What a person's vector is and was made of: all of its part in a sum but the numbers.

    Parameters
    ----------
    once : the name of a vector that stays the same from round to round, so that all its sums in a
        run must be of the same people; "": it changes.
    made_of : hash of what the server sent for the vector.
    outside : the round of whose sum the person was told that it was not in it; 0: of none.
    """

    once: str = ""
    made_of: str = ""
    outside: int = 0


def digest(values: object) -> str:
    """Return a hash of plain values, in hexadecimal.

    It is SHA-256 of their JSON text with sorted keys, without blanks, bytes in hexadecimal.
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=bytes.hex)
    return hashlib.sha256(text.encode()).hexdigest()


def alike(record: Mapping[str, object], own: Collection[str]) -> dict[str, object]:
    """Return a record without the keys that are one person's `own`."""
    return {key: value for key, value in record.items() if key not in own}


def beside_download(turn: Mapping[str, object], config: Mapping[str, object]) -> str:
    """Return a hash of the turn and the configuration that come beside a download.

    Parameters
    ----------
    turn : the record of that name.
    config : the run's configuration, as it came.
    """
    return digest({"config": dict(config), "turn": alike(turn, OWN_OF_TURN)})


def of_bundle(bundle: Bundle) -> str:
    """Return a hash of a download."""
    tensors = {name: _hashes(part) for name, part in bundle.tensors.items()}
    return digest({"examples": bundle.examples, "tensors": tensors, "version": bundle.version})


def _hashes(part: Part) -> dict[str, str]:
    """Return hashes of a tensor's numbers and of their places, each as it travels."""
    packed = {"values": _packed(part.values)}
    if isinstance(part, Floats):
        at = {"rows": part.at.rows, "columns": part.at.columns, "elements": part.at.elements}
        packed |= {name: _packed(axis) for name, axis in at.items() if axis is not None}
    return {name: hashlib.sha256(data).hexdigest() for name, data in packed.items()}


def _packed(values: np.ndarray) -> bytes:
    if values.dtype == np.bool_:
        return np.packbits(values, bitorder="little").tobytes()
    return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()
