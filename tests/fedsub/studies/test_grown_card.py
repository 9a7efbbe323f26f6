"""`--resume` by a card that gained classes: models and sums widen, or nothing changes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.studies.run import go_on, load_data, new_folder, resumed_config, train_methods
from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import ClientData, Federation, write_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_server.resuming import SERVER
from fedsub_server.rundb import RunDatabase
from strategies.rounds.memory import Memory

#: A fourth class, and where its samples are.
NEW, FAR = "lie", 6.0
GAINS = (
    "fedavg",
    "local",
    "fedsub",
    "fedsub-ridge",
    *(pytest.param(m, marks=pytest.mark.slow) for m in ("ditto", "fedproto", "protohar", "fedper")),
)


def grown(town: Federation, samples: int = 8, classes: tuple[str, ...] = ()) -> Federation:
    """Return the town with a class, of which everybody but p1 has samples in front of others."""
    stream, people = np.random.default_rng(5), {}
    for client, own in town.clients.items():
        n = 0 if client == "p1" else samples
        x = stream.normal(FAR, 1, (n, 4)).astype(np.float32)
        at = min(5, len(own.y))  # between samples of before
        y = np.insert(own.y, at, np.full(n, 3))
        people[client] = ClientData(client, np.insert(own.x, [at] * n, x, axis=0), y)
    return Federation(replace(town.card, classes=classes or (*town.card.classes, NEW)), people)


@pytest.fixture
def go(tmp_path: Path, town: Callable[..., Federation]) -> Any:
    """Run rounds in a new folder, or, with one, go on there by a federation."""
    write_federation(tmp_path / "town", town())

    def run(rounds: int, federation: Federation | None = None, resumed: Any = None, **keys: Any):  # type: ignore[no-untyped-def]
        source = tmp_path / "town"
        if federation is not None:
            source = tmp_path / f"grown {len([*tmp_path.iterdir()])}"
            write_federation(source, federation)
        data: dict[str, Any] = {"rounds": rounds, "data": str(source)}
        if resumed is None:
            common = {
                "method": "fedavg",
                "beside": "",
                "hidden": "8",
                "out": str(tmp_path / "runs"),
            }
            config = read_config(None, {**common, **data, "device": "cpu", **keys})
        else:
            config = resumed_config(resumed, data)
        people = load_data(config, resumed)
        if resumed is not None:
            go_on(resumed, config, people)
        folder = resumed or new_folder(config)
        train_methods(config, people, folder, lambda *told: None)
        return folder

    return run


def held(folder: Path, method: str) -> tuple[int, Memory, dict[str, Any], dict[str, Any]]:
    """Return last round, memory, the server half's state and clients' states."""
    with RunDatabase(folder / method / "state.db") as database:
        last, state = database.load()
    return last, *Memory.split(dict(state.pop(SERVER))), state


def metric(folder: Path, method: str, name: str, round: int) -> dict[Any, float]:
    with RunDatabase(folder / method / "state.db") as database:
        rows = list(database.metrics(name))
    return {(r.client, r.label): r.value for r in rows if r.round == round}


@pytest.mark.parametrize("method", GAINS)
def test_the_class_is_learned_by_who_has_it(method: str, go: Any, town: Any) -> None:
    folder = go(2, method=method)
    go(6, grown(town(), 24), folder)
    last, memory, _, _ = held(folder, method)
    assert last == 6 and memory.agreed is not None
    assert memory.agreed.classes == ("sit", "walk", "run", NEW)
    assert not any(metric(folder, method, "refused_replies", 3).values())
    f1 = {c: v for (c, label), v in metric(folder, method, "f1", 6).items() if label == 3}
    assert f1.keys() == {"p2", "p3", "p4"}
    assert method != "fedsub-ridge" or min(f1.values()) > 0.9
    go(7, grown(town(), 24), folder)  # and these are its data from now on
    assert held(folder, method)[0] == 7


@pytest.mark.parametrize("method", ["fedavg", "fedsub-ridge", "ditto"])
def test_it_goes_on_as_a_run_that_begins_from_it(method: str, go: Any, town: Any) -> None:
    """By steps of next to nothing, as batches follow from the round; sums have none."""
    folder, more = go(2, method=method, lr=1e-30), grown(town())
    before = held(folder, method)[2]
    other = go(1, more, method=method, lr=1e-30, **{"from-run": str(folder)})
    go(3, more, folder)
    resumed, begun = held(folder, method), held(other, method)
    assert resumed[2].keys() == begun[2].keys()
    for name, tensor in begun[2].items():
        assert torch.equal(resumed[2][name], tensor), name
    for client in resumed[3]:
        for name, tensor in begun[3][client].items():
            assert torch.equal(resumed[3][client][name], tensor), name
    if method != "fedsub-ridge":
        for name, tensor in before.items():
            assert torch.equal(resumed[2][name][tuple(map(slice, tensor.shape))], tensor)
    assert metric(folder, method, "loss", 3) == metric(other, method, "loss", 1)


@pytest.mark.parametrize(
    "keys",
    [
        {"method": "fedsub", "capacities": "1/2"},
        {"method": "heterofl", "capacities": "p1=1,p2=1,p3=0.5,p4=0.5"},
        {"upload-encoding": "int8,delta,zstd", "download-encoding": "delta"},
        {"clients-per-round": 2, "robust": "none"},
        {"secure-aggregation": True, "robust": "none", "standardise": "client"},
    ],
    ids=lambda keys: "-".join(map(str, keys)),
)
def test_other_runs_go_on_too(keys: dict[str, Any], go: Any, town: Any) -> None:
    folder = go(2, **keys)
    go(4, grown(town()), folder)
    method = keys.get("method", "fedavg")
    assert held(folder, method)[0] == 4
    assert not any(metric(folder, method, "refused_replies", 3).values())


def left(folder: Path) -> dict[Path, bytes]:
    """Return all that a folder holds, but the open database's logs."""
    every = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in every if not path.name.endswith(("-wal", "-shm"))}


