"""docs/wire-format.md says what the code does: Flower's messages, records and their keys."""

from collections.abc import Mapping
from types import GenericAlias
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import ConfigRecord, MessageType
from numpy.typing import NDArray

from fedsub_client.protections.sum_answers import answered
from fedsub_core.capacity import Capacity
from fedsub_core.config.run_config import RunConfig
from fedsub_core.config.settings import RoundSettings
from fedsub_core.data.findings import SplitNote
from fedsub_core.data.samples import Nodes, Pixels, Tokens
from fedsub_core.data.sensors import Windows
from fedsub_core.data.standardise import Moments, Scaling, moments
from fedsub_core.errors import MessageRefused
from fedsub_core.metric_names import CLASS_MEANS, OWN_HEADS
from fedsub_core.metrics import ClientMetrics
from fedsub_core.options import describe
from fedsub_core.paired import Gain
from fedsub_core.secure.exact import LIMBS
from fedsub_core.secure.messages import KEYS, MOMENTS, SAMPLES, SECURE, SHARES, UNMASK
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.people_list import PeopleList
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.regrouping import Regrouping
from fedsub_core.secure.roster import Roster, Signer, is_signed, public_of
from fedsub_core.secure.summation import Summation
from fedsub_core.secure.transcript import digest
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange, greeting, handshake, metric_record
from fedsub_core.wire.codec import SCHEMA_VERSION
from fedsub_core.wire.daily_hours import DailyHours

from .wire_format_page import DOCUMENT, code, part_of_page, rows

TYPES = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "bytes": bytes,
    "list of str": list[str],
    "list of int": list[int],
    "list of float": list[float],
    "list of bytes": list[bytes],
}


def keys(record: str) -> dict[str, str]:
    """Return the keys of a record's table and their types."""
    table = rows(part_of_page(f"**`{record}`**"))
    return {name: row[1] for row in table for name in code(row[0])}


def assert_types(record: Mapping[str, Any], stated: dict[str, str]) -> None:
    assert record.keys() == stated.keys()
    for key, value in record.items():
        wanted = TYPES[stated[key]]
        if isinstance(wanted, GenericAlias):
            assert type(value) is list and {type(v) for v in value} == {wanted.__args__[0]}, key
        else:
            assert type(value) is wanted, key


def test_messages_carry_the_records_in_the_table() -> None:
    table = rows(part_of_page("## Messages of Flower", "\n**"))
    found = {(code(row[0])[0], tuple(code(row[2])), tuple(code(row[3]))) for row in table}
    payload, turn = exchange.PAYLOAD, exchange.TURN
    assert found == {
        (MessageType.QUERY, (handshake.HANDSHAKE, greeting.SETTINGS), (handshake.HANDSHAKE,)),
        (MessageType.TRAIN, (payload, turn), (payload, exchange.REPORT, exchange.METRICS)),
        (MessageType.EVALUATE, (payload, turn), (exchange.METRICS,)),
        (MessageType.QUERY, (exchange.MODEL,), (payload,)),
    }


#: What not every device has to say.
OPTIONAL = ("feature_sum", "split", "capacities", "sums", "joined", "hours")
SPLIT = SplitNote("in time by t, gap 2 s", 3, 1, 0, 0)
#: Who sends keys of kinds of samples, and such samples.
OF_KINDS: dict[str, tuple[tuple[int, ...], NDArray[Any]]] = {
    "device with token ids": (Tokens((2,), 9, 0), np.ones((3, 2), np.int32)),
    "device with nodes of a graph": (Nodes((2,)), np.ones((3, 2), np.float32)),
    "device whose card has `sensors`": (
        Windows((3, 8), ((0, 1, 2),)),
        np.ones((3, 3, 8), np.float32),
    ),
    "device with images of bytes": (Pixels((2, 4, 4)), np.ones((3, 2, 4, 4), np.uint8)),
}


def introduction(simulated: bool, kind: str = "") -> handshake.Introduction:
    shape, x = OF_KINDS.get(kind, ((2,), np.ones((3, 2), np.float32)))
    hours, nodes = DailyHours(60, 3600), 4 if simulated else 0
    facts = handshake.Facts(3, Capacity(0.5, (1.0, 0.5)), hours)
    features = moments(np.ones((3, 2), np.float32))
    return handshake.Introduction(
        "ann", "1", ("sit",), shape, facts, moments(x), nodes, nodes, features, SPLIT, joined=1
    )


