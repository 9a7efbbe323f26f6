"""The page where something fails: no sensors, no space, no script of its release, and old data."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsub_core.data.watch import watch_federation

from .page_tabs import choose_file
from .page_visit import MOTION, Visit
from .test_door_in_browser import BROWSER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path"),
]

FEATURES = watch_federation().card.features
#: Tests cannot lower Chromium's limit of IndexedDB: what it throws is thrown in its place.
FULL = """
window.full = true;
const put = IDBObjectStore.prototype.put;
IDBObjectStore.prototype.put = function (...args) {
  if (window.full) throw new DOMException("no space", "QuotaExceededError");
  return put.apply(this, args);
};
"""
#: What the page of the first release kept of a recording: the same database, the same names.
KEPT_BEFORE = """
new Promise((resolve, reject) => {
  const opening = indexedDB.open("fedsub", 1);
  opening.onsuccess = () => {
    const stores = opening.result.transaction("recordings", "readwrite");
    const rows = 200, features = FEATURES;
    stores.objectStore("recordings").put({
      t: Float64Array.from({length: rows}, (_, i) => 1e9 + i / 50), y: new Int32Array(rows).fill(1),
      x: Float32Array.from({length: rows * features}, (_, i) => Math.sin(i)), measured: true,
    });
    stores.oncomplete = () => resolve(true);
    stores.onabort = () => reject(stores.error);
  };
})
"""

#: How many windows the page shows, of all activities.
WINDOWS = """
[...document.querySelectorAll("#data tbody td")]
  .reduce((sum, one) => sum + Number(one.textContent), 0)
"""


@pytest.fixture
def visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """A visit of somebody who has joined."""
    made = Visit(tmp_path, monkeypatch)
    made.tab.open(made.url + f"#{made.code}")
    made.tab.until("document.querySelector('#join-press')")
    made.join("phone")
    made.tab.until("document.querySelector('#record-press')")
    yield made
    made.close()


def windows(visit: Visit) -> int:
    """How many windows the page has, of all activities."""
    return int(visit.tab.run(WINDOWS))


def test_who_refuses_the_sensors_is_told_and_may_import(visit: Visit, tmp_path: Path) -> None:
    visit.tab.run("DeviceMotionEvent.requestPermission = () => Promise.resolve('denied')")
    visit.press("#record-press")
    visit.tab.until("/were refused/.test(document.querySelector('#record-says').textContent)")
    assert "import recordings below" in visit.says("#record-says")
    assert visit.says("#record-press") == "Start"
    # Where the browser does not ask and gives nothing, the page says so at the end.
    visit.tab.run("delete DeviceMotionEvent.requestPermission")
    visit.press("#record-press")
    visit.tab.until("document.querySelector('#record-press').textContent === 'Stop'")
    visit.press("#record-press")
    visit.tab.until(
        "/No measurement came/.test(document.querySelector('#record-says').textContent)"
    )
    lines = [f"{i / 50},WALK,{','.join([str(i % 7)] * len(FEATURES))}" for i in range(200)]
    file = tmp_path / "own.csv"
    label = watch_federation().card.classes[0]
    file.write_text(
        "\n".join(["t,label," + ",".join(FEATURES), *lines]).replace("WALK", label), "utf-8"
    )
    choose_file(visit.tab, "#file", file)
    visit.tab.until("/Imported 1/.test(document.querySelector('#import-says').textContent)")
    assert windows(visit) == 2


def test_a_recording_without_space_waits_in_the_page_until_there_is_some(visit: Visit) -> None:
    visit.tab.run(MOTION)
    visit.tab.run(FULL)
    visit.press("#record-press")
    visit.tab.run("replay(220, 0)")
    visit.press("#record-press")
    visit.tab.until("/Not kept yet/.test(document.querySelector('#record-says').textContent)")
    assert visit.says("#record-press") == "Keep it now"
    assert windows(visit) == 0
    visit.tab.run("window.full = false")
    visit.press("#record-press")
    visit.tab.until("/Recorded/.test(document.querySelector('#record-says').textContent)")
    assert visit.says("#record-press") == "Start"
    visit.tab.until(f"{WINDOWS.strip()} === 2")


def test_what_an_earlier_page_kept_is_there(visit: Visit) -> None:
    visit.tab.run(KEPT_BEFORE.replace("FEATURES", str(len(FEATURES))))
    visit.tab.open(visit.url)
    visit.tab.until("document.querySelector('#data li')")
    assert windows(visit) == 2
    assert "/01, " in visit.says("#data li")


def test_a_page_whose_script_the_server_has_no_more_says_what_to_do(visit: Visit) -> None:
    thread = next(path for path in visit.files if path.startswith("/thread-"))
    del visit.files[thread]
    visit.tab.run("caches.keys().then(all => Promise.all(all.map(name => caches.delete(name))))")
    visit.tab.call("Network.clearBrowserCache")
    visit.tab.open(visit.url)
    visit.tab.until("/different releases/.test(document.body?.textContent)")
    assert "Load the page anew" in visit.tab.text()
