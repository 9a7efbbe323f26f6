"""Secure sums of fedsub-ridge over TLS: SuperNodes with a roster come to a simulation's result."""

import json
from pathlib import Path

import pytest
import torch

from fedsub.deploy.roster import ROSTER_FILE
from fedsub.engines.rehearsal import Rehearsal
from fedsub.engines.simulation import train_method
from fedsub.testing.engine_tests import as_in_one_process
from fedsub.testing.runs import people
from fedsub_client.loaded_model import load_model
from fedsub_client.protections.device_roster import SEEN_FILE
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import write_federation
from fedsub_core.options import Value
from fedsub_server.rundb import RunDatabase

NAME, PEOPLE = "fedsub-ridge", ("p1", "p2", "p3")
#: Rounds of the three sums; in a fourth heads on all of them are tested.
SUMS, ROUNDS = 3, 4
KEYS: dict[str, Value] = {
    "method": NAME, "beside": "", "rounds": ROUNDS, "encoder": "relu:8", "robust": "none",
    "standardise": "federation", "secure-aggregation": True,
    # In one process: as many stacks as people, which compute what one device does, to the bit.
    "threads": len(PEOPLE),
}  # fmt: skip


@pytest.mark.slow
def test_supernodes_open_the_sums_of_a_simulation(tmp_path: Path) -> None:
    federation = people(((0, 1, 2),) * len(PEOPLE))
    write_federation(tmp_path / "data", federation)
    config = read_config(None, KEYS | {"data": str(tmp_path / "data"), "out": str(tmp_path)})
    rehearsal = Rehearsal(config, len(PEOPLE), print, print)
    deployed = rehearsal() / NAME
    train_method(config, NAME, federation, tmp_path / "cohort", lambda round: None)

    found = {}
    for folder in (deployed, tmp_path / "cohort"):
        with RunDatabase(folder / "state.db") as database:
            round, state = database.load()
            scores = {(r.round, r.client): r.value for r in database.metrics("macro_f1")}
            added = {r.round: r.value for r in database.metrics("secure_people")}
        assert round == ROUNDS and added == dict.fromkeys(range(1, SUMS + 1), len(PEOPLE))
        found[folder] = as_in_one_process(state["server"]), scores
    (server, scores), (theirs, their_scores) = found.values()
    assert server.keys() == theirs.keys()
    for name in server:
        assert torch.equal(server[name], theirs[name]), name
    assert server["everybody.cross"].any() and server["pooled"].any()
    assert scores == their_scores and len(scores) == ROUNDS * len(PEOPLE)

    for client in PEOPLE:
        own = rehearsal.place.state / client
        model = Saved.of_bytes((own / STATE_FILE).read_bytes()).model
        assert model is not None
        in_process = load_model(tmp_path / "cohort" / "models" / f"{client}.safetensors")
        assert model.params.keys() == in_process.params.keys()
        for name, tensor in in_process.params.items():
            assert torch.equal(model.params[name], tensor), (client, name)
        # Of the sums that it opened a device keeps who was in them, and no secret.
        left = json.loads(next(own.glob("sums-*.json")).read_bytes())
        assert (left["opened"], left["sent"]) == (SUMS, list(PEOPLE))
        assert not left["mask"] and not left["seed"] and not left["shares"]
        # All went by the roster, which costs no bit.
        assert left["view"] and left["seen"] == list(PEOPLE)
        roster = (rehearsal.place.roster / ROSTER_FILE).read_bytes()
        assert (own / SEEN_FILE).read_bytes().partition(b"\n")[2] == roster
    logs = [log.read_bytes() for log in rehearsal.place.logs.iterdir()]
    assert not any(b"without secure-roster" in log for log in logs)
