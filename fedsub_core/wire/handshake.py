"""The opening exchange: what server and device say of themselves before the first round."""

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

#: The name of the opening's record in a message.
OPENING = "opening"


@dataclass(frozen=True)
class Opening:
    """What a device says of itself before the first round.

    Parameters
    ----------
    client : the person's id, stable over restarts.
    version : FedSub's version on the device; its schema travels beside it.
    classes : names of the classes, in the order of the labels.
    shape : of one sample.
    examples : training samples.
    moments : of the training part, for the federation's standardisation.
    """

    client: str
    version: str
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    examples: int
    moments: Moments


def greeting() -> ConfigRecord:
    """Return what the server says of itself: the versions that a device must share."""
    return ConfigRecord({"version": VERSION, "schema": STYPE})


def check_versions(record: ConfigRecord, client: str) -> None:
    """Refuse the other side of the opening if its package or wire schema is not this side's.

    Raises
    ------
    MessageRefused
        Names both sides' versions; `client` is the device's id, on whichever side this is called.
    """
    theirs = [str(record.get(key, "none")) for key in ("version", "schema")]
    if theirs != [VERSION, STYPE]:
        got = f"fedsub {theirs[0]} with schema {theirs[1]}"
        raise MessageRefused(client, 0, "versions", got, f"fedsub {VERSION} with schema {STYPE}")


def opening_record(opening: Opening) -> ConfigRecord:
    """Return the opening as plain values."""
    return ConfigRecord(
        {
            "client": opening.client,
            "version": opening.version,
            "schema": STYPE,
            "classes": list(opening.classes),
            "shape": list(opening.shape),
            "examples": opening.examples,
            "count": opening.moments.count,
            "sum": opening.moments.sum.tolist(),
            "sumsq": opening.moments.sumsq.tolist(),
        }
    )


def read_opening(record: ConfigRecord) -> Opening:
    """Inverse of :func:`opening_record`.

    Raises
    ------
    MessageRefused
        If a value is missing, of another kind, not finite or of another length than the
        features, or if the client's id is none.
    """
    client = str(record.get("client", "?"))
    if not is_client_id(client):
        raise MessageRefused(client, 0, "client id", repr(client), CLIENT_ID_RULE)
    try:
        opening = Opening(
            client=client,
            version=cast(str, record["version"]),
            classes=tuple(cast(list[str], record["classes"])),
            shape=tuple(cast(list[int], record["shape"])),
            examples=cast(int, record["examples"]),
            moments=Moments(
                cast(int, record["count"]),
                np.array(record["sum"], np.float64),
                np.array(record["sumsq"], np.float64),
            ),
        )
    except KeyError as missing:
        raise MessageRefused(client, 0, "opening", f"no {missing}", "all its values") from None
    except (TypeError, ValueError) as error:
        raise MessageRefused(client, 0, "opening", repr(error), "values of their kinds") from None
    sizes = {opening.moments.sum.shape, opening.moments.sumsq.shape}
    if not opening.shape or sizes != {(opening.shape[0],)}:
        raise MessageRefused(
            client, 0, "moments", str(sizes), f"one per feature of {opening.shape}"
        )
    if not np.isfinite([opening.moments.sum, opening.moments.sumsq]).all():
        raise MessageRefused(client, 0, "moments", "NaN or infinite numbers", "finite numbers")
    return opening
