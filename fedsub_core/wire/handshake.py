"""The handshake: what a device says of itself before the first round."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields, replace
from math import prod

import numpy as np
from flwr.app import ConfigRecord

from fedsub_core.capacity import WHOLE, Capacity
from fedsub_core.config.capacities import EXPECTED, MOST_SHARES
from fedsub_core.data.findings import SplitNote
from fedsub_core.data.samples import Tokens, facts_of, shape_with
from fedsub_core.data.standardise import LARGEST_VALUE, Moments
from fedsub_core.errors import MessageRefused, cut
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.version import SUMS_VERSION
from fedsub_core.wire.daily_hours import HOURS, DailyHours, read_hours
from fedsub_core.wire.exchange import STYPE

#: The name of the handshake's record in a message.
HANDSHAKE = "handshake"
#: What a device may say of itself at most: a server counts and sums it, and builds a model of it.
#: Each feature has moments of its own; the papers' model has 128 weights for each number of a
#: sample, 128 MiB at most.
MOST_AXES, MOST_FEATURES, MOST_NUMBERS, MOST_CLASSES = 4, 2**16, 2**18, 10_000
GREATEST_COUNT, LONGEST_TEXT, LONGEST_VERSION = 2**40, 200, 2_000
#: How many numbers go with the words for a split.
_PARTS = len(fields(SplitNote)) - 1


@dataclass(frozen=True)
class Facts:
    """What the server knows of a client beside its uploads.

    Parameters
    ----------
    capacity : what its device can hold of the encoder or model.
    hours : of each day, in which its device may take part; None: it does not say.
    """

    examples: int
    capacity: Capacity = WHOLE
    hours: DailyHours | None = None


@dataclass(frozen=True)
class Introduction:
    """What a device says of itself before the first round.

    Parameters
    ----------
    client : the person's id, stable over restarts.
    version : FedSub's on the device, and of packages that offer methods of the run; the wire's
        version travels beside it, as ``schema``.
    classes : names of the classes, in the order of the labels.
    shape : of one sample, with what its numbers are (:mod:`fedsub_core.data.samples`).
    moments : of the training part, for the federation's standardisation; none of token ids.
    people : of a simulated node: how many there are in its data, of whom it plays one; else 0.
    nodes : of a simulated node: how many there are; else 0.
    features : moments of what the run's encoder makes of the training part, where the method
        trains on it (:mod:`fedsub_core.encoders.standardised`).
    split : how its samples were divided, for readers of the results; None where it does not say.
    sums : the version of secure sums in which it can take part; before 2 no device said it.
    joined : 1 if it understands joined messages (:mod:`fedsub_core.wire.joined`), else 0.
    """

    client: str
    version: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    facts: Facts
    moments: Moments
    people: int = 0
    nodes: int = 0
    features: Moments | None = None
    split: SplitNote | None = None
    sums: int = SUMS_VERSION
    joined: int = 0

    def record(self) -> ConfigRecord:
        """Return the introduction as plain values."""
        record = ConfigRecord(
            {
                "client": self.client,
                "version": self.version,
                "schema": STYPE,
                "sums": self.sums,
                "classes": list(self.classes),
                "shape": list(self.shape),
                "examples": self.facts.examples,
                "capacity": self.facts.capacity.share,
                "count": self.moments.count,
                "sum": self.moments.sum.tolist(),
                "sumsq": self.moments.sumsq.tolist(),
            }
        )
        record.update(facts_of(self.shape))
        if (hours := self.facts.hours) is not None:
            record[HOURS] = [int(hours.begin), hours.length]
        if self.joined:
            record["joined"] = self.joined
        if self.facts.capacity.drawn:
            record["capacities"] = list(self.facts.capacity.drawn)
        if self.people:
            record["people"], record["nodes"] = self.people, self.nodes
        if self.features is not None:
            record["feature_sum"] = self.features.sum.tolist()
            record["feature_sumsq"] = self.features.sumsq.tolist()
        if self.split is not None:
            record["split"], *parts = astuple(self.split)
            record["parts"] = parts
        return record


def read_introduction(record: ConfigRecord) -> Introduction:
    """Inverse of :meth:`Introduction.record`.

    Raises MessageRefused if a value is missing, of another kind, out of its range, or no sum of
    finite samples of the shape; or if the client's id is none.
    """
    client = str(record.get("client", "?"))
    if not is_client_id(client):
        raise MessageRefused(client, 0, "client id", repr(client), CLIENT_ID_RULE)
    try:
        shape = tuple(_whole(size) for size in _list(record["shape"], MOST_AXES))
        said = Introduction(
            client=client,
            version=_shown(record["version"], LONGEST_VERSION),
            classes=tuple(_text(name) for name in _list(record["classes"], MOST_CLASSES)),
            shape=shape_with(shape, dict(record)),
            facts=Facts(_whole(record["examples"]), _capacity(record), read_hours(record)),
            moments=Moments(
                _whole(record["count"]), _numbers(record["sum"]), _numbers(record["sumsq"])
            ),
            people=_whole(record.get("people", 0), least=0),
            nodes=_whole(record.get("nodes", 0), least=0),
            sums=_whole(record.get("sums", 1)),
            joined=_whole(record.get("joined", 0), least=0),
        )
        if "feature_sum" in record:
            sums = (_numbers(record[f"feature_{part}"]) for part in ("sum", "sumsq"))
            said = replace(said, features=Moments(said.facts.examples, *sums))
        if "split" in record:
            said = replace(said, split=_split(record["split"], record["parts"]))
    except KeyError as missing:
        raise MessageRefused(client, 0, "handshake", f"no {missing}", "all its values") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageRefused(client, 0, "handshake", repr(error), "values of their kinds") from None
    for what, got, expected in _faults(said):
        raise MessageRefused(client, 0, what, got, expected)
    return said


def _faults(said: Introduction) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with an introduction: which part, what came, what was expected."""
    if not said.shape or said.shape[0] > MOST_FEATURES or prod(said.shape) > MOST_NUMBERS:
        most = f"{MOST_FEATURES} features and {MOST_NUMBERS} numbers at most"
        yield "shape", str(said.shape), f"1 to {MOST_AXES} axes, {most}"
        return
    if not said.classes:
        yield "classes", "none", f"1 to {MOST_CLASSES}"
    capacity = said.facts.capacity
    if not 0 < capacity.share <= 1:
        yield "capacity", str(capacity.share), EXPECTED
    if capacity.drawn and min(capacity.drawn) != capacity.share:
        yield "capacities", f"{min(capacity.drawn)} at least", f"the capacity {capacity.share}"
    if any(not share <= 1 for share in capacity.drawn):
        yield "capacities", cut(capacity.drawn), f"each {EXPECTED}"
    count, total, squares = said.moments.count, said.moments.sum, said.moments.sumsq
    numbers = 0 if isinstance(said.shape, Tokens) else said.shape[0]
    if (total.shape, squares.shape) != ((numbers,),) * 2:
        lengths = f"{total.size} and {squares.size}"
        yield "moments", lengths, f"one per feature of {said.shape}, none of token ids"
        return
    values = said.facts.examples * prod(said.shape[1:])
    if count != values:
        yield "count", str(count), f"{values}: {said.facts.examples} samples of {said.shape}"
    if not numbers:
        return
    if fault := said.moments.fault():
        yield "moments", fault, f"sums of values of {LARGEST_VALUE:g} at most, and of their squares"
    if said.features is not None:
        yield from _feature_faults(said.features)


