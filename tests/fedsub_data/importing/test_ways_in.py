"""What is refused is refused alike in every form that an import takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from fedsub_core.errors import FedSubError

from .ways_in import TABLES, WAYS, Recordings, import_by, recordings


@dataclass(frozen=True)
class Fault:
    """What is wrong with recordings, and the words in which it is refused.

    Parameters
    ----------
    spoil : makes it so.
    words : regular expression of the error, in its case; options may be named as Python does.
    options : of the import.
    ways : the forms that can hold it.
    """

    spoil: Callable[[Recordings], None]
    words: str
    options: Mapping[str, object] = field(default_factory=dict)
    ways: Sequence[str] = WAYS


def one_class(made: Recordings) -> None:
    for columns in made.values():
        columns["activity"][:] = "walk"


def hole(made: Recordings) -> None:
    made["k2"][first(made)][7] = np.nan


def backwards(made: Recordings) -> None:
    made["k2"]["time"][60:] -= 1.0


def in_g(made: Recordings) -> None:
    scale(made, "k2", slice(0, 3), 1 / 9.80665)


def in_degrees(made: Recordings) -> None:
    scale(made, "k2", slice(3, 6), 180 / np.pi)


def flipped(made: Recordings) -> None:
    scale(made, "k2", slice(0, 3), -1.0)


def scale(made: Recordings, person: str, which: slice, times: float) -> None:
    """Multiply some of a person's features."""
    for name in list(made[person])[1:-1][which]:
        made[person][name] *= np.float32(times)


def first(made: Recordings) -> str:
    """The name of the first feature."""
    return list(made["k1"])[1]


#: Each kind of fault is a line.
FAULTS = {
    "one class": Fault(one_class, "got one class, 'walk', expected two"),
    "a hole": Fault(hole, r"'k2': rows with an empty cell or NaN \(1 ", {"missing": "stop"}),
    "time backwards": Fault(backwards, "'k2': time runs backwards", ways=TABLES),
    "g beside m/s^2": Fault(in_g, r"'k2', columns .*as with g and m/s\^2"),
    "degrees beside radians": Fault(in_degrees, "'k2', columns .*radians and degrees"),
    "flipped gravity": Fault(flipped, "'k2', columns .*points the other way"),
}


@pytest.mark.parametrize("way", WAYS)
def test_whole_recordings_come_in(way: str, tmp_path: Path) -> None:
    federation = import_by(way, recordings(), tmp_path)
    assert list(federation.clients) == ["k1", "k2", "k3", "k4"]
    assert [len(data.y) for data in federation.clients.values()] == [6] * 4
    assert federation.card.classes == ("sit", "walk")


@pytest.mark.parametrize(
    ("fault", "way"), [(fault, way) for fault, of in FAULTS.items() for way in of.ways]
)
def test_a_fault_is_refused(fault: str, way: str, tmp_path: Path) -> None:
    made, of = recordings(), FAULTS[fault]
    of.spoil(made)
    with pytest.raises(FedSubError, match=of.words):
        import_by(way, made, tmp_path, **of.options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("way", WAYS)
def test_units_and_signs_are_converted(way: str, tmp_path: Path) -> None:
    """As in k1: the same numbers come in as if nobody's had differed."""
    made, right = recordings(), recordings()
    for spoil in (in_g, in_degrees, flipped):
        spoil(made)
    found = import_by(way, made, tmp_path / "converted", convert="m/s^2,rad,as:k1")
    expected = import_by(way, right, tmp_path / "right")
    for person, data in expected.clients.items():
        np.testing.assert_allclose(found.clients[person].x, data.x, rtol=1e-4, atol=1e-3)
