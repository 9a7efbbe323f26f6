"""What a Flower message carries: one packed payload, and a few plain numbers beside it.

The payload is one uint8 Array whose data are the codec's bytes as they are: no pickle, no
``np.save``, no copy.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    MetricRecord,
    RecordDict,
)

from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import MessageRefused, cut
from fedsub_core.turn import Turn
from fedsub_core.wire import codec
from fedsub_core.wire.lazy_message import LazyMessage

#: What a message carries, by the names below: Flower's records; or, where it stays in this process,
#: the payload unwritten and numbers as a plain dictionary.
Content = Mapping[str, Any]

#: The wire's version, and those that this release understands. It is raised where a release of
#: before could not take part: docs/wire-format.md, "Versions", says what that is.
WIRE = codec.SCHEMA_VERSION
WIRES = frozenset({WIRE})
#: What an array's type and the handshake call it.
STYPE = f"fedsub.v{WIRE}"
#: Names of a message's records.
PAYLOAD, TURN, METRICS, REPORT = "payload", "turn", "metrics", "report"
#: Keys that a device's records may have in all: a few dozen, and one for each class, of which there
#: may be 10,000.
MOST_KEYS = 12_000
#: Key of what makes a record unlike all others; its bytes are not counted as the message's.
SALT, SALT_BYTES = "salt", 8
#: Record of a query for a personal model, which simulated nodes alone answer.
MODEL = "model"


def pack(payload: bytes) -> ArrayRecord:
    """Return a record that carries `payload` as one uint8 Array."""
    record = ArrayRecord()
    record[PAYLOAD] = Array("uint8", (len(payload),), STYPE, payload)
    return record


def write(content: Content) -> RecordDict:
    """Return the content of a message, written."""
    records: dict[str, Any] = dict(content)
    for name, record in records.items():
        if isinstance(record, LazyMessage):
            records[name] = pack(record.to_bytes())
        elif isinstance(record, dict):
            records[name] = MetricRecord(record)
    return RecordDict(records)


def payload_of(content: Content) -> bytes | LazyMessage:
    """Return the payload of a message, written or not; raises as :func:`unpack`."""
    payload = content.get(PAYLOAD)
    return payload if isinstance(payload, LazyMessage) else unpack(content)


def numbers_of(content: Content, name: str) -> Mapping[str, Any] | None:
    """Return a record of numbers of a message; None where it has none of that name."""
    record = content.get(name)
    return record if isinstance(record, MetricRecord | dict) else None


def unpack(content: Content) -> bytes:
    """Return the payload of a message, or raise ValueError if it carries none of ours."""
    # Not `content.array_records`, which collects all records of a kind anew.
    arrays = content.get(PAYLOAD)
    array = arrays.get(PAYLOAD) if isinstance(arrays, ArrayRecord) else None
    if array is None or array.stype != STYPE:
        raise ValueError(f"no {STYPE} payload among the records {cut(sorted(content.keys()))}")
    return array.data


def require_ours(content: RecordDict, client: str, round: int) -> None:
    """Refuse a device's records that are none of ours, or have too many keys to be looked at.

    Raises MessageRefused; it names the client, the round, what came and what was expected.
    """
    ours = (PAYLOAD, REPORT, METRICS)
    keys = sum(1 + len(key) // 64 for name in ours for key in content.get(name, ()))
    if not content.keys() <= set(ours) or keys > MOST_KEYS:
        got = f"{len(content)} records with {keys} keys"
        expected = f"{', '.join(ours)} with at most {MOST_KEYS}"
        raise MessageRefused(client, round, "records", got, expected)


def salted(content: RecordDict) -> RecordDict:
    """Return a server's records with a random salt in each, so that nobody can foretell them.

    A SuperLink knows an object by the hash of its bytes, and takes its children from whoever names
    it first. A device that can foretell a record of another's message could make up children for
    it: the SuperLink would then refuse that message.
    """
    salt = secrets.token_bytes(SALT_BYTES)
    made = RecordDict({name: content[name] for name in content})
    for name, record in content.config_records.items():
        made[name] = ConfigRecord({**record, SALT: salt})
    if PAYLOAD in content.array_records:
        made[PAYLOAD] = pack(codec.salted(unpack(content), salt))
    return made


@dataclass(frozen=True, eq=False)
class Instructions:
    """What the server tells a device beside its download.

    Parameters
    ----------
    turn : round, rounds in all, seed of the run.
    method : by its name in the table.
    scaling : the federation's standardisation of samples, and where a model is trained on an
        encoder's features of these, too; None where it shares none.
    run : the run's name, by which devices tell it from others; may be empty.
    also_evaluate : whether to evaluate the model after training it, in the same message.
    begun_with : the name of the run with whose models this one began; "": with none's.
    """

    turn: Turn
    method: str
    scaling: Scaling | None = None
    run: str = ""
    also_evaluate: bool = False
    begun_with: str = ""

    def record(self) -> ConfigRecord:
        """Return the instructions as plain values."""
        turn = self.turn
        record = ConfigRecord(
            {"round": turn.round, "rounds": turn.rounds, "seed": turn.seed, "method": self.method}
        )
        if self.also_evaluate:
            record["evaluate"] = True
        if self.run:
            record["run"] = self.run
        if self.begun_with:
            record["begun with"] = self.begun_with
        if self.scaling is not None:
            record["mean"] = self.scaling.mean.astype("<f4").tobytes()
            record["std"] = self.scaling.std.astype("<f4").tobytes()
            if (features := self.scaling.features) is not None:
                record["feature_mean"] = features.mean.astype("<f4").tobytes()
                record["feature_std"] = features.std.astype("<f4").tobytes()
        return record


def read_instructions(record: Mapping[str, object]) -> Instructions:
    """Inverse of :meth:`Instructions.record`; the record comes from the server, which is trusted.

    Raises ValueError if something is missing: the server speaks another language.
    """
    scaling = None
    try:
        if "mean" in record:
            features = _scaling(record, "feature_") if "feature_mean" in record else None
            scaling = replace(_scaling(record), features=features)
        round, rounds, seed = (int(cast(int, record[key])) for key in ("round", "rounds", "seed"))
        return Instructions(
            Turn(round, rounds, seed),
            str(record["method"]),
            scaling,
            str(record.get("run", "")),
            bool(record.get("evaluate", False)),
            str(record.get("begun with", "")),
        )
    except KeyError as missing:
        raise ValueError(f"record {TURN!r}: got no {missing}, expected all of its values") from None


def _scaling(record: Mapping[str, object], prefix: str = "") -> Scaling:
    keys = f"{prefix}mean", f"{prefix}std"
    mean, std = (np.frombuffer(cast(bytes, record[key]), "<f4") for key in keys)
    return Scaling(mean, std)


def read_report(content: Content, names: Collection[str]) -> dict[str, float]:
    """Return the numbers that a device reports beside its upload, as the method declares.

    Nothing else is taken: a device's report must not pass for what the server measures.
    """
    record = numbers_of(content, REPORT) or {}
    return {
        name: float(value)
        for name, value in record.items()
        if name in names and isinstance(value, int | float)
    }
