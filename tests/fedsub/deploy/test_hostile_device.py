"""One of four devices attacks in every round of `fedsub deploy local`: the others learn on."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import pytest
from click.testing import CliRunner

from fedsub.commands.deploy import deploy
from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.options import Value
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase

from .tampered import tampered_path

pytestmark = pytest.mark.slow

PEOPLE, EVIL = ("01", "02", "03", "04"), "03"
KEYS: dict[str, Value] = {
    "data": "watch",
    "method": "fedavg",
    "beside": "",
    "lr": 0.2,
    "rounds": 8,
    "evaluate-every": 8,
    "device": "cpu",
    "threads": 1,
}


def honest_f1(folder: Path) -> float:
    """Return what the others reach in the same run, in one process, without an attack."""
    whole = load_federation("watch")
    few = Federation(whole.card, {client: whole.clients[client] for client in PEOPLE})
    config = read_config(None, KEYS)
    train_method(config, "fedavg", few, folder, lambda round: None)
    return others_f1(folder / DATABASE_FILE)


def others_f1(database: Path) -> float:
    """Return the others' mean macro F1 after the last round, of whom nobody is missing."""
    with RunDatabase(database) as opened:
        assert opened.last_round() == KEYS["rounds"]
        found = {row.client: row.value for row in opened.metrics("macro_f1")}
    assert found.keys() >= set(PEOPLE) - {EVIL}
    return fmean(value for client, value in found.items() if client != EVIL)


@pytest.mark.release
def test_no_round_is_lost_and_the_others_learn_on(
    mark: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes far the other way, and claims the most samples that the wire takes.

    Its update is shortened to what the median adds, so the others learn at half of their pace.
    Where it leads all to numbers that no device takes, the server goes back and leaves it out.
    """
    monkeypatch.setenv("PYTHONPATH", tampered_path(tmp_path / "shim"))
    monkeypatch.setenv("FEDSUB_TEST_CHEAT", EVIL)
    monkeypatch.setenv("FEDSUB_TEST_ATTACK", "x -30, samples")
    command = ["local", "--clients", str(len(PEOPLE)), "--out", str(tmp_path / "out")]
    command += [part for key, value in KEYS.items() for part in ("--set", f"{key}={value}")]
    said = CliRunner().invoke(deploy, command)
    assert said.exit_code == 0, said.output
    assert mark() == []
    (database,) = tmp_path.glob(f"out/*/run/fedavg/{DATABASE_FILE}")
    with RunDatabase(database) as opened:
        assert {row.client for row in opened.metrics("left_out")} <= {EVIL}
    assert others_f1(database) > 0.5 * honest_f1(tmp_path / "honest")
