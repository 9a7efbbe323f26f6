"""What a server of secure sums tells some devices otherwise, one field at a time.

The plan of a sum, the list of its people, the run's configuration, what stands beside a download,
the download itself, and questions for moments.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ConfigRecord
from numpy.typing import NDArray

from fedsub_core.secure.keys import commitment, public_of
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire import exchange
from fedsub_core.wire.v2 import exchange_pb2 as pb

#: Phases of a sum: questions, and what comes with a download.
SUM, ANY = "sum", ""
Change = Callable[["Told"], None]
Values = NDArray[Any]


@dataclass
class Told:
    """A message's records, to be changed; and whose they are.

    `before`: what the same person was told with an earlier download.
    """

    client: str
    records: dict[str, Any]
    before: Mapping[str, Any]

    def put(self, name: str, **keys: object) -> None:
        """Set keys of a record."""
        changed: dict[str, Any] = {**self.records.get(name, {}), **keys}
        self.records[name] = ConfigRecord(changed)

    def set_tensor(self, name: str, change: Callable[[Values], Values], of: str = "<f4") -> None:
        """Change tensors of the download, or their masks, whose names begin by a pattern."""
        bundle = pb.Bundle.FromString(exchange.unpack(self.records))
        for tensor in bundle.tensors:
            if re.match(name, tensor.name):
                tensor.values = change(np.frombuffer(tensor.values, of).copy()).tobytes()
        self.records[exchange.PAYLOAD] = exchange.pack(bundle.SerializeToString())


@dataclass(frozen=True)
class Lie:
    """What some are told instead.

    Parameters
    ----------
    about, said : the field, and what is told, in words.
    change : changes a message.
    phase : of which messages of a sum: :data:`ANY` of all.
    config : keys of the run's configuration that are told otherwise.
    method, round, keys : of which run it is, in which round, 0: before the first.
    session : 1: it is told in a session of the round that is broken off, in which the victim is
        not asked; in the next all are told the same.
    """

    about: str
    said: str
    change: Change = lambda told: None
    phase: str = SUM
    config: Mapping[str, Any] = field(default_factory=dict)
    method: str = "fedavg"
    round: int = 1
    keys: Mapping[str, Any] = field(default_factory=dict)
    session: int = 2


def plan(**keys: object) -> Lie:
    """Return a lie in the plan of a sum."""
    said = ", ".join("zeros" if isinstance(v, bytes) else str(v) for v in keys.values())
    return Lie(", ".join(keys), said, lambda told: told.put(SECURE, **keys))


def turn(**keys: object) -> Lie:
    """Return a lie in what stands beside a download."""
    (key,) = keys
    said = "other numbers" if isinstance(keys[key], bytes) else str(keys[key])
    return Lie(f"turn: {key}", said, lambda told: told.put(exchange.TURN, **keys))


def config(key: str, value: object, **more: object) -> Lie:
    """Return a lie in the run's configuration."""
    return Lie(key, str(value), config={key: value}, keys=more)


def download(name: str, said: str, method: str, round: int, of: str = "<f4") -> Lie:
    """Return a lie that a tensor is zero."""
    return Lie(
        name,
        said,
        lambda told: told.set_tensor(name, np.zeros_like, of),
        method=method,
        round=round,
    )


def not_counted(told: Told) -> None:
    """Say that somebody was not in the sum that counted."""
    told.set_tensor("counted", lambda values: values * np.array([1, 0], "<f4"))


def counted_elsewhere(told: Told) -> None:
    """Say that another round's sum counted."""
    told.set_tensor("counted", lambda values: values * np.array([0, 1], "<f4"))


def invented(told: Told) -> None:
    """Show one person more, of the server's making."""
    keys = public_of(bytes([1] * 32)) + public_of(bytes([2] * 32)) + commitment(bytes(32))
    record = told.records[SECURE]
    told.put(SECURE, clients=[*record["clients"], "x"], values=[*record["values"], keys])


def earlier_plan(told: Told) -> None:
    """Send the plan of the round before again."""
    told.records[SECURE] = told.before[SECURE]


def weight_one(told: Told) -> None:
    """Say that nobody weighs more than 1, and levels as they are then."""
    people = len(told.records[SECURE]["clients"]) + 1
    told.put(SECURE, weight=1, each=Levels.of_people(people, 1, 8.0).each)


def another_run(told: Told) -> None:
    """Call the run another wherever it is named."""
    told.put(SECURE, run="another")
    if exchange.TURN in told.records:
        told.put(exchange.TURN, run="another")


HUGE = np.full(4, 1e30, "<f4").tobytes()
SHARED = {"standardise": "federation"}
STATISTICS = {"encoder": "relu:8", "most_examples": 0}
LIES = (
    Lie("nothing", "the same", lambda told: None),
    plan(weight=1, each=1),
    plan(each=1),
    Lie("weight", "1, with levels that fit", weight_one),
    plan(version=1),
    plan(round=2),
    plan(session=bytes(16)),
    plan(method="fedprox"),
    plan(later="of a later release"),
    Lie("people", "one of the server's more", invented, phase="shares"),
    Lie("run", "another", another_run, phase=ANY),
    Lie("plan", "that of the round before", earlier_plan, round=2),
    config("secure-range", 1e6),
    config("secure-least", 2**20),
    config("lr", 1e-30),
    config("dp-clip", 1e-9, dp_noise=1e-9),
    config("dp-noise", 0.0, dp_noise=1e-9),
    turn(rounds=99),
    turn(seed=99),
    turn(later="of a later release"),
    Lie(
        "turn: std", "1e30 each", lambda told: told.put(exchange.TURN, std=HUGE), keys=SHARED,
    ),
    download("linear", "zeros", "fedavg", 1),
    Lie(
        "linear", "zeros, in a session that is broken off; then the same to all",
        lambda told: told.set_tensor("linear", np.zeros_like), session=1,
    ),
    download("asked", "no class", "fedproto", 2, "u1"),
    download("prototypes", "zeros", "fedproto", 3),
    Lie(
        "means", "zeros", lambda told: told.set_tensor(r"linear\d$", np.zeros_like),
        method="fedsub", round=3,
    ),
    Lie("counted", "not in the last sum", not_counted, method="fedsub", round=2),
    Lie("counted", "by no round", counted_elsewhere, method="fedsub", round=2),
    download("linear1.asked", "no unit", "fedsub", 2, "u1"),
    Lie(
        "gate.asked", "all of it", lambda told: told.set_tensor("gate.asked", np.ones_like, "u1"),
        method="fedsub-gated", round=2,
    ),
    Lie(
        "asked.classes", "no class", lambda told: told.set_tensor("asked.classes", np.zeros_like),
        method="fedsub-ridge", round=2, keys=STATISTICS,
    ),
    Lie(
        "everybody", "zeros", lambda told: told.set_tensor("everybody", np.zeros_like),
        method="fedsub-ridge", round=3, keys=STATISTICS,
    ),
    Lie(
        "of", "features", lambda told: told.put(SECURE, of="features"), "moments", round=0,
        keys=SHARED,
    ),
    Lie(
        "weight of moments", "2", lambda told: told.put(SECURE, weight=2), "moments", round=0,
        keys=SHARED,
    ),
)  # fmt: skip
