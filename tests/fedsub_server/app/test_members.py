"""Two federations on one server: each has its own people, whoever's devices are connected."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_server.live_file import read_live
from fedsub_server.members import MEMBERS_FILE, read_members


def test_two_federations_do_not_mix(
    tmp_path: Path,
    data: str,
    devices: Any,
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
) -> None:
    people = {"hearts": ["anna"], "steps": ["ben", "cleo"]}
    for rounds in (1, 2):  # by turns, as two services would
        for name, members in people.items():
            config = configuration(data, tmp_path / name, rounds=rounds)
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / MEMBERS_FILE).write_text("\n".join([*members, ""]))
            serve(devices(config, tmp_path / "states"), config)
    for name, members in people.items():
        alone = tmp_path / f"only-{name}"
        shutil.copytree(data, alone)
        for path in (alone / "clients").glob("*.npz"):
            if path.stem not in members:
                path.unlink()
        config = configuration(str(alone), tmp_path / f"steady-{name}", rounds=2)
        serve(devices(config, tmp_path / f"states-{name}"), config)
        ours, theirs = (result(configuration(data, tmp_path / n)) for n in (name, f"steady-{name}"))
        assert_same(ours[1], theirs[1])
        assert {row.client for row in ours[2]} - {""} == set(members)
        live = read_live(tmp_path / name)
        assert live is not None and sorted(live["people"]) == members
        assert live["turned_away"] == {}, "others' devices are nobody's business here"


def test_who_only_looks_changes_nothing(
    tmp_path: Path,
    data: str,
    devices: Any,
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
) -> None:
    """A service asks devices for new samples by a run without rounds."""
    config = configuration(data, tmp_path / "run", rounds=2)
    serve(devices(config, tmp_path / "states"), config)
    before = result(config)
    asked = devices(config, tmp_path / "states")
    serve(asked, config)
    after = result(config)
    assert_same(before[1], after[1])
    assert before[2] == after[2] and before[0] == after[0]
    live = read_live(tmp_path / "run")
    assert live is not None and all(one["examples"] > 0 for one in live["people"].values())


@pytest.mark.parametrize("content", [b"anna\n../ben\n", b"\xff\xfe", b"an na"])
def test_a_list_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / MEMBERS_FILE).write_bytes(content)
    with refused(RunError, str(tmp_path / MEMBERS_FILE)):
        read_members(tmp_path)


def test_without_a_list_everybody_takes_part(tmp_path: Path) -> None:
    assert read_members(tmp_path) is None
    (tmp_path / MEMBERS_FILE).write_text("")
    assert read_members(tmp_path) == frozenset()
