"""What a sender and a receiver of uploads remember of the numbers that went over the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_core.pytorch import Tensor, as_numpy, as_tensor
from fedsub_core.wire.bundles import Bundle, Declaration, FloatArray, Floats

PREFIX = "wire."
ROUND = "wire.round"
REFERENCE = "reference/"


@dataclass
class Reference:
    """Numbers of one client, remembered from its last upload.

    With ``delta``: what the server decoded, the same on both sides; the next upload and the next
    download are differences from it. Without it, on the device alone: what a lossy format cut
    off, to be added to the next upload (error feedback).

    Parameters
    ----------
    round : of the upload that left it; 0 for none, and then all numbers are zero.
    tensors : whole tensors, float32, by name; those that a device sends and an encoding changes.
    """

    round: int
    tensors: dict[str, FloatArray]

    @classmethod
    def empty(cls, sends: Declaration) -> Reference:
        """Return a reference of nothing, for the tensors that a device sends."""
        kept = {n: d for n, d in sends.items() if d.floats and not d.exact}
        return cls(0, {name: np.zeros(one.shape, np.float32) for name, one in kept.items()})

    def copy(self) -> Reference:
        """Return a reference that can change on its own."""
        return Reference(self.round, {name: t.copy() for name, t in self.tensors.items()})

    def forget(self) -> None:
        """Become a reference of nothing."""
        self.round = 0
        for tensor in self.tensors.values():
            tensor.fill(0)

    def remember(self, bundle: Bundle, round: int) -> None:
        """Become what the next differences are from: a decoded upload of `round`."""
        if bundle.reference == 0:
            self.forget()
        self.round = round
        for name, part in bundle.tensors.items():
            if name in self.tensors and isinstance(part, Floats):
                part.at.put(self.tensors[name], part.values)

    def state(self) -> dict[str, Tensor]:
        """Return the reference as plain tensors, ``wire.<name>`` and ``wire.round``."""
        kept = {f"{PREFIX}{name}": as_tensor(t) for name, t in self.tensors.items()}
        return {ROUND: as_tensor(np.array(self.round, np.int64)), **kept}

    @classmethod
    def of(cls, state: Mapping[str, Tensor]) -> Reference:
        """Inverse of :meth:`state`; other tensors are left out."""
        kept = {
            name.removeprefix(PREFIX): as_numpy(tensor).copy()
            for name, tensor in state.items()
            if name.startswith(PREFIX) and name != ROUND
        }
        return cls(int(state[ROUND]), kept)


def reference_tensors(references: Mapping[str, Reference]) -> dict[str, Tensor]:
    """Return several clients' references as plain named tensors, ``reference/<client>/<name>``."""
    return {
        f"{REFERENCE}{client}/{name}": tensor
        for client, reference in references.items()
        for name, tensor in reference.state().items()
    }


def split_references(
    tensors: Mapping[str, Tensor],
) -> tuple[dict[str, Reference], dict[str, Tensor]]:
    """Inverse of :func:`reference_tensors`; also return the tensors that are none."""
    own: dict[str, dict[str, Tensor]] = {}
    others: dict[str, Tensor] = {}
    for key, tensor in tensors.items():
        if key.startswith(REFERENCE):
            client, _, name = key.removeprefix(REFERENCE).partition("/")
            own.setdefault(client, {})[name] = tensor
        else:
            others[key] = tensor
    return {client: Reference.of(named) for client, named in own.items()}, others
