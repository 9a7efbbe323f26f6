"""The federation format: a folder with ``federation.toml`` and ``clients/<id>.npz``.

The card and the clients' files are checked where they enter (:mod:`fedsub_core.data.card`,
:mod:`fedsub_core.data.client_file`). A device holds just its own client's file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tomli_w

from fedsub_core.data.card import CARD_FILE, Card, card_table, check_card, read_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client, read_client
from fedsub_core.data.feature_store import FeatureStore
from fedsub_core.data.npz import write_npz
from fedsub_core.errors import DataError
from fedsub_core.files import check_new_folder, whole_folder

__all__ = [
    "Card",
    "ClientData",
    "Federation",
    "by_ends",
    "client_files",
    "read_card",
    "read_client",
    "read_federation",
    "read_outlines",
    "write_federation",
]

log = logging.getLogger("fedsub")

_NOTHING = np.zeros(0, np.float32)
#: Of so many files that cannot be used a message says why; the others it names.
_EXPLAINED = 20


@dataclass(frozen=True, eq=False)
class Federation:
    """A card and its clients, ordered by id."""

    card: Card
    clients: dict[str, ClientData]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", dict(sorted(self.clients.items())))

    def __repr__(self) -> str:
        """Return its name, who is in it, and what its classes are."""
        samples = sum(len(one.y) for one in self.clients.values())
        return (
            f"Federation({self.card.name!r}, {len(self.clients)} people, {samples:,} samples, "
            f"classes={list(self.card.classes)})"
        )


def by_ends(federation: Federation) -> Federation:
    """Return a federation of a target as one of two classes: which end each value is nearer to."""
    if (target := federation.card.target) is None:
        return federation
    clients = {}
    for name, data in federation.clients.items():
        nearer = replace(data, y=(target.scaled(data.y) >= 0).astype(np.int64))
        nearer.__dict__.update(first_copies=data.first_copies, digest=data.digest)
        clients[name] = nearer
    return Federation(federation.card, clients)


def read_federation(folder: Path | str) -> Federation:
    """Return the federation in `folder`: its card and every ``clients/<id>.npz``.

    Features beyond a bound stay on disk until read (:mod:`fedsub_core.data.feature_store`).

    Raises DataError; as :func:`read_card`, :func:`client_files` and :func:`read_client`, with what
    is wrong with every client's file; and where there is no client or where clients differ in the
    shape of their features.
    """
    folder = Path(folder)
    card = read_card(folder)
    store, clients = FeatureStore(), list[ClientData]()
    for data in _each_client(folder, card):
        store.put(data.x)
        clients.append(replace(data, x=_NOTHING))  # the store alone keeps them
    stored = zip(clients, store.arrays(), strict=True)
    federation = Federation(card, {data.client: replace(data, x=x) for data, x in stored})
    _check_together(folder, federation)
    return federation


def read_outlines(folder: Path | str, see: Callable[[ClientData, Card], None]) -> Federation:
    """Return the federation in `folder` without the numbers of its samples.

    `see` is shown each client with its samples, which are then let go: in memory are those of one
    at a time. What comes back is for whatever asks only how many samples there are, of which shape,
    when, and which are the same (:meth:`fedsub_core.data.client_data.ClientData.outline`).

    Raises DataError; as :func:`read_federation`; some clients may have been shown by then.
    """
    folder = Path(folder)
    card = read_card(folder)
    outlines = {}
    for data in _each_client(folder, card):
        see(data, card)
        outlines[data.client] = data.outline()
    federation = Federation(card, outlines)
    _check_together(folder, federation)
    return federation


def _each_client(folder: Path, card: Card) -> Iterator[ClientData]:
    """Yield every client whose file can be used; raise what is wrong with the others at the end."""
    refused: dict[str, DataError] = {}
    read = 0
    for path in client_files(folder):
        try:
            data = read_client(path, card)
        except DataError as error:
            refused[path.name] = error
            continue
        read += 1
        yield data
        del data  # what is let go must not wait for the next one
    if refused:
        raise _together(folder, refused, len(refused) + read)


def client_files(folder: Path | str) -> list[Path]:
    """Return the files ``clients/<id>.npz`` of a federation's folder, by name.

    What macOS keeps beside files, ``._<id>.npz``, is passed over; what else lies there is named in
    the log.

    Raises DataError where a file's ending differs from .npz in its case: it would be left out.
    """
    place = Path(folder) / "clients"
    there = sorted(place.iterdir()) if place.is_dir() else []
    seen = [path for path in there if not path.name.startswith("._")]
    odd = [path.name for path in seen if path.suffix != ".npz" and path.suffix.lower() == ".npz"]
    if odd:
        raise DataError(f"{place}: got {', '.join(odd)}, expected names that end in .npz. Rename.")
    others = [path.name for path in seen if path.suffix != ".npz" and path.name[0] != "."]
    if others:
        log.warning("%s: not read: %s; clients are <id>.npz", place, ", ".join(others[:_EXPLAINED]))
    return [path for path in seen if path.suffix == ".npz"]


def write_federation(
    folder: Path | str, federation: Federation, files: Mapping[str, str] | None = None
) -> None:
    """Write `federation` to a new `folder`, completely or not at all.

    Parameters
    ----------
    files : mapping of str to str or None
        Further texts by file name, such as where the data come from.

    Raises DataError where the folder already holds something or cannot be written, or the
    federation could not be read back.
    """
    folder = Path(folder)
    check_new_folder(folder, DataError)
    check_card(federation.card, folder / CARD_FILE)
    clients = [_checked(folder, name, federation) for name in federation.clients]
    _check_together(folder, federation)
    with whole_folder(folder, DataError) as draft:
        (draft / "clients").mkdir()
        (draft / CARD_FILE).write_text(tomli_w.dumps(card_table(federation.card)), "utf-8")
        for data in clients:
            # Nobody is overwritten on a disk that takes `anna` and `Anna` for one name.
            with open(draft / "clients" / f"{data.client}.npz", "xb") as file:
                write_npz(file, data.arrays())
        for name, text in (files or {}).items():
            (draft / name).write_text(text, "utf-8")


def _checked(folder: Path, name: str, federation: Federation) -> ClientData:
    arrays = federation.clients[name].arrays()
    return check_client(folder / "clients" / f"{name}.npz", name, arrays, federation.card)


def _together(folder: Path, refused: Mapping[str, DataError], files: int) -> DataError:
    """Return one error of all files that cannot be used."""
    first, *others = refused.values()
    if not others:
        return first
    parts = [f"{folder}: {len(refused)} of {files} clients' files cannot be used."]
    parts += map(str, [first, *others][:_EXPLAINED])
    if more := list(refused)[_EXPLAINED:]:
        parts.append(f"Also refused: {', '.join(more)}.")
    return DataError(" ".join(parts))


def _check_together(folder: Path, federation: Federation) -> None:
    if not federation.clients:
        raise DataError(
            f"{folder / 'clients'}: no client; expected a folder with one <id>.npz per client. "
            "Put the files there."
        )
    first, *others = federation.clients.values()
    for data in others:
        if data.x.shape[1:] != first.x.shape[1:]:
            raise DataError(
                f"{folder}: client {data.client!r} has features of shape {data.x.shape[1:]}, "
                f"client {first.client!r} of {first.x.shape[1:]}; expected one shape in a "
                f"federation. {'Resize' if first.x.ndim == 4 else 'Window'} all clients alike."
            )
        if data.x.dtype != first.x.dtype:
            raise DataError(
                f"{folder}: client {data.client!r} has x of {data.x.dtype}, client "
                f"{first.client!r} of {first.x.dtype}; expected one type in a federation: uint8 "
                "is 0 to 255. Convert all clients alike."
            )
