"""What a Flower message carries: one packed payload, and a few plain numbers beside it.

The payload is one uint8 Array whose data are the codec's bytes as they are: no pickle, no
``np.save``, no copy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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

from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import MessageRefused
from fedsub_core.metrics import ClientMetrics

STYPE = "fedsub.v1"
REPORT = "report."
PAYLOAD, ORDER, METRICS = "payload", "order", "metrics"
#: The key of an order that asks for an evaluation after training.
EVALUATE = "evaluate"


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
    return payload + _bytes_around(content) + CHUNK_HEADER * (max(payload - 1, 0) // CHUNK)


def _bytes_around(content: RecordDict) -> int:
    # What is asked for and told decides, not who came first in this process or in which round:
    # a run that resumes must count as one that never stopped.
    kind = tuple((name, tuple(content[name])) for name in sorted(content))
    if kind not in _AROUND:
        small = RecordDict({**content, PAYLOAD: pack(b"x")})
        if ORDER in content:
            small[ORDER] = ConfigRecord({**content.config_records[ORDER], "round": 1})
        message = Message(small, 1, MessageType.TRAIN, group_id="1")
        parts = get_all_nested_objects(message).values()
        _AROUND[kind] = sum(len(part.deflate()) for part in parts) - 1
    return _AROUND[kind]


#: Flower's chunks of an array, bytes; and what a further chunk adds.
CHUNK, CHUNK_HEADER = 5 * 2**20, 90
_AROUND: dict[tuple[tuple[str, tuple[str, ...]], ...], int] = {}


def unpack(content: RecordDict) -> bytes:
    """Return the payload of a message, or raise ValueError if it carries none of ours."""
    arrays = content.array_records.get(PAYLOAD)
    array = arrays.get(PAYLOAD) if arrays is not None else None
    if array is None or array.stype != STYPE:
        raise ValueError(f"no {STYPE} payload among the records {sorted(content.keys())}")
    return array.data


def order(
    round: int, scaling: Scaling | None, run: str = "", also_evaluate: bool = False
) -> ConfigRecord:
    """Return what a device needs beside its download.

    Parameters
    ----------
    round, scaling : the round, and the federation's standardisation if it has one.
    run : the run's name, by which devices tell it from others; may be empty.
    also_evaluate : whether to evaluate the model after training it, in the same message.
    """
    record = ConfigRecord({"round": round})
    if also_evaluate:
        record[EVALUATE] = True
    if run:
        record["run"] = run
    if scaling is not None:
        record["mean"] = scaling.mean.astype("<f4").tobytes()
        record["std"] = scaling.std.astype("<f4").tobytes()
    return record


def read_order(record: ConfigRecord) -> tuple[int, Scaling | None]:
    """Return the round and the standardisation of an :func:`order`."""
    scaling = None
    if "mean" in record:
        mean, std = (np.frombuffer(cast(bytes, record[key]), "<f4") for key in ("mean", "std"))
        scaling = Scaling(mean, std)
    return cast(int, record["round"]), scaling


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


def metrics_record(metrics: ClientMetrics, report: Mapping[str, float]) -> MetricRecord:
    """Return what a client says after an evaluation: metrics, and its learner's report."""
    return MetricRecord(dict(metrics_values(metrics) | report_values(report)))


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
