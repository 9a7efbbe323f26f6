"""Whatever a device puts into a message's records is read as it should be, or refused."""

import math
from contextlib import suppress
from dataclasses import astuple
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedsub_core.capacity import Capacity
from fedsub_core.data.findings import SplitNote
from fedsub_core.data.standardise import Moments, median_pool, pool, scaling
from fedsub_core.encoders.standardised import LEAST_SPREAD, feature_scaling
from fedsub_core.errors import MessageRefused
from fedsub_core.version import VERSION
from fedsub_core.wire import exchange, greeting, metric_record
from fedsub_core.wire.handshake import Facts, Introduction, read_introduction

HONEST = Moments(40, np.array([1.0, -20.0]), np.array([3.0, 400.0]))
numbers = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(width=64),
    st.sampled_from([0, 1, 2, 40, 2**31, 2**48 - 1, 1e15, 1e308, -0.0, math.nan, math.inf]),
)
texts = st.one_of(st.text(max_size=20), st.just("x" * 100_000), st.sampled_from(["p1", "a/../b"]))
values = st.one_of(
    numbers,
    st.booleans(),
    texts,
    st.binary(max_size=9),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6),
    st.lists(st.floats(), max_size=6),
    st.lists(texts, max_size=4),
    st.lists(st.booleans(), max_size=4),
)
FEATURES = Moments(40, np.array([1.0, -20.0, 0.0]), np.array([3.0, 20.0, 0.0]))
SPLIT = SplitNote("at random in each class", 40, 17, 0, 3, 8)
honest = Introduction(
    "p1",
    VERSION,
    ("sit", "walk"),
    (2,),
    Facts(40, Capacity(0.5, (1.0, 0.5))),
    HONEST,
    features=FEATURES,
    split=SPLIT,
).record()
keys = st.sampled_from(sorted(honest))


@given(changes=st.dictionaries(keys, values, max_size=4), gone=st.sets(keys, max_size=2))
def test_an_introduction_is_usable_or_refused(changes: dict[str, Any], gone: set[str]) -> None:
    record = ConfigRecord({k: v for k, v in ({**honest} | changes).items() if k not in gone})
    try:
        said = read_introduction(record)
        greeting.check_versions(record, said.client)
    except MessageRefused as error:
        assert len(str(error)) < 2000
        return
    # It stands beside others: nothing that they share breaks.
    others = [HONEST] * 3
    if said.shape == (2,):
        for pooled in (pool([*others, said.moments]), median_pool([*others, said.moments])):
            scale = scaling(pooled)
            assert np.isfinite([scale.mean, scale.std]).all() and (scale.std > 0).all()
    if said.features is not None and len(said.features.sum) == 3:
        scale = feature_scaling(median_pool([*[FEATURES] * 3, said.features]))
        assert (abs(scale.mean) <= 1).all() and (scale.std >= LEAST_SPREAD).all()
    assert 0 < said.facts.capacity.share <= 1 and said.facts.examples > 0
    if said.split is not None:
        text, *counts = astuple(said.split)
        assert text.isprintable() and len(text) <= 200 and min(counts) >= 0


metric_values = st.one_of(numbers, st.lists(st.floats(), max_size=3))
metric_keys = st.one_of(
    st.sampled_from(["macro_f1", "weighted_f1", "accuracy", "loss", "examples", "training_loss"]),
    st.builds("f1.{}".format, st.one_of(st.integers(-2, 9), st.text(max_size=5))),
    st.sampled_from(["report.refused_replies", "refused_replies", "f1." + "9" * 5000]),
)


@given(st.dictionaries(metric_keys, metric_values, max_size=9), st.booleans())
def test_metrics_and_reports_are_in_range_or_refused(given: dict[str, Any], whole: bool) -> None:
    fine = {"macro_f1": 0.5, "weighted_f1": 0.5, "accuracy": 1.0, "loss": 0.1, "examples": 9.0}
    try:
        record = MetricRecord((fine if whole else {}) | given)
    except (TypeError, ValueError, OverflowError):
        return  # Flower holds no such record
    with suppress(MessageRefused):
        found = metric_record.read_metrics(record, "p1", 3, classes=6)
        rows = found.rows(3, "p1")
        assert all(isinstance(row.value, float) for row in rows)
        assert {row.label for row in rows} <= {None, *range(6)}
        assert len({row[:4] for row in rows}) == len(rows)
        assert all(0 <= r.value <= 1 for r in rows if r.metric not in ("loss", "examples"))
    content = RecordDict({exchange.REPORT: record})
    report = exchange.read_report(content, ("training_loss",))
    assert set(report) <= {"training_loss"}
    assert all(isinstance(value, float) for value in report.values())


@given(st.dictionaries(st.sampled_from(["payload", "turn", "report", "metrics"]), values))
def test_messages_of_other_records_are_refused(given: dict[str, Any]) -> None:
    content = RecordDict()
    for name, value in given.items():
        content[name] = ConfigRecord({"value": value})
    with suppress(ValueError):
        exchange.unpack(content)
        raise AssertionError("there is no payload in it")
    assert exchange.read_report(content, ("training_loss",)) == {}
    empty = RecordDict({exchange.PAYLOAD: ArrayRecord()})
    with suppress(ValueError):
        exchange.unpack(empty)
        raise AssertionError("there is no payload in it")
