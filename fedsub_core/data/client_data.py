"""One client's samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.copies import copies_within, first_copies
from fedsub_core.data.edges import Edges, inner_edges
from fedsub_core.data.samples import Samples

#: What a client's file may hold; other arrays are ignored.
ARRAYS = ("x", "y", "t", "since", "edges", "group", "parts")
#: What the numbers of ``parts`` mean; samples of no part are neither trained nor tested.
PARTS = ("training", "test", "validation", "unused")


@dataclass(frozen=True, eq=False)
class ClientData:
    """One client's samples.

    Parameters
    ----------
    client : the client's id, the stem of its file.
    x : float32 [n, F] or [n, F, time], float32 or uint8 [n, F, height, width], int32 [n, length]:
        features, raw windows or images with channels first, in the card's units; token ids.
    y : int64 [n], labels, indices into the card's classes; of a target float64 [n], its values in
        the card's unit.
    t : float64 [n], seconds at which each window starts (or is centred: differences are what is
        used); None where not known.
    since : int64 [n], first round in which the client has each sample; 0 and 1 mean from the start.
        None: it has all of them from the start.
    edges : int64 [2, m], of a graph's nodes: rows of `x` that are joined, each pair once; None of
        other samples.
    group : int64 [n], of each sample the recording, day or session: those of one are on one side
        of a split. None: nobody said.
    parts : int64 [n], of each sample its part in a split that is given, a place in :data:`PARTS`.
        None: nobody said.
    """

    client: str
    x: Samples
    y: NDArray[Any]
    t: NDArray[np.float64] | None = None
    since: NDArray[np.int64] | None = None
    edges: Edges | None = None
    group: NDArray[np.int64] | None = None
    parts: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        """Return whose samples these are, and of which shape."""
        return f"ClientData({self.client!r}, x={self.x.dtype}{list(self.x.shape)})"

    @cached_property
    def first_copies(self) -> NDArray[np.int64] | None:
        """Of each sample the first that is the same, int64 [n]; None where all differ.

        Nodes differ by where they are in their graph.
        """
        return None if self.edges is not None else first_copies(self.x)

    @cached_property
    def digest(self) -> bytes:
        """Equal for clients with the same samples and labels, and for them alone."""
        digest = blake2b(self.y.tobytes(), digest_size=16)
        digest.update(self.x.tobytes())
        return digest.digest()

    def outline(self) -> ClientData:
        """Return the client without the numbers of its samples, which takes next to no memory.

        ``x`` keeps shape and type, and holds zeros. `first_copies` and `digest` stay those of the
        real samples, and those of parts follow: whatever divides samples divides them alike.
        """
        blank = np.broadcast_to(np.zeros((), self.x.dtype), self.x.shape)
        outline = replace(self, x=blank)
        outline.__dict__.update(first_copies=self.first_copies, digest=self.digest)
        return outline

    @property
    def stratified(self) -> ClientData:
        """The client with labels that a split goes by: values of a target are of one class."""
        if self.y.dtype.kind != "f":
            return self
        alike = replace(self, y=np.zeros(len(self.y), np.int64))
        alike.__dict__["first_copies"] = self.first_copies
        return alike

    def part(self, rows: NDArray[np.int64]) -> ClientData:
        """Return the samples at `rows`, int64 [n], as all that the client has.

        Of a graph it is what these nodes have of it: edges between two of them.
        """
        t = None if self.t is None else self.t[rows]
        since = None if self.since is None else self.since[rows]
        edges = None if self.edges is None else inner_edges(self.edges, rows, len(self.y))
        group = None if self.group is None else self.group[rows]
        parts = None if self.parts is None else self.parts[rows]
        part = ClientData(self.client, self.x[rows], self.y[rows], t, since, edges, group, parts)
        if "first_copies" in self.__dict__:  # what is known is not computed again
            part.__dict__["first_copies"] = copies_within(self.first_copies, rows)
        return part

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the client's file, by name."""
        every = {name: getattr(self, name) for name in ARRAYS}
        return {name: array for name, array in every.items() if array is not None}
