"""Runs on the workers of a real Ray cluster: one machine's bytes, lost workers, resumed runs."""

import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from flwr.app import ArrayRecord, ConfigRecord, Message

from fedsub.cli import cli
from fedsub.engines import ray_grid, ray_states, stacks
from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.held_uploads import HoldingGrid
from fedsub.engines.in_process_grid import SimulationGrid
from fedsub.engines.ray_grid import ATTEMPTS, RayGrid
from fedsub.engines.ray_states import KeptStates, in_files
from fedsub.engines.ray_worker import alone, answers, first
from fedsub.engines.simulation import (
    MakeGrid,
    build_grid,
    build_strategy,
    ray_grids,
    split_clients,
)
from fedsub.studies.run import MethodProgress, train_methods
from fedsub.testing.refusals import refused
from fedsub.testing.runs import HIDDEN, RunMethod, assert_equal, people, running
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.flower.messages import stamp_id
from fedsub_core.mapped_file import is_mapped
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, FloatArray, Whole
from fedsub_core.wire.in_process_message import content_of
from fedsub_core.wire.lazy_message import LazyMessage, Tensors
from fedsub_core.wire.raw_tensor import RawTensor
from strategies.rounds import link, on_disk

from ..ray_nodes import Nodes

#: A mean, a model of one's own beside it, FedSub with clusters that mix, and sampling.
METHODS = {"method": "fedsub", "beside": "fedavg,ditto", "fedsub.k-selection": "fixed:2"}
FIVE = people(((0, 1, 2),) * 5, samples=20)


@pytest.fixture
def run_method() -> Iterator[RunMethod]:
    """Run a method's rounds in this process."""
    with running(hidden=HIDDEN) as run:
        yield run


def config(**keys: str | int | float) -> RunConfig:
    """A short run whose uploads are differences, so that clients keep what they sent."""
    given = {
        "rounds": 4,
        "seed": 3,
        "upload-encoding": "delta",
        "clients-per-round": 4,
        **METHODS,
        **keys,
    }
    return read_config(None, given)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a round of five go in parts, as one of thousands does; what is kept lies in files."""
    monkeypatch.setattr(link, "AT_ONCE", 1)
    monkeypatch.setattr(on_disk, "OF_A_ROUND", 1)
    monkeypatch.setattr(ray_grid, "STACKS", 1)
    monkeypatch.setattr(ray_grid, "PORTION", 1)
    monkeypatch.setattr(ray_states, "PORTION", 1)
    monkeypatch.setitem(stacks.CHUNK, "cpu", 1)  # of the driver: workers have stacks of eight


class Pickled(CohortGrid):
    """A grid of one process whose replies and states are pickled, as they leave a Ray worker."""

    by_reference = RayGrid.by_reference

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Note of each exchange: bytes of replies and states as they are, and of their numbers."""
        replies = list(super().answers(messages))
        states = alone(self.state())
        left = len(pickle.dumps((replies, states)))  # first: who looks at a reply has it written
        held = sum(t.nbytes for own in states.values() for t in own.values())
        sent = sum(
            len(exchange.unpack(reply.content))
            for reply in replies
            if exchange.PAYLOAD in reply.content
        )
        numbers = held + sent
        SIZES.append((left, numbers))
        yield from replies


SIZES: list[tuple[int, int]] = []


def test_what_leaves_a_worker_takes_its_numbers_bytes(tmp_path: Path) -> None:
    """A part of a stack would take the whole stack with it, for each person."""
    many = people(((0, 1, 2),) * 16, samples=20)
    run = read_config(None, {"method": "ditto", "beside": "", "rounds": 2, "hidden": "256"})
    SIZES.clear()

    def grid(config: RunConfig, name: str, federation: Federation) -> CohortGrid:
        settings = config.device_settings(name)
        clients = split_clients(settings.split, federation, config.capacity_settings)
        return Pickled(settings, federation.card, clients, "cpu")

    train_methods(run, many, tmp_path, quiet, grid)
    assert max(numbers for _, numbers in SIZES) > 16 * 2 * 4 * 256
    assert all(size <= 1.1 * numbers + 2000 * 16 for size, numbers in SIZES)


def test_what_people_hold_alike_leaves_a_worker_once() -> None:
    alike, own = torch.rand(10_000).expand(16, -1), torch.rand(16, 50)
    states = {f"client/{i}": {"alike": alike[i], "own": own[i], "too": own[i]} for i in range(16)}
    data = pickle.dumps(alone(states))
    assert len(data) <= 1.1 * (alike[0].nbytes + own.nbytes) + 16 * 500
    found = pickle.loads(data)
    for client, expected in states.items():
        assert all(torch.equal(found[client][name], t) for name, t in expected.items())
    half = alone({"client/a": {"w": own[0]}, "client/b": {"w": own[0, :25]}})
    assert half["client/b"]["w"].shape == (25,), "what begins at one place may end at others"


