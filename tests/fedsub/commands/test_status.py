"""`fedsub status`: what it prints, its exit codes, and names that would do things to a terminal."""

import json
import socket
from pathlib import Path

import pytest

from fedsub.commands import status as command

from ..status.made_deployments import EVIL, make_deployment
from .calls import Call, assert_refused


def test_a_table_for_people_and_json_for_scripts(fedsub: Call, tmp_path: Path) -> None:
    make_deployment(tmp_path / "run", rounds=3, live={"ended": "finished"}).close()
    code, out, err = fedsub("status", str(tmp_path / "run"))
    assert (code, err) == (0, "") and "fedavg: 3 of 3 rounds done" in out and "well (0)" in out
    code, out, _ = fedsub("status", str(tmp_path / "run"), "--json")
    assert code == 0 and json.loads(out)["state"] == "finished"


def test_nothing_of_a_name_reaches_the_terminal_as_it_is(fedsub: Call, tmp_path: Path) -> None:
    make_deployment(tmp_path / "run", rounds=3, missing=(EVIL,), live={}).close()
    code, out, _ = fedsub("status", str(tmp_path / "run"))
    assert code == 1 and "did not answer" in out
    assert "\x1b" not in out and "\u202e" not in out and "eve\n" not in out
    assert all(c.isprintable() or c == "\n" for c in out)
    shown = r"eve\n\x1b[2J\u202ereversed"
    assert f"! {shown}: did not answer in the last round\n" in out


def test_exit_codes(fedsub: Call, tmp_path: Path) -> None:
    make_deployment(tmp_path / "run", live={}).close()
    code, out, _ = fedsub("status", str(tmp_path / "run"))
    assert code == 3 and "! stopped after round 3 of 10" in out and "stopped (3)" in out
    (tmp_path / "empty").mkdir()
    assert_refused(fedsub("status", str(tmp_path / "empty")), "no run's, deployment's or study's")


def test_a_port_that_is_taken_is_refused_in_a_line(fedsub: Call, tmp_path: Path) -> None:
    make_deployment(tmp_path / "run").close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = fedsub("status", tmp_path / "run", "--serve", port)
    assert_refused(said, f"127.0.0.1:{port}: cannot listen there", "choose another port")


def test_it_is_watched_until_it_ends(
    fedsub: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsub.status import reading

    database = make_deployment(tmp_path / "run", rounds=5, live={})
    looks = []

    def go_on(seconds: float) -> None:
        looks.append(seconds)
        database.commit(3 + len(looks), {}, [])

    monkeypatch.setattr(reading, "holder", lambda files: 1)
    monkeypatch.setattr("fedsub.commands.status.time.sleep", go_on)
    with database:
        code, out, _ = fedsub("status", str(tmp_path / "run"), "--watch")
    assert code == 0 and looks == [command.EVERY] * 2
    said = [line for line in out.splitlines() if "rounds done" in line]
    assert [line.split(":")[1][:7] for line in said] == [" 3 of 5", " 4 of 5", " 5 of 5"]


def test_a_folder_or_a_superlink_is_asked(fedsub: Call, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("no certificate")
    link = ("--superlink", "127.0.0.1:1")
    for arguments, words in (
        ((), "FOLDER, --superlink: got neither, expected one of them"),
        ((tmp_path, *link), "got both"),
        ((tmp_path, "--ca", ca), "--ca: got no --superlink"),
        ((*link, "--serve", "9464"), "which want a FOLDER"),
    ):
        code, out, err = fedsub("status", *arguments)
        assert (code, out) == (2, "") and words in err
    assert_refused(fedsub("status", *link, "--ca", ca), "expected PEM")
    ca.write_bytes(b"\xff")
    assert_refused(fedsub("status", *link, "--ca", ca), "expected PEM")


def test_where_no_superlink_answers_is_said_in_a_line(fedsub: Call) -> None:
    for address in ("127.0.0.1:1", "nowhere", "a b:c", "127.0.0.1:99999999"):
        said = fedsub("status", "--superlink", address)
        assert_refused(said, f"{address}: got no answer", "HOST:PORT")


def test_a_superlink_is_watched_until_its_run_ends(
    fedsub: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsub.status import superlink
    from fedsub_core.flower.control import LinkNode, LinkRun

    runs = [LinkRun(5, status, "", "", "", 0, 0) for status in ("running", "finished:completed")]
    looks = iter([(list[LinkNode](), [run]) for run in runs])
    monkeypatch.setattr(superlink, "ask_superlink", lambda address, ca: next(looks))
    monkeypatch.setattr(command, "EVERY", 0.0)
    code, out, _ = fedsub("status", "--superlink", "here:8000", "--watch")
    assert code == 0 and out.count("superlink here:8000: ") == 2 and out.endswith("well (0)\n")
