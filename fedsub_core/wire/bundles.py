"""What travels: the objects that learners and strategies exchange, before and after the wire.

Rows: a unit's weights and its bias side by side, ``[fan_in + 1]`` float32. All classes of a
client share one set of rows, so a class's subnetwork is a set of unit masks over them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class UnitRows:
    """Rows of some units of one layer.

    Parameters
    ----------
    units : bool [units]
        Which units of the layer the rows belong to, in ascending order.
    rows : float32 [units.sum(), fan_in + 1]
        Weights of the unit, flattened, then its bias.
    """

    units: BoolArray
    rows: FloatArray


@dataclass(frozen=True)
class Download:
    """What the server sends one client: units to replace, or whole tensors, or nothing.

    `prototype_version` names the prototypes of this client that the server holds, 0 if none;
    `reference` is the round of the client's last upload that it keeps as a reference, 0 if none.
    """

    layers: dict[str, UnitRows] = field(default_factory=dict)
    dense: dict[str, FloatArray] = field(default_factory=dict)
    prototype_version: int = 0
    reference: int = 0


@dataclass(frozen=True)
class Upload:
    """What one client sends the server after a round of local work.

    Parameters
    ----------
    examples : int
        Training samples the client holds.
    layers : dict of layer name to UnitRows
        The union over classes of the selected rows, once.
    masks : dict of layer name to bool [len(labels), units]
        Which units each class selected; row i belongs to ``labels[i]``.
    labels : int64 [classes held]
        The classes the client holds, ascending.
    scores : float32 [len(labels)]
        omega, the reliability of each class's subnetwork, >= 0.
    prototypes : dict of label to float32 [d]
        Of every label, or none at all if the server holds this version already.
    prototype_version : int
        Names the content the prototypes were computed from, in [1, 2**63); 0 if unknown.
    reference : int
        Round of the upload that the rows were sent as differences from; 0 for none. Set by the
        codec.
    dense : dict of parameter name to float32 array
        Whole tensors, for methods that send the model.
    """

    examples: int
    layers: dict[str, UnitRows] = field(default_factory=dict)
    masks: dict[str, BoolArray] = field(default_factory=dict)
    labels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    scores: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    prototypes: dict[int, FloatArray] = field(default_factory=dict)
    prototype_version: int = 0
    reference: int = 0
    dense: dict[str, FloatArray] = field(default_factory=dict)


def papers_bytes(upload: Upload) -> int:
    """Bytes of the papers' encoding: every class's subnetwork on its own, in float32."""
    rows: int = sum(
        int(mask.sum()) * upload.layers[name].rows.shape[1] for name, mask in upload.masks.items()
    )
    return 4 * (rows + _dense_size(upload))


def union_bytes(upload: Upload) -> int:
    """Bytes of the rows that at least one class selected, each once, in float32."""
    rows = sum(int(layer.rows.size) for layer in upload.layers.values())
    return 4 * (rows + _dense_size(upload))


def _dense_size(upload: Upload) -> int:
    return sum(int(array.size) for array in upload.dense.values())