def without(town: Federation, label: int) -> Federation:
    """Return the town without the last class."""
    people = {c: own.part(np.flatnonzero(own.y < label)) for c, own in town.clients.items()}
    return Federation(replace(town.card, classes=town.card.classes[:label]), people)


def renamed(town: Federation, *classes: str) -> Federation:
    return Federation(replace(town.card, classes=classes), town.clients)


def other_sample(town: Federation) -> Federation:
    """Return the grown town, where an old sample of p3 is another."""
    more = grown(town)
    own = more.clients["p3"]
    x = own.x.copy()
    x[-1] += 1
    return Federation(more.card, more.clients | {"p3": replace(own, x=x)})


def more_of_old(town: Federation) -> Federation:
    """Return the grown town, where p2 has a further sample of an old class."""
    more = grown(town)
    own = more.clients["p2"]
    x, y = np.concatenate([own.x, own.x[:1] + 1]), np.append(own.y, 0)
    return Federation(more.card, more.clients | {"p2": ClientData("p2", x, y)})


def in_other_units(town: Federation) -> Federation:
    more = grown(town)
    return Federation(replace(more.card, units="g"), more.clients)


WAS = ("sit", "walk", "run")
LIES: dict[str, tuple[Callable[[Federation], Federation], tuple[Any, ...], dict[str, Any]]] = {
    "a class is lost": (lambda t: without(t, 2), (), {"got": WAS[:2], "expected": WAS}),
    "renamed": (lambda t: renamed(t, "sit", "walk", "jog"), (), {"expected": WAS}),
    "renamed, and gained": (lambda t: grown(t, 3, (*WAS[:2], "jog", NEW)), (), {"expected": WAS}),
    "reordered": (lambda t: renamed(t, "walk", "sit", "run"), (), {"expected": WAS}),
    "in front": (lambda t: grown(t, 3, (NEW, *WAS)), (), {"expected": WAS}),
    "an old sample is another": (other_sample, ("p3",), {}),
    "more samples of an old class": (more_of_old, ("p2",), {}),
    "other units": (in_other_units, ("card",), {}),
}


@pytest.mark.parametrize(("lie", "where", "fields"), LIES.values(), ids=LIES.keys())
def test_whatever_else_is_other_is_refused_and_nothing_changes(
    lie: Any, where: Any, fields: Any, go: Any, town: Any
) -> None:
    folder = go(2, beside="local")
    before = left(folder)
    with refused(RunError, *where, **fields):
        go(4, lie(town()), folder)
    assert left(folder) == before
    go(3, resumed=folder)
    assert held(folder, "fedavg")[0] == 3


def test_a_method_that_cannot_gain_classes_says_so_before_any_goes_on(go: Any, town: Any) -> None:
    folder = go(2, beside="fedamp")
    before = left(folder)
    with refused(ConfigError, "fedamp", got="4 classes", expected="3"):
        go(4, grown(town()), folder)
    assert left(folder) == before


def test_without_a_round_left_it_is_refused(go: Any, town: Any) -> None:
    folder = go(2)
    before = left(folder)
    with refused(RunError, "fedavg", "rounds", got=2):
        go(2, grown(town()), folder)
    assert left(folder) == before


def test_new_samples_that_would_move_validation_parts_are_refused(go: Any, town: Any) -> None:
    folder = go(2, **{"best-by": "validation"})
    before = left(folder)
    with refused(RunError, "p2", "validation"):
        go(4, grown(town(), 20), folder)
    assert left(folder) == before
    go(4, grown(town(), 0), folder)  # the card alone may grow
    assert held(folder, "fedavg")[0] == 4


def test_a_damaged_state_is_refused(go: Any, town: Any) -> None:
    folder = go(2)
    path = folder / "fedavg" / "state.db"
    whole = path.read_bytes()
    at = whole.index(b"federation.facts")
    path.write_bytes(whole[: at + 200] + b"\xff" * 64 + whole[at + 264 :])
    before = left(folder)
    with refused(RunError, "state.db"):
        go(4, grown(town()), folder)
    assert left(folder) == before


def test_a_process_that_is_killed_before_its_first_round_goes_on_alike(
    go: Any, town: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    def killed(*_: Any) -> None:
        raise Killed

    folder, whole = go(2), go(2)
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("fedsub.studies.run.train_method", killed)
        go(4, grown(town()), folder)
    for one in (folder, whole):
        go(4, grown(town()), one)
    (_, _, own, clients), (_, _, expected, others) = (held(f, "fedavg") for f in (folder, whole))
    assert all(torch.equal(own[name], tensor) for name, tensor in expected.items())
    assert clients.keys() == others.keys()
