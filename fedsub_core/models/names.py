"""Names of models: ours, those of installed packages, and builders by their place.

A package offers models of its own under the entry point group ``fedsub.models``. A builder's place
is ``package.module:builder`` or ``file.py:builder``. How they are built:
:mod:`fedsub_core.models.kinds`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.options import nearest

AUTO, MLP, CNN1D, LINEAR = "auto", "mlp", "cnn1d", "linear"
#: Models of papers, and where their builders stand.
PUBLISHED = {
    "har-cnn": "fedsub_core.models.published:har_cnn",
    "lstm": "fedsub_core.models.published:TwoLSTMs",
}
GROUP = "fedsub.models"
#: What ``auto`` takes for samples of other kinds; packages offer them.
OF_TOKENS, OF_NODES, OF_IMAGES = "fasttext", "gcn", "cnn2d"
#: Units of the papers' feed-forward model; and of a layer at most.
HIDDEN, MOST_UNITS = "128,512", 2**16


def resolve_kind(kind: str, input_shape: Shape) -> str:
    """Return the kind that is meant.

    ``auto`` is ``mlp`` for features, ``cnn1d`` for windows, ``cnn2d`` for images, ``fasttext`` for
    token ids, ``gcn`` for nodes.
    """
    if kind == AUTO:
        if isinstance(input_shape, Tokens):
            return OF_TOKENS
        if isinstance(input_shape, Nodes):
            return OF_NODES
        return {1: MLP, 2: CNN1D}.get(len(input_shape), OF_IMAGES)
    return kind


def parse_hidden(text: str) -> tuple[int, ...]:
    """Return the units of each hidden layer of ``mlp``, as ``128,512`` says them; "" is none.

    Raises ConfigError for anything else.
    """
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    units = tuple(int(part) for part in parts if part.isascii() and part.isdigit())
    if len(units) < len(parts) or not all(0 < one <= MOST_UNITS for one in units):
        raise ConfigError(
            f"hidden: got {text!r}, expected units of each hidden layer of mlp with commas, 1 to "
            f"{MOST_UNITS}, such as {HIDDEN}"
        )
    return units


def is_place(kind: str) -> bool:
    """Return whether `kind` says where a builder stands, instead of naming a model."""
    return ":" in kind


def check_kind(kind: str) -> None:
    """Raise a ConfigError that suggests the nearest if there is no model called `kind`.

    Of a builder's place the form alone is checked: nothing is imported.
    """
    if is_place(kind):
        where, _, builder = kind.rpartition(":")
        file = where.endswith(".py")
        known = file or all(part.isidentifier() for part in where.split("."))
        if not (known and builder.isidentifier()):
            raise ConfigError(
                f"got model {kind!r}, expected package.module:builder or file.py:builder"
            )
        return
    if kind.endswith(".py"):
        raise ConfigError(
            f"got model {kind!r}, a file, expected {kind}:NAME with the name of the class or "
            "function in it that builds the model"
        )
    names = [AUTO, MLP, CNN1D, LINEAR, *PUBLISHED, *installed()]
    if kind not in names:
        raise ConfigError(f"unknown model {kind!r}.{nearest(kind, names, 'Known models')}")


@cache
def installed(group: str = GROUP) -> dict[str, EntryPoint]:
    """Return the entry points of installed packages, by name; nothing of them is imported."""
    return {point.name: point for point in entry_points(group=group)}
