"""Uploads that stay where they are made: the run ends in the same bytes, and no number leaves."""

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedsub.engines import held_uploads, ray_worker
from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.held_uploads import HoldingGrid, adds_up
from fedsub.engines.ray_sums import RaySums
from fedsub.engines.ray_worker import in_blocks, packed
from fedsub.engines.simulation import MakeGrid, build_grid, split_clients
from fedsub.studies.run import train_methods
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_core.config.run_config import read_config
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.feature_store import FeatureStore
from fedsub_core.data.federation import Federation
from fedsub_core.errors import RunError
from fedsub_core.exact_sums import squared_length
from fedsub_core.mapped_file import is_mapped
from fedsub_core.remote_numbers import RemoteNumbers
from fedsub_core.wire.bundles import Bundle, Floats, within
from strategies.rounds import on_disk

#: Of the methods whose server needs a mean alone: all is sent, a model of one's own is kept
#: beside it, a part is sent, and the server half is another.
OF_MEANS = ["fedavg", "ditto", "fedrep", "pfedme"]
TEN = people(((0, 1, 2),) * 10, samples=20)
#: What was asked of grids.
CALLS = Counter[str]()


class Alone(HoldingGrid):
    """A worker in this process: what it answers is pickled, and asked back as over Ray."""

    by_reference = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sums = RaySums(self.ask, {c.client: 0 for one in self.cohorts for c in one.clients})

    def ask(self, work: Mapping[int, Any]) -> dict[int, Any]:
        """Do work here, and count it."""
        CALLS.update(one.func.__name__ for one in work.values())
        return {w: pickle.loads(pickle.dumps(one))(self) for w, one in work.items()}

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Answer without the numbers of uploads."""
        self.sums.begin()
        replies = list(super().answers(messages))
        for reply in replies:
            CALLS["bytes"] += len(pickle.dumps(reply))
        self.sums.take(0, replies)
        yield from replies


def alone(config: Any, name: str, federation: Federation) -> CohortGrid:
    """Return a grid whose uploads stay in it."""
    settings = config.device_settings(name)
    clients = split_clients(settings.split, federation, config.capacity_settings)
    assert adds_up(settings, config.robust_settings, clients)
    return Alone(settings, federation.card, clients, "cpu")


def left(folder: Path, make: MakeGrid, federation: Federation, **keys: Any) -> dict[str, bytes]:
    """Train a method; return what its files hold."""
    run = read_config(None, {"beside": "", "rounds": 3, "hidden": "32", "seed": 3, **keys})
    folder.mkdir()
    train_methods(run, federation, folder, lambda name, round: None, make)
    files = [*folder.glob("*/metrics.csv"), *folder.glob("*/models/**/*.safetensors")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("method", OF_MEANS)
def test_a_run_ends_in_the_same_bytes(method: str, tmp_path: Path) -> None:
    CALLS.clear()
    expected = left(tmp_path / "here", build_grid, TEN, method=method)
    assert len(expected) > 10 and not CALLS
    assert left(tmp_path / "alone", alone, TEN, method=method) == expected
    assert CALLS["numbers"] == 0, "no upload is fetched"
    assert CALLS["summed"] >= 3


def test_an_update_that_is_too_long_is_shortened_where_it_is(tmp_path: Path) -> None:
    """One person's samples are so large that its update is many times that of the others."""
    far = TEN.clients["p1"]
    wild = {**TEN.clients, "p1": ClientData("p1", far.x * 40, far.y)}
    keys = {"method": "fedavg", "standardise": "none"}
    found = {}
    for robust in ("clip", "none"):
        for place, make in (("here", build_grid), ("alone", alone)):
            folder = tmp_path / f"{robust}-{place}"
            found[robust, place] = left(
                folder, make, Federation(TEN.card, wild), **keys, robust=robust
            )
        assert found[robust, "here"] == found[robust, "alone"]
    assert found["clip", "here"] != found["none", "here"], "something was shortened"
    assert CALLS["numbers"] == 0


def test_replies_do_not_grow_with_the_model(tmp_path: Path) -> None:
    took = []
    for hidden in ("8", "512"):
        CALLS.clear()
        left(tmp_path / hidden, alone, TEN, method="fedavg", hidden=hidden)
        took.append(CALLS["bytes"])
    assert took[1] < 1.05 * took[0]


