"""Names of models: ours, and those of installed packages.

A package offers models of its own under the entry point group ``fedsub.models``; how they are
built: :mod:`fedsub_core.models.kinds`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.options import suggestion

AUTO, MLP, CNN1D, LINEAR = "auto", "mlp", "cnn1d", "linear"
GROUP = "fedsub.models"


def resolve_kind(kind: str, input_shape: Shape) -> str:
    """Return the kind that is meant: ``auto`` is ``mlp`` for features, ``cnn1d`` for windows."""
    if kind == AUTO:
        return MLP if len(input_shape) == 1 else CNN1D
    return kind


def check_kind(kind: str) -> None:
    """Raise a ConfigError that suggests the nearest if there is no model called `kind`."""
    names = [AUTO, MLP, CNN1D, LINEAR, *installed()]
    if kind not in names:
        raise ConfigError(
            f"unknown model {kind!r}.{suggestion(kind, names)} Known models: {', '.join(names)}."
        )


@cache
def installed() -> dict[str, EntryPoint]:
    """Return what installed packages offer, by name; nothing of them is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}
