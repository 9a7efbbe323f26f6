"""A run that begins with another run's models, and one that standardises anew."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch

from fedsub.testing.refusals import refused
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import CARD_FILE, card_table
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import ConfigError, RunError
from strategies.rounds.agreement import Agreement
from strategies.rounds.identity import Identities
from strategies.rounds.memory import Memory
from strategies.strategy import PersonalizedStrategy

METHODS = (
    "fedavg",
    "fedsub-ridge",
    *(pytest.param(method, marks=pytest.mark.slow) for method in ("ditto", "fedproto", "fedsub")),
)


@pytest.fixture
def go(tmp_path: Path, data: str, configuration: Any, serve: Any, devices: Any) -> Any:
    """Run a run's rounds before devices that keep their states."""

    def run(name: str, rounds: int, source: str = data, **keys: Any) -> RunConfig:
        keys = {"method": "fedavg", "min-clients": 3} | keys
        config: RunConfig = configuration(source, tmp_path / name, rounds=rounds, **keys)
        serve(devices(config, tmp_path / "devices"), config)
        return config

    return run


def agreed(result: Any, config: RunConfig) -> tuple[Agreement, dict[str, torch.Tensor]]:
    memory, own = Memory.split(result(config)[1])
    assert memory.agreed is not None
    return memory.agreed, own


def device(folder: Path, client: str) -> Saved:
    return Saved.of_bytes((folder / client / STATE_FILE).read_bytes())


@pytest.mark.parametrize("method", METHODS)
def test_a_run_begins_where_the_other_ended(
    method: str, go: Any, result: Any, tmp_path: Path
) -> None:
    first = go("first", 2, method=method)
    _, before = agreed(result, first)
    kept = device(tmp_path / "devices", "anna")
    second = go("second", 1, method=method, **{"from-run": str(tmp_path / "first")})
    facts, after = agreed(result, second)
    assert facts.begun_with == result(first)[3]
    scaling, was = facts.scaling, agreed(result, first)[0].scaling
    assert scaling is not None and was is not None and scaling.bits == was.bits
    assert {n: t.shape for n, t in before.items()} == {n: t.shape for n, t in after.items()}
    now = device(tmp_path / "devices", "anna")
    assert now.file == kept.file and now.round == 1
    first = go("first", 3, method=method)
    begun, next_one, anew = (
        np.mean([r.value for r in result(run)[2] if (r.metric, r.round) == ("loss", round)])
        for run, round in ((first, 1), (first, 3), (second, 1))
    )
    # Batches are drawn by the round; heads in closed form have none.
    assert abs(anew - next_one) < abs(anew - begun)
    assert method != "fedsub-ridge" or anew == next_one


