"""The federation format: a folder with ``federation.toml`` and ``clients/<id>.npz``.

The card and the clients' files are checked where they enter (:mod:`fedsub_core.card`,
:mod:`fedsub_core.client_data`). A device holds just its own client's file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedsub_core.card import CARD_FILE, Card, card_table, check_card, read_card
from fedsub_core.client_data import ClientData, check_client, read_client
from fedsub_core.errors import DataError

__all__ = [
    "Card",
    "ClientData",
    "Federation",
    "read_card",
    "read_client",
    "read_federation",
    "write_federation",
]


@dataclass(frozen=True, eq=False)
class Federation:
    """A card and its clients, ordered by id."""

    card: Card
    clients: dict[str, ClientData]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", dict(sorted(self.clients.items())))


def read_federation(folder: Path | str) -> Federation:
    """Return the federation in `folder`: its card and every ``clients/<id>.npz``.

    Raises
    ------
    DataError
        As :func:`read_card` and :func:`read_client`, and where there is no client or where
        clients differ in the shape of their features.
    """
    folder = Path(folder)
    card = read_card(folder)
    paths = list((folder / "clients").glob("*.npz"))
    federation = Federation(card, {p.stem: read_client(p, card) for p in sorted(paths)})
    _check_together(folder, federation)
    return federation


def write_federation(folder: Path | str, federation: Federation) -> None:
    """Write `federation` to a new `folder`, completely or not at all.

    Raises
    ------
    DataError
        Where the folder already holds something, or the federation could not be read back.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(
            f"{folder}: already holds something; expected a new or empty folder. Choose another "
            "name or remove it."
        )
    check_card(federation.card, folder / CARD_FILE)
    clients = [_checked(folder, name, federation) for name in federation.clients]
    _check_together(folder, federation)
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        (draft / "clients").mkdir()
        (draft / CARD_FILE).write_text(tomli_w.dumps(card_table(federation.card)), "utf-8")
        for data in clients:
            with open(draft / "clients" / f"{data.client}.npz", "wb") as file:
                if data.t is None:
                    np.savez_compressed(file, x=data.x, y=data.y)
                else:
                    np.savez_compressed(file, x=data.x, y=data.y, t=data.t)
        draft.chmod(0o755)  # mkdtemp's folders are its owner's alone
        if folder.exists():
            folder.rmdir()  # only some systems let os.replace take an empty folder's place
        os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _checked(folder: Path, name: str, federation: Federation) -> ClientData:
    data = federation.clients[name]
    arrays: dict[str, NDArray[Any]] = {"x": data.x, "y": data.y}
    if data.t is not None:
        arrays["t"] = data.t
    return check_client(folder / "clients" / f"{name}.npz", name, arrays, federation.card)


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
                "federation. Window all clients alike."
            )
