"""The shared library of the kernels: found, opened, told apart by instruction set."""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, c_float, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedsub_core.errors import ConfigError

log = logging.getLogger("fedsub")

#: The module that ``setup.py`` builds. It stands beside the packages, so that Flower, which runs an
#: app's Python files from a folder of its own, finds it where it is installed.
MODULE = "fedsub_kernels"
#: Environment variable: "off", or an instruction set of those that the processor has.
VARIABLE = "FEDSUB_KERNELS"
#: Instruction sets that give the same bits.
FUSED = "avx512", "avx2"


class Buffer(Structure):
    """``FedsubFloats`` and ``FedsubInts`` of ``fedsub.h``."""

    _fields_ = [("at", c_void_p), ("count", c_int64), ("step", c_int64)]


class Part(Structure):
    """See ``fedsub.h``."""

    _fields_ = [(name, Buffer) for name in ("values", "into", "anchor", "where", "mask")]


class Layer(Structure):
    """See ``fedsub.h``."""

    _fields_ = [
        *((name, c_int64) for name in ("kind", "channels", "length", "units", "made")),
        *((name, c_int64) for name in ("kernel", "stride", "padding", "relu", "trained")),
        ("weight", Part),
        ("bias", Part),
    ]


class Chain(Structure):
    """See ``fedsub.h``."""

    _fields_ = [("count", c_int64), ("layers", POINTER(Layer))]


class Samples(Structure):
    """See ``fedsub.h``."""

    _fields_ = [
        *((name, c_int64) for name in ("clients", "held", "places")),
        *((name, Buffer) for name in ("counts", "x", "y", "order", "weight")),
    ]


class Steps(Structure):
    """See ``fedsub.h``."""

    _fields_ = [
        *((name, c_int64) for name in ("batch", "steps", "update")),
        *((name, c_float) for name in ("momentum", "rate", "decay", "pull", "toward", "unused")),
        *((name, Buffer) for name in ("prototypes", "present", "chosen", "loss")),
    ]


class Relevance(Structure):
    """See ``fedsub.h``."""

    _fields_ = [
        ("rule", c_int64),
        ("alpha", c_float),
        ("beta", c_float),
        ("target", c_int64),
        ("sums", POINTER(Buffer)),
        ("logits", Buffer),
    ]


#: See ``fedsub_layout`` in ``module.c``; the last number is FEDSUB_LAYOUT of ``variants.h``.
LAYOUT = sum(
    1000**place * part
    for place, part in enumerate([*map(ctypes.sizeof, (Layer, Samples, Steps, Relevance)), 5])
)
#: The sources as ``setup.py`` orders them, where they lie beside this file.
_SOURCES = [path for kind in "ch" for path in sorted(Path(__file__).parent.glob(f"*.{kind}"))]


def _digest() -> str:
    return hashlib.blake2b(b"".join(p.read_bytes() for p in _SOURCES), digest_size=5).hexdigest()


@dataclass(frozen=True)
class Kernels:
    """The kernels for one instruction set; each returns 0, or what :func:`check` makes of it."""

    source: str
    variant: str
    descend: Callable[..., int]
    forward: Callable[..., int]
    relate: Callable[..., int]
    encode: Callable[..., int]
    describe: Callable[..., int]
    standardise: Callable[..., int]
    quantise: Callable[..., int]
    sums: Callable[..., int]


#: What a call returns that computed nothing, but for memory: see ``fedsub.h``.
_REFUSED = {
    -2: "layers that fit each other and their tensors",
    -3: "counts, orders and classes within what each client holds",
    -4: "what the call takes and writes, for every client",
}


def check(returned: int) -> None:
    """Raise an error if a call of the kernels computed nothing.

    Raises MemoryError if there was none for a batch of samples. Raises ValueError if it was given
    what does not fit together: nothing was read or written.
    """
    if returned in _REFUSED:
        raise ValueError(f"compiled kernels: expected {_REFUSED[returned]}; nothing was computed")
    if returned:
        raise MemoryError("no memory left for a batch of samples")


_switched_off = False


def kernels() -> Kernels | None:
    """Return the kernels; None where they are not built, or switched off.

    Raises ConfigError if ``FEDSUB_KERNELS`` names an instruction set that this processor does not
    have.
    """
    return None if _switched_off else _found(os.environ.get(VARIABLE, ""))


@contextmanager
def switched_off() -> Iterator[None]:
    """Let PyTorch compute meanwhile, in all threads: the oracle, or what counts operations."""
    global _switched_off
    before, _switched_off = _switched_off, True
    try:
        yield
    finally:
        _switched_off = before


@cache
def _found(wanted: str) -> Kernels | None:
    if wanted == "off":
        return None
    spec = find_spec(MODULE)
    if spec is None or not spec.origin:
        log.info("no compiled kernels (%s is not built): PyTorch computes everything", MODULE)
        return None
    try:
        library = ctypes.CDLL(spec.origin)
        library.fedsub_kernels.restype, library.fedsub_layout.restype = ctypes.c_char_p, c_int64
        layout, said = library.fedsub_layout(), library.fedsub_kernels().decode()
    except (OSError, AttributeError) as error:
        log.warning("no compiled kernels (%s): PyTorch computes everything", error)
        return None
    source, *variants = said.split()
    if layout != LAYOUT or (_SOURCES and source != _digest()):
        log.warning(
            "no compiled kernels (%s was built of other sources, install again): PyTorch computes "
            "everything",
            spec.origin,
        )
        return None
    if wanted and wanted not in variants:
        raise ConfigError(
            f"{VARIABLE}: got {wanted!r}, expected off or one of this processor's: "
            f"{', '.join(variants)}"
        )
    variant = wanted or variants[0]

    def function(name: str, *arguments: Any) -> Any:
        found = library[f"fedsub_{name}_{variant}"]
        found.argtypes = arguments
        return found

    of_chains = POINTER(Chain), POINTER(Samples)
    of_windows = c_void_p, c_int64, c_int64, c_int64, c_void_p
    return Kernels(
        source,
        variant,
        function("descend", *of_chains, POINTER(Steps)),
        function("forward", *of_chains, POINTER(Buffer)),
        function("relate", *of_chains, POINTER(Relevance)),
        function("encode", c_void_p, c_int64, *of_windows),
        function("describe", c_int64, *(c_void_p, c_int64) * 2, *of_windows),
        function("standardise", c_void_p, *(c_int64,) * 3, *(c_void_p,) * 3),
        function("quantise", c_void_p, c_int64, c_void_p),
        function("sums", *(c_void_p,) * 2, *(c_int64,) * 3, *(c_void_p,) * 2),
    )


def kernels_source() -> str:
    """Return a digest of the sources of the kernels in use; "" where PyTorch computes.

    Instruction sets of which all fuse products and sums, and give the same bits, have the same.
    """
    found = kernels()
    return found.source + found.variant * (found.variant not in FUSED) if found else ""
