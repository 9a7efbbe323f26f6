"""What a Flower message carries: one packed payload, and a few plain numbers beside it.

The payload is one uint8 Array whose data are the codec's bytes as they are: no pickle, no
``np.save``, no copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from fedsub_core.client_data import CLIENT_ID
from fedsub_core.errors import MessageRefused
from fedsub_core.metrics import ClientMetrics
from fedsub_core.standardise import Moments, Scaling

STYPE = "fedsub.v1"
REPORT = "report."
PAYLOAD, ORDER, OPENING, METRICS = "payload", "order", "opening", "metrics"


@dataclass(frozen=True)
class Opening:
    """What a device says of itself before the first round.

    Parameters
    ----------
    client : the person's id, stable over restarts.
    version : FedSub's version on the device.
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


def pack(payload: bytes) -> ArrayRecord:
    """Return a record that carries `payload` as one uint8 Array."""
    record = ArrayRecord()
    record[PAYLOAD] = Array("uint8", (len(payload),), STYPE, payload)
    return record


def message_bytes(content: RecordDict, payload: int) -> int:
    """Return the bytes of Flower's message around a payload of `payload` bytes, that included.

    What Flower hashes and sends: the message, its records, the array and its chunks. Their sizes
    hardly depend on the payload, so they are taken once from a message of the same records that
    carries one byte; a chunk of 5 MiB more adds a header of its own.
    """
    around = _bytes_around(tuple(sorted(content)), content)
    return payload + around + CHUNK_HEADER * (max(payload - 1, 0) // CHUNK)


def _bytes_around(kinds: tuple[str, ...], content: RecordDict) -> int:
    if kinds not in _AROUND:
        small = RecordDict({**content, PAYLOAD: pack(b"x")})
        message = Message(small, 1, MessageType.TRAIN, group_id="1")
        parts = get_all_nested_objects(message).values()
        _AROUND[kinds] = sum(len(part.deflate()) for part in parts) - 1
    return _AROUND[kinds]


#: Flower's chunks of an array, bytes; and what a further chunk adds.
CHUNK, CHUNK_HEADER = 5 * 2**20, 90
_AROUND: dict[tuple[str, ...], int] = {}


def unpack(content: RecordDict) -> bytes:
    """Return the payload of a message, or raise ValueError if it carries none of ours."""
    arrays = content.array_records.get(PAYLOAD)
    array = arrays.get(PAYLOAD) if arrays is not None else None
    if array is None or array.stype != STYPE:
        raise ValueError(f"no {STYPE} payload among the records {sorted(content.keys())}")
    return array.data


def order(round: int, scaling: Scaling | None) -> ConfigRecord:
    """Return what a device needs beside its download: the round and the standardisation."""
    record = ConfigRecord({"round": round})
    if scaling is not None:
        record["mean"] = scaling.mean.astype("<f4").tobytes()
        record["std"] = scaling.std.astype("<f4").tobytes()
    return record


def read_order(record: ConfigRecord) -> tuple[int, Scaling | None]:
    """Inverse of :func:`order`."""
    scaling = None
    if "mean" in record:
        mean, std = (np.frombuffer(cast(bytes, record[key]), "<f4") for key in ("mean", "std"))
        scaling = Scaling(mean, std)
    return cast(int, record["round"]), scaling


def opening_record(opening: Opening) -> ConfigRecord:
    """Return the opening as plain values."""
    return ConfigRecord(
        {
            "client": opening.client,
            "version": opening.version,
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
    if not CLIENT_ID.fullmatch(client):
        expected = "letters, digits, '.', '_' and '-', the first a letter or digit"
        raise MessageRefused(client, 0, "client id", repr(client), expected)
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


def metrics_values(metrics: ClientMetrics) -> dict[str, float]:
    """Return a client's metrics as plain numbers; a class's F1 is ``f1.<label>``."""
    values = {name: float(getattr(metrics, name)) for name in _METRICS}
    return values | {f"f1.{label}": f1 for label, f1 in metrics.f1.items()}


def read_metrics(record: MetricRecord, client: str, round: int, classes: int) -> ClientMetrics:
    """Inverse of :func:`metrics_values`, for labels below `classes`.

    Raises
    ------
    MessageRefused
        If a number is missing or outside its range.
    """
    try:
        numbers = [float(cast(float, record[name])) for name in _METRICS]
        f1 = {
            int(key.removeprefix("f1.")): float(cast(float, record[key]))
            for key in record
            if key.startswith("f1.")
        }
    except (KeyError, TypeError, ValueError) as error:
        raise MessageRefused(client, round, "metrics", repr(error), "all of them") from error
    macro, weighted, accuracy, loss, examples = numbers
    in_range = all(0 <= share <= 1 for share in (macro, weighted, accuracy, *f1.values()))
    in_range = in_range and all(0 <= label < classes for label in f1)
    # A loss that is not finite is kept: a client that diverged must show in the results.
    if not in_range or not 1 <= examples < 2**53:
        expected = f"1 or more examples, shares in [0, 1], labels below {classes}"
        raise MessageRefused(client, round, "metrics", str(dict(record)), expected)
    return ClientMetrics(macro, weighted, accuracy, loss, f1, int(examples))


def report_values(report: Mapping[str, float]) -> dict[str, float]:
    """Return what a learner reports beside its evaluation, ``report.<name>``."""
    return {f"{REPORT}{name}": value for name, value in report.items()}


def read_report(record: MetricRecord) -> dict[str, float]:
    """Inverse of :func:`report_values`; other entries, and names of metrics, are left out."""
    return {
        key.removeprefix(REPORT): float(cast(float, value))
        for key, value in record.items()
        if isinstance(value, int | float) and _REPORTED.fullmatch(key)
    }


_METRICS = ("macro_f1", "weighted_f1", "accuracy", "loss", "examples")
# A client's report must not pass for what the server measures or evaluates.
_REPORTED = re.compile(rf"report\.(?!(?:{'|'.join(_METRICS)}|f1|bytes_.*)$)[a-z0-9_]+")
