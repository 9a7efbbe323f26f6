"""The federation format: ``federation.toml`` and ``clients/<id>.npz``, checked where it enters.

A client's file holds ``x [n, F]`` or ``x [n, F, time]`` (any float or integer type), ``y [n]``
integer labels and, where known, ``t [n]`` seconds. A device holds just its own file.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from numpy.typing import NDArray

from fedsub_core.card import CARD_FILE, Card, card_table, read_card
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

# Ids become file names and keys of the server's database, on every system.
_CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, eq=False)
class ClientData:
    """One client's samples.

    Parameters
    ----------
    client : str
        The client's id, the stem of its file.
    x : float32 [n, F] or [n, F, time]
        Features, or raw windows with channels first, in the card's units.
    y : int64 [n]
        Labels, indices into the card's classes.
    t : float64 [n] or None
        Seconds at which each window starts (or is centred: differences are what is used).
    """

    client: str
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    t: NDArray[np.float64] | None = None


@dataclass(frozen=True, eq=False)
class Federation:
    """A card and its clients, ordered by id."""

    card: Card
    clients: dict[str, ClientData]

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", dict(sorted(self.clients.items())))


def read_client(path: Path | str, card: Card) -> ClientData:
    """Return the client in the file `path`, checked against `card`.

    Raises
    ------
    DataError
        Where the file is missing or damaged, lacks an array, or has one of a wrong type, shape
        or value; the message names the file and the first offending row.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a client's data. Check the path.")
    try:
        # A pickle inside could run code, so it is never allowed.
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name in ("x", "y", "t")}
    except Exception as error:  # a damaged zip makes numpy raise nearly anything
        raise DataError(
            f"{path}: cannot be read as npz arrays ({type(error).__name__}: {error}); it is "
            "damaged, truncated or holds Python objects. Fetch or write the file again."
        ) from error
    for name in ("x", "y"):
        if name not in arrays:
            raise DataError(
                f"{path}: array {name!r} is missing, got {sorted(arrays)}; expected x, y and "
                "optionally t. Write the file again with it."
            )
    return _checked(path, path.stem, arrays["x"], arrays["y"], arrays.get("t"), card)


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
    paths = sorted((folder / "clients").glob("*.npz"))
    if not paths:
        raise DataError(
            f"{folder / 'clients'}: no client file; expected a folder with one <id>.npz per "
            "client. Put the files there."
        )
    federation = Federation(card, {p.stem: read_client(p, card) for p in paths})
    _check_same_shape(folder, federation)
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
    if not federation.clients:
        raise DataError(f"{folder}: the federation has no client; expected one at least. Add one.")
    clients = {
        name: _checked(folder / f"{name}.npz", name, data.x, data.y, data.t, federation.card)
        for name, data in federation.clients.items()
    }
    _check_same_shape(folder, Federation(federation.card, clients))
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        (draft / "clients").mkdir()
        (draft / CARD_FILE).write_text(tomli_w.dumps(card_table(federation.card)), "utf-8")
        for name, data in clients.items():
            arrays = {"x": data.x, "y": data.y} | ({} if data.t is None else {"t": data.t})
            np.savez_compressed(draft / "clients" / f"{name}.npz", **arrays)
        read_federation(draft)
        draft.chmod(0o755)  # mkdtemp's folders are its owner's alone
        if folder.exists():
            folder.rmdir()  # os.replace takes an empty folder's place on Linux only
        os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _check_same_shape(folder: Path, federation: Federation) -> None:
    first, *others = federation.clients.values()
    for data in others:
        if data.x.shape[1:] != first.x.shape[1:]:
            raise DataError(
                f"{folder}: client {data.client!r} has features of shape {data.x.shape[1:]}, "
                f"client {first.client!r} of {first.x.shape[1:]}; expected one shape in a "
                "federation. Window all clients alike."
            )


def _checked(path: Path, client: str, x: Any, y: Any, t: Any, card: Card) -> ClientData:
    def refused(what: str, got: object, expected: str, do: str) -> DataError:
        return DataError(f"{path}: client {client!r}: {what}: got {got}, expected {expected}. {do}")

    if not _CLIENT_ID.fullmatch(client):
        expected = "letters, digits, '.', '_' and '-', the first a letter or digit"
        raise refused("client id", repr(client), expected, "Rename the file.")
    channels = len(card.features)
    if x.dtype.kind not in "fiu":
        raise refused("x", x.dtype, "a float or integer type", "Convert it to float32.")
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise refused("y", f"{y.dtype} {y.shape}", "integers [n]", "Write labels as int64.")
    if x.ndim not in (2, 3) or x.shape[1] != channels or 0 in x.shape[2:]:
        expected = f"[n, {channels}] or [n, {channels}, time], the card's features"
        raise refused("x", f"shape {x.shape}", expected, "Check the order of axes and the card.")
    if len(x) != len(y):
        raise refused("y", f"{len(y)} labels", f"{len(x)} as in x", "Write one per sample.")
    if len(x) == 0:
        raise refused("x", "no sample", "one at least", "Remove the client or give it data.")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite: refused below
        x = x.astype(np.float32)
    if not np.isfinite(x).all():
        row, feature = (int(i) for i in np.argwhere(~np.isfinite(x))[0][:2])
        where = f"x, row {row}, feature {feature} ({card.features[feature]!r})"
        do = "Drop or fill such samples before."
        raise refused(where, x[row, feature].flat[~np.isfinite(x[row, feature])][0], "finite", do)
    wrong = np.flatnonzero((y < 0) | (y >= len(card.classes)))
    if len(wrong):
        expected = f"0 to {len(card.classes) - 1}, the card's {len(card.classes)} classes"
        do = "Correct the labels or the card."
        raise refused(f"y, row {wrong[0]}", f"label {y[wrong[0]]}", expected, do)
    if t is not None:
        if t.dtype.kind not in "fiu" or t.shape != y.shape:
            raise refused("t", f"{t.dtype} {t.shape}", f"seconds [{len(y)}]", "One per sample.")
        t = t.astype(np.float64)
        if not np.isfinite(t).all():
            row = int(np.flatnonzero(~np.isfinite(t))[0])
            raise refused(f"t, row {row}", t[row], "finite seconds", "Fill it or leave t out.")
    return ClientData(client, x, y.astype(np.int64), t)
