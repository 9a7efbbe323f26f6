"""Tensors that stand in rows of their own in a run's database, by their content.

People who were sent the same model keep the same numbers: of a hundred thousand of them it would
stand there a hundred thousand times. And a row has room for 2 GiB: of ten thousand people a server
may keep more, which stands there in pieces.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from fedsub_server.resuming import SERVER
from fedsub_server.rundb_file import PIECES, SHARING

#: Bytes from which a tensor is looked for elsewhere, and numbers of it that are compared first.
_LEAST, _GLANCE = 1024, 64
#: Bytes of a row of which none of those tensors stand in it, and of their pieces.
LARGEST_ROW, PIECE = 2**28, 2**26
#: What stands before a digest in the name of such a tensor's row: it belongs to no group.
OF = "\n"
#: What a row says of its tensors: the name of each, and where it stands elsewhere its digest, or
#: those of its pieces.
Keys = list[str | list[str]]
Rows = Mapping[str, tuple[list[str], Mapping[str, Tensor]]]


def shared(rows: Rows) -> dict[str, tuple[Keys, Mapping[str, Tensor]]]:
    """Return rows of a state, in which a tensor that several people hold stands in one of its own.

    So do the pieces of a row's tensors that is too large. Else the server's own tensors stay where
    they are: others look for them there.
    """
    places = [
        (row, key, tensor)
        for row, (_, tensors) in rows.items()
        if row.partition(OF)[0] != SERVER
        for key, tensor in tensors.items()
        if tensor.nbytes >= _LEAST
    ]
    # Rows of a stack that are one place in memory are looked at once.
    lies = [(t.data_ptr(), t.shape, t.stride(), t.dtype) for _, _, t in places]
    tensors_at = {at: tensor for at, (_, _, tensor) in zip(lies, places, strict=True)}
    glances = {at: _glance(tensor) for at, tensor in tensors_at.items()}
    often = Counter(glances[at] for at in lies)
    known = {at: _digest(t) for at, t in tensors_at.items() if often[glances[at]] > 1}
    digests = {
        (row, key): known[at] for at, (row, key, _) in zip(lies, places, strict=True) if at in known
    }
    holders = Counter(digests.values())
    digests = {place: digest for place, digest in digests.items() if holders[digest] > 1}
    found: dict[str, tuple[Keys, Mapping[str, Tensor]]] = {}
    for row, (keys, tensors) in rows.items():
        named: Keys = [[k, digests[row, k]] if (row, k) in digests else k for k in keys]
        found[row] = named, {k: t for k, t in tensors.items() if (row, k) not in digests}
    large = [row for row, (_, own) in found.items() if _bytes(own) > LARGEST_ROW]
    for (row, key), digest in digests.items():
        found.setdefault(OF + digest, ([], {"": rows[row][1][key]}))
    for row in large:
        named, tensors = found[row]
        parts = {k: _pieces(t) for k, t in tensors.items() if t.dim() and t.nbytes >= _LEAST}
        named = [
            [k, *(digest for digest, _ in parts[k])] if isinstance(k, str) and k in parts else k
            for k in named
        ]
        found[row] = named, {k: t for k, t in tensors.items() if k not in parts}
        for pieces in parts.values():
            for digest, piece in pieces:
                found.setdefault(OF + digest, ([], {"": piece}))
    return found


def note_sharing(connection: sqlite3.Connection, rows: Mapping[str, tuple[Keys, object]]) -> None:
    """Raise the database's version where an older release would not find the rows' tensors."""
    apart = [len(key) for keys, _ in rows.values() for key in keys if not isinstance(key, str)]
    if apart:
        now = PIECES if max(apart) > 2 else SHARING
        raised = "UPDATE meta SET value = :now WHERE key = 'schema' AND CAST(value AS INT) < :now"
        connection.execute(raised, {"now": now})


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def _pieces(tensor: Tensor) -> list[tuple[str, Tensor]]:
    """Return digests and pieces of a tensor, which make it up along its first axis."""
    each = max(1, PIECE * len(tensor) // max(1, tensor.nbytes))
    pieces = (tensor[i : i + each] for i in range(0, len(tensor), each))
    return [(_digest(piece), piece) for piece in pieces]


def _glance(tensor: Tensor) -> tuple[object, ...]:
    """Return what equal tensors have alike, of few of their numbers."""
    flat = tensor.detach().reshape(-1)
    some = flat[:: max(1, len(flat) // _GLANCE)].cpu().contiguous()
    return tensor.dtype, tuple(tensor.shape), some.view(torch.uint8).numpy().tobytes()


def _digest(tensor: Tensor) -> str:
    """Return a digest of a tensor's kind, shape and bytes."""
    digest = hashlib.blake2b(f"{tensor.dtype} {list(tensor.shape)}".encode(), digest_size=16)
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()
