"""The page by keyboard and for screen readers: the question before a run, and an own model."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from .page_visit import AXE, NARROW, Visit
from .test_door_in_browser import BROWSER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path"),
]

#: Keeps the page's thread, so that a test can say what it says, and hear what it is asked.
HEARD = """
window.calls = [];
window.Worker = class extends Worker {
  constructor(...args) { super(...args); window.thread = this; }
  postMessage(message) { window.calls.push(message); super.postMessage(message); }
};
"""
EVERY_METHOD = ["fedavg", "fedprox", "fedper", "fedrep", "ditto", "fedsub", "fedsub-ridge", "local"]
#: A model as a device keeps it, and how good it is.
MODEL = """
new Promise(resolve => {
  const opening = indexedDB.open("fedsub", 1);
  opening.onsuccess = () => {
    const stores = opening.result.transaction("values", "readwrite");
    const numbers = {macro_f1: 0.874, gain_over_own: 0.061, gain_over_own_low: 0.012};
    numbers.gain_over_own_high = 0.1;
    stores.objectStore("values").put({
      settings: new Map(), method: "fedsub-ridge", turn: {round: 2, rounds: 3, seed: 0},
      shared: {}, state: {}, metrics: new Map(Object.entries(numbers)),
    }, "model");
    stores.oncomplete = () => resolve(true);
  };
})
"""


def ask(visit: Visit, terms: object) -> None:
    """Have the thread say that a question waits, or none."""
    news = {"doing": {"kind": "working", "round": "0"}, "newModel": True}
    said = json.dumps({"news": news | ({"asks": terms} if terms else {})})
    visit.tab.run(f"thread.onmessage({{data: {said}}})")


@pytest.fixture
def visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """A visit of somebody who has joined, on a narrow phone."""
    made = Visit(tmp_path, monkeypatch)
    made.tab.open("about:blank")
    made.tab.call("Page.addScriptToEvaluateOnNewDocument", source=HEARD)
    made.tab.call("Emulation.setDeviceMetricsOverride", **NARROW)
    made.tab.call("Page.navigate", url=made.url + f"#{made.code}")
    made.tab.until("document.querySelector('#join-press')")
    made.tab.run(AXE.read_text("utf-8"))
    yield made
    made.close()


@pytest.mark.parametrize("language", ["en", "de"])
def test_all_can_be_done_by_keyboard_and_axe_finds_nothing(visit: Visit, language: str) -> None:
    tab = visit.tab
    tab.run(f"document.querySelector('#language').value = {language!r}")
    tab.run("document.querySelector('#language').dispatchEvent(new Event('change'))")
    assert tab.run("document.documentElement.lang") == language
    assert visit.walk("name") == ["name"]
    tab.call("Input.insertText", text="phone")
    assert visit.walk("agree") == ["code", "agree"]
    visit.key("Space")
    assert visit.walk("join-press") == ["join-press"]
    visit.key("Enter")
    tab.until("document.querySelector('#record-press')")
    tab.until("calls.some(({name}) => name === 'read')")

    for terms in (
        {"methods": EVERY_METHOD, "least": 0, "noise": False},
        {"methods": ["fedsub-ridge"], "least": 5, "noise": True},
    ):
        ask(visit, terms)
        tab.until("document.querySelector('#consent-yes')")
        # What is new is said by a line that screen readers follow; the question has a name.
        asks = tab.run("document.querySelector('[role=group]').getAttribute('aria-labelledby')")
        assert visit.says(f"#{asks}").endswith("?")
        role = "document.querySelector('#now-says').getAttribute('role')"
        assert tab.run(role) == "status"
        assert visit.says("#now-says") == visit_says(language)
        assert visit.faults() == []
        tab.run("document.querySelector('#language').focus()")
        answer = "consent-no" if terms["noise"] else "consent-yes"
        assert visit.walk(answer)[0] == "consent-yes"
        visit.key("Enter" if terms["noise"] else "Space")
        agreed = "calls.filter(({name}) => name === 'agree').at(-1)?.args.at(-1)"
        tab.until(f"{agreed} === {json.dumps(not terms['noise'])}")
        # The buttons go; the focus does not get lost with them.
        ask(visit, None)
        tab.until("!document.querySelector('#consent-yes')")
        assert tab.run("document.activeElement.id") == "now-title"

    tab.run(MODEL)
    ask(visit, None)
    tab.until("document.querySelector('#score')")
    assert ("87.4", "87,4")[language == "de"] in visit.says("#score")
    assert visit.says("#gain-1") in ("Better than alone.", "Besser als allein.")
    assert visit.faults() == []
    assert [one for one in visit.walk("forget") if one] == [
        *("pause", "activity", "record-press", "file", "export", "receipts", "forget")
    ]
    visit.key("Enter")
    tab.until("document.querySelector('#forget-asks').open")
    assert visit.faults() == []
    visit.walk("forget-yes")
    visit.key("Enter")
    tab.until("document.querySelector('#leave-now')")
    visit.walk("leave-now")
    visit.key("Enter")
    tab.until("document.querySelector('#forgotten')")


def visit_says(language: str) -> str:
    """What the page says where a question waits."""
    return {
        "en": "A run wants to begin. Read what it sends, below.",
        "de": "Ein Lauf möchte beginnen. Lesen Sie unten, was er sendet.",
    }[language]
