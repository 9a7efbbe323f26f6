"""What travels, in both directions: a bundle of named tensors, of which parts may be left out.

A method declares the tensors that a device sends and receives; the codec checks every bundle
against that and knows nothing else of methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:  # methods' cards declare tensors, and are read where nothing is computed
    import numpy as np
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float32]"
BoolArray: TypeAlias = "NDArray[np.bool_]"
WholeArray: TypeAlias = "NDArray[np.int16]"
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Dense:
    """A whole tensor: `values` float32 ``[*shape]``."""

    values: FloatArray


@dataclass(frozen=True, eq=False)
class Rows:
    """Some entries of the leading axis.

    Parameters
    ----------
    units : bool [shape[0]], which.
    values : float32 [units.sum(), *shape[1:]], ascending.
    """

    units: BoolArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Sliced:
    """Some entries of the first two axes: a sub-model's weights.

    Parameters
    ----------
    units : bool [shape[0]], as in :class:`Rows`.
    inputs : bool [shape[1]], which follow the units of another tensor of the bundle.
    values : float32 [units.sum(), inputs.sum(), *shape[2:]]
    """

    units: BoolArray
    inputs: BoolArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Elements:
    """Some numbers: `mask` bool ``[*shape]``, `values` float32 ``[mask.sum()]``, row-major."""

    mask: BoolArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Bits:
    """Yes and no: `values` bool ``[*shape]``."""

    values: BoolArray


@dataclass(frozen=True, eq=False)
class Whole:
    """A whole tensor of whole numbers, such as counts and sums: `values` int16 ``[*shape]``."""

    values: WholeArray


FloatPart = Dense | Rows | Sliced | Elements
Part = FloatPart | Bits | Whole


@dataclass(frozen=True)
class Declared:
    """What a method says of one tensor.

    Parameters
    ----------
    kind : which of the six.
    shape : of the whole tensor.
    follows : ``Sliced`` alone: the tensor whose units its inputs follow; "" is all inputs.
    optional : a bundle may lack it.
    exact : always float32 as it is, whatever the run's encoding: counts and scores.
    share : of the numbers that usually travel, for what a method costs.
    """

    kind: type[Part]
    shape: Shape
    follows: str = ""
    optional: bool = False
    exact: bool = False
    share: float = 1.0


#: The tensors of a bundle by name, in the order in which they travel.
Declaration = Mapping[str, Declared]


def dense(shape: Shape, *, optional: bool = False, exact: bool = False) -> Declared:
    """Declare a whole tensor."""
    return Declared(Dense, shape, optional=optional, exact=exact)


def rows(shape: Shape, *, optional: bool = False, exact: bool = False) -> Declared:
    """Declare a tensor of which some leading entries travel."""
    return Declared(Rows, shape, optional=optional, exact=exact)


def sliced(shape: Shape, follows: str, *, optional: bool = False) -> Declared:
    """Declare a sub-model's weights, whose inputs follow the units of the tensor `follows`."""
    return Declared(Sliced, shape, follows, optional)


def elements(shape: Shape, *, optional: bool = False, share: float = 1.0) -> Declared:
    """Declare a tensor of which single numbers travel, usually a `share` of them."""
    return Declared(Elements, shape, optional=optional, share=share)


def whole(shape: Shape, *, optional: bool = False) -> Declared:
    """Declare a tensor of whole numbers of 16 bits: two bytes each, whatever the encoding."""
    return Declared(Whole, shape, optional=optional)


def bits(shape: Shape, *, optional: bool = False) -> Declared:
    """Declare a mask."""
    return Declared(Bits, shape, optional=optional)


@dataclass(frozen=True)
class Bundle:
    """What one client sends the server, or the server one client, in one message.

    Parameters
    ----------
    examples : training samples the client holds; 0 from the server.
    version : names some content that either side holds, as the method says; 0: none.
    tensors : by name.
    reference : round of the bundle that these tensors were sent as differences from; 0: none.
        Set by the codec.
    """

    examples: int = 0
    version: int = 0
    tensors: Mapping[str, Part] = field(default_factory=dict)
    reference: int = 0

    def within(self, largest: float) -> bool:
        """Return whether every number is finite and of a size of at most `largest`."""
        floats = (part.values for part in self.tensors.values() if isinstance(part, FloatPart))
        return all(within(values, largest) for values in floats)

    def floats(self, name: str) -> FloatArray:
        """Return the values of a tensor of another kind than ``Bits`` and ``Whole``."""
        part = self.tensors[name]
        assert isinstance(part, FloatPart)
        return part.values

    def rows(self, name: str) -> Rows:
        """Return a tensor of kind ``Rows``."""
        part = self.tensors[name]
        assert isinstance(part, Rows)
        return part

    def whole(self, name: str) -> WholeArray:
        """Return the values of a tensor of kind ``Whole``."""
        part = self.tensors[name]
        assert isinstance(part, Whole)
        return part.values

    def bits(self, name: str) -> BoolArray:
        """Return the values of a tensor of kind ``Bits``."""
        part = self.tensors[name]
        assert isinstance(part, Bits)
        return part.values


def within(values: FloatArray, largest: float) -> bool:
    """Return whether every number is finite and of a size of at most `largest`."""
    # NaN is its array's least and greatest, and a comparison with it is false.
    return not values.size or bool(-largest <= values.min() and values.max() <= largest)


def place(part: FloatPart) -> tuple[NDArray[np.generic] | slice, ...]:
    """Return the index at which the part's values stand in its whole tensor."""
    if isinstance(part, Dense):
        return (slice(None),)
    if isinstance(part, Rows):
        return (part.units,)
    if isinstance(part, Sliced):
        (units,), (inputs,) = part.units.nonzero(), part.inputs.nonzero()
        return units[:, None], inputs
    return (part.mask,)


def most_bytes(declaration: Declaration) -> int:
    """Return how many bytes the tensors need at most, in float32 and with every mask."""
    return sum(
        len(name) + 64 + (5 if one.kind is not Bits else 1) * prod(one.shape) + 9 * one.shape[0]
        for name, one in declaration.items()
    )
