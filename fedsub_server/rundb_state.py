"""The state in a run's database: a row for each group of tensors, and one for each person in it.

What did not change since the last commit is not written again: a server that keeps what ten
thousand people sent once would write gigabytes for every round.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from weakref import ref

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from fedsub_core.identifiers import is_client_id
from fedsub_core.mapped_file import let_go
from fedsub_core.sealing import seal, unseal
from fedsub_server.rundb_shared import OF, Keys, note_sharing, shared

Tensors = dict[str, Tensor]
#: Between a group's name and a person's, in which no line ends.
_WRITE = (
    "INSERT INTO state VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET "
    "keys = excluded.keys, crc = excluded.crc, tensors = excluded.tensors"
)
#: What a row holds: keys, and of each tensor, kept alive by others, how often it was changed.
_Written = tuple[Keys, list[tuple["ref[Tensor]", int]]]


class StateRows:
    """The table ``state`` of a connection; whoever calls is in a transaction.

    A group's row names all of its tensors, in their order, and holds those that are nobody's. One
    called ``<name>/<person>`` stands in the person's row, one that several people hold in its own,
    and pieces of many large ones in theirs.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        #: What the rows hold that this process wrote last; empty: nobody knows.
        self._known: dict[str, _Written] = {}

    def replace(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Put `state` in the last one's place; call :meth:`forget` if that is rolled back."""
        rows = shared({name: (keys, tensors) for name, keys, tensors in _rows(state)})
        note_sharing(self._connection, rows)
        if not self._known or not self._in_order(state):
            self._known = {}
            self._connection.execute("DELETE FROM state")
        gone = [(name,) for name in self._known if name not in rows]
        self._connection.executemany("DELETE FROM state WHERE name = ?", gone)
        now: dict[str, _Written] = {}
        for name, (keys, tensors) in rows.items():
            held = [(ref(tensor), tensor._version) for tensor in tensors.values()]
            there = name in self._known and name.startswith(OF)  # its name is of its content
            if not there and not _same(self._known.get(name), (keys, held)):
                blob = seal(to_bytes(tensors), name)
                self._connection.execute(_WRITE, (name, json.dumps(keys), zlib.crc32(blob), blob))
                for tensor in tensors.values():
                    let_go(tensor.data_ptr(), tensor.nbytes)
            now[name] = keys, held
        self._known = now

    def forget(self) -> None:
        """Write all rows the next time."""
        self._known = {}

    def load(self) -> dict[str, Tensors]:
        """Return the state, groups and their tensors in the order in which they were committed.

        Raises
        ------
        sqlite3.DatabaseError
            If a row's tensors are damaged.
        """
        keys: dict[str, list[str]] = {}
        groups: dict[str, Tensors] = {}
        alike: Tensors = {}
        for (name, names), tensors in self._read(f"NOT LIKE '{OF}%'"):
            group, _, person = name.partition(OF)
            said: Keys = json.loads(names)
            for key, *digests in (one for one in said if not isinstance(one, str)):
                if (place := OF.join(digests)) not in alike:
                    alike[place] = self._joined(digests, f"state {name!r}: its {key!r}")
                tensors[key] = alike[place]
            groups.setdefault(group, {}).update(tensors)
            if not person:
                keys[group] = [one if isinstance(one, str) else one[0] for one in said]
        return {group: {key: groups[group][key] for key in of} for group, of in keys.items()}

    def _joined(self, digests: Sequence[str], where: str) -> Tensor:
        """Return a tensor of the rows of its pieces, which are held one at a time."""
        first = self._piece(digests[0], where)
        if len(digests) == 1:
            return first
        whole = first.new_empty((len(first) * len(digests), *first.shape[1:]))
        end = 0
        for digest in digests:
            piece = self._piece(digest, where)
            whole[end : end + len(piece)] = piece
            end += len(piece)
        return whole[:end]

    def _piece(self, digest: str, where: str) -> Tensor:
        found = next(self._read("= ?", OF + digest), None)
        if found is None:
            raise sqlite3.DatabaseError(f"{where} lacks the row {digest}")
        return found[1][""]

    def _read(self, which: str, *values: str) -> Iterator[tuple[tuple[str, str], Tensors]]:
        """Yield rows' names and keys, and their tensors, in the order of their commits."""
        for name, names, crc, blob in self._connection.execute(
            f"SELECT name, keys, crc, tensors FROM state WHERE name {which} ORDER BY rowid", values
        ):
            if zlib.crc32(blob) != crc:
                raise sqlite3.DatabaseError(f"the checksum of state {name!r} is wrong")
            yield (name, names), load_tensors(unseal(blob, name))

    def seal_anew(self, plain: bool) -> None:
        """Write each row again, sealed by today's passphrase or `plain`; its tensors stay."""
        names = self._connection.execute("SELECT name FROM state ORDER BY rowid").fetchall()
        for (name,) in names:  # one at a time: all of them may be gigabytes
            row = "SELECT keys, tensors FROM state WHERE name = ?"
            keys, blob = self._connection.execute(row, (name,)).fetchone()
            opened = unseal(blob, name)
            now = opened if plain else seal(opened, name)
            self._connection.execute(_WRITE, (name, keys, zlib.crc32(now), now))

    def _in_order(self, state: Mapping[str, object]) -> bool:
        """Whether what rows there are stand in the groups' order, new ones behind them."""
        before = [name for name in self._known if OF not in name and name in state]
        return list(state)[: len(before)] == before


def _rows(
    state: Mapping[str, Mapping[str, Tensor]],
) -> Iterator[tuple[str, list[str], Mapping[str, Tensor]]]:
    """Yield each row's name, the keys that it says, and its tensors; groups first."""
    people: dict[str, Tensors] = {}
    for group, tensors in state.items():
        own: Tensors = {}
        for key, tensor in tensors.items():
            _, _, person = key.partition("/")
            row = people.setdefault(f"{group}{OF}{person}", {}) if is_client_id(person) else own
            row[key] = tensor
        yield group, list(tensors), own
    for name, row in people.items():
        yield name, list(row), row


def _same(before: _Written | None, now: _Written) -> bool:
    """Whether a row holds the very tensors that it held, untouched since."""
    if before is None or before[0] != now[0]:
        return False
    return all(a() is b() and v == w for (a, v), (b, w) in zip(before[1], now[1], strict=True))


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise named tensors; copying makes views of a stack plain tensors of their own."""
    return save_tensors(
        {
            name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
            for name, tensor in tensors.items()
        }
    )
