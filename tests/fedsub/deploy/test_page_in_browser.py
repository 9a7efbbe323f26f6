"""The page in a real browser: joining, recording, languages, access, offline, and forgetting."""

import csv
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .page_tabs import kill_tab, second_tab
from .page_visit import AXE, MOTION, NARROW, Visit
from .test_door_in_browser import BROWSER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path"),
]


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
    tab.until("/two activities/.test(document.querySelector('#now-says').textContent)")

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
    # Nobody can be told here: name and key wait, and nothing else is left.
    tab.until("/nicht zu erreichen/.test(document.querySelector('#leaving-says')?.textContent)")
    tab.run(AXE.read_text("utf-8"))
    assert visit.faults() == []
    with second_tab(tab, visit.url):
        tab.until("document.querySelector('#leave-now')")
    visit.press("#leave-now")
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
    kill_tab(tab)
    tab.open(visit.url)
    tab.until("document.querySelector('#record-press')")
    assert "You are phone in a town." in tab.text()
    # All but the last seconds: 2.56 s are a window, and each next begins half of one later.
    tab.until("Number(document.querySelector('#data tbody td').textContent) >= 2")
