"""What travels, in both directions: a bundle of named tensors, of which parts may be left out.

A method declares the tensors that a device sends and receives; the codec checks every bundle
against that and knows nothing else of methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from fedsub_core.placement import EVERYWHERE, Placement, Shape

if TYPE_CHECKING:  # methods' cards declare tensors, and are read where nothing is computed
    import numpy as np
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float32]"
BoolArray: TypeAlias = "NDArray[np.bool_]"
WholeArray: TypeAlias = "NDArray[np.int16]"


class Kind(Enum):
    """How a tensor travels, by its name in ``docs/wire-format.md``."""

    DENSE = "Dense"
    ROWS = "Rows"
    SLICED = "Sliced"
    ELEMENTS = "Elements"
    BITS = "Bits"
    WHOLE = "Whole"


@dataclass(frozen=True, eq=False)
class Floats:
    """Numbers of a tensor: `values` float32, and where they stand in it."""

    values: FloatArray
    at: Placement = EVERYWHERE

    @classmethod
    def of(cls, whole: FloatArray, at: Placement | None = None) -> Floats:
        """Return the numbers of a whole tensor that stand at a placement; None: all."""
        at = at or EVERYWHERE
        return cls(at.take(whole), at)

    @classmethod
    def rows(cls, units: BoolArray, values: FloatArray) -> Floats:
        """Return some entries of the leading axis: which, bool ``[shape[0]]``, and theirs."""
        return cls(values, Placement(rows=units.nonzero()[0]))

    @classmethod
    def elements(cls, mask: BoolArray, values: FloatArray) -> Floats:
        """Return single numbers: which, bool ``[*shape]``, and their values, row-major."""
        return cls(values, Placement(elements=mask))


@dataclass(frozen=True, eq=False)
class Bits:
    """Yes and no: `values` bool ``[*shape]``."""

    values: BoolArray


@dataclass(frozen=True, eq=False)
class Whole:
    """A whole tensor of whole numbers, such as counts and sums: `values` int16 ``[*shape]``."""

    values: WholeArray


Part = Floats | Bits | Whole


def kinds(part: Part) -> tuple[Kind, ...]:
    """Return as which kinds a part can travel."""
    if not isinstance(part, Floats):
        return (Kind.BITS,) if isinstance(part, Bits) else (Kind.WHOLE,)
    if part.at.elements is not None:
        return (Kind.ELEMENTS,)
    if part.at.columns is not None:
        return (Kind.SLICED,)
    return (Kind.DENSE,) if part.at.rows is None else (Kind.ROWS, Kind.SLICED)


@dataclass(frozen=True)
class Declared:
    """What a method says of one tensor.

    Parameters
    ----------
    kind : how it travels.
    follows : a sliced one's alone: the tensor whose units its inputs follow, or the mask that says
        which they are; "" is all inputs.
    optional : a bundle may lack it.
    exact : always float32 as it is, whatever the run's encoding: counts and scores.
    share : of the numbers that usually travel, for what a method costs.
    """

    kind: Kind
    shape: Shape
    follows: str = ""
    optional: bool = False
    exact: bool = False
    share: float = 1.0

    @property
    def floats(self) -> bool:
        """Whether it is of float32, which an encoding may change."""
        return self.kind not in (Kind.BITS, Kind.WHOLE)


#: The tensors of a bundle by name, in the order in which they travel.
Declaration = Mapping[str, Declared]


def dense(shape: Shape, *, optional: bool = False, exact: bool = False) -> Declared:
    """Declare a whole tensor."""
    return Declared(Kind.DENSE, shape, optional=optional, exact=exact)


def rows(shape: Shape, *, optional: bool = False, exact: bool = False) -> Declared:
    """Declare a tensor of which some leading entries travel."""
    return Declared(Kind.ROWS, shape, optional=optional, exact=exact)


def sliced(shape: Shape, follows: str, *, optional: bool = False) -> Declared:
    """Declare a sub-model's weights, whose inputs follow the units of the tensor `follows`."""
    return Declared(Kind.SLICED, shape, follows, optional)


def elements(shape: Shape, *, optional: bool = False, share: float = 1.0) -> Declared:
    """Declare a tensor of which single numbers travel, usually a `share` of them."""
    return Declared(Kind.ELEMENTS, shape, optional=optional, share=share)


def whole(shape: Shape, *, optional: bool = False) -> Declared:
    """Declare a tensor of whole numbers of 16 bits: two bytes each, whatever the encoding."""
    return Declared(Kind.WHOLE, shape, optional=optional)


def bits(shape: Shape, *, optional: bool = False) -> Declared:
    """Declare a mask."""
    return Declared(Kind.BITS, shape, optional=optional)


@dataclass(frozen=True)
class Bundle:
    """What one client sends the server, or the server one client, in one message.

    Parameters
    ----------
    examples : training samples the client holds; 0 from the server.
    version : names some content that either side holds, as the method says; 0: none.
    reference : round of the bundle that these tensors were sent as differences from; 0: none.
        Set by the codec.
    """

    examples: int = 0
    version: int = 0
    tensors: Mapping[str, Part] = field(default_factory=dict)
    reference: int = 0

    def within(self, largest: float) -> bool:
        """Return whether every number is finite and of a size of at most `largest`."""
        floats = (part.values for part in self.tensors.values() if isinstance(part, Floats))
        return all(within(values, largest) for values in floats)

    def part(self, name: str) -> Floats:
        """Return numbers of a tensor, and where they stand in it."""
        part = self.tensors[name]
        assert isinstance(part, Floats)
        return part

    def floats(self, name: str) -> FloatArray:
        """Return numbers of a tensor."""
        return self.part(name).values

    def whole(self, name: str) -> WholeArray:
        """Return the values of a tensor of whole numbers."""
        part = self.tensors[name]
        assert isinstance(part, Whole)
        return part.values

    def bits(self, name: str) -> BoolArray:
        """Return a mask."""
        part = self.tensors[name]
        assert isinstance(part, Bits)
        return part.values


def within(values: FloatArray, largest: float) -> bool:
    """Return whether every number is finite and of a size of at most `largest`."""
    # NaN is its array's least and greatest, and a comparison with it is false.
    return not values.size or bool(-largest <= values.min() and values.max() <= largest)


def most_bytes(declaration: Declaration) -> int:
    """Return how many bytes the tensors need at most, in float32 and with every mask."""
    return sum(
        len(name)
        + 64
        + (5 if one.kind is not Kind.BITS else 1) * prod(one.shape)
        + 9 * one.shape[0]
        for name, one in declaration.items()
    )
