"""Files of what people send once, and a method keeps for the whole run.

Of ten thousand people it would take gigabytes of memory, and is read when the sum over people
changes. A half says by its `keeps` which tensors these are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.errors import RunError
from fedsub_core.mapped_file import is_mapped, mapped
from fedsub_core.wire.bundles import Bundle, Whole

#: Bytes that are kept in memory as they are, and then written into one file.
PORTION = 2**25


class OnDisk:
    """The uploads of a round as they come: what is kept of them goes into files.

    Parameters
    ----------
    keeps : names of tensors of whole numbers; see ``ServerHalf.keeps``.
    """

    def __init__(self, keeps: Collection[str]) -> None:
        self._keeps, self._waiting, self._bytes = keeps, list[str](), 0

    def put(self, client: str, uploads: dict[str, Bundle]) -> None:
        """Note that a client's upload stands among `uploads`, and put there what lies in a file.

        Raises
        ------
        RunError
            As :func:`put_away`.
        """
        kept = [part for name, part in uploads[client].tensors.items() if name in self._keeps]
        if not kept:
            return
        self._waiting.append(client)
        self._bytes += sum(part.values.nbytes for part in kept)
        if self._bytes < PORTION:
            return
        places = [(c, n) for c in self._waiting for n in self._keeps if n in uploads[c].tensors]
        written = _written([uploads[c].tensors[n].values for c, n in places])
        for (c, name), values in zip(places, written, strict=True):
            tensors = {**uploads[c].tensors, name: Whole(values)}
            uploads[c] = replace(uploads[c], tensors=tensors)
        self._waiting, self._bytes = [], 0


def put_away(state: Mapping[str, Tensor], keeps: Collection[str]) -> dict[str, Tensor]:
    """Return a state whose kept tensors lie in files, if those in memory are many.

    Raises
    ------
    RunError
        If they cannot be written. It names the folder, and what to do.
    """
    here = {key: t.numpy() for key, t in state.items() if is_kept(key, keeps)}
    here = {key: array for key, array in here.items() if not is_mapped(array)}
    if sum(array.nbytes for array in here.values()) < PORTION:
        return dict(state)
    written = zip(here, map(torch.from_numpy, _written([*here.values()])), strict=True)
    return {**state, **dict(written)}


def is_kept(key: str, keeps: Collection[str]) -> bool:
    """Return whether a tensor of the state is a person's that the half keeps as it came."""
    name, _, person = key.partition("/")
    return bool(person) and name in keeps


def as_it_lies(array: NDArray[Any]) -> Tensor:
    """Return a tensor of what came: where it lies in a file, else a copy."""
    return torch.from_numpy(array) if is_mapped(array) else torch.tensor(array)


def _written(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    size = sum(array.nbytes for array in arrays)
    try:
        return mapped(arrays)
    except OSError as error:
        raise RunError(
            f"{tempfile.gettempdir()}: {size / 2**20:.0f} MiB of people's numbers cannot be "
            f"written there ({error}), expected a folder with room for all people's. Make room, or "
            "name another in TMPDIR; finished rounds are kept: the run can be resumed"
        ) from error
