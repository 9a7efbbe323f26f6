"""What machines ask over HTTP: metrics in OpenMetrics' own format, health, readiness."""

import socket
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from fedsub.status import answers, endpoint, reading
from fedsub.status.endpoint import Endpoint, address, hosts_of
from fedsub.status.facts import KINDS
from fedsub.status.openmetrics import CONTENT_TYPE, metrics_text
from fedsub.status.reading import read_status
from fedsub_core.errors import ConfigError, RunError

from .made_deployments import EVIL, make_deployment, served
from .open_metrics import samples

LOOPBACK = "127.0.0.1"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that goes on, in whose last round two failed, of whom one has a strange name."""
    monkeypatch.setattr(reading, "holder", lambda files: 1)
    make_deployment(tmp_path / "run", missing=(EVIL,), refused=("bob",), live={}).close()
    return tmp_path / "run"


def test_the_same_facts_and_no_names(run: Path) -> None:
    status = read_status(run)
    text = metrics_text(status)
    found = samples(text)
    assert found["fedsub_up"] == 1 and found["fedsub_well"] == 0
    assert (found["fedsub_rounds_done"], found["fedsub_rounds_wanted"]) == (3, 10)
    assert found['fedsub_people{state="silent"}'] == 1
    assert found['fedsub_people{state="trained"}'] == 2
    assert found["fedsub_sent_bytes"] == 2 * 2048
    wrong = {kind for kind in KINDS if found[f'fedsub_trouble{{kind="{kind}"}}']}
    assert wrong == {"silent", "refused", "quorum"}
    for person in status.people:
        assert person.client not in text


def test_with_names_a_strange_one_ends_no_line(run: Path) -> None:
    text = metrics_text(read_status(run), names=True)
    found = samples(text)
    assert found['fedsub_person_state{client="bob",state="refused"}'] == 1
    assert found['fedsub_person_last_usable_round{client="bob"}'] == 3  # as the server says
    strange = [name for name in found if "eve" in name]
    assert len(strange) == 2 and "\x1b" not in text and all("eve\\n" in name for name in strange)


def test_questions_and_answers(run: Path) -> None:
    with served(lambda: read_status(run)) as url:
        with urlopen(f"{url}/metrics", timeout=10) as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert samples(answer.read().decode())["fedsub_round"] == 4
        for path, said in (("/health", "ok\n"), ("/ready", "going on\n")):
            with urlopen(url + path, timeout=10) as answer:
                assert answer.read().decode() == said
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{url}/live.json", timeout=10)


def test_a_run_that_has_stopped_is_alive_to_ask_and_not_ready(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "holder", lambda files: None)
    monkeypatch.setattr(answers, "FRESH", 0.0)
    with served(lambda: read_status(run)) as url:
        with pytest.raises(HTTPError, match="503"):
            urlopen(f"{url}/ready", timeout=10)
        with urlopen(f"{url}/metrics", timeout=10) as answer:
            assert samples(answer.read().decode())["fedsub_up"] == 0
        (run / "run.toml").unlink()
        with pytest.raises(HTTPError, match="503") as refused:
            urlopen(f"{url}/metrics", timeout=10)
        assert str(run) not in refused.value.read().decode()
        with urlopen(f"{url}/health", timeout=10) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "half", [b"", b"GET /health HT", b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n"]
)
def test_a_question_that_stays_half_sent_is_closed(
    run: Path, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    monkeypatch.setattr(endpoint, "QUESTION_SECONDS", 0.5)
    with served(lambda: read_status(run)) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection((LOOPBACK, port), timeout=60) as first:
            first.sendall(half)
            assert first.recv(1) == b""
        # Also after a question that was answered.
        with socket.create_connection((LOOPBACK, port), timeout=60) as second:
            second.sendall(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            got = b""
            while b"ok\n" not in got:
                got += second.recv(1000)
            second.sendall(half)
            assert second.recv(1) == b""
        with urlopen(f"{url}/health", timeout=10) as answer:
            assert answer.read() == b"ok\n"


def test_a_port_that_is_taken_is_refused_in_a_line(run: Path) -> None:
    with socket.socket() as other:
        other.bind((LOOPBACK, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(RunError, match=rf"^127.0.0.1:{port}: cannot listen there"):
            Endpoint((LOOPBACK, port), lambda: read_status(run), names=False)


def test_all_of_loopback_is_told_to_itself_alone() -> None:
    """Not every system lets a server listen on all of it."""
    for host in (*answers.LOOPBACK, "127.0.0.2", "LocalHost", "0:0:0:0:0:0:0:1"):
        assert set(answers.LOOPBACK) <= set(hosts_of(host) or ()), host
    assert "127.0.0.2" in (hosts_of("127.0.0.2") or ())
    for host in ("0.0.0.0", "::", "192.0.2.1", "server.example.org"):
        assert hosts_of(host) is None


def test_loopback_unless_told() -> None:
    assert address("9464") == (LOOPBACK, 9464)
    assert address("0.0.0.0:9464") == ("0.0.0.0", 9464) and address("[::1]:1") == ("::1", 1)
    for text in ("", "x", "host:", "70000", "-1"):
        with pytest.raises(ConfigError, match="expected a port"):
            address(text)
