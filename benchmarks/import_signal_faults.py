"""Files whose times, rates, units or recordings are not what they seem."""

from collections.abc import Iterator, Sequence

import numpy as np
from import_case import NAMED, READ, REFUSED, Case, with_columns

from tests.fedsub_data.importing.ways_in import FRAME, TABLES, WAYS, Recordings, recordings

G = 9.80665


def _clock(factor: float, start: float = 0.0, people: int = 3) -> Recordings:
    made = recordings(people)
    for own in made.values():
        own["time"] = np.round(own["time"] * factor + start)
    return made


def times() -> Iterator[Case]:
    """Yield times whose unit is guessed wrong, or said wrong."""
    kind = "time"
    for variant, right, factor, start, options in (
        ("ns since boot, rate given", NAMED, 1e9, 4.68e14, ("--rate", "50")),
        ("ns since boot", NAMED, 1e9, 4.68e14, ()),
        ("us since boot, rate given", NAMED, 1e6, 1.2e11, ("--rate", "50")),
        ("ms since boot", NAMED, 1e3, 1.2e8, ()),
        ("ms called us, rate given", REFUSED, 1e3, 0, ("--rate", "50", "--time-unit", "us")),
        ("ms called s", REFUSED, 1e3, 0, ("--time-unit", "s")),
        ("ns since boot, unit given", READ, 1e9, 4.68e14, ("--time-unit", "ns", "--rate", "50")),
        ("ms since 1970", READ, 1e3, 1.7e12, ()),
    ):
        yield Case(kind, variant, right, _clock(factor, start), options)


def together() -> Iterator[Case]:
    """Yield two recordings of one person at the same time."""
    kind = "two at the same time"
    by_name = ("--from-name", "(p[0-9]+)")

    def renamed(starts: Sequence[float], words: Sequence[str], rates: Sequence[int]) -> Recordings:
        made: Recordings = {}
        for person in (1, 2, 3):
            several = recordings(len(starts), seed=person).values()
            for own, start, word, every in zip(several, starts, words, rates, strict=True):
                thin = {name: column[::every] for name, column in own.items()}
                thin["time"] = thin["time"] + 1.7e9 + start
                made[f"p{person}_{word}"] = thin
        return made

    for variant, right, starts, words, rates in (
        ("left and right wrist", NAMED, (0, 0.003), ("left", "right"), (1, 1)),
        ("watch and phone, two rates", NAMED, (0, 0), ("phone", "watch"), (1, 2)),
        ("half of it together", NAMED, (0, 3), ("a", "b"), (1, 1)),
        ("one after the other", READ, (0, 60), ("a", "b"), (1, 1)),
    ):
        made = renamed(starts, words, rates)
        yield Case(kind, variant, right, made, by_name, tuple(f for f in TABLES if f != FRAME))


def resampling() -> Iterator[Case]:
    """Yield rates that differ, and columns that are mostly empty."""
    kind = "resampling"

    def thin(every: dict[str, int]) -> Recordings:
        made = recordings(4)
        for person, step in every.items():
            made[person] = {name: column[::step] for name, column in made[person].items()}
        return made

    yield Case(kind, "one of four at 5 Hz", REFUSED, thin({"k2": 10}))
    yield Case(kind, "half at 5 Hz", REFUSED, thin({"k2": 10, "k3": 10}))
    yield Case(kind, "5 Hz, 50 asked for", NAMED, thin({"k2": 10}), ("--rate", "50"))
    yield Case(kind, "50 Hz, 40 asked for", NAMED, recordings(), ("--rate", "40"))
    yield Case(kind, "50 Hz, 10 asked for", NAMED, recordings(), ("--rate", "10"))
    made = with_columns(
        recordings(), pulse=lambda p, own: np.where(np.arange(300) % 32, np.nan, 70.0)
    )
    yield Case(kind, "a column empty in most rows", NAMED, made)
    yield Case(kind, "all at 50 Hz", READ, recordings())


def units() -> Iterator[Case]:
    """Yield units and signs that differ."""
    kind = "units and signs"
    acc, gyro = slice(0, 3), slice(3, 6)

    def scaled(
        people: int, who: Sequence[str], which: slice, by: float, names: str = ""
    ) -> Recordings:
        made = recordings(people, names) if names else recordings(people)
        for person in who:
            for name in list(made[person])[1:-1][which]:
                made[person][name] = made[person][name] * np.float32(by)
        return made

    half = ("k2", "k4", "k6")
    nameless = "s1,s2,s3,s4,s5,s6"
    for variant, right, made, options in (
        ("g, one of six", REFUSED, scaled(6, ["k2"], acc, 1 / G), ()),
        ("g, half of six", REFUSED, scaled(6, half, acc, 1 / G), ()),
        ("g, one of two", REFUSED, scaled(2, ["k2"], acc, 1 / G), ()),
        ("g, names say nothing", REFUSED, scaled(6, ["k2"], acc, 1 / G, nameless), ()),
        ("degrees, one of six", REFUSED, scaled(6, ["k2"], gyro, 180 / np.pi), ()),
        ("degrees, half of six", REFUSED, scaled(6, half, gyro, 180 / np.pi), ()),
        ("degrees, one of two", REFUSED, scaled(2, ["k2"], gyro, 180 / np.pi), ()),
        ("flipped gravity, one of six", REFUSED, scaled(6, ["k2"], acc, -1.0), ()),
        ("flipped gravity, one of two", REFUSED, scaled(2, ["k2"], acc, -1.0), ()),
        ("g and flipped, half of six", REFUSED, scaled(6, half, acc, -1 / G), ()),
        ("all columns in thousandths", REFUSED, scaled(6, ["k2"], slice(0, 6), 1e3), ()),
        ("somebody moves a tenth as much", READ, scaled(6, ["k2"], gyro, 0.1), ()),
    ):
        yield Case(kind, variant, right, made, options, WAYS)
    for word in ("g,deg", "m/s^2", "as:k1"):
        made = scaled(6, half, acc, 1 / G)
        yield Case(kind, f"g, half of six, --convert {word}", READ, made, ("--convert", word))
