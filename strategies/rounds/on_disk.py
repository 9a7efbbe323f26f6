"""Files of what people send once, and a method keeps for the whole run.

Of ten thousand people it would take gigabytes of memory, and is read when the sum over people
changes. A half says by its `keeps` which tensors these are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.errors import RunError
from fedsub_core.mapped_file import is_mapped, mapped
from fedsub_core.remote_numbers import RemoteNumbers
from fedsub_core.wire.bundles import Bundle, Floats, Part

#: Bytes that are kept in memory as they are, and then written into one file: of what is kept for
#: the whole run, and of what people send in one round of a simulation.
PORTION, OF_A_ROUND = 2**25, 2**28


class OnDisk:
    """The uploads of a round as they come: what is kept of them goes into files.

    Parameters
    ----------
    keeps : names of tensors of whole numbers; see ``ServerHalf.keeps``.
    simulated : whether all people are of this process. A round of many has more uploads than
        memory, so that their numbers go into files, too.
    """

    def __init__(self, keeps: Collection[str], simulated: bool = False) -> None:
        self._keeps, self._simulated = keeps, simulated
        self._portion = PORTION if keeps else OF_A_ROUND
        self._waiting, self._bytes = list[str](), 0

    def put(self, client: str, uploads: dict[str, Bundle]) -> None:
        """Note that a client's upload stands among `uploads`, and put there what lies in a file.

        Raises RunError; as :func:`put_away`.
        """
        if not (kept := self._of(uploads[client])):
            return
        self._waiting.append(client)
        self._bytes += sum(part.values.nbytes for _, part in kept)
        if self._bytes < self._portion:
            return
        places = [(c, *one) for c in self._waiting for one in self._of(uploads[c])]
        places.sort(key=lambda place: -place[2].values.itemsize)  # each where its type may lie
        lying = written([part.values for _, _, part in places])
        lies = {(c, n): values for (c, n, _), values in zip(places, lying, strict=True)}
        for c in self._waiting:
            every = uploads[c].tensors.items()
            own = {name: _apart(part, lies.get((c, name))) for name, part in every}
            uploads[c] = replace(uploads[c], tensors=own)
        self._waiting, self._bytes = [], 0

    def _of(self, upload: Bundle) -> list[tuple[str, Part]]:
        """Return the tensors of an upload that go into files."""
        numbers = Floats if self._simulated else ()
        every = upload.tensors.items()
        mine = [(n, part) for n, part in every if not isinstance(part.values, RemoteNumbers)]
        return [(n, part) for n, part in mine if n in self._keeps or isinstance(part, numbers)]


def _apart(part: Part, lying: NDArray[Any] | None) -> Part:
    """Return a part of an upload with its numbers as they lie in a file; None: with copies.

    A view of what came together would keep all of it: a worker's reply is of many people.
    """
    if isinstance(part.values, RemoteNumbers):
        return part
    if isinstance(part, Floats) and not part.at.everywhere:
        part = replace(part, at=deepcopy(part.at))
    values: Any = part.values.copy() if lying is None else lying
    return replace(part, values=values)


def put_away(state: Mapping[str, Tensor], keeps: Collection[str]) -> dict[str, Tensor]:
    """Return a state whose kept tensors lie in files, if those in memory are many.

    Raises RunError if they cannot be written. It names the folder, and what to do.
    """
    here = {key: t.numpy() for key, t in state.items() if is_kept(key, keeps)}
    here = {key: array for key, array in here.items() if not is_mapped(array)}
    if sum(array.nbytes for array in here.values()) < PORTION:
        return dict(state)
    lying = map(torch.from_numpy, written([*here.values()]))
    return {**state, **dict(zip(here, lying, strict=True))}


def is_kept(key: str, keeps: Collection[str]) -> bool:
    """Return whether a tensor of the state is a person's that the half keeps as it came."""
    name, _, person = key.partition("/")
    return bool(person) and name in keeps


def as_it_lies(array: NDArray[Any]) -> Tensor:
    """Return a tensor of what came: where it lies in a file, else a copy."""
    return torch.from_numpy(array) if is_mapped(array) else torch.tensor(array)


def written(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return arrays as they lie in a new file, in their order.

    Raises RunError if they cannot be written. It names the folder, and what to do.
    """
    size = sum(array.nbytes for array in arrays)
    try:
        return mapped(arrays)
    except OSError as error:
        raise RunError(
            f"{tempfile.gettempdir()}: {size / 2**20:.0f} MiB of people's numbers cannot be "
            f"written there ({error}), expected a folder with room for all people's. Make room, or "
            "name another in TMPDIR; finished rounds are kept: the run can be resumed"
        ) from error