def test_what_leaves_a_worker_is_of_who_is_asked() -> None:
    """Before the first round all begin alike; in a round some answer after others."""
    many = people(((0, 1, 2),) * 20, samples=5)
    config = read_config(None, {"method": "ditto", "beside": "", "rounds": 2, "hidden": "1024"})
    grid, strategy = build_grid(config, "ditto", many), build_strategy(config, "ditto")
    everybody = first(grid)
    model = sum(t.nbytes for t in everybody["client/p1"].values()) / 2
    assert everybody.keys() == grid.state().keys()
    assert len(pickle.dumps(everybody)) <= 1.1 * model + 20 * 1000
    strategy.connect(grid)
    asked = list(strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid))[:4]
    for message in asked:
        stamp_id(message, str(message.metadata.dst_node_id))
    replies, kept = answers(grid, asked)
    assert len(replies) == len(kept) == 4
    assert len(pickle.dumps(kept)) <= 1.1 * 2 * 4 * model
    grid.close()


def test_what_many_keep_lies_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alike, states = torch.rand(3, 5), {}
    for i in range(3):
        own = {"n": torch.tensor(i), "met": torch.tensor(i > 1), "own": alike + i, "w": alike}
        states[f"client/{i}"] = own
    assert in_files(states) is states, "few stay in memory"
    monkeypatch.setattr(ray_states, "PORTION", 1)
    found = in_files(states)
    for client, own in states.items():
        assert_equal(found[client], own)
        assert all(is_mapped(tensor.numpy()) for tensor in found[client].values())
        assert found[client]["w"] is found["client/0"]["w"], "what all keep lies there once"
    assert len(pickle.dumps(found["client/0"])) < 3000, "one's part of the file leaves without it"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    with refused(RunError, str(tmp_path / "full"), "TMPDIR", expected="a folder with room"):
        in_files(states)


