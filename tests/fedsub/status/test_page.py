"""The page: what stands in it, that it follows the run, and that it names nobody unasked."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from fedsub.status import answers, reading
from fedsub.status.answers import anonymised
from fedsub.status.facts import Person, Status, Trouble
from fedsub.status.openmetrics import metrics_text
from fedsub.status.page import page, parts
from fedsub.status.reading import read_status
from fedsub.status.troubles import troubles
from fedsub_core.config.run_config import RunConfig, dump_toml
from fedsub_core.metric_names import OWN_HEADS
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase

from .made_deployments import EVIL, PEOPLE, make_deployment, said, served

WHY = "tensor head of ann: got\nnan<script>"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that goes on, of which there is something to say of everybody."""
    monkeypatch.setattr(reading, "holder", lambda files: 1)
    monkeypatch.setattr(answers, "EVERY", 0.02)
    monkeypatch.setattr(answers, "FRESH", 0.0)
    each = said(10, 3)["people"]
    each["bob"] |= {"refused": [3, WHY]}
    each["cyd"] |= {"rests_until": 7}
    each[EVIL] |= {"online": False}
    live = {"people": each, "waited_for": ["ann"], "turned_away": {"987": "client id 'anna'"}}
    made = make_deployment(tmp_path / "run", missing=("cyd",), refused=("bob",), live=live)
    cluster = [MetricRow(4, one, 1, "cluster", i % 2) for i, one in enumerate(PEOPLE)]
    made.commit(4, {}, [*cluster, MetricRow(4, "bob", None, "refused_replies", 1)])
    made.close()
    return tmp_path / "run"


def words(html: str) -> str:
    """Return what is read on a page, without its style and script."""
    return unescape(re.sub(r"<(script|style)>.*?</\1>|<[^>]*>", " ", html, flags=re.DOTALL))


def test_who_is_silent_refused_rests_and_is_alike(run: Path) -> None:
    text = words(page(read_status(run), names=True))
    for line in ("bob: sent what cannot be used", "eve\\n\\x1b[2J\\u202ereversed: is not connected",
                 "node 987 was turned away: client id 'anna'", "asked 4, waits for ann",
                 "round 3: tensor head of ann: got\\nnan<script>", "ann, cyd", "4 of 10",
                 "1 waited for, 1 refused, 1 resting, 1 away"):  # fmt: skip
        assert line in re.sub(r"\s+", " ", text), line


@pytest.mark.parametrize("names", [False, True])
def test_what_devices_say_is_text_and_on_one_line(run: Path, names: bool) -> None:
    status = read_status(run)
    html = page(status if names else anonymised(status), names)
    assert html.count("<script>") == html.count("</script>") == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", html)
    assert ("got\\nnan&lt;script&gt;" in html) == names


def test_nobody_is_named_unasked(run: Path) -> None:
    status = read_status(run)
    hidden = anonymised(status)
    told = words(page(hidden, names=False)) + repr(hidden)
    # 103 is Flower's id of a node.
    for name in (*PEOPLE, "eve", "anna", "987", "103", "tensor", run.parent.name, status.host):
        assert not re.search(rf"\b{re.escape(name)}\b", told), name
    assert re.search(r"\banna\b.*", repr(status)) and "103" in repr(status)
    for line in ("device 2: sent what cannot be used", "a node was turned away"):
        assert line in told
    assert "device 1, device 3" in told


def test_a_sentence_that_names_somebody_is_not_said() -> None:
    people = [Person("ann.b", "trained"), Person("01", "trained")]
    for who in ("ann.b", "01"):
        troubles = [Trouble("resting", f"{who}: rests"), Trouble("disk", "101 MB are left")]
        hidden = anonymised(Status("x", "run", "going on", people=people, troubles=troubles))
        assert [one.text for one in hidden.troubles] == ["resting", "101 MB are left"]


def test_what_a_device_calls_its_version_names_nobody_unasked() -> None:
    own = "0.0.9 with bobs-phone 1"
    people = [Person("bob.", "trained", version=own), Person("dan", "idle", version="bob. it is")]
    status = Status("x", "run", "going on", version="0.1.0", people=people)
    found = [*troubles(status, RunConfig(), None, {}), Trouble("disk", "bob. has none")]
    hidden = anonymised(replace(status, troubles=found))
    assert [person.version for person in hidden.people] == ["0.0.9", "?"]
    said = ["device 1: is behind the server, which runs 0.1.0", "disk"]
    assert [one.text for one in hidden.troubles] == said
    assert "bob" not in page(hidden, names=False)
    assert found[0].text == f"bob.: is behind the server, which runs 0.1.0: it runs {own}"


def test_who_is_worse_off_than_alone() -> None:
    people = [
        Person("ann", "trained", macro_f1=0.5, alone=0.625),
        Person("bob", "trained", macro_f1=0.5, alone=0.5),
        Person("cyd", "idle"),
    ]
    status = Status("x", "run", "going on", twin="local", people=people)
    assert "worse off than alone (local) 1 of 2, ann" in re.sub(
        r"\s+", " ", words(page(status, True))
    )
    assert "0.625 better" in parts(status)["people"]


