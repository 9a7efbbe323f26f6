"""Tensors that several people hold alike, which stand in a run's database once, by their content.

People who were sent the same model keep the same numbers: of a hundred thousand of them it would
stand there a hundred thousand times.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Mapping

import torch
from torch import Tensor

from fedsub_server.resuming import SERVER
from fedsub_server.rundb_file import SHARING

#: Bytes from which a tensor is looked for elsewhere, and numbers of it that are compared first.
_LEAST, _GLANCE = 1024, 64
#: What stands before a digest in the name of such a tensor's row: it belongs to no group.
OF = "\n"
#: What a row says of its tensors: the name of each, with its digest where it stands elsewhere.
Keys = list[str | list[str]]
Rows = Mapping[str, tuple[list[str], Mapping[str, Tensor]]]


def shared(rows: Rows) -> dict[str, tuple[Keys, Mapping[str, Tensor]]]:
    """Return rows of a state in which a tensor that several people hold stands in a row of its own.

    The server's own tensors stay where they are: others look for them there.
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
    for (row, key), digest in digests.items():
        found.setdefault(OF + digest, ([], {"": rows[row][1][key]}))
    return found


def note_sharing(connection: sqlite3.Connection) -> None:
    """Raise the database's version: an older release would not find the tensors."""
    connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (str(SHARING),))


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
