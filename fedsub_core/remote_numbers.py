"""Numbers of uploads that stay with the process that made them, which adds them up."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsub_core.exact_sums import Sums
from fedsub_core.wire.bundles import FloatArray


class Holder(Protocol):
    """Whoever holds a round's uploads, until the next round's come."""

    def numbers(self, client: str, name: str) -> FloatArray:
        """Return a tensor of a client's upload."""

    def summed(self, weights: Mapping[str, float], bounds: Mapping[str, float]) -> dict[str, Sums]:
        """Return the sums of tensors by clients' weights: :func:`.exact_sums.add_up`."""

    def squared_lengths(self, start: Mapping[str, FloatArray]) -> dict[str, float]:
        """Return the squared length of every upload's way from `start`, by client."""

    def thinned(self, client: str, name: str, step: int) -> FloatArray:
        """Return every `step`-th number of a tensor of a client's upload."""


class RemoteNumbers(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor of a client's upload that lies elsewhere; whatever is not known of it is fetched.

    Parameters
    ----------
    client, name : whose it is, and which tensor of the upload.
    values : its numbers, float32; here are only their shape, and the smallest and largest.
    """

    # A large federation has six a person at once.
    __slots__ = ("_least", "_most", "client", "holder", "name", "shape", "size")
    dtype, itemsize = np.dtype(np.float32), 4
    #: Who has the numbers; set where they are known by reference.
    holder: Holder

    def __init__(self, client: str, name: str, values: FloatArray) -> None:
        self.client, self.name, self.shape, self.size = client, name, values.shape, values.size
        self._least = float(values.min()) if values.size else 0.0
        self._most = float(values.max()) if values.size else 0.0

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self.itemsize * self.size

    def min(self) -> float:
        """Return the smallest number; NaN if one is."""
        return self._least

    def max(self) -> float:
        """Return the largest number; NaN if one is."""
        return self._most

    def reshape(self, shape: tuple[int, ...]) -> RemoteNumbers:
        """Return the numbers in another shape, which has as many."""
        if shape == self.shape:
            return self
        other = copy(self)
        other.shape = shape
        return other

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._fetched(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        here = [one._fetched() if isinstance(one, RemoteNumbers) else one for one in inputs]
        return getattr(ufunc, method)(*here, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "holder":
            raise AttributeError(name)
        return getattr(self._fetched(), name)

    def __getitem__(self, key: Any) -> Any:
        return self._fetched()[key]

    def _fetched(self) -> FloatArray:
        return self.holder.numbers(self.client, self.name).reshape(self.shape)
