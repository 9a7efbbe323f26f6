"""What people send once lies in files, where it is much: no bit of a run is another."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.order_tests import calls_of, differing
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, assert_equal_models, people, running
from fedsub_core.config.robust import RobustSettings
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import RunError
from fedsub_core.mapped_file import is_mapped, mapped
from fedsub_core.placement import Placement
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part, Whole
from fedsub_server.rundb import RunDatabase
from strategies.rounds import on_disk
from strategies.rounds.on_disk import OnDisk, put_away
from strategies.rounds.undoing import Undoing

NAME = "fedsub-ridge"
SMALL: dict[str, Any] = {"encoder": "relu:20", "rounds": 4}


def lying_on_disk(state: dict[str, torch.Tensor] | None) -> set[str]:
    assert state is not None
    return {name for name, tensor in state.items() if is_mapped(tensor.numpy())}


@pytest.fixture
def run_method() -> Iterator[RunMethod]:
    with running() as run:
        yield run


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "PORTION", 1)
    monkeypatch.setattr(on_disk, "OF_A_ROUND", 1)


@pytest.mark.parametrize("hyper", [{}, {"groups": "nearest", "near": 2}, {"forgetting": 0.9}])
def test_a_run_with_sums_in_files_is_the_same(
    hyper: dict[str, Any], run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = run_method(NAME, hyper=hyper, **SMALL)
    assert not lying_on_disk(in_memory.strategy.state)
    monkeypatch.setattr(on_disk, "PORTION", 1)
    in_files = run_method(NAME, hyper=hyper, **SMALL)
    assert lying_on_disk(in_files.strategy.state) == {f"gram/p{i}" for i in range(1, 5)}
    for ours, theirs in zip(in_files.states, in_memory.states, strict=True):
        assert_equal(ours, theirs)
    assert_equal_models(in_files, in_memory)


@pytest.mark.parametrize("method", ["fedavg", "fedsub", "fedfomo"])
def test_a_round_of_many_whose_uploads_lie_in_files_is_the_same(
    method: str, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = run_method(method, rounds=3)
    monkeypatch.setattr(on_disk, "OF_A_ROUND", 1)
    made = list[int]()

    def counted(arrays: Any) -> Any:
        made.append(len(arrays))
        return mapped(arrays)

    monkeypatch.setattr(on_disk, "mapped", counted)
    in_files = run_method(method, rounds=3)
    assert len(made) == 3 * 4, "each person's of each round"
    for ours, theirs in zip(in_files.states, in_memory.states, strict=True):
        assert_equal(ours, theirs)
    assert_equal_models(in_files, in_memory)


def test_uploads_of_devices_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What devices send is in no file of the server that they were not told of."""
    monkeypatch.setattr(on_disk, "OF_A_ROUND", 1)
    for simulated in (False, True):
        uploads = {"a": Bundle(1, tensors={"w": Floats(np.ones(9, np.float32))})}
        OnDisk((), simulated).put("a", uploads)
        assert is_mapped(uploads["a"].floats("w")) == simulated


@pytest.mark.usefixtures("always")
def test_an_upload_in_files_keeps_nothing_of_what_came_with_it() -> None:
    """What a worker's people sent comes in one piece; each array is a view of it."""
    came = np.zeros(64, np.uint8)
    came[20:28].view(np.float32)[:], came[40] = (3, 4), 1
    parts: dict[str, Part] = {
        "gram": Whole(came[:8].view(np.int16)),
        "cross": Whole(came[8:16].view(np.int16)),
        "mask": Bits(came[16:20].view(np.bool_)),
        "rows": Floats(came[20:28].view(np.float32), Placement(rows=came[32:48].view(np.int64))),
        "all": Floats(came[48:].view(np.float32)),
    }
    uploads, piece = {"a": Bundle(1, tensors=parts)}, ref(came)
    expected = {name: part.values.tolist() for name, part in parts.items()}
    OnDisk({"gram"}, simulated=True).put("a", uploads)
    del came, parts
    assert piece() is None
    found = {name: part.values for name, part in uploads["a"].tensors.items()}
    assert {name: values.tolist() for name, values in found.items()} == expected
    assert {n for n, values in found.items() if is_mapped(values)} == {"gram", "rows", "all"}
    assert uploads["a"].part("rows").at.rows is not None