@pytest.mark.parametrize("heads", [0.5, 0.1, None])
def test_alone_is_what_the_better_twin_gave(tmp_path: Path, heads: float | None) -> None:
    """Heads of a person's own samples, or the model trained alone, whichever is higher in mean."""
    make_deployment(tmp_path / "run", rounds=3).close()
    text = (tmp_path / "run" / "run.toml").read_text()
    (tmp_path / "run" / "run.toml").write_text(text.replace('beside = ""', 'beside = "local"'))
    (tmp_path / "run" / "local").mkdir()
    with RunDatabase(tmp_path / "run" / "local" / "state.db", {}) as alone:
        given = {"macro_f1": 0.3} | ({OWN_HEADS[0]: heads} if heads is not None else {})
        rows = [MetricRow(3, one, None, *each) for one in PEOPLE for each in given.items()]
        alone.commit(3, {}, rows)
    found = read_status(tmp_path / "run")
    assert (found.state, found.method) == ("finished", "fedavg"), "what the run was for"
    twin, reached = ("own heads", 0.5) if heads == 0.5 else ("local", 0.3)
    assert found.twin == twin
    assert {p.client: p.alone for p in found.people} == dict.fromkeys(PEOPLE, reached)
    # 0, 0.2, 0.4 and 0.6 in the order of PEOPLE.
    worse = ["ann", "bob", "cyd"] if heads == 0.5 else ["ann", "bob"]
    assert found.worse_than_alone == worse and found.compared == 4


def test_of_a_target_the_greater_error_is_worse(tmp_path: Path) -> None:
    config = RunConfig(method="fedavg", beside="local", rounds=3, loss="squared", data="/gone")
    (tmp_path / "run.toml").write_text(dump_toml(config))
    for name, error in (("fedavg", 4.0), ("local", 5.0)):
        (tmp_path / name).mkdir()
        with RunDatabase(tmp_path / name / "state.db", {}) as database:
            errors = {one: error + 2 * (one == "ann") * (name == "fedavg") for one in PEOPLE}
            database.commit(3, {}, [MetricRow(3, who, None, "mae", n) for who, n in errors.items()])
    found = read_status(tmp_path)
    assert (found.twin, found.worse_than_alone, found.compared) == ("local", ["ann"], 4)
    assert found.people[0].mae == 6.0 and "MAE" in page(found, True)
    text = metrics_text(found)
    assert "fedsub_mae 4.5" in text and "fedsub_macro_f1" not in text


def test_of_very_many_people_those_to_look_at_are_shown() -> None:
    people = [Person(f"p{i:04d}", "silent" if i == 999 else "trained") for i in range(1000)]
    html = parts(Status("x", "run", "going on", people=people))["people"]
    assert html.count("<tr") == 1 + 200 and html.index("p0999") < html.index("p0000")
    assert "1000: 999 trained, 1 silent. The first 200 are shown." in html


def events(url: str) -> Iterator[dict[str, str]]:
    with urlopen(f"{url}/events", timeout=10) as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        for line in stream:
            if line.strip():
                yield json.loads(line.removeprefix(b"data: "))


def test_each_event_has_what_changed_and_says_when_nothing_can_be_read(run: Path) -> None:
    with served(lambda: read_status(run)) as url:
        found = events(url)
        first = next(found)
        assert {*first} == {"head", "look", "now", "people", "together"}
        assert "4 of 10" in first["now"] and "device 1" in first["people"]
        database = RunDatabase(run / "fedavg" / "state.db")
        database.commit(5, {}, [])
        database.close()
        later = next(one for one in found if "5 of 10" in one.get("now", ""))
        assert "head" not in later
        (run / "run.toml").rename(run / "elsewhere.toml")
        broken = next(one for one in found if "head" in one)
        assert "the run&#x27;s folder cannot be read" in broken["head"] and not broken["people"]
        (run / "elsewhere.toml").rename(run / "run.toml")
        assert "going on" in next(one for one in found if "head" in one)["head"]
        found.close()  # type: ignore[attr-defined]


def test_pages_that_are_closed_make_room(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_PAGES", 1)
    with served(lambda: read_status(run)) as url:
        with urlopen(f"{url}/events", timeout=10) as first:
            first.readline()
            with pytest.raises(HTTPError, match="503"):
                urlopen(f"{url}/events", timeout=10)
        for _ in range(200):
            with suppress(HTTPError), urlopen(f"{url}/events", timeout=10) as second:
                assert second.readline().startswith(b"data: ")
                break
            time.sleep(0.01)
        else:
            raise AssertionError("the place of a page that was closed is still taken")


def test_a_page_of_another_host_learns_nothing(run: Path) -> None:
    """Its owner can let a name point to loopback; a browser that is led so still says that name."""
    with served(lambda: read_status(run)) as url:
        port = url.rpartition(":")[2]
        for path in ("/", "/events", "/metrics", "/ready"):
            asked = Request(url + path, headers={"Host": f"evil.example.org:{port}"})
            with pytest.raises(HTTPError, match="421"):
                urlopen(asked, timeout=10)
        for host in (f"localhost:{port}", f"[::1]:{port}", "127.0.0.1"):
            asked = Request(url + "/", headers={"Host": host})
            with urlopen(asked, timeout=10) as answer:
                assert "access-control-allow-origin" not in answer.headers
                policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
