"""A device built from docs/wire-format.md alone takes part: the page is enough, and true."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from torch import Tensor

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.cover import turns
from fedsub_client.app import app as our_app
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.federation import write_federation
from fedsub_core.metrics import MetricRow

from .bare_setup import AppGrid, node, node_config, people, write_own_data

#: One batch holds all of anybody's samples, so that its order does not matter.
KEYS: dict[str, Any] = {
    "rounds": 3,
    "epochs": 3,
    "lr": 0.05,
    "batch-size": 1000,
    "beside": "",
    "device": "cpu",
    "threads": 1,
    "min-clients": 3,
    "join-timeout": 5,
    "round-timeout": 5,
    "fedsub.relevance": "naive",
    "fedsub.k-selection": "fixed:1",
    "fedsub.fusion": "avg",
}


class Outcome:
    """A run's grid, its metrics and the server's last state."""

    def __init__(self, config: RunConfig, grid: Any) -> None:
        self.grid, self.rows = grid, list[MetricRow]()
        strategy = build_strategy(config, config.method)
        strategy.outset.run_config = to_flat(config)
        strategy.on_round = lambda round, state, rows: self.rows.extend(rows)
        strategy.start(grid)
        self.state: dict[str, Tensor] = dict(strategy.state or {})

    def metric(self, name: str) -> dict[tuple[int, str, int | None], float]:
        return {(r.round, r.client, r.label): r.value for r in self.rows if r.metric == name}


def run_with(bare: Any, config: RunConfig, folder: Path, joined: bool = True) -> Outcome:
    """Run three people; the last one's device is the bare one."""
    federation = people()
    write_federation(folder / "data", federation)
    write_own_data(folder / "own", config, federation, "p3")
    nodes = {
        i: node(our_app, config, {"client-id": f"p{i}", "data": str(folder / "data")}, i)
        for i in (1, 2)
    }
    nodes[3] = node(bare.app, config, node_config("p3", folder / "own", joined), 3)
    return Outcome(config, AppGrid(nodes))


def run_ours(config: RunConfig) -> Outcome:
    """Run the same people on our devices alone."""
    grid = build_grid(config, config.method, people())
    try:
        return Outcome(config, grid)
    finally:
        grid.close()


#: What the last round's sum of three rounds' roundings may come to.
ENCODINGS = [
    ("float32", "float32", 1e-5),
    ("delta", "delta", 1e-5),
    ("bfloat16", "bfloat16", 5e-3),
    ("int8,delta", "int8,delta", 5e-3),
    ("delta,top-k:0.5,bfloat16", "float32", 2e-2),
]


@pytest.mark.parametrize(("upload", "download", "bound"), ENCODINGS)
def test_fedavg_is_the_run_of_our_devices(
    upload: str, download: str, bound: float, bare: Any, tmp_path: Path
) -> None:
    encodings = {"upload-encoding": upload, "download-encoding": download}
    config = read_config(None, KEYS | {"method": "fedavg"} | encodings)
    mixed, ours = run_with(bare, config, tmp_path), run_ours(config)
    assert not mixed.metric("refused_replies") and not mixed.metric("missing_replies")
    everybody = {(round, f"p{i}", None) for round in (1, 2, 3) for i in (1, 2, 3)}
    assert mixed.metric("bytes_up_sent").keys() == everybody
    assert mixed.state.keys() == ours.state.keys()
    for name, tensor in ours.state.items():
        np.testing.assert_allclose(mixed.state[name], tensor, atol=bound, err_msg=name)
    if bound < 1e-4:
        for name in ("training_loss", "loss", "accuracy", "macro_f1", "weighted_f1", "f1"):
            wanted = ours.metric(name)
            assert wanted and mixed.metric(name) == pytest.approx(wanted, abs=1e-4), name


@pytest.mark.parametrize("text", ["relu:30", "ranks:30"])
def test_an_encoder_is_drawn_as_ours(text: str, bare: Any, tmp_path: Path) -> None:
    config = read_config(None, KEYS | {"method": "fedavg", "encoder": text, "seed": 6})
    mixed, ours = run_with(bare, config, tmp_path), run_ours(config)
    assert not mixed.metric("refused_replies") and not mixed.metric("missing_replies")
    # Four features, and 30 units.
    assert next(iter(ours.state.values())).shape[-1] == 34
    for name, tensor in ours.state.items():
        np.testing.assert_allclose(mixed.state[name], tensor, atol=1e-5, err_msg=name)
    assert mixed.metric("loss") == pytest.approx(ours.metric("loss"), abs=1e-4)