def test_uploads_are_read_once_more_for_their_sum_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lengths and thinned numbers are noted while an upload is in memory."""
    read = Counter[tuple[str, bool]]()

    def square(values: Any, begun: Any) -> float:
        read["squares", is_mapped(values)] += 1
        return squared_length(values, begun)

    def thin(upload: Bundle, step: int) -> dict[str, Any]:
        read["thinned", any(is_mapped(one.values) for one in upload.tensors.values())] += 1
        return thinned(upload, step)

    thinned = held_uploads._thinned
    monkeypatch.setattr(held_uploads, "squared_length", square)
    monkeypatch.setattr(held_uploads, "_thinned", thin)
    monkeypatch.setattr(on_disk, "OF_A_ROUND", 1)
    left(tmp_path / "run", alone, TEN, method="fedavg")
    # Four tensors of ten people in three rounds; how thin is known from the first round.
    assert read == {("squares", False): 120, ("thinned", True): 10, ("thinned", False): 20}


def test_lengths_are_those_from_where_they_are_asked_for() -> None:
    """Not from what the first was sent: of another start, and of who was sent something else."""
    config = read_config(None, {"method": "fedavg", "beside": "", "rounds": 2})
    settings = config.device_settings("fedavg")
    clients = split_clients(settings.split, TEN, config.capacity_settings)
    grid = HoldingGrid(settings, TEN.card, clients, "cpu")
    w, other = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    grid._sent = {"w": w}
    tensors = {"w": Floats(w + 2)}
    grid._uploads = {"p0": Bundle(tensors=tensors), "p1": Bundle(tensors=tensors)}
    grid._squares = {"p0": {"w": 16.0}}
    assert grid.squared_lengths({"w": w}) == {"p0": 16, "p1": 16}
    moved = float(np.square(w + 1).sum())
    assert grid.squared_lengths({"w": other}) == {"p0": moved, "p1": moved}


@pytest.mark.parametrize(
    "keys",
    [
        {"robust": "median"},
        {"robust": "clip,trimmed-mean"},
        {"robust": "multi-krum"},
        {"method": "fedsub"},
        {"method": "fedsub-ridge"},
        {"secure-aggregation": True, "robust": "none", "standardise": "none"},
        {"method": "heterofl", "capacities": "1,1/2"},
    ],
)
def test_what_needs_more_than_a_mean_is_gathered(keys: dict[str, Any]) -> None:
    config = read_config(None, {"method": "fedavg", "beside": "", **keys})
    settings = config.device_settings(config.method)
    clients = split_clients(settings.split, TEN, config.capacity_settings)
    assert not adds_up(settings, config.robust_settings, clients)


def test_a_disk_that_is_full_is_named_with_its_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_disk, "OF_A_ROUND", 1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    with refused(RunError, "Ray node", str(tmp_path / "full"), "TMPDIR"):
        left(tmp_path / "run", alone, TEN, method="fedavg")


def test_samples_go_to_a_worker_in_blocks_and_lie_there_in_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = read_config(None, {"method": "fedavg", "beside": "", "rounds": 2})
    settings = config.device_settings("fedavg")
    clients = split_clients(settings.split, TEN, config.capacity_settings)
    size = clients[0].x.nbytes
    packed_blocks = list(in_blocks(clients, 3 * size))
    blocks = [pickle.loads(block) for block in packed_blocks]
    assert len(blocks) > 2
    assert all(sum(x.nbytes for x in samples[:-1]) < 3 * size for _, samples in blocks)
    assert all(len(one.x) == 0 for some, _ in blocks for one in some)
    monkeypatch.setattr(ray_worker, "FeatureStore", partial(FeatureStore, 2 * size))
    worker = ray_worker.Worker()
    for block in packed_blocks:
        worker.take(block)
    worker.begin(packed((settings, TEN.card, range(1, 11), None, True)))
    held = [one for cohort in worker.grid.cohorts for one in cohort.clients]
    assert {one.client: one.x.tolist() for one in held} == {
        name: data.x.tolist() for name, data in TEN.clients.items()
    }
    assert all(is_mapped(one.x) for one in held)
    assert len(held[0].train_x) == len(held[0].train_y), "parts follow the samples"


def test_numbers_elsewhere_are_fetched_where_somebody_looks_at_them() -> None:
    values = np.array([[1.0, -2.0, 3.0]], np.float32)

    class Holder:
        def numbers(self, client: str, name: str) -> Any:
            assert (client, name) == ("anna", "w")
            return values

    made = RemoteNumbers("anna", "w", values)
    assert len(pickle.dumps(made)) < 400
    remote: Any = pickle.loads(pickle.dumps(made))
    assert (remote.min(), remote.max(), remote.size, remote.nbytes) == (-2.0, 3.0, 3, 12)
    assert within(remote, 3.0) and not within(remote, 2.9)
    remote.holder = Holder()
    flat = remote.reshape((3,))
    assert flat.shape == (3,) and (flat - values[0] == 0).all()
    assert np.array_equal(remote, values) and np.asarray(remote).dtype == np.float32
    assert (1 - remote).tolist() == (1 - values).tolist()
    assert remote.copy() is not values and remote[0].tolist() == values[0].tolist()
    wild = RemoteNumbers("anna", "w", np.array([1, np.nan], np.float32))
    assert not within(wild, 1e6)  # type: ignore[arg-type]


def test_thinned_numbers_are_each_persons_own_whatever_others_sent() -> None:
    """An upload that lacks a tensor or has another shape moves nobody else's place."""
    grid = object.__new__(HoldingGrid)
    grid._step = 0
    numbers = np.arange(7, dtype=np.float32)
    every = {
        "anna": {"w": numbers, "b": numbers[:2]},
        "bela": {"b": numbers[1:3]},
        "cleo": {"w": numbers[:3] + 10, "b": numbers[2:4]},
        "dora": {"w": numbers.reshape(7, 1) + 20},
    }
    grid._uploads = {
        client: Bundle(tensors={name: Floats(values) for name, values in own.items()})
        for client, own in every.items()
    }
    asked = list[int]()

    def ask(work: Mapping[int, Any]) -> dict[int, Any]:
        asked.extend(work)
        return {w: one(grid) for w, one in work.items()}

    sums = RaySums(ask, dict.fromkeys(every, 3))
    sums._holding = {3}
    for client, own in every.items():
        for name, values in own.items():
            got = sums.thinned(client, name, 2)
            assert got.tolist() == values.reshape(-1)[::2].tolist()
    assert asked == [3], "all at once"