def _feature_faults(said: Moments) -> Iterator[tuple[str, str, str]]:
    """Yield what is wrong with the moments of an encoder's features, which are in [-1, 1)."""
    if said.sum.shape != said.sumsq.shape:
        yield "features", f"{said.sum.size} sums, {said.sumsq.size} of squares", "as many of both"
        return
    if fault := said.fault(largest=1.0):
        yield "features", fault, "sums of features from -1 to 1, and of their squares"


def _capacity(record: ConfigRecord) -> Capacity:
    drawn = _list(record.get("capacities", []), MOST_SHARES)
    return Capacity(_number(record["capacity"]), tuple(_number(share) for share in drawn))


def _text(value: object, most: int = LONGEST_TEXT) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise ValueError(f"{cut(value)!r}: expected a text of {most} characters at most")
    return value


def _split(words: object, parts: object) -> SplitNote:
    numbers = [_whole(one, least=0) for one in _list(parts, _PARTS)]
    if len(numbers) < _PARTS:
        raise ValueError(f"{numbers}: expected {_PARTS} numbers")
    return SplitNote(_shown(words), *numbers)


def _shown(value: object, most: int = LONGEST_TEXT) -> str:
    """Return a text that is shown to people, on terminals, too."""
    if not (text := _text(value, most)).isprintable():
        raise ValueError(f"{cut(value)!r}: expected printable words")
    return text


def _list(value: object, most: int) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"{cut(value)!r}: expected a list")
    if len(value) > most:
        raise ValueError(f"a list of {len(value)}, expected {most} at most")
    return value


def _numbers(value: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([_number(one) for one in _list(value, MOST_FEATURES)], np.float64)


def _whole(value: object, least: int = 1) -> int:
    if type(value) is not int or not least <= value <= GREATEST_COUNT:
        raise ValueError(f"{cut(value)!r}: expected a whole number, {least} to {GREATEST_COUNT}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{cut(value)!r}: expected a number")
    return float(value)
