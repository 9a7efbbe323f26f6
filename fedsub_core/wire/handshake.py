"""The handshake: what server and device say of themselves before the first round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from flwr.app import ConfigRecord

from fedsub_core.data.standardise import Moments
from fedsub_core.errors import MessageRefused
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.version import VERSION
from fedsub_core.wire.exchange import STYPE

#: The name of the handshake's record in a message.
HANDSHAKE = "handshake"


@dataclass(frozen=True)
class Facts:
    """What the server knows of a client beside its uploads.

    Parameters
    ----------
    examples : training samples.
    capacity : share of each hidden layer's units that the device can hold, in (0, 1].
    """

    examples: int
    capacity: float = 1.0


@dataclass(frozen=True)
class Introduction:
    """What a device says of itself before the first round.

    Parameters
    ----------
    client : the person's id, stable over restarts.
    version : FedSub's version on the device; its schema travels beside it.
    classes : names of the classes, in the order of the labels.
    shape : of one sample.
    facts : of the client.
    moments : of the training part, for the federation's standardisation.
    people : of a simulated node: how many there are in its data, of whom it plays one; else 0.
    nodes : of a simulated node: how many there are; else 0.
    """

    client: str
    version: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    facts: Facts
    moments: Moments
    people: int = 0
    nodes: int = 0

    def record(self) -> ConfigRecord:
        """Return it as plain values."""
        record = ConfigRecord(
            {
                "client": self.client,
                "version": self.version,
                "schema": STYPE,
                "classes": list(self.classes),
                "shape": list(self.shape),
                "examples": self.facts.examples,
                "capacity": self.facts.capacity,
                "count": self.moments.count,
                "sum": self.moments.sum.tolist(),
                "sumsq": self.moments.sumsq.tolist(),
            }
        )
        if self.people:
            record["people"], record["nodes"] = self.people, self.nodes
        return record


def greeting() -> ConfigRecord:
    """Return what the server says of itself: the versions that a device must share."""
    return ConfigRecord({"version": VERSION, "schema": STYPE})


def check_versions(record: ConfigRecord, client: str) -> None:
    """Refuse the other side of the handshake if its package or wire schema is not this side's.

    Raises
    ------
    MessageRefused
        Names both sides' versions; `client` is the device's id, on whichever side this is called.
    """
    theirs = [str(record.get(key, "none")) for key in ("version", "schema")]
    if theirs != [VERSION, STYPE]:
        got = f"fedsub {theirs[0]} with schema {theirs[1]}"
        raise MessageRefused(client, 0, "versions", got, f"fedsub {VERSION} with schema {STYPE}")


def read_introduction(record: ConfigRecord) -> Introduction:
    """Inverse of :meth:`Introduction.record`.

    Raises
    ------
    MessageRefused
        If a value is missing, of another kind, not finite or of another length than the
        features, or out of its range, or if the client's id is none.
    """
    client = str(record.get("client", "?"))
    if not is_client_id(client):
        raise MessageRefused(client, 0, "client id", repr(client), CLIENT_ID_RULE)
    try:
        said = Introduction(
            client=client,
            version=cast(str, record["version"]),
            classes=tuple(cast(list[str], record["classes"])),
            shape=tuple(_whole(size) for size in cast(list[object], record["shape"])),
            facts=Facts(_whole(record["examples"]), _number(record["capacity"])),
            moments=Moments(
                _whole(record["count"]),
                np.array(record["sum"], np.float64),
                np.array(record["sumsq"], np.float64),
            ),
            people=_whole(record.get("people", 0), least=0),
            nodes=_whole(record.get("nodes", 0), least=0),
        )
    except KeyError as missing:
        raise MessageRefused(client, 0, "handshake", f"no {missing}", "all its values") from None
    except (TypeError, ValueError) as error:
        raise MessageRefused(client, 0, "handshake", repr(error), "values of their kinds") from None
    sizes = {said.moments.sum.shape, said.moments.sumsq.shape}
    if not said.shape or sizes != {(said.shape[0],)}:
        raise MessageRefused(client, 0, "moments", str(sizes), f"one per feature of {said.shape}")
    if not np.isfinite([said.moments.sum, said.moments.sumsq]).all():
        raise MessageRefused(client, 0, "moments", "NaN or infinite numbers", "finite numbers")
    if not 0 < said.facts.capacity <= 1:
        raise MessageRefused(client, 0, "capacity", str(said.facts.capacity), "a share in (0, 1]")
    return said


def _whole(value: object, least: int = 1) -> int:
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r}: expected a whole number of {least} or more")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r}: expected a number")
    return float(value)
