"""State at rest under a passphrase: of devices, of a run's database, and the way there and back."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from fedsub.commands.seal import seal
from fedsub.deploy import sealing
from fedsub_client.file_history import FileHistory
from fedsub_client.saved_state import Saved
from fedsub_client.store import FolderStore
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.sealing import FILE, Locked, is_sealed
from fedsub_server.rundb import RunDatabase
from fedsub_server.rundb_glance import glance

SECRET = torch.arange(1000.0)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a passphrase's file."""
    path = tmp_path / "passphrase"
    path.write_text("a passphrase of some length\n")
    monkeypatch.setenv(FILE, str(path))
    return path


def saved(round: int) -> Saved:
    """Return anna's state after a round."""
    return Saved("anna", "run", "fedavg", round, FileHistory((3,), b"x" * 16), {"w": SECRET})


def commit(path: Path, round: int) -> None:
    """Commit a round with a tensor of the server and one of anna's."""
    with RunDatabase(path, {"seed": 1}) as database:
        state = {"server": {"w": SECRET + round, "rows/anna": SECRET}}
        database.commit(round, state, [MetricRow(round, "anna", None, "macro_f1", 0.5)])


def test_a_device_goes_on_from_plain_to_sealed_and_loses_nothing(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(tmp_path / "state", "anna")
    with monkeypatch.context() as plainly:
        plainly.delenv(FILE)
        store.save(saved(1))
        store.save_sums(b'{"secrets": 1}', "run")
    assert not is_sealed(store.path.read_bytes()) and store.load() is not None
    store.save(saved(2))
    store.save_sums(b'{"secrets": 2}', "run")
    for path in (store.path, *store.folder.glob("sums*.json")):
        assert is_sealed(path.read_bytes()) and b"secrets" not in path.read_bytes()
    again = store.load()
    assert again is not None and again.round == 2 and torch.equal(again.state["w"], SECRET)
    assert store.load_sums("run") == b'{"secrets": 2}'
    before = store.path.read_bytes()
    secret.write_text("another passphrase of some length")
    with pytest.raises(Locked, match="not the one"):
        store.load()
    with pytest.raises(Locked):
        store.load_sums("run")
    secret.unlink()
    with pytest.raises(Locked, match="cannot be read"):
        store.load()
    assert store.path.read_bytes() == before, "who has no passphrase changes nothing"
    secret.write_text("a passphrase of some length")
    store.path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    assert store.load() is None, "a changed state is kept aside, and the device begins anew"
    assert (store.folder / "damaged-1.safetensors").exists()


def test_a_runs_state_is_sealed_and_its_metrics_are_not(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    with monkeypatch.context() as plainly:
        plainly.delenv(FILE)
        commit(path, 1)
    commit(path, 2)
    needle = SECRET.numpy().tobytes()[400:1200]
    with RunDatabase(path) as database:
        database.seal_anew(plain=False)
        round, state = database.load()
    assert round == 2 and torch.equal(state["server"]["rows/anna"], SECRET)
    assert needle not in path.read_bytes() and not Path(f"{path}-wal").exists()
    secret.write_text("another passphrase of some length")
    with RunDatabase(path) as database, pytest.raises(Locked, match=r"state\.db: state server"):
        database.load()
    monkeypatch.delenv(FILE)
    with RunDatabase(path) as database, pytest.raises(Locked, match=FILE):
        database.load()
    with RunDatabase(path) as database:
        assert [row.value for row in database.metrics("macro_f1")] == [0.5, 0.5]
    assert glance(path).round == 2


def test_one_command_seals_what_lies_there_and_makes_it_plain_again(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, run = FolderStore(tmp_path / "state", "anna"), tmp_path / "run"
    (run / "fedavg").mkdir(parents=True)
    (run / "run.toml").write_text("")
    with monkeypatch.context() as plainly:
        plainly.delenv(FILE)
        store.save(saved(1))
        commit(run / "fedavg" / "state.db", 1)
        assert CliRunner().invoke(seal, [str(run)]).exit_code != 0
    said = [CliRunner().invoke(seal, [str(p)]) for p in (run, tmp_path / "state")]
    assert [one.output for one in said] == [
        "fedavg/state.db: sealed\n",
        "anna/state.safetensors: sealed\n",
    ]
    assert is_sealed(store.path.read_bytes())
    sealing.seal_folder(tmp_path / "state", plain=True)
    sealing.seal_folder(run, plain=True)
    monkeypatch.delenv(FILE)
    kept = store.load()
    assert kept is not None and kept.round == 1
    with RunDatabase(run / "fedavg" / "state.db") as database:
        assert database.load()[0] == 1


@pytest.mark.usefixtures("secret")
def test_stopped_half_way_each_file_is_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [FolderStore(tmp_path / "state", name) for name in ("anna", "ben")]
    with monkeypatch.context() as plainly:
        plainly.delenv(FILE)
        for store in stores:
            store.save(Saved(store.client, "run", "fedavg", 1, FileHistory((3,), b"x" * 16)))

    def full(path: Path, data: bytes) -> None:
        if path.parent.name == "ben":
            raise OSError(28, "no space")
        path.write_bytes(data)

    with monkeypatch.context() as small:
        small.setattr(sealing, "replace_file", full)
        with pytest.raises(RunError, match="no space"):
            sealing.seal_folder(tmp_path / "state", plain=False)
    assert [is_sealed(store.path.read_bytes()) for store in stores] == [True, False]
    assert all(store.load() is not None for store in stores)
    assert len(sealing.seal_folder(tmp_path / "state", plain=False)) == 2
