"""Calls of libfedsub as bytes, which a program on any processor can make (`calls.c`, `calls.mjs`).

An image has buffers, and at which of their places the address of another one belongs; then calls.
A program answers what each call returned, and all buffers as they are then.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.kernels import library
from fedsub_core.kernels.known import AFFINE, Known
from fedsub_core.models.model import Params
from fedsub_core.pytorch import as_numpy

#: The functions of ``fedsub.h``, by their number in an image.
FUNCTIONS = (
    *("fedsub_descend", "fedsub_forward", "fedsub_relate", "fedsub_standardise"),
    *("fedsub_quantise", "fedsub_encode", "fedsub_describe", "fedsub_sums"),
)
#: Buffers of a layer's part.
PARTS = 5
Array = NDArray[Any]


@dataclass(frozen=True)
class At:
    """The address of a buffer of an image, by its number."""

    buffer: int


Word = At | int


@dataclass
class Image:
    """Buffers and calls; numbers are little-endian."""

    buffers: list[Array] = field(default_factory=list)
    addresses: list[list[tuple[int, int]]] = field(default_factory=list)
    calls: list[tuple[int, Sequence[Word]]] = field(default_factory=list)

    def put(self, array: Array) -> At:
        """Put a buffer down; return its address."""
        self.buffers.append(np.ascontiguousarray(array))
        self.addresses.append([])
        return At(len(self.buffers) - 1)

    def whole(self, array: Array | None) -> list[Word]:
        """Return the words of ``FedsubFloats`` or ``FedsubInts`` of one client; None: absent."""
        return [0, 0, 0] if array is None else [self.put(array), array.size, 1]

    def structure(self, words: Sequence[Word]) -> At:
        """Put a structure down, a row of words; return its address."""
        at = self.put(np.array([0 if isinstance(word, At) else word for word in words], np.int64))
        places = ((8 * i, word.buffer) for i, word in enumerate(words) if isinstance(word, At))
        self.addresses[at.buffer].extend(places)
        return at

    def chain(self, model: Sequence[Known], params: Params) -> tuple[At, dict[str, At]]:
        """Put layers down that are all trained; return where they and their parameters are."""
        words: list[Word] = []
        where: dict[str, At] = {}
        for one in model:
            affine = one.kind == AFFINE
            words += [one.kind, one.channels, one.length, one.units, one.made]
            words += [one.kernel, one.stride, one.padding, int(one.relu), int(affine)]
            for name in (f"{one.name}.weight", f"{one.name}.bias"):
                values = as_numpy(params[name]) if affine else None
                words += (found := self.whole(values))
                words += self.whole(None if values is None else np.zeros_like(values))
                words += [0] * 3 * (PARTS - 2)
                if isinstance(found[0], At):
                    where[name] = found[0]
        return self.structure([len(model), self.structure(words)]), where

    def call(self, name: str, *arguments: Word) -> None:
        """Add a call."""
        self.calls.append((FUNCTIONS.index(name), arguments))

    @property
    def content(self) -> bytes:
        """The whole image."""
        parts: list[bytes] = [_words(len(self.buffers))]
        for array, addresses in zip(self.buffers, self.addresses, strict=True):
            data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
            head = [len(data), len(addresses), *(n for pair in addresses for n in pair)]
            parts += [_words(*head), data]
        parts.append(_words(len(self.calls)))
        for function, arguments in self.calls:
            parts.append(_words(function, len(arguments)))
            for word in arguments:
                pair = (1, word.buffer) if isinstance(word, At) else (0, word)
                parts.append(_words(*pair))
        return b"".join(parts)

    def here(self, ending: str = "") -> list[Array]:
        """Return the buffers after this machine's kernels have made the calls.

        The functions' names end in "" for its best instruction set, or in another such as
        ``_portable``.
        """
        buffers = [array.copy() for array in self.buffers]
        for array, addresses in zip(buffers, self.addresses, strict=True):
            for offset, other in addresses:
                array[offset // 8] = buffers[other].ctypes.data
        spec = find_spec(library.MODULE)
        kernels = ctypes.CDLL(spec.origin if spec else None)
        for function, words in self.calls:
            arguments = (
                ctypes.c_void_p(buffers[word.buffer].ctypes.data)
                if isinstance(word, At)
                else ctypes.c_int64(word)
                for word in words
            )
            library.check(kernels[f"{FUNCTIONS[function]}{ending}"](*arguments))
        return buffers

    def answer(self, answered: bytes) -> list[Array]:
        """Return the buffers of a program's answer.

        Raises ValueError if a call was refused, or the answer is of another length.
        """
        returned = np.frombuffer(answered, "<i8", len(self.calls)).tolist()
        at, found = 8 * len(returned), []
        if any(returned):
            raise ValueError(f"got {returned} from the calls, expected zeros")
        for array in self.buffers:
            found.append(np.frombuffer(answered, array.dtype, array.size, at).reshape(array.shape))
            at += array.nbytes
        if at != len(answered):
            raise ValueError(f"got an answer of {len(answered)} bytes, expected {at}")
        return found


def _words(*numbers: Word) -> bytes:
    return np.array(numbers, "<i8").tobytes()


def pair(first: float, second: float) -> int:
    """Return two floats as a word."""
    return int(np.array([first, second], "<f4").view("<i8")[0])
