"""What a sample is: features, a window, an image, a text's token ids or a node; how it is kept.

Features, windows and images of floats are float32, and their shape is a plain tuple. What is kept
as whole numbers until a batch is made has a shape that says so, and is equal to no plain one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from fedsub_core.data.sensors import SENSOR_OF, Sensors, Windows, facts_of_sensors, sensors_in

if TYPE_CHECKING:  # cards name kinds of samples, and are read where nothing is computed
    from numpy.typing import NDArray

FEATURES, WINDOW, IMAGE, TOKENS, NODE = "features", "window", "image", "tokens", "node"
#: Kinds of samples, and the axes of ``x [n, ...]``.
KINDS = {FEATURES: 2, WINDOW: 3, IMAGE: 4, TOKENS: 2, NODE: 2}
#: Of so many ids a model has a vector each, at most.
MOST_TOKENS = 2**20
#: Values of a pixel that is a byte.
LEVELS = 256

#: Samples as they are kept: float32, or uint8 of images, int32 of token ids.
Samples: TypeAlias = "NDArray[Any]"


class Pixels(tuple[int, ...]):
    """Shape ``(channels, height, width)`` of images whose pixels are bytes, 0 to 255."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pixels) and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("pixels", *self))

    def __repr__(self) -> str:
        return f"{tuple(self)} of bytes"


class Nodes(tuple[int, ...]):
    """Shape ``(F,)`` of the features of a graph's nodes.

    What a model sees of them are rows of ``F + 1`` numbers: :mod:`fedsub_core.data.graphs`.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Nodes) and tuple(self) == tuple(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("nodes", *self))

    def __repr__(self) -> str:
        return f"{tuple(self)} of nodes"


class Tokens(tuple[int, ...]):
    """Shape ``(length,)`` of texts as token ids.

    Parameters
    ----------
    vocabulary : ids are below it.
    padding : the id that fills short texts up.
    """

    vocabulary: int
    padding: int

    def __new__(cls, shape: tuple[int, ...], vocabulary: int, padding: int) -> Tokens:
        """Return the shape with what its ids are."""
        made = super().__new__(cls, shape)
        made.vocabulary, made.padding = vocabulary, padding
        return made

    def __getnewargs__(self) -> tuple[tuple[int, ...], int, int]:
        return tuple(self), self.vocabulary, self.padding

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and self.__getnewargs__() == other.__getnewargs__()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("tokens", self.__getnewargs__()))

    def __repr__(self) -> str:
        return f"{tuple(self)} of token ids below {self.vocabulary}, padding {self.padding}"


def facts_of(shape: tuple[int, ...]) -> dict[str, Any]:
    """Return the facts of a shape beside its axes, as plain values; {} of float32."""
    if isinstance(shape, Windows):
        return facts_of_sensors(shape)
    if isinstance(shape, Tokens):
        return {"vocabulary": shape.vocabulary, "padding": shape.padding}
    if isinstance(shape, Nodes):
        return {"graphs": 1}
    return {"levels": LEVELS} if isinstance(shape, Pixels) else {}


def shape_with(shape: tuple[int, ...], facts: dict[str, Any]) -> tuple[int, ...]:
    """Inverse of :func:`facts_of`; other facts are passed over.

    Raises ValueError if no sample is of that kind.
    """
    if "vocabulary" in facts:
        vocabulary: Any = facts["vocabulary"]
        padding: Any = facts.get("padding")
        known = type(vocabulary) is int and type(padding) is int and len(shape) == 1
        if not (known and 2 <= vocabulary <= MOST_TOKENS and 0 <= padding < vocabulary):
            raise ValueError(
                f"got samples {shape} of {vocabulary!r} tokens with padding {padding!r}, expected "
                f"(length,), 2 to {MOST_TOKENS}, and one of these ids"
            )
        return Tokens(shape, vocabulary, padding)
    if "graphs" in facts:
        if len(shape) != 1 or facts["graphs"] != 1:
            raise ValueError(
                f"got samples {shape} of {facts['graphs']!r} graphs, expected (features,) and 1, "
                "a client's own"
            )
        return Nodes(shape)
    if SENSOR_OF in facts:
        return Windows(shape, sensors_in(facts[SENSOR_OF], shape))
    if "levels" in facts:
        if len(shape) != 3 or facts["levels"] != LEVELS:
            raise ValueError(
                f"got samples {shape} of {facts['levels']!r} levels, expected (channels, height, "
                f"width) and {LEVELS}"
            )
        return Pixels(shape)
    return shape


def kept_shape(
    x: Samples,
    vocabulary: int | None,
    padding: int | None,
    kind: str | None = None,
    sensors: Sensors | None = None,
) -> tuple[int, ...]:
    """Return the shape of one of the samples ``x [n, ...]``; None: they are no token ids.

    `kind` is the card's, which alone tells a graph's nodes from features.
    """
    if kind == NODE:
        return Nodes(x.shape[1:])
    if vocabulary is not None:
        return Tokens(x.shape[1:], vocabulary, padding or 0)
    if sensors and x.ndim == KINDS[WINDOW]:
        return Windows(x.shape[1:], sensors)
    return Pixels(x.shape[1:]) if x.dtype == "uint8" else x.shape[1:]
