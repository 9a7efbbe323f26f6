"""Models of simulated people are collected after the last round; a person's never is."""

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import Message, MessageType, RecordDict

from fedsub_client.loaded_model import load_model
from fedsub_core.wire import exchange
from fedsub_core.wire.handshake import HANDSHAKE
from fedsub_server import collected_models

PEOPLE = ["anna", "ben", "cleo"]


@pytest.mark.parametrize("method", ["fedsub", "fedavg", "fedavg-finetune", "fedsub-gated"])
def test_the_models_of_simulated_people_are_those_that_their_nodes_keep(
    data: str, tmp_path: Path, method: str, configuration: Any, serve: Any, devices: Any
) -> None:
    config = configuration(data, tmp_path / "run", method=method, rounds=2)
    grid = devices(config)
    serve(grid, config)
    folder = tmp_path / "run" / method / "models"
    assert sorted(p.name for p in folder.iterdir()) == [f"{name}.safetensors" for name in PEOPLE]
    for client, saved in grid.states().items():
        found = load_model(folder / f"{client}.safetensors").params
        assert found.keys() == saved.model.params.keys()
        assert all(torch.equal(found[name], t) for name, t in saved.model.params.items())
    models = [load_model(folder / f"{name}.safetensors").params for name in PEOPLE[:2]]
    one, other = ([t for key, t in m.items() if "linear1.weight" in key] for m in models)
    alike = all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))
    assert one and alike == (method == "fedavg"), "the global one, or own ones"


def test_devices_of_real_people_are_not_asked(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any
) -> None:
    config = configuration(data, tmp_path / "run", rounds=1)
    grid = devices(config, tmp_path / "devices")
    serve(grid, config)
    assert MessageType.QUERY not in {kind for _, kind, *_ in grid.asked}
    assert not (tmp_path / "run" / "fedsub" / "models").exists()


def test_models_of_a_method_that_had_finished_stay_as_they_are(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any
) -> None:
    """Its nodes are gone; those of now have only trained the method that was added."""
    first = configuration(data, tmp_path / "run", method="local", rounds=2)
    serve(devices(first), first)
    folder = tmp_path / "run" / "local" / "models"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    more = configuration(data, tmp_path / "run", method="fedavg", beside="local", rounds=2)
    serve(devices(more), more)
    assert len(before) == 3
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert len(list((tmp_path / "run" / "fedavg" / "models").iterdir())) == 3


def test_a_node_that_answers_with_an_error_costs_its_model_and_a_warning(
    data: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
) -> None:
    config = configuration(data, tmp_path / "run", rounds=1, beside="local")
    grid = devices(config)
    grid.failing = {"ben"}
    serve(grid, config)
    for method in ("fedsub", "local"):
        folder = tmp_path / "run" / method / "models"
        assert sorted(p.stem for p in folder.iterdir()) == ["anna", "cleo"]
    assert caplog.text.count("client ben: sends no model: a bad day") == 2
    assert (tmp_path / "run" / "summary.json").exists()


def test_what_is_no_model_or_larger_than_one_is_not_written(
    data: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
) -> None:
    config = configuration(data, tmp_path / "run", rounds=1)
    grid = devices(config)
    swollen = RecordDict({exchange.PAYLOAD: exchange.pack(bytes(10**7))})
    grid.instead = {"anna": RecordDict(), "ben": swollen}
    serve(grid, config)
    folder = tmp_path / "run" / "fedsub" / "models"
    assert [path.stem for path in folder.iterdir()] == ["cleo"]
    assert "client anna: sends no model: no fedsub.v2 payload" in caplog.text
    assert "client ben: sends no model: got 10000000 bytes, expected" in caplog.text


def test_one_device_among_real_ones_that_says_it_is_simulated_is_not_asked(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any
) -> None:
    config = configuration(data, tmp_path / "run", rounds=1)
    grid = devices(config, tmp_path / "devices")
    honest = grid._work

    def lie(message: Message) -> Message | None:
        reply: Message | None = honest(message)
        said = {} if reply is None else reply.content.config_records
        if message.metadata.dst_node_id == 1 and HANDSHAKE in said:
            said[HANDSHAKE]["people"] = said[HANDSHAKE]["nodes"] = 1
        return reply

    grid._work = lie
    serve(grid, config)
    assert MessageType.QUERY not in {kind for _, kind, *_ in grid.asked}
    assert not (tmp_path / "run" / "fedsub" / "models").exists()


def test_a_node_that_never_answers_is_not_waited_for_for_ever(
    data: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    configuration: Any,
    serve: Any,
    devices: Any,
) -> None:
    monkeypatch.setattr(collected_models, "MODEL_SECONDS", 0.5)
    config = configuration(data, tmp_path / "run", rounds=1)
    grid = devices(config)
    grid.silent = {"cleo"}
    begun = time.monotonic()
    serve(grid, config)
    assert time.monotonic() - begun < 30
    folder = tmp_path / "run" / "fedsub" / "models"
    assert sorted(p.stem for p in folder.iterdir()) == ["anna", "ben"]
    assert (tmp_path / "run" / "summary.json").exists()
    assert "client cleo: sends no model: no answer within 0.5 s" in caplog.text
