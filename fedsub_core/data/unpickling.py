"""Reading pickles that hold numpy arrays, without letting them run anything.

Some official data sets are pickles. A pickle can name any function to be called when it is read,
so a bare ``pickle.load`` hands the machine to whoever wrote the file. Naming numpy's alone is not
enough: their C code believes the state that a pickle gives them, such as a dtype of pointers over
raw bytes. So no code of numpy's or of the C unpickler sees anything here that was not checked.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

#: Codes of the dtypes that an array may have; ``O`` wraps a dict, as numpy.save writes one.
_PLAIN, _WRAPPER = re.compile("b1|[iu][1248]|f[248]"), re.compile("O[48]?")
# Sizes along more axes than numpy 1 has are not asked about.
_MOST_AXES = 32
#: What pickle calls the instructions by which Python 2 and 3 write values, containers and arrays.
_INSTRUCTIONS = (
    "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "INT", "BININT", "BININT1",
    "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "STRING", "BINSTRING",
    "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "TUPLE", "EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3",
    "LIST", "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "GET", "BINGET", "LONG_BINGET",
    "PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE", "GLOBAL", "STACK_GLOBAL", "REDUCE",
)  # fmt: skip

# A name for mypy, which knows no unpickler in Python alone. Weighed: pickle's own in C takes memory
# for whatever index or key a file makes up, and no subclass can look at its instructions; joblib
# stands on this one, too.
_PurePython: Any = pickle._Unpickler


class ArraysOnly(_PurePython):  # type: ignore[misc]
    """An unpickler of plain values, lists, tuples, dicts by text, and numpy arrays of numbers.

    One array of objects is let through, of Python values of these kinds: ``numpy.save`` wraps a
    dict in it.

    Raises pickle.UnpicklingError where the pickle names anything else, or gives an array another
    state than numpy writes; nothing of it has run. A damaged one raises nearly anything.
    """

    dispatch: ClassVar[dict[int, Callable[[Any], None]]]

    def __init__(self, file: Any, *, encoding: str = "ASCII") -> None:
        super().__init__(file, encoding=encoding)
        self._wrapped = False

    def find_class(self, module_name: str, global_name: str) -> object:
        """Return our own in place of what the pickle names, or refuse it before it is called."""
        if (module_name, global_name) not in _OURS:
            raise pickle.UnpicklingError(
                f"it names {module_name}.{global_name}; expected numpy arrays only"
            )
        return _OURS[module_name, global_name]

    def _set_items(self) -> None:
        items = self.pop_mark()
        self._put(self.stack[-1], items)

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put(self.stack[-1], [key, value])

    def _make_dict(self) -> None:
        items = self.pop_mark()
        made: dict[str, Any] = {}
        self._put(made, items)
        self.append(made)

    def _put(self, target: object, items: list[Any]) -> None:
        # The hash of tuples in tuples overflows the stack: text alone is a key.
        if type(target) is not dict or not all(type(key) is str for key in items[::2]):
            raise pickle.UnpicklingError("got another key than text; expected dicts of names")
        target.update(zip(items[::2], items[1::2], strict=True))

    def _build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _Dtype):
            target.take(state)
        elif isinstance(target, np.ndarray) and target.shape == (0,):
            self._fill(target, state)
        else:
            raise pickle.UnpicklingError(
                f"it changes a {type(target).__name__}; expected a new array alone"
            )

    def _fill(self, array: NDArray[Any], state: object) -> None:
        raw: Any
        match state:
            case (1, tuple(shape), _Dtype() as dtype, bool() | 0 | 1 as fortran, raw):
                pass
            case _:
                raise pickle.UnpicklingError("an array's state is none that numpy writes")
        if isinstance(raw, str):  # Python 2's bytes
            raw = raw.encode("latin1")
        sizes = len(shape) <= _MOST_AXES and all(type(n) is int and n >= 0 for n in shape)
        count = math.prod(shape) if sizes else -1
        if dtype.wraps:
            # Arrays of objects in one another would overflow the stack when they are freed.
            fits = not self._wrapped and type(raw) is list and len(raw) == count
            self._wrapped = True
        else:
            fits = type(raw) is bytes and len(raw) == count * dtype.made.itemsize
        if not fits:
            raise pickle.UnpicklingError(
                f"an array of {dtype.made} holds other than its shape says; expected numbers, or "
                "one array of objects"
            )
        checked: Any = (1, shape, dtype.made, bool(fortran), raw)
        array.__setstate__(checked)


class _Dtype:
    """A dtype as it is being read."""

    __slots__ = ("made", "wraps")

    def __init__(self, code: object, *_: object) -> None:
        self.wraps = isinstance(code, str) and _WRAPPER.fullmatch(code) is not None
        if not isinstance(code, str) or not (self.wraps or _PLAIN.fullmatch(code)):
            said = repr(code[:20]) if isinstance(code, str) else f"of {type(code).__name__}"
            raise pickle.UnpicklingError(f"got dtype {said}; expected one of numbers")
        self.made: np.dtype[Any] = np.dtype(object if self.wraps else code)

    def take(self, state: object) -> None:
        """Take over the byte order, all that a dtype of numbers has beside its code."""
        flags = 63 if self.wraps else 0
        match state:
            case (3, "<" | ">" | "=" | "|" as order, None, None, None, -1, -1, got) if got == flags:
                self.made = self.made.newbyteorder(order)
            case _:
                raise pickle.UnpicklingError("a dtype's state is not that of plain numbers")


class _Named:
    """A function of ours that stands for one that a pickle names, and that it cannot change."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., object]) -> None:
        self._call = call

    def __call__(self, *args: object) -> object:
        """Call it."""
        return self._call(*args)


def _encode(text: object, encoding: object) -> bytes:
    """Return the bytes that pickle's protocol 2 had written as text, its one call outside numpy."""
    if not isinstance(text, str) or encoding != "latin1":
        raise pickle.UnpicklingError("got another encoding than 'latin1' of text")
    return text.encode("latin1")


def _new_array(kind: object, shape: object, code: object) -> NDArray[np.int8]:
    """Return the empty array that a pickle fills next, as numpy's ``_reconstruct`` does."""
    if kind is not _ARRAY or shape != (0,) or code not in (b"b", "b"):
        raise pickle.UnpicklingError("got another array to begin with than numpy writes")
    return np.empty(0, np.int8)


_ARRAY = object()
_OURS: dict[tuple[str, str], object] = {
    # The module's name up to numpy 1 and, in pickles written since, from numpy 2 on.
    ("numpy.core.multiarray", "_reconstruct"): _Named(_new_array),
    ("numpy._core.multiarray", "_reconstruct"): _Named(_new_array),
    ("numpy", "ndarray"): _ARRAY,
    ("numpy", "dtype"): _Named(_Dtype),
    ("_codecs", "encode"): _Named(_encode),
}


def _refuse(instruction: int, _: ArraysOnly) -> None:
    raise pickle.UnpicklingError(
        f"got instruction {bytes([instruction])!r}; expected numpy arrays only"
    )


_allowed = [getattr(pickle, name)[0] for name in _INSTRUCTIONS]
ArraysOnly.dispatch = {
    **{code: partial(_refuse, code) for code in range(256)},
    **{code: _PurePython.dispatch[code] for code in _allowed},
    pickle.SETITEM[0]: ArraysOnly._set_item,
    pickle.SETITEMS[0]: ArraysOnly._set_items,
    pickle.DICT[0]: ArraysOnly._make_dict,
    pickle.BUILD[0]: ArraysOnly._build,
}
