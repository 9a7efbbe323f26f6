"""Golden messages that a device refuses, each made of a golden message by one change.

A file of `proto/golden/refused/` belongs to the case of its name. Each entry has the number of the
exchange in whose place it comes, with what the device keeps before that one; what comes in; and the
refusal. The device keeps then what it kept before.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from math import inf, nan
from typing import Any

from flwr.app import Context

from fedsub.testing import golden_values
from fedsub_core.errors import FedSubError, MessageRefused
from fedsub_core.wire import exchange
from fedsub_core.wire.frame import compress
from fedsub_core.wire.v2 import exchange_pb2 as pb

Plain = dict[str, Any]
Change = Callable[[Plain], None]
#: Larger than `largest-number`.
HUGE = 2e6


def payload(change: Callable[[pb.Bundle], None]) -> Change:
    """Return a change of a message's payload, as a Bundle."""

    def apply(came: Plain) -> None:
        bundle = pb.Bundle.FromString(_data(came))
        change(bundle)
        _put(came, bundle.SerializeToString())

    return apply


def data(change: Callable[[bytes], bytes]) -> Change:
    """Return a change of a payload's bytes."""
    return lambda came: _put(came, change(_data(came)))


def field(name: str, value: Any) -> Change:
    """Return a change of one of the Bundle's own fields."""
    return payload(lambda bundle: setattr(bundle, name, value))


def tensor(change: Callable[[pb.Tensor], None]) -> Change:
    """Return a change of the Bundle's first tensor."""
    return payload(lambda bundle: change(bundle.tensors[0]))


def part(name: str, value: Any) -> Change:
    """Return a change of one field of the first tensor."""
    return tensor(lambda one: setattr(one, name, value))


def number(value: float) -> Change:
    """Return a change of the first number of the first tensor."""
    return tensor(lambda one: setattr(one, "values", struct.pack("<f", value) + one.values[4:]))


def record(name: str, key: str, value: Any = None) -> Change:
    """Return a change of a key of a record; None: it is left out."""

    def apply(came: Plain) -> None:
        came[name].pop(key, None) if value is None else came[name].update({key: value})

    return apply


def _shape(one: pb.Tensor) -> None:
    one.shape[0] += 1


def _twice(bundle: pb.Bundle) -> None:
    bundle.tensors.extend([bundle.tensors[0]])


def _drop(tensors: Any) -> None:
    del tensors[-1]


def _other_reference(bundle: pb.Bundle) -> None:
    bundle.differences, bundle.reference = True, 9


def _alone(came: Plain) -> None:
    values = {"list": came["secure"]["values"]["list"][:1]}
    came["secure"] |= {"clients": ["p2"], "values": values}


def _warmth(came: Plain) -> None:
    came["handshake"]["given"].append("warmth")
    came["settings"]["warmth"] = 1


#: By case and the exchange in whose place each comes: what is changed in it.
WRONG: dict[str, dict[int, dict[str, Change]]] = {
    "fedavg": {
        0: {
            "no known version of the wire": record("handshake", "wires", [3]),
            "a key that nobody knows": _warmth,
        },
        3: {
            "no message": data(lambda whole: b"\xff" * 9),
            "half a message": data(lambda whole: whole[: len(whole) // 2]),
            "half a zstd frame": data(lambda whole: compress(whole)[:-3]),
            "a zstd frame with more behind it": data(lambda whole: compress(whole) + b"\0"),
            "too large when decompressed": data(lambda whole: compress(bytes(2**24))),
            "another schema": field("schema_version", 3),
            "another client": field("client_id", "p2"),
            "another round": field("round", 1),
            "numbers in no known format": field("numbers", 7),
            "an undeclared tensor": part("name", "linear9.weight"),
            "a tensor twice": payload(_twice),
            "a tensor missing": payload(lambda bundle: _drop(bundle.tensors)),
            "another shape": tensor(_shape),
            "units of a Dense tensor": part("units", b"\x0f"),
            "elements of a Dense tensor": part("elements", b"\xff\xff"),
            "values too short": tensor(lambda one: setattr(one, "values", one.values[:-4])),
            "values too long": tensor(lambda one: setattr(one, "values", one.values + b"\0" * 4)),
            "scales without INT8": part("scales", bytes(8)),
            "INT8 without scales": field("numbers", pb.INT8),
            "too many examples": field("examples", 2**48),
            "too great a version": field("version", 2**63),
            "NaN": number(nan),
            "an infinite number": number(-inf),
            "a huge number": number(HUGE),
            "differences from none": field("differences", True),
            "a choice of entries": part("sent", b"\x0f"),
            "another round in the turn": record("turn", "round", 5),
            "no payload": lambda came: came.pop(exchange.PAYLOAD),
        },
    },
    "fedproto": {
        2: {
            "a mask too long": part("units", b"\x07\x00"),
            "bits beyond the mask's length": part("units", b"\x0f"),
            "no mask": part("units", b""),
            "fewer rows than the mask": part("units", b"\x01"),
        },
    },
    "fedavg-differences-int8": {
        3: {
            "differences from another round": payload(_other_reference),
        },
    },
    "fedavg-sums": {
        7: {
            "no plan beside a download": lambda came: came.pop("secure"),
            "another version of sums": record("secure", "version", 1),
            "another round of the sum": record("secure", "round", 2),
            "another session": record("secure", "session", {"base64": "AAAAAAAAAAAAAAAAAAAAAA=="}),
            "fewer people than secure-least": _alone,
            "levels that are not the largest": record("secure", "each", 1),
        },
        8: {
            "a sum that one is not in": record("secure", "sent", ["p2", "p3", "p4"]),
            "a sum of too few": lambda came: came["secure"].update(
                {"sent": ["p1", "p2"], "silent": ["p3", "p4"]}
            ),
            "somebody named twice": record("secure", "silent", ["p2"]),
        },
    },
    "fedavg-bfloat16": {
        3: {"too large": field("salt", bytes(1000))},
    },
    "fedavg-joined": {
        3: {
            "a joined message with a record beside it": lambda came: came.update(
                {"turn": {"round": 2}}
            ),
            "a joined message with a key of no record": record("joined", "handshake.client", "p1"),
        },
    },
}


def refusal_of(kind: str, came: Plain, context: Context) -> Plain | None:
    """Return a device's refusal of what came in as plain values; None if it answers."""
    from fedsub.testing.golden import answered

    try:
        answered(kind, golden_values.records_of(came), context)
    except MessageRefused as error:
        fields = ("client", "round", "what", "expected")
        # What a library says of it stands in brackets, and differs from version to version.
        got = error.got.partition(" (")[0]
        return {"error": "MessageRefused", "got": got} | {f: getattr(error, f) for f in fields}
    except (FedSubError, ValueError) as error:
        return {"error": type(error).__name__, "text": str(error)}
    return None


def wrong(case: Mapping[str, Any]) -> Iterator[tuple[int, str, Plain]]:
    """Yield a recorded case's wrong messages: number of the exchange, name, what comes in."""
    for number, changes in WRONG[case["case"]].items():
        for name, change in changes.items():
            came: Plain = deepcopy(case["exchanges"][number]["in"])
            change(came)
            yield number, name, came


def _data(came: Plain) -> bytes:
    return base64.b64decode(came[exchange.PAYLOAD]["arrays"][exchange.PAYLOAD])


def _put(came: Plain, new: bytes) -> None:
    came[exchange.PAYLOAD]["arrays"][exchange.PAYLOAD] = base64.b64encode(new).decode()
