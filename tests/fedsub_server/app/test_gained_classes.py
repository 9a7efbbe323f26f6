"""A card that gains classes: everything of before stays, whoever does not know them goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card, ClientData, Federation, write_federation
from fedsub_core.errors import ConfigError, RunError

from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from strategies.rounds.memory import Memory

from .conftest import Devices

THREE, FOUR = ("a", "b", "c"), ("a", "b", "c", "d")


class Fleet(Devices):
    """Devices of which each has a folder of its own, whose card may be another's."""

    def __init__(self, config: RunConfig, home: Path, of: dict[str, Path]) -> None:
        super().__init__(config, home)
        self.of = of

    def data_of(self, client: str) -> str:
        return str(self.of[client])


def with_class(town: Federation, classes: tuple[str, ...], new: int = 0) -> Federation:
    """Return the town with a card of other classes, and `new` samples of label 3 at everybody's."""
    stream, people = np.random.default_rng(3), {}
    for client, own in town.clients.items():
        x = stream.normal(-3, 0.5, (new, 2)).astype(np.float32)
        y = np.full(new, 3)
        people[client] = ClientData(client, np.concatenate([own.x, x]), np.append(own.y, y))
    return Federation(replace(town.card, classes=classes), people)


@pytest.fixture
def folders(town: Federation, tmp_path: Path) -> dict[str, Path]:
    """The town's folders: as it was, and with a fourth class that each person has 6 samples of."""
    write_federation(tmp_path / "three", town)
    write_federation(tmp_path / "four", with_class(town, FOUR, new=6))
    return {"three": tmp_path / "three", "four": tmp_path / "four"}


@pytest.fixture
def go(tmp_path: Path, folders: dict[str, Path], configuration: Any, serve: Any) -> Any:
    """Run rounds up to one of a run by the card in a folder; `new` are who has the fourth class."""

    def run(name: str, card: str, rounds: int, new: tuple[str, ...] = (), **keys: Any) -> RunConfig:
        keys = {"method": "fedavg", "min-clients": 3, "standardise": "client"} | keys
        config: RunConfig = configuration(
            str(folders[card]), tmp_path / name, rounds=rounds, **keys
        )
        of = {c: folders["four" if c in new else "three"] for c in ("anna", "ben", "cleo")}
        serve(Fleet(config, tmp_path / f"{name} devices", of), config)
        return config

    return run


def saved(folder: Path, client: str) -> dict[str, torch.Tensor]:
    return Saved.of_bytes((folder / client / STATE_FILE).read_bytes()).state


#: Methods whose state is common tensors, prototypes, a cache, sums.
GAINS = ("fedavg", "pfedme", "fedrep", "ditto", "fedproto", "protohar", "fedsub", "fedsub-ridge")


@pytest.mark.parametrize("method", GAINS)
def test_nothing_of_old_classes_changes_where_nobody_knows_the_new_one(
    method: str, go: Any, result: Any, assert_same: Any, tmp_path: Path
) -> None:
    whole = go("whole", "three", 4, method=method)
    go("parts", "three", 2, method=method)
    parts = go("parts", "four", 4, method=method)
    before, after = Memory.split(result(whole)[1]), Memory.split(result(parts)[1])
    assert after[0].agreed is not None and after[0].agreed.classes == FOUR
    assert before[1].keys() == after[1].keys()
    grown = 0
    for name, tensor in before[1].items():
        now = after[1][name]
        grown += now.shape != tensor.shape
        assert torch.equal(now[tuple(map(slice, tensor.shape))], tensor), name
    assert grown or method in ("fedrep", "ditto")
    for client in ("anna", "ben", "cleo"):
        assert_same(*(saved(tmp_path / f"{name} devices", client) for name in ("whole", "parts")))


@pytest.mark.parametrize("method", GAINS)
def test_who_knows_the_new_class_learns_it_and_the_others_go_on(
    method: str, go: Any, result: Any, tmp_path: Path
) -> None:
    go("run", "three", 2, method=method)
    for rounds, new in ((5, ("anna",)), (7, ("anna", "ben"))):
        config = go("run", "four", rounds, new, method=method, **{"evaluate-every": 1})
        _, state, rows, _ = result(config)
        came = {r.client for r in rows if r.metric == "bytes_up_sent" and r.round == rounds}
        assert came == {"anna", "ben", "cleo"}
        assert not any(r.metric == "refused_replies" and r.value for r in rows)
        assert not any(r.metric == "begins_anew" for r in rows)
        tested = {r.client for r in rows if (r.metric, r.label, r.round) == ("f1", 3, rounds)}
        assert tested == set(new)
    assert Memory.split(state)[0].agreed.before == (3,)


def test_the_new_class_is_recognised_by_who_has_it(go: Any, result: Any) -> None:
    go("run", "three", 2, method="fedsub-ridge")
    config = go("run", "four", 6, ("anna",), method="fedsub-ridge")
    (f1,) = [r.value for r in result(config)[2] if (r.metric, r.label, r.round) == ("f1", 3, 6)]
    assert f1 > 0.9
