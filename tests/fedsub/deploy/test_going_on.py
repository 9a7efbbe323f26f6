"""On a SuperLink a run gains a class that two devices lack; another begins with its models."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.deploy.flower_app import write_app
from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import ClientData, Federation, read_federation, write_federation
from fedsub_server.rundb import RunDatabase
from strategies.rounds.memory import Memory

pytestmark = pytest.mark.slow


def with_new_class(folder: Path, samples: int) -> None:
    """Have a folder's card gain the class ``new``, and each of its clients that many samples."""
    before, people = read_federation(folder), {}
    for client, own in before.clients.items():
        x = np.concatenate([own.x, np.full_like(own.x[:samples], -9)])
        y = np.append(own.y, np.full(samples, len(before.card.classes)))
        people[client] = ClientData(client, x, y)
    card = replace(before.card, classes=(*before.card.classes, "new"))
    shutil.rmtree(folder)
    write_federation(folder, Federation(card, people))


def test_classes_are_gained_and_another_run_goes_on(
    town: Callable[..., Federation], tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", town(3))
    places = {"data": str(tmp_path / "data"), "out": str(tmp_path / "out")}
    given: dict[str, Any] = {
        "method": "fedavg",
        "beside": "",
        "standardise": "federation",
        "quorum": 1.0,
    }
    rehearsal = Rehearsal(read_config(None, given | places | {"rounds": 2}), 3, print, print)

    def run(**keys: Any) -> tuple[Memory, dict[tuple[str, int | None], float], str]:
        rehearsal.config = config = replace(rehearsal.config, **keys)
        shutil.rmtree(rehearsal.place.app)
        write_app(rehearsal.place.app, config)
        for _ in rehearsal.follow(rehearsal.submit()):
            pass
        with RunDatabase(rehearsal.database) as database:
            round, state = database.load()
            assert round == config.rounds
            rows = [row for row in database.metrics() if row.round == round]
            name = database.meta()["run"]
        assert not any(row.value for row in rows if row.metric == "refused_replies")
        scores = {(row.client, row.label): row.value for row in rows if row.metric == "f1"}
        return Memory.split(state["server"])[0], scores, name

    with rehearsal.up():
        first, _, _ = run()
        with_new_class(tmp_path / "data", 0)
        with_new_class(rehearsal.place.device("p1"), 8)
        second, scores, name = run(rounds=5, standardise_anew=4)
        assert second.agreed is not None and first.agreed is not None
        assert second.agreed.before == (len(first.agreed.classes),) and second.agreed.renewed == 4
        assert second.agreed.scaling is not None and first.agreed.scaling is not None
        assert second.agreed.scaling.bits != first.agreed.scaling.bits
        assert {client for client, _ in scores} == {"p1", "p2", "p3"}
        assert {client for client, label in scores if label == len(first.agreed.classes)} == {"p1"}
        before, rehearsal.place.run = rehearsal.place.run, tmp_path / "another"
        another = {"folder": str(rehearsal.place.run), "from_run": str(before)}
        third, _, _ = run(rounds=1, standardise_anew=0, min_clients=1, **another)
    assert third.agreed is not None and third.agreed.begun_with == name
    assert third.agreed.scaling is not None
    assert third.agreed.scaling.bits == second.agreed.scaling.bits
