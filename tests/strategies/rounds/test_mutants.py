"""Whatever a node answers over a network, the server uses it as it is meant to be, or refuses it.

Mutants go through all that reads a reply: link, node registry, delivery, transport, metrics. By
hand: ``FEDSUB_MUTANTS=100000 pytest tests/strategies/rounds/test_mutants.py -s``.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from flwr.app import MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsub_core.data.findings import SplitNote
from fedsub_core.data.standardise import moments
from fedsub_core.errors import MessageRefused
from fedsub_core.methods.table import METHODS
from fedsub_core.metrics import ClientMetrics
from fedsub_core.models.kinds import mlp
from fedsub_core.turn import Turn
from fedsub_core.version import VERSION
from fedsub_core.wire import exchange, handshake, metric_record
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Floats, dense
from fedsub_core.wire.codec import Address, encode_upload
from fedsub_core.wire.encoding import WireSettings, parse_encoding
from fedsub_core.wire.exchange import Content, Instructions
from fedsub_core.wire.handshake import Facts, Introduction
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.round import HeldModels, Round
from strategies.rounds.round_log import RoundMetrics
from strategies.rounds.transport import Transport

from .mutant_grid import NODE, MutantGrid

#: Of each kind.
MUTANTS = int(os.environ.get("FEDSUB_MUTANTS", "600"))
CLASSES = 3
DECLARED: Declaration = {"weight": dense((4, 3)), "bias": dense((4,))}


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def count(grid: MutantGrid, one: Callable[[], str]) -> Counter[str]:
    """Let the node answer as often as it should; return what became of its answers."""
    outcomes, since, slowest = Counter[str](), time.monotonic(), 0.0
    for _ in range(MUTANTS):
        start = time.thread_time()
        outcomes[one()] += 1
        slowest = max(slowest, time.thread_time() - start)
    took = time.monotonic() - since
    print(f"{MUTANTS} mutants in {took:.1f} s, the slowest {slowest:.3f} s: {dict(outcomes)}")
    assert slowest < 2.0
    # Most are refused, and some are not: else the mutants are too tame or too wild to tell much.
    assert set(outcomes) == {"used", "refused"} and min(outcomes.values()) > MUTANTS // 50
    return outcomes


SPLIT = SplitNote("in time by t, gap 2 s", 9, 4, 1, 0, 3)


def test_mutants_of_introductions(caplog: pytest.LogCaptureFixture) -> None:
    x = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)
    said = Introduction("p1", VERSION, ("a", "b", "c"), (4,), Facts(9), moments(x), split=SPLIT)
    grid = MutantGrid(Random(1))
    grid.good = RecordDict({handshake.HANDSHAKE: said.record()})
    link = Link(grid, grace=60.0)  # a loaded machine may take a while

    def one() -> str:
        caplog.clear()
        registry = NodeRegistry()
        registry.refresh(link)
        assert not registry.waiting, "an answer that is neither taken nor refused"
        assert max(map(len, caplog.messages), default=0) < 1500
        if not registry.nodes:
            assert registry.turned_away.keys() == {NODE}
            return "refused"
        (found,) = registry.introductions.values()
        assert found.facts.examples > 0 and 0 < found.facts.capacity.share <= 1
        assert np.isfinite([found.moments.sum, found.moments.sumsq]).all()
        return "used"

    count(grid, one)


#: A round whose devices send and receive what is declared.
CARD = replace(METHODS["fedavg"], sends=lambda *_: DECLARED, receives=lambda *_: DECLARED)
ROUND = Round(Turn(3, 9, 0), HeldModels(CARD, None, mlp(1, 2), lambda capacity: mlp(1, 2)))


def exchanged(grid: MutantGrid) -> tuple[Transport, Callable[[], list[tuple[str, Content, int]]]]:
    """Return a transport, and what asks its one client and returns its answers."""
    transport, link = Transport(WireSettings(parse_encoding("float32"))), Link(grid, 60.0)
    down = Bundle(tensors=weights(np.zeros))

    def ask() -> list[tuple[str, Content, int]]:
        told = Instructions(Turn(3, 9, 0), "fedavg")
        messages = transport.write("train", ROUND, {"p1": told}, [down], {"p1": NODE}, 20.0)
        return list(
            transport.read(3, transport.deliver(link, messages, {"p1": NODE}, 20.0, DECLARED))
        )

    return transport, ask


def weights(fill: Callable[[tuple[int, ...]], np.ndarray]) -> dict[str, Floats | Bits]:
    shapes = {"weight": (4, 3), "bias": (4,)}
    return {name: Floats(np.asarray(fill(s), np.float32)) for name, s in shapes.items()}


def test_mutants_of_uploads() -> None:
    grid, stream = MutantGrid(Random(2)), np.random.default_rng(2)
    transport, ask = exchanged(grid)
    upload = Bundle(examples=9, tensors=weights(stream.standard_normal))
    payload = encode_upload(upload, Address("p1", 3), DECLARED)
    grid.good = RecordDict(
        {
            exchange.PAYLOAD: exchange.pack(payload),
            exchange.REPORT: MetricRecord({"training_loss": 0.5}),
        }
    )

    def one() -> str:
        before = transport.refusals["p1"]
        for client, content, _ in ask():
            try:
                found = transport.decode(client, content, ROUND)
            except (MessageRefused, ValueError) as error:
                assert len(str(error)) < 1500
                transport.refuse(client, 3, error)
                continue
            transport.accept(client, found, content, ROUND)
            assert found.tensors.keys() == DECLARED.keys()
            for name, part in found.tensors.items():
                assert isinstance(part, Floats) and part.values.shape == DECLARED[name].shape
                assert (np.abs(part.values) <= 1e6).all()
            report = exchange.read_report(content, ("training_loss",))
            assert set(report) <= {"training_loss"}
            return "used"
        assert transport.refusals["p1"] == before + 1, "an answer that is neither used nor refused"
        return "refused"

    count(grid, one)
    assert {row.client for row in transport.collect(3)} == {"p1"}


def test_mutants_of_metrics() -> None:
    grid = MutantGrid(Random(3))
    transport, ask = exchanged(grid)
    fine = ClientMetrics(0.5, 0.5, 1.0, 0.1, {0: 0.5, 2: 0.25}, 9)
    grid.good = RecordDict(
        {exchange.METRICS: MetricRecord(dict(metric_record.metric_values(fine)))}
    )

    def one() -> str:
        metrics, before = RoundMetrics(3, CLASSES), transport.refusals["p1"]
        for client, content, _ in ask():
            try:
                metrics.take(client, content)
            except MessageRefused as error:
                assert len(str(error)) < 1500
                transport.refuse(client, 3, error)
        rows = metrics.rows()
        if not rows:
            assert transport.refusals["p1"] == before + 1
            return "refused"
        assert {row.label for row in rows} <= {None, *range(CLASSES)}
        assert all(0 <= r.value <= 1 for r in rows if r.metric not in ("loss", "examples"))
        assert len({(row.metric, row.label) for row in rows}) == len(rows)
        return "used"

    count(grid, one)