def test_small_answers_of_many_lie_in_files_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part of a round is below what makes a file; all of them are not."""
    monkeypatch.setattr(ray_states, "PORTION", 4 * 40)
    kept = KeptStates(1)
    for i in range(10):
        kept.keep(0, {f"client/{i}": {"w": torch.full((10,), float(i))}})
    lying = [is_mapped(own["w"].numpy()) for own in kept.of[0].values()]
    assert lying == [True] * 8 + [False] * 2
    assert [own["w"][0].item() for own in kept.of[0].values()] == list(range(10))
    kept.put(0, {})
    for i in range(10, 14):
        kept.keep(0, {f"client/{i}": {"w": torch.zeros(10)}})
    assert list(kept.of[0]) == [f"client/{i}" for i in range(10, 14)], "what was before is gone"


def test_what_all_were_sent_is_held_once_however_often_it_comes() -> None:
    """Each part of a round, of each worker, brings it anew."""
    kept, model = KeptStates(2), torch.rand(50)
    for part in range(4):
        sent, other = model.clone(), model.clone().reshape(5, 10)
        own = {f"client/{part}{i}": {"w": sent, "v": other, "own": model + i} for i in range(2)}
        kept.keep(part % 2, own)
        for client, tensors in own.items():
            assert_equal(kept.of[part % 2][client], tensors)
    every = [own for of in kept.of for own in of.values()]
    assert len({id(own["w"]) for own in every}) == 1
    assert len({id(own["v"]) for own in every}) == 1, "the same numbers in another shape"
    assert len({id(own["own"]) for own in every}) == len(every) == 8


def test_models_of_some_stacks_leave_without_the_others(run_method: RunMethod) -> None:
    run = run_method("ditto", people(((0, 1, 2),) * 20, samples=5))
    grid, turn = run.grid, run.strategy.turn(3)
    stacks = grid.stacks(turn.round)
    assert len(stacks) > 1
    received = {client: Bundle() for client in stacks[1]}
    models = list(grid.personal_models(turn, run.strategy.population.agreed.scaling, received))
    assert [model.client for model in models] == stacks[1]
    expected = run.models()
    for model in models:
        assert_equal(dict(model.params), expected[model.client])
    numbers = sum(t.nbytes for model in models for t in model.params.values())
    assert len(pickle.dumps(models)) <= 1.1 * numbers + 4000 * len(models)


def quiet(name: str, round: int) -> None:
    """Tell nobody."""


def trained(
    run: RunConfig,
    folder: Path,
    make_grid: MakeGrid = build_grid,
    progress: MethodProgress = quiet,
    federation: Federation = FIVE,
) -> dict[str, bytes]:
    """Train a run's methods; return what its files hold, but times."""
    folder.mkdir(exist_ok=True)
    train_methods(run, federation, folder, progress, make_grid)
    files = [*folder.glob("*/metrics.csv"), *folder.glob("*/models/*")]
    assert len(files) == 3 * (1 + 5)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_a_run_ends_in_the_bytes_of_one_machine(nodes: Nodes, tmp_path: Path) -> None:
    # Best rounds are what clients keep besides.
    best: dict[str, str | int | float] = {"best-by": "validation"}
    whole, half = config(**best), config(**best, rounds=2)
    expected = trained(whole, tmp_path / "local")
    with ray_grids(nodes.address) as grids:
        assert trained(whole, tmp_path / "ray", grids) == expected
        # Begun there, it goes on here; and the other way round.
        trained(half, tmp_path / "begun", grids)
        assert trained(whole, tmp_path / "begun") == expected
        trained(half, tmp_path / "local-first")
        assert trained(whole, tmp_path / "local-first", grids) == expected


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_sums_of_workers_are_one_machines_also_where_one_is_lost(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is lost after its people trained: their uploads are gone, and they train again."""
    run = config(**{"upload-encoding": "float32", "method": "ditto", "beside": "local,fedavg"})
    expected, lost = trained(run, tmp_path / "local"), list[str]()

    def lossy(run: RunConfig, name: str, federation: Federation) -> SimulationGrid:
        grid = grids(run, name, federation)
        assert isinstance(grid, RayGrid) and grid._holds
        lengths = grid._sums.squared_lengths

        def lose(start: Mapping[str, FloatArray]) -> dict[str, float]:
            if grid._round == 3:
                grid._ray.kill(grid._workers[1])
                lost.append(name)
            return lengths(start)

        def numbers(client: str, name: str) -> FloatArray:
            raise AssertionError(f"{client}: {name} is fetched")

        grid._sums.squared_lengths = lose  # type: ignore[method-assign]
        grid._sums.numbers = numbers  # type: ignore[method-assign]
        return grid

    with ray_grids(nodes.address) as grids:
        assert trained(run, tmp_path / "ray", lossy) == expected
    assert lost == ["ditto", "fedavg"]
    assert caplog.text.count("a worker was lost and is replaced") == 2


def with_a_liar(grid: SimulationGrid, lose: Callable[[int], None]) -> SimulationGrid:
    """Return a grid in which p2 sends sums that no samples have; `lose` is told each exchange."""
    answers, exchanges = grid.answers, count(1)

    def lying(messages: Sequence[Message]) -> Iterator[Message]:
        lose(next(exchanges))
        for reply in answers(messages):
            content: Any = content_of(reply)
            payload = content.get(exchange.PAYLOAD)
            if isinstance(payload, LazyMessage) and payload.header.client_id == "p2":
                tensors = [
                    replace(one, part=Whole(-one.part.values))
                    if isinstance(one, RawTensor) and isinstance(one.part, Whole)
                    else one
                    for one in payload.tensors
                ]
                content[exchange.PAYLOAD] = replace(payload, tensors=Tensors(tensors))
            yield reply

    grid.answers = lying  # type: ignore[method-assign]
    return grid


@pytest.mark.slow
@pytest.mark.usefixtures("small_parts")
def test_peoples_sums_are_one_machines_also_with_a_liar_and_a_lost_worker(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker that is lost in a round has its people's sums made again, to the bit."""
    given = {"method": "fedsub-ridge", "beside": "", "rounds": "3", "seed": "3"}
    run = read_config(None, given | {"encoder": "relu:20", "fedsub-ridge.groups": "nearest"})
    found, lost = list[dict[str, bytes]](), list[int]()

    def here(run: RunConfig, name: str, federation: Federation) -> SimulationGrid:
        return with_a_liar(build_grid(run, name, federation), lambda exchange: None)

    def there(run: RunConfig, name: str, federation: Federation) -> SimulationGrid:
        grid = grids(run, name, federation)
        assert isinstance(grid, RayGrid) and not grid._holds

        def lose(exchange: int) -> None:
            if exchange in (3, 8):
                grid._ray.kill(grid._workers[exchange % 2])
                lost.append(exchange)

        return with_a_liar(grid, lose)

    with ray_grids(nodes.address) as grids:
        for place, make in (("local", here), ("ray", there)):
            caplog.clear()
            (folder := tmp_path / place).mkdir()
            train_methods(run, FIVE, folder, quiet, make)
            files = [*folder.glob("*/metrics.csv"), *folder.glob("*/models/*")]
            found.append({str(path.relative_to(folder)): path.read_bytes() for path in files})
            refusals = [line for line in caplog.messages if "refused" in line]
            assert refusals and all("client p2" in line for line in refusals), refusals
    assert found[0] == found[1] and len(found[0]) == 1 + 5
    assert lost == [3, 8] and caplog.text.count("a worker was lost and is replaced") == 2


@pytest.mark.slow
@pytest.mark.release
def test_shares_drawn_anew_in_each_round_are_one_machines(nodes: Nodes, tmp_path: Path) -> None:
    """A worker is asked by several people, who hold other shares than in the round before."""
    given = {"method": "heterofl", "beside": "local", "rounds": "3", "seed": "3"}
    run = read_config(None, given | {"capacities": "1,1/2,1/4", "capacity-mode": "dynamic"})
    found = []
    with ray_grids(nodes.address) as on_ray:
        for place, grids in (("local", build_grid), ("ray", on_ray)):
            (tmp_path / place).mkdir()
            train_methods(run, FIVE, tmp_path / place, quiet, grids)
            files = sorted((tmp_path / place).glob("*/models/*"))
            found.append([path.read_bytes() for path in files])
            assert len(files) == 2 * 5
    assert found[0] == found[1]


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.usefixtures("small_parts")
def test_a_worker_whose_node_dies_is_replaced_and_its_clients_asked_again(
    nodes: Nodes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = trained(config(), tmp_path / "local")

    def lose(name: str, round: int) -> None:
        if (name, round) == ("fedavg", 2):
            nodes.lose_second()

    with ray_grids(nodes.address) as grids:
        assert trained(config(), tmp_path / "ray", grids, lose) == expected
    assert "a worker was lost and is replaced" in caplog.text


@pytest.mark.slow
@pytest.mark.release
def test_a_worker_that_always_dies_ends_the_run_and_is_named(nodes: Nodes) -> None:
    run = config()
    with ray_grids(nodes.address) as grids:
        grid = grids(run, "fedavg", FIVE)
        assert isinstance(grid, RayGrid)
        died: list[int] = []

        def start(w: int) -> object:
            died.append(w)
            return grid._workers[w]  # the dead one again

        grid._ray.kill(grid._workers[1])
        grid._start = start  # type: ignore[method-assign]
        said = (
            rf"the worker of clients p\d, p\d was lost {ATTEMPTS} times, at last: .*can be resumed"
        )
        with pytest.raises(RunError, match=said):
            grid.load_state(build_grid(run, "fedavg", FIVE).state())
        assert died == [1] * (ATTEMPTS - 1)


@pytest.mark.slow
def test_a_worker_of_another_release_and_a_full_disk_are_named(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ray_grids(nodes.address) as grids:
        with monkeypatch.context() as other:
            other.setattr(ray_grid, "build_with", lambda method: "0.0.1")
            with refused(RunError, "Ray node", expected="0.0.1"):
                grids(config(), "fedavg", FIVE)
        full, of_run = str(tmp_path / "full"), config(**{"upload-encoding": "float32"})
        grid = grids(of_run, "fedavg", FIVE)
        assert isinstance(grid, RayGrid)
        grid._ask({1: partial(fill_up, folder=full)})
        with refused(RunError, "Ray node", full, "TMPDIR", "can be resumed"):
            build_strategy(of_run, "fedavg").start(grid)
        grid.close()


def fill_up(grid: CohortGrid, folder: str) -> None:
    """Let a worker have no room for what it writes."""
    tempfile.tempdir, on_disk.OF_A_ROUND = folder, 1
    assert isinstance(grid, HoldingGrid)
    grid._begin(0)


@pytest.mark.slow
def test_what_fails_on_a_worker_is_told_as_it_is_here(nodes: Nodes) -> None:
    with ray_grids(nodes.address) as grids:
        grid = grids(config(), "fedavg", FIVE)
        with pytest.raises(RunError, match="the run's state lacks clients p"):
            grid.load_state({})
        grid.close()


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    out = ["--out", str(tmp_path)]
    refused = CliRunner().invoke(cli, ["run", *out, "--ray-address", "127.0.0.1:1"])
    assert isinstance(refused.exception, ConfigError)
    assert "--ray-address needs --engine ray" in str(refused.exception)
    call = ["run", *out, "--engine", "ray", "--ray-address", "127.0.0.1:1", "--rounds", "1"]
    refused = CliRunner().invoke(cli, call)
    assert isinstance(refused.exception, RunError) and "ray start --head" in str(refused.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_workers_train_on_their_cpus(nodes: Nodes) -> None:
    expected = "device: got 'cuda', expected 'cpu' or 'auto': a cluster's workers"
    with ray_grids(nodes.address) as grids, pytest.raises(ConfigError, match=expected):
        grids(config(device="cuda"), "fedavg", FIVE)