@pytest.mark.usefixtures("always")
def test_the_half_answers_alike_in_any_order() -> None:
    calls = calls_of(NAME, encoder="relu:20")
    strategy = build_strategy(RunConfig(method=NAME, beside="", rounds=3), NAME)
    assert differing(strategy.half, calls) == []


@pytest.mark.usefixtures("always")
def test_who_is_forgotten_leaves_the_sums_of_the_others(run_method: RunMethod) -> None:
    run = run_method(NAME, **SMALL)
    assert run.strategy.state is not None
    left = run.strategy.half.without(run.strategy.state, "p2")
    assert "gram/p2" not in left and lying_on_disk(left) == {"gram/p1", "gram/p3", "gram/p4"}
    assert_equal(left, run.strategy.half.without(run.states[-1], "p2"))


@pytest.mark.usefixtures("always")
def test_a_run_is_stored_and_goes_on(tmp_path: Path, run_method: RunMethod) -> None:
    run = run_method(NAME, **SMALL)
    with RunDatabase(tmp_path / "state.db", {}) as database:
        database.commit(4, {"server": run.strategy.lasting_state()}, [])
        back = database.load()[1]["server"]
    assert_equal(back, run.strategy.lasting_state())
    strategy = build_strategy(RunConfig(method=NAME, beside="", **SMALL), NAME)
    strategy.resume(4, back)
    assert len(lying_on_disk(strategy.state)) == 4
    assert_equal(strategy.lasting_state(), back)


def test_few_stay_in_memory_and_others_go_by_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_disk, "PORTION", 2 * 2 * 100)
    some, uploads = OnDisk({"gram"}), dict[str, Bundle]()
    for i, name in enumerate("abcde"):
        tensors = {"gram": Whole(np.full(100, i, np.int16)), "cross": Whole(np.zeros(3, np.int16))}
        uploads[name] = Bundle(1, tensors=tensors)
        some.put(name, uploads)
    uploads["f"] = Bundle(1)
    some.put("f", uploads)
    away = {name: is_mapped(uploads[name].whole("gram")) for name in "abcde"}
    assert away == {"a": True, "b": True, "c": True, "d": True, "e": False}
    assert [int(uploads[name].whole("gram")[7]) for name in "abcde"] == [0, 1, 2, 3, 4]
    assert not is_mapped(uploads["a"].whole("cross"))
    state = {"gram/e": torch.zeros(100, dtype=torch.int16), "everybody.gram": torch.zeros(999)}
    assert put_away(state, {"gram"}) == state
    state["gram/f"] = torch.ones(100, dtype=torch.int16)
    assert lying_on_disk(put_away(state, {"gram"})) == {"gram/e", "gram/f"}


def test_what_is_kept_is_not_copied_to_undo_a_round() -> None:
    state = {"gram/a": torch.ones(3, dtype=torch.int16), "other/a": torch.ones(3)}
    undoing = Undoing(RobustSettings.parse("none", 0.2))
    undoing.note(state, {}, {}, {}, {"gram"})
    noted = undoing._done[0].state
    assert noted["gram/a"] is state["gram/a"] and noted["other/a"] is not state["other/a"]


@pytest.mark.parametrize("name", [NAME, "fedavg"])
@pytest.mark.usefixtures("always")
def test_a_folder_that_takes_nothing_ends_the_run_by_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **SMALL)
    grid, strategy = build_grid(config, name, people()), build_strategy(config, name)
    rounds = list[int]()
    strategy.on_round = lambda round, state, rows: rounds.append(round)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    try:
        with refused(RunError, str(tmp_path / "full"), "TMPDIR", expected="a folder with room"):
            strategy.start(grid)
    finally:
        grid.close()
    assert rounds == []
