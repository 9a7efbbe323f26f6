"""Names of encoders: what the option ``encoder`` may say, and what ``auto`` means; no PyTorch."""

from __future__ import annotations

import re

from fedsub_core.encoders.module_names import WEIGHTS, NamedModule
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.options import suggestion

AUTO, NONE, KERNELS, RELU = "auto", "none", "kernels", "relu"
#: What ``auto`` is for methods whose card says that they encode: of windows, and of vectors.
OF_WINDOWS, OF_VECTORS = "kernels:100", "relu:450"
#: Features of one kernel: shares above four thresholds, and the maximum.
PER_KERNEL = 5
#: Features of a sample that are drawn at most: more would take 256 KiB a sample.
LARGEST = 2**16

_SIZED = re.compile(rf"({KERNELS}|{RELU}):(0|[1-9][0-9]*)")


def check_encoder(text: str) -> None:
    """Raise a ConfigError unless `text` names an encoder, or is ``auto`` or ``none``.

    Of a module's name the form alone is checked.
    """
    if text not in (AUTO, NONE) and NamedModule.parse(text) is None:
        parse_encoder(text)


def pinned_encoder(text: str) -> str:
    """Return `text`, where it names a module with a digest of the module's files.

    Raises
    ------
    ConfigError
        As :func:`check_encoder`, or if such a file cannot be read.
    """
    check_encoder(text)
    named = NamedModule.parse(text)
    return text if named is None else named.pinned().text


def parse_encoder(text: str) -> tuple[str, int]:
    """Return kind and size of ``kernels:N`` or ``relu:N``.

    Raises
    ------
    ConfigError
        For another text, no kernel at all, or more features than :data:`LARGEST`.
    """
    expected = (
        f"expected {AUTO}, {NONE}, {KERNELS}:N with N from 1, {RELU}:N with N from 0, or a module "
        f"of your own, file.py:builder or file.py:builder@weights{WEIGHTS}"
    )
    found = _SIZED.fullmatch(text)
    if found is None:
        known = (AUTO, NONE, OF_WINDOWS, OF_VECTORS)
        raise ConfigError(f"got encoder {text!r}, {expected}.{suggestion(text, known)}")
    kind, size = found[1], int(found[2])
    if kind == KERNELS and not size:
        raise ConfigError(f"got encoder {text!r}, {expected}")
    made = size * (PER_KERNEL if kind == KERNELS else 1)
    if made > LARGEST:
        raise ConfigError(
            f"got encoder {text!r}, which makes {made:,} features, {4 * made:,} bytes a sample; "
            f"expected {LARGEST:,} features at most. Lower N"
        )
    return kind, size


def resolve_encoder(text: str, encodes: bool, shape: Shape) -> str:
    """Return the encoder that is meant, never ``auto``.

    Parameters
    ----------
    text : what the run's configuration says.
    encodes : whether the method's card wants an encoder where the configuration says ``auto``.
    shape : of one sample.
    """
    if text != AUTO:
        return text
    if not encodes:
        return NONE
    return OF_VECTORS if len(shape) == 1 else OF_WINDOWS