def test_who_took_another_key_and_who_was_left_out_stay_out(
    go: Any, result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first run anna has a key, which its device of the second has not."""

    def connect(strategy: PersonalizedStrategy, grid: Any) -> None:
        begun(strategy, grid)
        strategy.memory.left_out |= {"cleo"}
        strategy.memory.identities.ties["anna"] = "a" * 64

    begun = PersonalizedStrategy.connect
    with monkeypatch.context() as patched:
        patched.setattr(PersonalizedStrategy, "connect", connect)
        first = go("first", 1, method="fedsub")
    keys = {"method": "fedsub", "min-clients": 2, "from-run": str(first.folder)}
    _, state, rows, _ = result(go("second", 1, **keys))
    memory, _ = Memory.split(state)
    assert memory.left_out == {"cleo"} and memory.identities.ties["anna"] == "a" * 64
    assert {row.client for row in rows if row.metric == "bytes_down_sent"} == {"ben"}


def test_people_who_trained_the_models_are_not_tested_as_new(go: Any) -> None:
    with refused(ConfigError, "from-run", got="split = unseen"):
        go("second", 9, split="unseen", **{"from-run": "first"})


def test_a_second_main_method_begins_with_the_common_model_alone(go: Any, result: Any) -> None:
    first = go("first", 2)
    second = go("second", 1, method="fedprox", **{"from-run": str(first.folder)})
    assert agreed(result, second)[0].begun_with == ""


@pytest.mark.parametrize(
    ("keys", "named", "got", "expected"),
    [
        ({"seed": 1}, "seed", "1", "0"),
        ({"hidden": "8"}, "hidden", "'8'", "'128,512'"),
        ({"standardise": "client"}, "standardise", "'client'", "'federation-median'"),
        ({"split": "blocked"}, "split", "'blocked'", "'auto'"),
        ({"method": "fedsub"}, "from-run", "fedavg", "fedsub"),
        (
            {"secure-aggregation": True, "robust": "none", "standardise": "none"},
            "secure-aggregation",
            "True",
            "False",
        ),
    ],
)
def test_models_of_another_kind_are_refused(
    keys: dict[str, Any], named: str, got: str, expected: str, go: Any
) -> None:
    alike = ("robust", "standardise") if named == "secure-aggregation" else ()
    first = go("first", 1, **{key: keys[key] for key in alike})
    with refused(RunError, named, got=got, expected=expected):
        go("second", 1, **{"from-run": str(first.folder)} | keys)


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("units", "g"),
        ("features", ("u", "w")),
        ("classes", ("b", "a", "c")),
        ("classes", ("a", "b")),
    ],
)
def test_samples_of_another_kind_are_refused(
    key: str, other: Any, go: Any, data: str, tmp_path: Path, town: Federation
) -> None:
    first = go("first", 1)
    folder = tmp_path / "other"
    if key == "classes" and len(other) == 2:
        people = {
            c: ClientData(c, one.x[one.y < 2], one.y[one.y < 2]) for c, one in town.clients.items()
        }
        write_federation(folder, Federation(replace(town.card, classes=other), people))
    else:
        copytree(data, folder)
        card = replace(town.card, **{key: other})
        (folder / CARD_FILE).write_text(tomli_w.dumps(card_table(card)))
    was = getattr(town.card, key)
    with refused(RunError, "from-run", got=other or "''", expected=was or "''"):
        go("second", 1, str(folder), **{"from-run": str(first.folder)})


def test_there_must_be_a_run_with_rounds(go: Any, tmp_path: Path) -> None:
    with refused(RunError, "from-run", got="no run"):
        go("second", 1, **{"from-run": str(tmp_path / "nowhere")})


@pytest.mark.parametrize("method", METHODS)
def test_who_begins_with_fewer_classes_goes_on_with_more(
    method: str, go: Any, result: Any, data: str, tmp_path: Path, town: Federation
) -> None:
    first = go("first", 2, method=method)
    copytree(data, tmp_path / "four")
    card = replace(town.card, classes=("a", "b", "c", "d"))
    (tmp_path / "four" / CARD_FILE).write_text(tomli_w.dumps(card_table(card)))
    keys = {"from-run": str(first.folder), "method": method}
    second = go("second", 2, str(tmp_path / "four"), **keys)
    facts, _ = agreed(result, second)
    assert facts.classes == card.classes and result(second)[0] == 2
    assert not any(r.value for r in result(second)[2] if r.metric == "refused_replies")


# What all standardise by.


def grown(data: str, folder: Path, town: Federation) -> str:
    """Write the town with samples behind, far from those that there were."""
    people = {}
    for client, own in town.clients.items():
        x, y = np.concatenate([own.x, own.x[:6] + 50]), np.append(own.y, own.y[:6])
        people[client] = ClientData(client, x.astype(np.float32), y)
    write_federation(folder, Federation(town.card, people))
    return str(folder)


@pytest.mark.parametrize("method", METHODS)
def test_it_moves_before_the_named_round_alone(
    method: str, go: Any, result: Any, data: str, tmp_path: Path, town: Federation
) -> None:
    keys = {"method": method, "standardise": "federation"}
    first, _ = agreed(result, go("run", 2, **keys))
    more = grown(data, tmp_path / "grown", town)
    same, _ = agreed(result, go("run", 3, more, **keys))
    assert same.scaling is not None and first.scaling is not None
    assert same.scaling.bits == first.scaling.bits
    anew, state = agreed(result, go("run", 6, more, **keys, **{"standardise-anew": 4}))
    assert anew.scaling is not None and anew.renewed == 4
    assert (anew.scaling.mean > first.scaling.mean + 1).all()
    rows = result(go("run", 6, more, **keys, **{"standardise-anew": 4}))[2]
    assert [r.round for r in rows if r.metric == "standardised_anew"] == [4]
    assert not any(r.value for r in rows if r.metric == "refused_replies")
    if method == "fedsub-ridge":
        assert {n for n in state if n.startswith("gram/")} == {"gram/anna", "gram/ben", "gram/cleo"}


def test_a_round_that_is_over_is_refused(go: Any) -> None:
    keys = {"standardise": "federation"}
    go("run", 3, **keys)
    with refused(RunError, "standardise-anew", got="round 2", expected="3"):
        go("run", 4, **keys, **{"standardise-anew": 2})


@pytest.mark.parametrize(
    "keys",
    [
        {"standardise": "client"},
        {"secure-aggregation": True, "robust": "none", "standardise": "federation"},
    ],
)
def test_what_cannot_be_standardised_anew_is_refused(keys: dict[str, Any], go: Any) -> None:
    with refused(ConfigError, "standardise-anew"):
        go("run", 3, **{"standardise-anew": 2} | keys)


def test_a_run_without_a_scaling_goes_on_after_that_round(
    go: Any, result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of token ids, whose models are the wing's."""
    monkeypatch.setattr("strategies.protections.standardising.agreed_scaling", lambda *given: None)
    keys = {"standardise": "federation", "standardise-anew": 2}
    for rounds in (2, 3):
        run = go("run", rounds, **keys)
    facts, _ = agreed(result, run)
    assert facts.scaling is None and facts.renewed == 2 and result(run)[0] == 3


def test_what_begins_anew_after_a_restart_begins_with_the_other_run_again(
    go: Any, data: str, tmp_path: Path, town: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the other run's sums those of who was left out go; all, if samples are standardised anew.

    Whom this run forgot does not come back, either.
    """

    def connect(strategy: PersonalizedStrategy, grid: Any) -> None:
        begun(strategy, grid)
        strategies.append(strategy)
        strategy.memory.identities.ties["ben"] = "b" * 64

    def sums() -> set[str]:
        return {name for name in strategies[-1].begin() if name.startswith("gram/")}

    begun, strategies = PersonalizedStrategy.connect, list[PersonalizedStrategy]()
    monkeypatch.setattr(PersonalizedStrategy, "connect", connect)
    monkeypatch.setattr(Identities, "refusal", lambda *given: "")
    keys = {"method": "fedsub-ridge", "standardise": "federation"}
    first = go("first", 1, **keys)
    keys["from-run"] = str(first.folder)
    go("second", 1, **keys)
    go("second", 2, **keys)
    assert sums() == {"gram/anna", "gram/ben", "gram/cleo"}
    strategies[-1].memory.left_out = frozenset({"cleo"})
    strategies[-1].outset.departures.forgotten = frozenset({"ben"})
    assert sums() == {"gram/anna"}
    go("second", 3, grown(data, tmp_path / "grown", town), **keys, **{"standardise-anew": 3})
    assert sums() == set()
    (tmp_path / "first" / "run.toml").unlink()
    with refused(RunError, "from-run", got="no run"):
        strategies[-1].begin()
