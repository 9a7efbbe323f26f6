"""The page in a real browser: joining, recording, languages, access, offline, and forgetting."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy.joining import Joins
from fedsub.deploy.page import read_page
from fedsub.deploy.visitors import Visitors
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation

from .driven_browser import Driven
from .joiners import invite, link_nodes
from .served_door import Served
from .test_door_in_browser import BROWSER, browser, tls, trusted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path"),
]

WEB = Path(__file__).parents[3] / "web"
PAGE = WEB / "dist" / "page"
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
NARROW = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
#: Measurements as a phone gives them, 50 a second, with a gap after `at`. Their times are those of
#: a phone, also where this browser is slow.
MOTION = """
window.replay = (rows, at) => new Promise(done => {
  let i = 0, t = performance.now();
  const next = () => {
    if (i === rows) return done(true);
    const event = new DeviceMotionEvent("devicemotion", {
      accelerationIncludingGravity: {x: Math.sin(i / 5), y: 9.8, z: 0.1},
      rotationRate: {alpha: 10, beta: 0, gamma: -10}, interval: 20,
    });
    dispatchEvent(Object.defineProperty(event, "timeStamp", {value: t}));
    i += 1;
    const wait = i === at ? 1200 : 20;
    t += wait;
    setTimeout(next, wait);
  };
  next();
})
"""


def watch_page(folder: Path) -> Path:
    """The page with the card of people with a smartwatch."""
    watch = watch_federation()
    write_federation(folder / "data", Federation(watch.card, {"01": watch.clients["01"]}))
    shutil.copytree(PAGE, folder / "page")
    shutil.copy(folder / "data" / CARD_FILE, folder / "page")
    return folder / "page"


class Visit:
    """A browser at the page, behind a door whose SuperLink answers nothing that is of use."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, nodes = folder, link_nodes()
        joins = Joins(folder / "invitations", nodes)
        files = read_page(watch_page(folder))
        certificates = tls(folder / "tls")
        visitors = Visitors(files, joins, "CA")
        self.served = Served(
            monkeypatch, visitors, lambda: [n.key for n in nodes.read()], certificates
        )
        (self.code,) = invite(folder / "invitations", "")
        self.url = f"https://localhost:{self.served.fleet}/"
        command = browser(folder, trusted(folder / "tls" / "server.pem"), "--lang=en-GB")
        self.tab = Driven(command, folder / "said")

    def press(self, selector: str) -> None:
        """Press a button."""
        self.tab.run(f"document.querySelector({selector!r}).click()")

    def says(self, selector: str) -> str:
        """What an element says."""
        return str(self.tab.run(f"document.querySelector({selector!r}).textContent"))

    def join(self, name: str) -> None:
        """Join by the page's form."""
        self.tab.run(f"document.querySelector('#name').value = {name!r}")
        self.tab.run("document.querySelector('#agree').checked = true")
        self.press("#join-press")

    def faults(self) -> list[str]:
        """What axe finds on the page, in light and in dark, and whether it is too wide."""
        found = []
        for scheme in ("light", "dark"):
            feature: dict[str, Any] = {"name": "prefers-color-scheme", "value": scheme}
            self.tab.call("Emulation.setEmulatedMedia", features=[feature])
            looked = self.tab.run("axe.run()")
            assert len(looked["passes"]) > 10
            for fault in looked["violations"]:
                found += [f"{scheme}: {fault['id']}: {node['html']}" for node in fault["nodes"]]
        wide = self.tab.run("document.documentElement.scrollWidth")
        return found + ([f"{wide} pixels wide"] if wide > NARROW["width"] else [])

    def close(self) -> None:
        self.tab.close()
        self.served.close()


@pytest.fixture
def visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """A visit that ends."""
    made = Visit(tmp_path, monkeypatch)
    yield made
    made.close()


def test_a_person_joins_records_and_is_forgotten(visit: Visit) -> None:
    tab = visit.tab
    tab.open(visit.url + f"#{visit.code}")
    tab.call("Emulation.setDeviceMetricsOverride", **NARROW)
    tab.until("document.querySelector('#join-press')")
    tab.run(AXE.read_text("utf-8"))
    tab.run(MOTION)
    assert visit.faults() == []
    visit.join("not a name")
    tab.until("/begin with a letter/.test(document.querySelector('#join-says').textContent)")
    visit.join("phone")
    tab.until("document.querySelector('#record-press')")
    tab.until(f"!location.href.includes({visit.code!r})")
    assert "two activities" in visit.says("#now-says")

    visit.press("#record-press")
    tab.run("replay(220, 180)")
    tab.until("/gaps: 1/.test(document.querySelector('#record-says').textContent)")
    tab.run("document.querySelector('#language').value = 'de'")
    tab.run("document.querySelector('#language').dispatchEvent(new Event('change'))")
    assert (visit.says("#record-press"), tab.run("document.documentElement.lang")) == (
        "Stoppen",
        "de",
    )
    visit.press("#record-press")
    tab.until("/Aufgenommen/.test(document.querySelector('#record-says').textContent)")
    assert tab.run("document.querySelector('#data tbody td').textContent") == "1"
    assert visit.faults() == []

    tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(visit.folder))
    visit.press("#export")
    file = visit.folder / "fedsub-phone.csv"
    for _ in range(50):
        if file.exists():
            break
        time.sleep(0.1)
    rows = list(csv.DictReader(file.open()))
    assert len(rows) == 220
    assert float(rows[0]["ay"]) == pytest.approx(9.8 / 9.80665)

    visit.press("#data li button")
    tab.until("document.activeElement.id === 'data-title'")
    assert tab.run("document.querySelector('#data tbody td').textContent") == "0"
    visit.press("#pause")
    tab.until("/Angehalten/.test(document.querySelector('#now-says').textContent)")
    visit.press("#forget")
    assert visit.faults() == []
    visit.press("#forget-yes")
    tab.until("/gelöscht|deleted/.test(document.querySelector('#forgotten')?.textContent)")
    assert tab.run("indexedDB.databases().then(all => all.map(one => one.name))") == ["fedsub"]
    tab.until("document.querySelector('#join-press')")


def test_the_page_opens_without_a_network_and_has_what_was_recorded(visit: Visit) -> None:
    tab = visit.tab
    tab.open(visit.url + f"#{visit.code}")
    tab.until("document.querySelector('#join-press')")
    visit.join("phone")
    tab.until("document.querySelector('#record-press')")
    tab.until("navigator.serviceWorker.ready.then(() => caches.match('/')).then(Boolean)")
    visit.served.close()
    tab.run(MOTION)
    visit.press("#record-press")
    tab.run("replay(320, 0)")
    tab.kill_tab()
    tab.open(visit.url)
    tab.until("document.querySelector('#record-press')")
    assert "You are phone in a town." in tab.text()
    # All but the last seconds: 2.56 s are a window, and each next begins half of one later.
    assert int(tab.run("document.querySelector('#data tbody td').textContent")) >= 2
