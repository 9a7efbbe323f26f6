"""Devices without PyTorch: of closed-form methods they are as good as others; asked to train they
refuse.
"""

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Error, Message

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.refusals import refused
from fedsub.testing.runs import assert_equal, people
from fedsub_client.saved_state import Saved
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.errors import RunError

#: Features, and windows; how samples are used, which models, what is added up.
RUNS: list[dict[str, Any]] = [
    {"standardise": "client", "unlabelled": 0.3, "fedsub-ridge.groups": "class"},
    {"data": "watch", "encoder": "kernels:50+statistics", "upload-encoding": "delta,int8"},
    {"best-by": "validation", "fedsub-ridge.smooth": 0.5, "encoder": "ranks:20"},
    {"secure-aggregation": True, "robust": "none", "standardise": "federation"},
]
PEOPLE, ROUNDS = 4, 3


class Process:
    """A process without PyTorch, in which devices answer."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("without_pytorch.py"))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, what: Any) -> Any:
        """Return its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    def end(self) -> set[str]:
        """End it; return the modules that it loaded."""
        loaded: list[str] = self.ask(None)
        self._process.communicate()
        assert self._process.returncode == 0
        return set(loaded)


@pytest.fixture(scope="module")
def process() -> Iterator[Process]:
    """A process without PyTorch, which loads nothing else that computes either."""
    started = Process()
    yield started
    loaded = started.end()
    assert "fedsub_client.methods.fedsub_ridge" in loaded
    assert not {"torch", "scipy", "sklearn", "pandas"} & loaded


class Elsewhere(DeviceGrid):
    """Simulated SuperNodes in a process without PyTorch."""

    def __init__(self, config: RunConfig, process: Process) -> None:
        super().__init__(config, PEOPLE)
        self.process = process
        nodes = [(node, one.node_config, one.run_config) for node, one in self.contexts.items()]
        process.ask(nodes)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        for message in messages:
            of = message.metadata
            answer = self.process.ask((of.message_type, of.dst_node_id, message.content))
            yield Message(Error(0, answer) if isinstance(answer, str) else answer, reply_to=message)

    def saved(self, place: int) -> Saved:
        state: bytes = self.process.ask(place + 1)
        return Saved.of_bytes(state)


def run_on(grid: DeviceGrid, config: RunConfig) -> tuple[list[Any], list[Any]]:
    """Return the server's state after each round, and all rows of metrics."""
    strategy, states, rows = build_strategy(config, "fedsub-ridge"), list[Any](), list[Any]()

    def note(round: int, state: dict[str, torch.Tensor], new: Sequence[Any]) -> None:
        states.append({key: tensor.clone() for key, tensor in state.items()})
        rows.extend(new)

    strategy.on_round = note
    strategy.start(grid)
    return states, rows


@pytest.mark.parametrize("keys", RUNS, ids=lambda keys: "-".join(keys))
def test_a_run_of_devices_without_it_is_a_run_of_devices_with_it(
    tmp_path: Path, process: Process, keys: dict[str, Any]
) -> None:
    """Sums, models and states to the bit; a logarithm's last digits are another library's."""
    federation = watch_federation() if "data" in keys else people()
    some = dict(list(federation.clients.items())[:PEOPLE])
    write_federation(tmp_path / "data", Federation(federation.card, some))
    given: dict[str, Any] = {
        "method": "fedsub-ridge",
        "beside": "",
        "rounds": ROUNDS,
        "device": "cpu",
    }
    config = read_config(None, given | keys | {"data": str(tmp_path / "data")})
    here, elsewhere = DeviceGrid(config, PEOPLE), Elsewhere(config, process)
    (states, rows), (theirs, their_rows) = run_on(here, config), run_on(elsewhere, config)
    assert len(states) == ROUNDS
    for ours, other in zip(states, theirs, strict=True):
        assert_equal(ours, other)
    named = [(r.round, r.client, r.metric, r.label) for r in rows]
    assert named == [(r.round, r.client, r.metric, r.label) for r in their_rows]
    scores = [(r.value, o.value) for r, o in zip(rows, their_rows, strict=True) if r.client]
    assert [ours for ours, _ in scores] == pytest.approx([o for _, o in scores], 1e-6, nan_ok=True)
    for place in range(PEOPLE):
        ours, other = here.saved(place), elsewhere.saved(place)
        assert ours.model is not None and other.model is not None
        if "fedsub-ridge.smooth" not in keys:
            assert ours.to_bytes() == other.to_bytes() or keys.get("secure-aggregation")
            assert_equal(ours.model.params, other.model.params)
            continue
        for name, tensor in ours.model.params.items():  # means of models are rounded otherwise
            torch.testing.assert_close(other.model.params[name], tensor, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("keys", "got"),
    [
        ({"method": "fedavg"}, "fedavg, which trains a model"),
        ({"beside": "local"}, "local, which trains a model"),
        ({"encoder": "net.py:Net"}, "which is a module"),
    ],
)
def test_what_needs_it_is_refused_before_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process: Process,
    keys: dict[str, Any],
    got: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def Net(shape): return nn.Sequential(nn.Linear(*shape, 5), nn.Tanh())\n"
    )
    write_federation(tmp_path / "data", people())
    given: dict[str, Any] = {"method": "fedsub-ridge", "beside": "", "join-timeout": 0.1}
    given["data"] = str(tmp_path / "data")
    config = read_config(None, given | keys)
    elsewhere = Elsewhere(config, process)
    with refused(RunError, "p1", "p4", got=got, expected="pip install 'fedsub[train]'"):
        build_strategy(config, config.method).start(elsewhere)
