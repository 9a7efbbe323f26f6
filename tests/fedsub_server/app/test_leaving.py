"""A person leaves from the device: asked no more from the next round on, forgotten, and told so."""

import json
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedsub_client.leaving import RECORD_FILE, leave
from fedsub_client.policy import Unwilling
from fedsub_client.store import LEAVING_FILE, FolderStore
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.wire.leaving import LEAVE, read_left
from fedsub_server.forgotten import read_forgotten
from fedsub_server.leaving import DEPARTURES_FILE


@pytest.fixture
def leaver(devices: Any) -> Any:
    """Make devices of which anna's leaves before a round, in its own folder."""

    class Leaver(devices):  # type: ignore[misc]
        leaves = 3

        def _work(self, message: Message) -> Message | None:
            if self.asked and self.asked[-1][3] >= self.leaves and not self.left:
                leave(self.home, "anna")
                self.left = True
            return super()._work(message)  # type: ignore[no-any-return]

        left = False

    return Leaver


def test_who_leaves_is_forgotten_after_the_round(
    data: str, tmp_path: Path, configuration: Any, serve: Any, leaver: Any, result: Any
) -> None:
    config = configuration(data, tmp_path / "run", method="fedavg", rounds=6)
    home = tmp_path / "devices"
    grid = leaver(config, home)
    serve(grid, config)
    last, _, rows, _ = result(config)
    assert last == 6
    by_round = {r: {row.client for row in rows if row.round == r} - {""} for r in range(1, 7)}
    assert by_round[2] == {"(forgotten 1)", "ben", "cleo"}
    for round in range(4, 7):
        assert by_round[round] == {"ben", "cleo"}, round
    assert "anna" in read_forgotten(tmp_path / "run")
    named = [p for p in (tmp_path / "run").rglob("*") if p.is_file() and b"anna" in p.read_bytes()]
    assert named == []
    (record,) = json.loads((tmp_path / "run" / DEPARTURES_FILE).read_text()).values()
    assert record["metrics"] == "(forgotten 1)" and record["deleted"] and record["remains"]
    kept = {path.name for path in (home / "anna").iterdir()}
    assert kept == {"lock", LEAVING_FILE, RECORD_FILE}
    told = (home / "anna" / RECORD_FILE).read_text("utf-8")
    assert "state.safetensors was deleted" in told and "On the server" in told
    assert all(text in told for text in [*record["deleted"], *record["remains"]])


def test_sums_go_on_as_if_the_person_had_never_been_there(
    data: str, tmp_path: Path, configuration: Any, serve: Any, leaver: Any, result: Any
) -> None:
    more = {"method": "fedsub-ridge", "rounds": 6, "standardise": "client"}
    config = configuration(data, tmp_path / "run", **more)
    serve(leaver(config, tmp_path / "devices"), config)
    (without := tmp_path / "others").mkdir()
    (without / "clients").mkdir()
    for path in Path(data).rglob("*"):
        if path.is_file() and path.stem != "anna":
            (without / path.relative_to(data)).write_bytes(path.read_bytes())
    other = configuration(str(without), tmp_path / "run-others", **more)
    serve(leaver.__bases__[0](other, tmp_path / "devices-others"), other)
    left, never = (result(each) for each in (config, other))
    assert left[1].keys() == never[1].keys()
    sums = [name for name in never[1] if "sum" in name or "gram" in name]
    for name in sums or never[1]:
        assert left[1][name].tolist() == never[1][name].tolist(), name
    scores = [
        {r.client: r.value for r in rows if r.metric == "macro_f1" and r.round == 6}
        for _, _, rows, _ in (left, never)
    ]
    assert scores[0] == scores[1]


def test_who_left_before_the_run_takes_no_part_and_is_told(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any, result: Any
) -> None:
    config = configuration(data, tmp_path / "run", method="fedavg", rounds=3)
    home = tmp_path / "devices"
    home.mkdir()
    leave(home, "anna")
    grid = devices(config, home)
    serve(grid, config)
    rows = result(config)[2]
    assert {row.client for row in rows} - {""} == {"ben", "cleo"}
    assert "anna" in read_forgotten(tmp_path / "run")
    assert "On the server" in (home / "anna" / RECORD_FILE).read_text("utf-8")


def test_one_device_cannot_take_another_person_out(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any, result: Any
) -> None:
    class Liar(devices):  # type: ignore[misc]
        def _work(self, message: Message) -> Message | None:
            if self.clients[message.metadata.dst_node_id - 1] == "ben" and self.asked:
                content = RecordDict({LEAVE: ConfigRecord({"client": "anna"})})
                return Message(content, reply_to=message)
            return super()._work(message)  # type: ignore[no-any-return]

    config = configuration(data, tmp_path / "run", method="fedavg", rounds=4)
    serve(Liar(config, tmp_path / "devices"), config)
    forgotten = read_forgotten(tmp_path / "run")
    assert "ben" in forgotten and "anna" not in forgotten and "cleo" not in forgotten
    assert {"anna", "cleo"} <= {row.client for row in result(config)[2] if row.round == 4}


def test_a_record_that_is_none_is_refused_by_name() -> None:
    lists: dict[str, Any] = {"deleted": ["a"], "remains": ["b"]}
    assert read_left(ConfigRecord(lists), "anna").deleted == ["a"]
    bads: list[dict[str, Any]] = [
        {"deleted": ["a"]},
        {**lists, "remains": ["a\nb"]},
        {**lists, "deleted": ["a"] * 51},
    ]
    for bad in bads:
        with pytest.raises(MessageRefused) as refused:
            read_left(ConfigRecord(bad), "anna")
        assert refused.value.client == "anna" and refused.value.what == "left"


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="state-dir"):
        leave(tmp_path / "none", "anna")


@pytest.mark.parametrize("client", ["../home", ".", "ana", ""])
def test_nobody_leaves_under_another_name(tmp_path: Path, client: str) -> None:
    """Nothing outside of the person's folder is touched, and a misspelt name is no leave."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    (tmp_path / "states" / "anna").mkdir(parents=True)
    with pytest.raises(RunError, match="expected"):
        leave(tmp_path / "states", client)
    assert (tmp_path / "home" / "thesis.txt").exists()
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["anna"]


def test_who_left_while_a_message_waited_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "anna").mkdir()
    leave(tmp_path, "anna")
    with pytest.raises(Unwilling, match="leaves"), FolderStore(tmp_path, "anna").lock():
        pass
