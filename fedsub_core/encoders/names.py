"""Names of encoders: what the option ``encoder`` may say, and what ``auto`` means; no PyTorch."""

from __future__ import annotations

import re
from typing import NamedTuple

from fedsub_core.encoders.module_names import WEIGHTS, NamedModule
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.options import suggestion

AUTO, NONE, KERNELS, RELU, RANKS = "auto", "none", "kernels", "relu", "ranks"
#: What ``auto`` is for methods whose card says that they encode: of windows, and of vectors.
OF_WINDOWS, OF_VECTORS = "kernels:100+statistics", "ranks:450"
#: Groups of statistics of windows beside the kernels, in their order, and the name of all of them.
GROUPS, WHOLE_GROUPS = ("shape", "autocorrelation", "spectrum", "correlations"), "statistics"
#: Of more channels ``auto`` is kernels alone: sums grow by the square of the features.
MOST_CHANNELS = 64
#: Features of one kernel: shares above four thresholds, and the maximum.
PER_KERNEL = 5
#: Features of a sample that are drawn at most: more would take 256 KiB a sample.
LARGEST = 2**16

_SIZED = re.compile(rf"({KERNELS}|{RELU}|{RANKS}):(0|[1-9][0-9]*)((?:\+.*)?)")


class Parsed(NamedTuple):
    """An encoder's text in parts.

    Parameters
    ----------
    kind : ``kernels``, ``relu`` or ``ranks``.
    size : N of its text.
    groups : of statistics beside kernels, in the order of :data:`GROUPS`.
    """

    kind: str
    size: int
    groups: tuple[str, ...] = ()


def check_encoder(text: str) -> None:
    """Raise a ConfigError unless `text` names an encoder, or is ``auto`` or ``none``.

    Of a module's name the form alone is checked.
    """
    if text not in (AUTO, NONE) and NamedModule.parse(text) is None:
        parse_encoder(text)


def pinned_encoder(text: str) -> str:
    """Return `text`, where it names a module with a digest of the module's files.

    Raises ConfigError; as :func:`check_encoder`, or if such a file cannot be read.
    """
    check_encoder(text)
    named = NamedModule.parse(text)
    return text if named is None else named.pinned().text


def parse_encoder(text: str) -> Parsed:
    """Return the parts of ``kernels:N``, ``kernels:N+statistics``, ``relu:N`` or ``ranks:N``.

    Raises ConfigError for another text, no kernel at all, groups that are none, come twice or in
    another order, or more features than :data:`LARGEST`.
    """
    expected = (
        f"expected {AUTO}, {NONE}, {KERNELS}:N with N from 1, alone or with +{WHOLE_GROUPS}, "
        f"{RELU}:N or {RANKS}:N with N from 0, or a module of your own, file.py:builder or "
        f"file.py:builder@weights{WEIGHTS}"
    )
    found = _SIZED.fullmatch(text)
    if found is None or (found[1] != KERNELS and found[3]):
        known = (AUTO, NONE, f"{KERNELS}:100", OF_WINDOWS, OF_VECTORS)
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
    return Parsed(kind, size, _groups(text, found[3]))


def _groups(text: str, said: str) -> tuple[str, ...]:
    """Return the groups in ``+one+another``, of the encoder `text`; () of an empty one."""
    named = said.split("+")[1:]
    if named == [WHOLE_GROUPS]:
        return GROUPS
    for name in named:
        if name not in GROUPS:
            hint = suggestion(name, (*GROUPS, WHOLE_GROUPS))
            raise ConfigError(
                f"got group {name!r} in encoder {text!r}, expected {WHOLE_GROUPS} alone, which is "
                f"all of them, or some of {', '.join(GROUPS)}.{hint}"
            )
    groups = tuple(name for name in GROUPS if name in named)
    if list(groups) != named or groups == GROUPS:
        said = WHOLE_GROUPS if groups == GROUPS else "+".join(groups)
        right = f"{text.partition('+')[0]}+{said}"
        raise ConfigError(f"got encoder {text!r}, expected each group once, in one order: {right}")
    return groups


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
    if len(shape) == 2 and shape[0] > MOST_CHANNELS:
        return f"{KERNELS}:100"
    return OF_VECTORS if len(shape) == 1 else OF_WINDOWS
