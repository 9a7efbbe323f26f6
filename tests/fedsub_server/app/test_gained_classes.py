"""A card that gains classes: everything of before stays, whoever does not know them goes on."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from flwr.app import Message

from fedsub.testing.refusals import refused
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import CARD_FILE, card_table
from fedsub_core.data.federation import ClientData, Federation, write_federation
from fedsub_core.errors import ConfigError, DataError, RunError
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.v2 import exchange_pb2 as pb
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


def metrics_of(result: Any, config: RunConfig, round: int, metric: str) -> dict[Any, float]:
    """Return a metric of a round by client and label."""
    rows = [row for row in result(config)[2] if (row.round, row.metric) == (round, metric)]
    return {(row.client, row.label): row.value for row in rows}


def saved(folder: Path, client: str) -> dict[str, torch.Tensor]:
    return Saved.of_bytes((folder / client / STATE_FILE).read_bytes()).state


#: Methods whose state is common tensors, prototypes, a cache, sums.
GAINS = (
    "fedavg",
    "fedproto",
    "fedsub",
    "fedsub-ridge",
    *(pytest.param(m, marks=pytest.mark.slow) for m in ("pfedme", "fedrep", "ditto", "protohar")),
)


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
    agreed = Memory.split(state)[0].agreed
    assert agreed is not None and agreed.before == (3,)


def test_the_new_class_is_recognised_by_who_has_it(go: Any, result: Any) -> None:
    go("run", "three", 2, method="fedsub-ridge")
    config = go("run", "four", 6, ("anna",), method="fedsub-ridge")
    (f1,) = [r.value for r in result(config)[2] if (r.metric, r.label, r.round) == ("f1", 3, 6)]
    assert f1 > 0.9


@pytest.mark.parametrize(
    "keys",
    [
        {"method": "heterofl", "capacities": "anna=1,ben=0.5,cleo=0.5"},
        {"method": "fedsub", "capacities": "anna=1,ben=0.5,cleo=0.5"},
        {"upload-encoding": "int8,delta,zstd", "download-encoding": "delta"},
        {"method": "fedsub-ridge", "fedsub-ridge.groups": "class"},
        {"robust": "multi-krum,trimmed-mean", "best-by": "validation"},
    ],
    ids=lambda keys: "-".join(map(str, keys.values())),
)
def test_weak_devices_differences_and_filters_go_on_too(
    keys: dict[str, Any], go: Any, result: Any
) -> None:
    go("run", "three", 2, **keys)
    for rounds, new in ((4, ("anna",)), (6, ("anna", "ben"))):
        config = go("run", "four", rounds, new, **keys)
        for round in range(3, rounds + 1):
            assert not any(metrics_of(result, config, round, "refused_replies").values())
            assert len(metrics_of(result, config, round, "macro_f1")) == 3


CARDS = {
    "reordered": ("a", "c", "b", "d"),
    "renamed": ("a", "b", "C", "d"),
    "lost": ("a", "b"),
    "in front": ("d", "a", "b", "c"),
}


@pytest.mark.parametrize("classes", CARDS.values(), ids=CARDS.keys())
def test_a_card_of_other_classes_is_refused_and_nothing_changes(
    classes: tuple[str, ...],
    go: Any,
    result: Any,
    assert_same: Any,
    folders: dict[str, Path],
    town: Federation,
) -> None:
    config = go("run", "three", 2)
    before, written = result(config), (Path(config.folder) / "run.toml").read_bytes()
    folders["other"] = copytree(folders["three"], folders["three"].parent / "other")
    card = card_table(replace(town.card, classes=classes))
    (folders["other"] / CARD_FILE).write_text(tomli_w.dumps(card))
    with refused(RunError, "federation.toml", got=classes, expected=THREE):
        go("run", "other", 4)
    after = result(config)
    assert_same(before[1], after[1])
    assert before[2] == after[2] and (Path(config.folder) / "run.toml").read_bytes() == written


def test_a_card_that_names_a_class_twice_is_refused(
    go: Any, result: Any, folders: dict[str, Path], town: Federation
) -> None:
    config, twice = go("run", "three", 1), (*THREE, "c")
    folders["twice"] = copytree(folders["three"], folders["three"].parent / "twice")
    card = card_table(replace(town.card, classes=twice))
    (folders["twice"] / CARD_FILE).write_text(tomli_w.dumps(card))
    with refused(
        DataError, "federation.toml", "classes", got=[*twice], expected="none of them twice"
    ):
        go("run", "twice", 2)
    assert result(config)[0] == 1


class Liars(Fleet):
    """Ben says that he knows three classes, and sends what Anna does, who knows four."""

    def _work(self, message: Message) -> Message | None:
        reply = super()._work(message)
        if reply is None or reply.has_error() or exchange.PAYLOAD not in reply.content:
            return reply
        upload = pb.Bundle.FromString(exchange.unpack(reply.content))
        if upload.client_id == "anna":
            upload.client_id = "ben"
            self.annas = upload.SerializeToString()
        elif upload.client_id == "ben":
            reply.content[exchange.PAYLOAD] = exchange.pack(self.annas)
        return reply


@pytest.mark.parametrize("method", ["fedavg", "fedproto", "fedsub", "fedsub-ridge"])
def test_an_upload_with_a_class_beyond_the_devices_own_card_is_refused(
    method: str, go: Any, result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    go("run", "three", 2, method=method)
    monkeypatch.setattr(f"{__name__}.Fleet", Liars)
    config = go("run", "four", 4, ("anna",), method=method)
    rounds, _, rows, _ = result(config)
    third = [row for row in rows if row.round == 3]
    assert rounds == 4
    assert {r.client for r in third if r.metric == "bytes_up_sent"} == {"anna", "cleo"}
    assert {r.client for r in third if r.metric == "refused_replies" and r.value} == {"ben"}


@pytest.mark.parametrize("said", [(*THREE, "c"), (*FOUR, "e"), (*FOUR, "d"), ("a", "a")])
def test_a_device_that_says_other_classes_is_turned_away(
    said: tuple[str, ...], go: Any, result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Others(Fleet):
        def _work(self, message: Message) -> Message | None:
            reply = super()._work(message)
            if reply is not None and handshake.HANDSHAKE in reply.content:
                record = reply.content.config_records[handshake.HANDSHAKE]
                if record["client"] == "ben":
                    record["classes"] = list(said)
            return reply

    go("run", "three", 2)
    monkeypatch.setattr(f"{__name__}.Fleet", Others)
    with refused(RunError, "ben", got=said):
        go("run", "four", 3, ("anna",), **{"join-timeout": 0.3})
    config = go("run", "four", 3, ("anna",), **{"join-timeout": 0.3, "min-clients": 2})
    came = {r.client for r in result(config)[2] if (r.round, r.metric) == (3, "bytes_up_sent")}
    assert came == {"anna", "cleo"}


def test_a_method_that_cannot_gain_classes_says_so(go: Any, result: Any) -> None:
    config = go("run", "three", 1, method="fedamp")
    with refused(ConfigError, "fedamp", got="4 classes", expected="3"):
        go("run", "four", 2, method="fedamp")
    assert result(config)[0] == 1


def test_a_device_whose_card_the_run_never_had_is_turned_away(go: Any, folders: Any) -> None:
    go("run", "three", 1)
    with refused(RunError, "anna", got=FOUR, expected=THREE):
        go("run", "three", 2, ("anna",), **{"join-timeout": 0.3})


def test_in_secure_sums_everybody_must_know_all_classes(go: Any, result: Any) -> None:
    keys = {"secure-aggregation": True, "robust": "none", "join-timeout": 1.0}
    go("run", "three", 2, **keys)
    with refused(RunError, "ben", "cleo", got=THREE, expected=FOUR):
        go("run", "four", 3, ("anna",), **keys)
    config = go("run", "four", 4, ("anna", "ben", "cleo"), **keys)
    assert len(metrics_of(result, config, 4, "macro_f1")) == 3
