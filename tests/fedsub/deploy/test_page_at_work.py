"""The page in a real browser: a person joins, brings recordings, takes part and has a model."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import RATE_HZ, WINDOW, watch_federation, watch_file
from fedsub_core.flower.modules import HTTP, demand_deployable

from .driven_browser import Driven
from .equal_runs import metrics_of
from .page_rehearsal import WithPage
from .test_door_in_browser import browser, trusted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42"),
]

PAGE = Path(__file__).parents[3] / "web" / "dist" / "page"
METHOD, WEB, ROUNDS = "fedsub-ridge", "02", 3
#: Of random draws, which are others in each language; and of a tab that is killed.
OTHERS = ("gain_over_own_low", "gain_over_own_high", "messages_resent")
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
    "method": METHOD,
    "beside": "",
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


def write_csv(path: Path, person: str) -> Path:
    """Write a person's recordings as the page imports them."""
    with np.load(watch_file()) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    classes, start, t = watch_federation().card.classes, 0, 0.0
    features = watch_federation().card.features
    with path.open("w") as file:
        write = csv.writer(file).writerow
        write(["recording", "t", "label", *features])
        for i, length in enumerate(parts["lengths"]):
            if f"{parts['people'][i]:02d}" == person:
                label = classes[parts["labels"][i]]
                for row, x in enumerate(parts["signals"][start : start + length]):
                    write([i, t + row / RATE_HZ, label, *map(float, x)])
                t += (length + WINDOW) / RATE_HZ
            start += length
    return path


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Three of the people with a smartwatch."""
    watch = watch_federation()
    few = {name: watch.clients[name] for name in ("01", WEB, "03")}
    people = Federation(watch.card, few)
    write_federation(tmp_path / "data", people)
    return people


@pytest.fixture
def page(federation: Federation, tmp_path: Path) -> Path:
    """The page with the federation's card."""
    shutil.copytree(PAGE, tmp_path / "page")
    shutil.copy(tmp_path / "data" / CARD_FILE, tmp_path / "page")
    return tmp_path / "page"


@pytest.fixture
def driven(tmp_path: Path) -> Iterator[list[Driven]]:
    """A place for a browser, which is ended."""
    found = list[Driven]()
    yield found
    for one in found:
        one.close()


def test_a_person_takes_part_in_a_browser(
    federation: Federation, page: Path, tmp_path: Path, driven: list[Driven]
) -> None:
    config = read_config(None, SETTINGS | {"data": str(tmp_path / "data"), "out": str(tmp_path)})

    def visit(url: str) -> None:
        command = browser(tmp_path, trusted(rehearsal.place.credentials.certificate))
        tab = Driven(command, tmp_path / "said")
        driven.append(tab)
        tab.open(url)
        tab.until("document.querySelector('#join-press')")
        tab.run(f"document.querySelector('#name').value = {WEB!r}")
        tab.run("document.querySelector('#agree').click()")
        tab.run("document.querySelector('#join-press').click()")
        tab.until("document.querySelector('#file')")
        tab.choose_file("#file", write_csv(tmp_path / "own.csv", WEB))
        tab.until("document.querySelector('#import-says').textContent")
        assert "14" in tab.run("document.querySelector('#import-says').textContent")
        tab.until("/Waits/.test(document.querySelector('#now-says').textContent)")

    rehearsal = WithPage(config, len(federation.clients), WEB, page, visit)
    with rehearsal.up():
        (tab,) = driven
        agreed = killed = False
        for finished in rehearsal.follow(rehearsal.submit()):
            if not agreed and tab.run("!!document.querySelector('#consent-yes')"):
                assert "means of products" in tab.text()
                tab.run("document.querySelector('#consent-yes').click()")
                agreed = True
            if finished and not killed:
                tab.kill_tab()
                tab.open(rehearsal.url)
                killed = True
        assert (agreed, killed, finished) == (True, True, ROUNDS)
        tab.until("/After round 3 of 3/.test(document.querySelector('#model').textContent)")
        assert "Against a model of your data alone" in tab.text()
        tab.run("document.querySelector('#live').click()")
        tab.run(f"({REPLAY})({recording(WEB, 'ROW').tolist()})")
        tab.until("/^Now: .*ROW/.test(document.querySelector('#live-says').textContent)")
    alone = tmp_path / "alone"
    alone.mkdir()
    train_method(config, METHOD, federation, alone, lambda round: None)
    ours, theirs = (
        {
            (round, metric, label): value
            for (round, client, metric, label), value in metrics_of(database).items()
            if client == WEB and "bytes" not in metric and metric not in OTHERS
        }
        for database in (rehearsal.database, alone / "state.db")
    )
    assert ours.keys() == theirs.keys()
    assert ours == pytest.approx(theirs, abs=1e-5)