def test_the_handshake_has_the_keys_in_the_table() -> None:
    stated = keys("handshake")
    sides = {code(row[0])[0]: row[2] for row in rows(part_of_page("**`handshake`**"))}
    others = {
        "device that encodes",
        "device that says it",
        "device that draws",
        "device that has hours",
        "device that joins",
    }
    others |= {"simulated node", *OF_KINDS}
    assert set(sides.values()) == {"both", "device", "server", *others}
    plain = {key: stated[key] for key, side in sides.items() if side not in (*OF_KINDS, "server")}
    person = [key for key in plain if sides[key] != "simulated node"]
    for kind in OF_KINDS:
        more = {key: stated[key] for key, side in sides.items() if side == kind}
        found = introduction(False, kind)
        record = {k: v for k, v in found.record().items() if k in more or k not in ("sum", "sumsq")}
        own = {key: stated[key] for key in person if key not in ("sum", "sumsq")}
        assert_types(record, own | more)
        assert handshake.read_introduction(found.record()).shape == found.shape
    servers = {key: stated[key] for key, side in sides.items() if side in ("both", "server")}
    assert_types(greeting.greeting(given=("lr", "depth"), roster=b"x"), servers)
    assert_types(introduction(False).record(), {key: stated[key] for key in person})
    assert_types(introduction(True).record(), plain)


def test_a_person_may_leave_out_what_the_table_says_and_nothing_else() -> None:
    stated = rows(part_of_page("**`handshake`**"))
    record = introduction(True).record()
    for row in stated:
        (key,) = code(row[0])
        less = ConfigRecord({k: v for k, v in record.items() if k != key})
        if row[2] in ("simulated node", "server", *OF_KINDS) or key in OPTIONAL:
            handshake.read_introduction(less)
        elif key != "schema":  # compared, not read
            with pytest.raises(MessageRefused, match=f"{key}|client id"):
                handshake.read_introduction(less)


#: What a server alone goes by, or a device by its own.
NOT_DEVICES = {f.key for f in describe(RoundSettings)} | {"data", "dp-delta", "sizes", "device"}
NOT_DEVICES |= {"threads", "checkpoint-seconds", "robust", "robust-share", "most-examples"}
NOT_DEVICES |= {"out", "folder", "whole-rounds"}
#: Settings of rounds that devices split their samples by.
SPLITS = {"split", "seed", "fold", "unseen-people", "unseen-labels"}


def test_each_option_that_concerns_devices_stands_in_the_table_of_settings() -> None:
    table = rows(part_of_page("## Settings of the run\n"))
    named = {key for row in table for key in code(row[0])} - {"METHOD.KEY"}
    options = {option.key for option in describe(RunConfig)}
    assert named <= options
    assert options - named == NOT_DEVICES - SPLITS


def test_the_turn_has_the_keys_in_the_table() -> None:
    stated = keys("turn")
    features = Scaling(np.zeros(3, np.float32), np.ones(3, np.float32))
    scaling = Scaling(np.zeros(2, np.float32), np.ones(2, np.float32), features)
    everything = exchange.Instructions(Turn(1, 2, 3), "fedavg", scaling, "a run", True)
    assert_types(everything.record(), stated)
    assert len(everything.record()["mean"]) == 4 * 2  # type: ignore[arg-type]
    assert len(everything.record()["feature_mean"]) == 4 * 3  # type: ignore[arg-type]
    again = exchange.read_instructions(everything.record()).scaling
    assert again is not None and again.bits == scaling.bits
    least = exchange.Instructions(Turn(1, 2, 3), "fedavg").record()
    shared = {"mean", "std", "feature_mean", "feature_std"}
    assert stated.keys() - least.keys() == {"run", "evaluate", *shared}


def test_metrics_have_the_keys_in_the_table() -> None:
    stated, means = keys("metrics"), dict.fromkeys(CLASS_MEANS, 0.4)
    own = dict.fromkeys(OWN_HEADS, 0.9)
    gain, counts = Gain(0.1, 0.0, 0.2), {(7, 7): 3}
    assert_types(
        metric_record.metric_values(
            ClientMetrics(1.0, 1.0, 1.0, 0.0, {7: 1.0}, 3, gain, means, 2, 0.5, counts, own)
        ),
        {key.replace("<label>", "7"): kind for key, kind in stated.items()},
    )


