"""A device on which an older release is installed, from a wheel, takes part beside present ones."""

import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from flwr.app import Error, Message, RecordDict

from fedsub_client.store import FolderStore
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.data.federation import write_federation
from fedsub_core.version import VERSION
from fedsub_server.data_notes import read_notes
from fedsub_server.rundb import RunDatabase

from .recording import CLIENTS, Devices, configuration, people, serve

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
OLDER = "0.0.8"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder in which a wheel of this tree is installed whose version is lower."""
    tree, wheels, target = (tmp_path / name for name in ("tree", "wheels", "target"))
    left_out = shutil.ignore_patterns(".git", "tests", "studies", "*.so", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, tree, ignore=left_out)
    project = (tree / "pyproject.toml").read_text("utf-8")
    lower = re.sub(r'^version = ".*"$', f'version = "{OLDER}"', project, flags=re.MULTILINE)
    assert lower != project
    (tree / "pyproject.toml").write_text(lower, "utf-8")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    env = {**os.environ, "FEDSUB_KERNELS": "off"}
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(tree)]
    subprocess.run([*pip, *wheel], check=True, env=env)
    (built,) = wheels.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(built)], check=True)
    return target


class WithOneOlder(Devices):
    """Present devices, but for the last, which is a process of the older release."""

    def __init__(self, config: RunConfig, place: Path, installed: Path) -> None:
        super().__init__(config, place)
        self.last, context = [*self.contexts.items()][-1]
        # -P: what is installed there, not this folder's.
        command = [sys.executable, "-P", str(Path(__file__).with_name("older_device.py"))]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(installed)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._send((dict(context.node_config), to_flat(config)))
        assert Path(str(self._receive())).is_relative_to(installed)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        for message in messages:
            if message.metadata.dst_node_id != self.last:
                yield from super().answers([message])
                continue
            self._send((message.metadata.message_type, message.content))
            got = self._receive()
            if isinstance(got, RecordDict):
                yield Message(got, reply_to=message)
            else:
                yield Message(Error(0, str(got)), reply_to=message)

    def _send(self, what: object) -> None:
        assert self.process.stdin is not None
        pickle.dump(what, self.process.stdin)
        self.process.stdin.flush()

    def _receive(self) -> object:
        assert self.process.stdout is not None
        return pickle.load(self.process.stdout)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0


def test_a_device_of_an_older_wheel_takes_part(
    tmp_path: Path,
    installed: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("fedsub_server.app.write_reports", lambda folder: None)
    write_federation(tmp_path / "data", people())
    config = configuration(tmp_path)
    grid = WithOneOlder(config, tmp_path, installed)
    serve(grid, config)
    grid.close()
    old = CLIENTS[-1]
    assert f"client {old}: runs fedsub {OLDER}, this server {VERSION}: it is behind" in caplog.text
    assert read_notes(tmp_path / "run").behind == {old: OLDER}
    with RunDatabase(tmp_path / "run" / config.method / "state.db") as database:
        rows = [row for row in database.metrics() if row.round == config.rounds]
    used = {row.client for row in rows if row.metric == "bytes_up_sent"}
    assert used == set(CLIENTS) and not [r for r in rows if r.metric == "refused_replies"]
    # What it keeps, a present device reads once it is upgraded.
    saved = FolderStore(tmp_path / "states", old).load()
    assert saved is not None and saved.round == config.rounds
