"""Which numbers of a tensor: all of them, some entries of its first two axes, or single ones.

The wire, means over uploads, pruning's masks, FedSub's rows and sub-models all say it with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # methods' cards come by here, and are read where nothing is computed
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

Shape = tuple[int, ...]
#: What is placed: NumPy's array or PyTorch's tensor.
Array = TypeVar("Array", "NDArray[Any]", "Tensor")


@dataclass(frozen=True, eq=False)
class Placement:
    """Where some numbers of a tensor stand in it; without arguments: all of them.

    Indices and masks are NumPy's, which the wire reads and PyTorch takes as an index, too; what is
    placed is an array or a tensor. Equal to another that says the same.

    Parameters
    ----------
    rows : int64, indices of axis 0, ascending; None: all.
    columns : int64, indices of axis 1, ascending; None: all.
    elements : bool ``[*shape]``, single numbers, row-major; alone.

    Raises ValueError if indices do not ascend from 0 on, something has another type, or elements
    are not alone.
    """

    rows: NDArray[np.int64] | None = None
    columns: NDArray[np.int64] | None = None
    elements: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        for what, one in (("rows", self.rows), ("columns", self.columns)):
            if one is None:
                continue
            if one.dtype != "int64" or one.ndim != 1:
                raise ValueError(f"{what}: got {one.dtype} {list(one.shape)}, expected int64 [n]")
            if len(one) and (one[0] < 0 or (one[1:] <= one[:-1]).any()):
                raise ValueError(f"{what}: got {one.tolist()}, expected ascending ones from 0 on")
        if self.elements is not None:
            if self.elements.dtype != "bool":
                raise ValueError(f"elements: got {self.elements.dtype}, expected bool")
            if self.rows is not None or self.columns is not None:
                raise ValueError("elements: got rows or columns beside them, expected them alone")

    @classmethod
    def leading(cls, part: Sequence[int], whole: Sequence[int]) -> Placement:
        """Return where a tensor of shape `part` stands that has a whole one's first entries alone.

        Raises ValueError if they have not as many axes, or the shapes differ behind the first two.
        """
        import numpy as np

        if len(part) != len(whole) or tuple(part[2:]) != tuple(whole[2:]):
            raise ValueError(
                f"leading entries: got {list(part)} of a tensor {list(whole)}, expected as many "
                "axes, and behind the first two the same"
            )
        first: dict[str, NDArray[np.int64]] = {
            axis: np.arange(some)
            for axis, some, all_ in zip(("rows", "columns"), part, whole, strict=False)
            if some != all_
        }
        return cls(rows=first.get("rows"), columns=first.get("columns"))

    def of(self, inner: Placement) -> Placement:
        """Return where in a whole tensor stands what stands at `inner` in the part that this takes.

        Raises ValueError if both are some of a tensor's numbers, and either is single elements.
        """
        if inner.everywhere or self.everywhere:
            return self if inner.everywhere else inner
        if self.elements is not None or inner.elements is not None:
            raise ValueError("a part of a part: got single elements, expected rows or columns")
        rows, columns = (
            theirs if own is None else own if theirs is None else own[theirs]
            for own, theirs in ((self.rows, inner.rows), (self.columns, inner.columns))
        )
        return Placement(rows, columns)

    @property
    def everywhere(self) -> bool:
        """Whether it is the whole tensor, whatever its shape."""
        return self.rows is None and self.columns is None and self.elements is None

    def shape(self, whole: Sequence[int]) -> Shape:
        """Return the shape of the values in a tensor of shape `whole`; single numbers': ``[n]``.

        Raises ValueError if there is no such place in the tensor.
        """
        if self.everywhere:
            return tuple(whole)
        self._require(whole)
        if self.elements is not None:
            return (int(self.elements.sum()),)
        kept = [None if one is None else len(one) for one in (self.rows, self.columns)]
        first = [n if k is None else k for n, k in zip(whole, kept, strict=False)]
        return (*first, *whole[2:])

    def count(self, shape: Sequence[int]) -> int:
        """Return how many numbers of a tensor of `shape` it is; see :meth:`shape`."""
        return prod(self.shape(shape))

    def spelt_out(self, whole: Sequence[int], inputs: bool) -> Placement:
        """Return the placement with all rows named, and columns if `inputs` follow other units."""
        import numpy as np

        rows = np.arange(whole[0]) if self.rows is None else self.rows
        if not inputs:
            return Placement(rows)
        return Placement(rows, np.arange(whole[1]) if self.columns is None else self.columns)

    def simplest(self, whole: Sequence[int]) -> Placement:
        """Return the placement without the axes of which it names all entries."""
        sizes = *whole, 0
        rows, columns = (
            None if one is None or len(one) == size else one
            for one, size in zip((self.rows, self.columns), sizes, strict=False)
        )
        return Placement(rows, columns)

    def take(self, whole: Array, stacked: int = 0) -> Array:
        """Return the values of a whole tensor; the very same one, if it is everywhere.

        Parameters
        ----------
        whole : ``[*stack, *shape]``.
        stacked : how many axes go before the tensor's own, such as one of clients.
        """
        self._require(whole.shape[stacked:])
        found: Array = whole if self.everywhere else whole[self._index(stacked)]
        return found

    def put(self, whole: Array, values: Array | float, stacked: int = 0) -> Array:
        """Write `values` into a whole tensor, which is changed and returned; see :meth:`take`."""
        self._require(whole.shape[stacked:])
        whole[self._index(stacked)] = values
        return whole

    def spread(self, values: NDArray[np.float32], shape: Sequence[int]) -> NDArray[np.float32]:
        """Return a whole array of `shape`, 0 elsewhere; `values` as they are, if everywhere."""
        import numpy as np

        return values if self.everywhere else self.put(np.zeros(shape, np.float32), values)

    def held(self, shape: Sequence[int]) -> NDArray[np.bool_]:
        """Return the mask of its numbers in a tensor of `shape`, bool ``[*shape]``."""
        import numpy as np

        return self.put(np.zeros(shape, np.bool_), True)

    def _require(self, whole: Sequence[int]) -> None:
        """Raise ValueError if a tensor of shape `whole` has no such place."""
        if self.elements is not None and self.elements.shape != tuple(whole):
            raise ValueError(
                f"elements: got {list(self.elements.shape)} for a tensor {list(whole)}, "
                "expected its shape"
            )
        for axis, one in enumerate((self.rows, self.columns)):
            size = whole[axis] if axis < len(whole) else 0
            if one is not None and len(one) and one[-1] >= size:
                raise ValueError(
                    f"axis {axis} of a tensor {list(whole)}: got index {one[-1]}, "
                    f"expected ones below {size}"
                )

    def _index(self, stacked: int) -> tuple[Any, ...]:
        lead = (slice(None),) * stacked
        if self.elements is not None:
            return (*lead, self.elements)
        if self.columns is None:
            return (*lead, slice(None) if self.rows is None else self.rows)
        if self.rows is None:
            return (*lead, slice(None), self.columns)
        return (*lead, self.rows[:, None], self.columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Placement):
            return NotImplemented
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            if (mine is None) != (theirs is None):
                return False
            if mine is not None and (mine.shape != theirs.shape or (mine != theirs).any()):
                return False
        return True

    def __hash__(self) -> int:
        return hash(tuple(None if one is None else one.tobytes() for one in vars(self).values()))


#: The whole tensor, whatever its shape.
EVERYWHERE = Placement()


def owned(units: NDArray[np.int64], each: int) -> NDArray[np.int64]:
    """Return the inputs that units own, `each` in a row: behind Flatten a channel's positions."""
    import numpy as np

    return (units[:, None] * each + np.arange(each)).reshape(-1)
