"""A federation's target: the number that a sample has in the place of a class."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsub_core.data.card_values import read_number, read_text, refused

if TYPE_CHECKING:  # a card is read where nothing is computed, too
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Target:
    """What is predicted, and the range in which all its values are.

    Methods see values as their place in the range, -1 at its low end and 1 at its high one: two
    classes, of which each sample has a share. So sums, bounds and models are those of two classes.

    Parameters
    ----------
    name, unit : in words; the unit may be empty.
    low, high : ends of the range, in the unit. Devices state them: they are no secret.
    """

    name: str
    unit: str
    low: float
    high: float

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends in words, which stand where classes have their names."""
        unit = f" {self.unit}" if self.unit else ""
        low, high = (f"{float(end)!r}{unit}" for end in (self.low, self.high))
        return f"{self.name} from {low}", f"{self.name} to {high}"

    @property
    def half(self) -> float:
        """Half the range, in the unit: what 1 is of a scaled value."""
        return (self.high - self.low) / 2

    def scaled(self, y: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the place of values in the range, float32, -1 to 1."""
        return ((y - self.low) / self.half - 1).astype("float32")

    def values(self, outputs: NDArray[np.floating]) -> NDArray[np.float64]:
        """Return the values [...] that a model's outputs [..., 2] predict, in the unit."""
        place: NDArray[np.float64] = predicted(outputs.astype("float64"))
        return self.low + self.half * (1 + place)

    @property
    def computes(self) -> str:
        """What a reader of a model's file computes, in words; as a predictor's."""
        return f"a, b = layers({{seen}}); value = {self.low!r} + {self.half!r} * (1 + (b - a) / 2)"

    def written(self, table: dict[str, Any]) -> dict[str, Any]:
        """Return a card's table with the target in the place of classes."""
        return {k: v for k, v in table.items() if k != "classes"} | {"target": asdict(self)}


def predicted(outputs: Any) -> Any:
    """Return the scaled values [...] that a model's two outputs [..., 2] predict."""
    return (outputs[..., 1] - outputs[..., 0]) / 2


def is_target(classes: tuple[str, ...]) -> bool:
    """Return whether names of classes are the ends of a target: :attr:`Target.ends`.

    A target writes its ends as Python writes floats, so ``walk from 1 home`` is none of them.
    """
    if len(classes) != 2:
        return False
    low, high = classes
    # Names and units may hold these words, too.
    names = [low[: one.start()] for one in re.finditer("(?= from )", low)]
    return any(
        _is_range(low.removeprefix(f"{name} from "), high.removeprefix(f"{name} to "))
        for name in names
        if high.startswith(f"{name} to ")
    )


def _is_range(low: str, high: str) -> bool:
    """Return whether texts are two floats, the least first, of the same unit."""
    (low, *unit), (high, *other) = low.split(" ", 1), high.split(" ", 1)
    try:
        least, most = float(low), float(high)
        written = (repr(least), repr(most)) == (low, high)
        return written and unit == other and -math.inf < least < most < math.inf
    except ValueError:
        return False


def read_target(table: dict[str, Any], path: Path) -> tuple[Target | None, dict[str, Any]]:
    """Return the target of a card's table, and the table with its ends as classes.

    None where it has none.

    Raises DataError where a key is missing or unknown, or the range has no two ends; and where
    classes are called as the ends of a target are, as devices could not tell them from one.
    """
    if (value := table.get("target")) is None:
        names = table.get("classes")
        if isinstance(names, list) and is_target(tuple(map(str, names))):
            raise refused(path, "classes", names, "other names than those of a target's ends")
        return None, table
    needed = {"name", "low", "high"}
    if not isinstance(value, dict) or not needed <= value.keys() <= needed | {"unit"}:
        raise refused(path, "target", value, "a table of name, unit, low and high")
    low, high = (read_number(value[key], f"target.{key}", path) for key in ("low", "high"))
    if not low < high:
        raise refused(path, "target.high", high, f"a number above target.low, {low:g}")
    name = read_text(value["name"], "target.name", path)
    unit = read_text(value.get("unit", ""), "target.unit", path, may_be_empty=True)
    target = Target(name, unit, low, high)
    ends = list(target.ends)
    if table.get("classes", ends) != ends or "meanings" in table:
        raise refused(path, "target", name, "classes or a target, not both")
    return target, table | {"classes": ends}


def no_label(target: Target | None) -> float:
    """Return the placeholder of a missing label in `y`: class 0, or the low end of a target."""
    return 0 if target is None else target.low