@pytest.mark.parametrize(("encoding", "depth"), turns(["float32", "delta"], [0, 2]))
def test_fedsub_is_the_run_of_our_devices(
    encoding: str, depth: int, bare: Any, tmp_path: Path
) -> None:
    keys = {"method": "fedsub", "upload-encoding": encoding, "download-encoding": encoding}
    config = read_config(None, KEYS | keys | {"fedsub.depth": depth})
    mixed, ours = run_with(bare, config, tmp_path), run_ours(config)
    assert not mixed.metric("refused_replies")
    assert mixed.state.keys() == ours.state.keys()
    for name, tensor in ours.state.items():
        if name != "versions":  # a device's own name for its prototypes
            np.testing.assert_allclose(mixed.state[name], tensor, atol=1e-5, err_msg=name)
    assert mixed.metric("accuracy") == pytest.approx(ours.metric("accuracy"))
    # The server holds its prototypes from the first round on: they are sent once.
    sent = mixed.metric("bytes_up_sent")
    assert mixed.state["versions"][2] != 0
    if encoding == "float32":
        assert sent[1, "p3", None] > sent[2, "p3", None] + 4 * 2 * 4


def test_the_server_sends_what_the_page_says(bare: Any, tmp_path: Path) -> None:
    """To who does not join messages; to who does, one record."""
    turn, down = {"payload", "turn"}, {"payload", "report"}
    for method, also in (("fedavg", set[str]()), ("fedsub", {"metrics"})):
        config = read_config(None, KEYS | {"method": method, "rounds": 1})
        outcome = run_with(bare, config, tmp_path / method, joined=False)
        ours = [records for n, _, group, *records in outcome.grid.seen if n == 1 and group != "0"]
        assert ours and all(records == [{"joined"}, {"joined"}] for records in ours)
        seen = [one for n, *one in outcome.grid.seen if n == 3]
        expected: list[list[Any]] = [
            [MessageType.QUERY, "0", {"handshake", "settings"}, {"handshake"}],
            [MessageType.TRAIN, "1", turn, down | also],
        ]
        if not also:
            expected.append([MessageType.EVALUATE, "1", turn, {"metrics"}])
        assert seen == expected


def test_asked_again_it_sends_the_same_reply(bare: Any, tmp_path: Path) -> None:
    config = read_config(None, KEYS | {"method": "fedsub", "upload-encoding": "delta"})
    device = run_with(bare, config, tmp_path).grid.nodes[3]
    turn: Any = {"round": 3, "rounds": 3, "seed": config.seed, "method": "fedsub"}
    again = Message(RecordDict({"turn": ConfigRecord(turn)}), 3, MessageType.TRAIN, group_id="3")
    kept = {name: record.copy() for name, record in device.context.state.array_records.items()}
    first, second = (
        device.app(again, device.context).content.array_records["payload"]["payload"].data
        for _ in range(2)
    )
    sent = kept["fedsub/"]["reply"].numpy().tobytes()
    assert first == second == sent
    assert {name: dict(r) for name, r in device.context.state.array_records.items()} == {
        name: dict(r) for name, r in kept.items()
    }


def test_it_refuses_a_server_of_another_wire(bare: Any, tmp_path: Path) -> None:
    config = read_config(None, KEYS | {"method": "fedavg"})
    write_own_data(tmp_path, config, people(), "p3")
    device = node(bare.app, config, node_config("p3", tmp_path), 3)
    for wires, refused in (([2, 3], False), ([3], True)):
        said = ConfigRecord({"version": "9.0", "schema": "fedsub.v3", "wires": wires, "given": []})
        told = ConfigRecord(to_flat(config))  # type: ignore[arg-type]
        records = RecordDict({"handshake": said, "settings": told})
        question = Message(records, 3, MessageType.QUERY, group_id="0")
        with pytest.raises(Exception, match="the server speaks") if refused else nullcontext():
            device.app(question, device.context)
