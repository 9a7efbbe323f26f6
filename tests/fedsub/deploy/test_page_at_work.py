"""The page in a real browser: a person joins, brings recordings, takes part and has a model."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.engines.page_rehearsal import PageRehearsal
from fedsub_core.config.run_config import read_config
from fedsub_core.data.watch import watch_federation
from fedsub_core.flower.modules import HTTP, demand_deployable

from .page_results import (
    METHODS,
    WEB,
    assert_as_python,
    levels_of,
    noted_page,
    uploads,
    watch_people,
)
from .page_tabs import bring_file, join_page, kill_tab, second_tab, write_csv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42"),
]

ROUNDS = 3
#: Rounds of all methods after which the SuperLink dies, and in the next of which the tab does.
LINK_DIES, TAB_DIES = 1, ROUNDS + 1
#: Of the recordings those that are imported before the question comes; the others while it waits.
FIRST = 6
#: Notes each moment at which the page's own thread was free, and whether a round was worked on.
FREE = """
window.free = [];
const works = () => /Works/.test(document.querySelector("#now-says")?.textContent);
setInterval(() => free.push([performance.now(), works()]), 10);
"""
#: Rows of a recording as the sensors would give them, 50 a second.
REPLAY = """
rows => {
  const axes = (a, b, c, of) => Object.fromEntries([a, b, c].map((name, i) => [name, of(i)]));
  let at = 0;
  const timer = setInterval(() => {
    const row = rows[at++];
    if (!row) return clearInterval(timer);
    dispatchEvent(new DeviceMotionEvent("devicemotion", {
      accelerationIncludingGravity: axes("x", "y", "z", i => row[i] * 9.80665),
      rotationRate: axes("alpha", "beta", "gamma", i => row[3 + i] * 180 / Math.PI), interval: 20,
    }));
  }, 20);
}
"""
SETTINGS: dict[str, str | int | float | bool] = {
    "method": METHODS[0],
    "beside": METHODS[1],
    "rounds": ROUNDS,
    "quorum": 1.0,
    "threads": 3,
}


def recording(person: str, label: str) -> np.ndarray:
    """The first ten seconds that a person does something, [500, 6]."""
    watch = watch_federation()
    data = watch.clients[person]
    at = int(np.flatnonzero(data.y == watch.card.classes.index(label))[0])
    return np.concatenate([data.x[at + 2 * i].T for i in range(4)])[:500]


def longest_gap(free: list[tuple[float, bool]]) -> tuple[float, float]:
    """Return milliseconds of the longest work, and the longest without an answer in any work."""
    longest = gap = begun = 0.0
    for (before, worked), (now, works) in pairwise(free):
        begun = begun if worked else now
        if worked and works:
            longest, gap = max(longest, now - begun), max(gap, now - before)
    return longest, gap


def test_a_person_takes_part_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    federation, page = watch_people(tmp_path), noted_page(tmp_path)
    config = read_config(None, SETTINGS | {"data": str(tmp_path / "data"), "out": str(tmp_path)})
    files = [
        write_csv(tmp_path / f"own-{first}.csv", WEB, first, last)
        for first, last in ((0, FIRST), (FIRST, 99))
    ]

    def visit(tab: Driven, url: str, client: str) -> None:
        join_page(tab, url, client)
        bring_file(tab, files[0], FIRST)
        tab.until("/Waits/.test(document.querySelector('#now-says').textContent)")
        with second_tab(tab, rehearsal.url):
            tab.until("/Another tab/.test(document.querySelector('#now-says')?.textContent)")
        assert "Waits" in tab.run("document.querySelector('#now-says').textContent")

    people = len(federation.clients)
    rehearsal = PageRehearsal(config, people, [WEB], print, print, page, visit)
    with rehearsal.up():
        tab = rehearsal.tabs[WEB]
        tab.run(FREE)
        (link,) = (one for one in rehearsal.supervisor.children if one.name == "superlink")
        agreed = restarted = killed = False
        gap = (0.0, 0.0)
        for finished in rehearsal.follow(rehearsal.submit()):
            if not agreed and tab.run("!!document.querySelector('#consent-yes')"):
                assert "means of products" in tab.text()
                assert "Parts of yours may reach people like you" in tab.text()
                bring_file(tab, files[1], 14 - FIRST)
                tab.run("document.querySelector('#consent-yes').click()")
                agreed = True
            if finished == LINK_DIES and not restarted:
                link.process.kill()
                restarted = True
            if finished == TAB_DIES and not killed:
                tab.until("/Works on round/.test(document.querySelector('#now-says').textContent)")
                gap = longest_gap(tab.run("free"))
                kill_tab(tab)
                tab.open(rehearsal.url)
                killed = True
        assert (agreed, restarted, killed, finished) == (True, True, True, 2 * ROUNDS)
        tab.until("/After round 3 of 3/.test(document.querySelector('#model').textContent)")
        sent, levels = uploads(tab), levels_of(tab)
        tab.run("document.querySelector('#live').click()")
        tab.run(f"({REPLAY})({recording(WEB, 'ROW').tolist()})")
        tab.until("/^Now: /.test(document.querySelector('#live-says').textContent)")
    worked, longest = gap
    assert worked > 100
    assert longest < worked / 2

    assert_as_python(config, federation, rehearsal.place.run, sent, levels, monkeypatch)