def test_the_payload_is_an_array_as_described() -> None:
    text = part_of_page("**`payload`**")
    array = exchange.pack(b"abc")[exchange.PAYLOAD]
    assert (array.dtype, list(array.shape), array.data) == ("uint8", [3], b"abc")
    assert {array.dtype, array.stype, exchange.PAYLOAD} <= set(code(text))
    assert f"| Bundle | 1 | `schema_version` | uint32 | {SCHEMA_VERSION} |" in DOCUMENT


def moments_told() -> list[Mapping[str, Any]]:
    """Return the question for moments that comes before the first round, and its answer."""
    people = {name: Participant(name, 3) for name in ("a", "b", "c")}
    server = Summation(0, 3, 3 * LIMBS, "run", "fedavg")
    server.smallest = 3
    for name, person in people.items():
        server.take_keys(name, person.answer(server.ask_keys(), 0))
    for name, shares in server.ask_shares().items():
        server.take_shares(name, people[name].answer(shares, 0))
    plan = server.plans(Levels(1.0, 1, 1))["a"]
    asked = plan.record() | {"phase": MOMENTS, "of": SAMPLES}
    own = Moments(2, np.array([1.5]), np.array([2.25]))
    said = answered(people["a"], asked, lambda part: own, lambda: None).config_records[SECURE]
    server.take_words("a", said)
    group = Regrouping(server.name, bytes(16), ("a", "b", "c"))
    return [asked, dict(said), group.record()]


def signed_told() -> list[Mapping[str, Any]]:
    """Return what is said in a sum of people with a roster, but for what all sums have."""
    own = {name: ec.derive_private_key(i, ec.SECP384R1()) for i, name in enumerate("abc", 1)}
    roster = Roster({name: public_of(key) for name, key in own.items()})
    people = {
        name: Participant(name, 3, signer=Signer(name, key, roster)) for name, key in own.items()
    }
    server, told = Summation(1, 3, 1, "run", "fedavg"), list[Mapping[str, Any]]()
    for name, person in people.items():
        told.append(person.answer(server.ask_keys(), 1))
        server.take_keys(name, told[-1])
    for name, asked in server.ask_shares().items():
        told.append(asked)
        server.take_shares(name, people[name].answer(asked, 1))
    for name, plan in server.plans(Levels(1.0, 1, 1)).items():
        people[name].accept(plan)
        server.take_vector(name, people[name].masked(np.zeros(1, np.uint32), plan.name))
    for name, seen in server.ask_views().items():
        told.append(people[name].answer(seen, 1))
        server.take_view(name, told[-1])
    told += [asked.record() | {"silent": ["d"]} for asked in server.ask_unmask().values()]
    values = {**server.name.record(KEYS), "client": "a", "keys": told[0]["keys"]}
    text = f"fedsub sums {digest(values)}".encode()
    assert is_signed(roster.people["a"], told[0]["signature"], text)
    return told


def test_a_secure_sums_records_have_the_keys_of_its_page() -> None:
    page = part_of_page("## Secure aggregation")
    tables = rows(page)
    phases = [row for row in tables if len(row) == 3]
    assert [(code(row[0])[0], code(row[1])[0]) for row in phases if code(row[1])] == [
        (MessageType.QUERY, KEYS),
        (MessageType.QUERY, SHARES),
        (MessageType.TRAIN, "sum"),
        (MessageType.QUERY, UNMASK),
    ]
    stated = {code(row[0])[0]: row[1] for row in tables if len(row) == 4 and code(row[0])}
    people = {name: Participant(name, 3) for name in ("a", "b", "c")}
    server, told = Summation(1, 3, 4, "run", "fedavg"), list[Mapping[str, Any]]()
    told.append(server.ask_keys())
    for name, person in people.items():
        told.append(person.answer(server.ask_keys(), 1))
        server.take_keys(name, told[-1])
    for name, asked in server.ask_shares().items():
        told += [asked, people[name].answer(asked, 1)]
        server.take_shares(name, told[-1])
    levels, server.head = Levels.of_people(3, 9, 8.0), bytes(32)
    for name, plan in server.plans(levels).items():
        told.append(plan.record())
        people[name].accept(plan)
        vector = levels.vector(np.zeros(2, np.float32), 5)
        server.take_vector(name, people[name].masked(vector, plan.name))
    for name, unmask in server.ask_unmask().items():
        told += [unmask.record() | {"silent": ["d"]}, people[name].answer(unmask.record(), 1)]
    told += [*moments_told(), *signed_told(), {"people": PeopleList.of({"a": b"keys"}).joined()}]
    found = {key: value for record in told for key, value in record.items()}
    assert_types(found, stated)
