"""Reading pickles that hold numpy arrays, without letting them run anything.

Some official data sets are pickles. A pickle can name any function to be called when it is read,
so a bare ``pickle.load`` hands the machine to whoever wrote the file.
"""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np


class ArraysOnly(pickle.Unpickler):
    """An unpickler that can build numpy arrays of plain values, and nothing else.

    Raises
    ------
    pickle.UnpicklingError
        Where the pickle names anything else; nothing of it has run.
    """

    _allowed: ClassVar[dict[tuple[str, str], Any]] = {}

    def find_class(self, module_name: str, global_name: str) -> Any:
        """Return what the pickle names, or refuse it before it is called."""
        if (module_name, global_name) not in self._allowed:
            raise pickle.UnpicklingError(
                f"it names {module_name}.{global_name}; expected numpy arrays only"
            )
        return self._allowed[module_name, global_name]


def _encode(text: str, encoding: str) -> bytes:
    """Return the bytes that pickle's protocol 2 had written as text, its one call outside numpy."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"got encoding {encoding!r}, expected 'latin1'")
    return text.encode("latin1")


# The module's name up to numpy 1 and, in pickles written since, from numpy 2 on.
for _core in ("numpy.core.multiarray", "numpy._core.multiarray"):
    ArraysOnly._allowed[_core, "_reconstruct"] = np.empty(0).__reduce__()[0]
ArraysOnly._allowed |= {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _encode,
}
