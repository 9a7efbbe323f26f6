"""The page takes part when its person's policy allows it, and so does its service worker."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .page_tabs import bring_file, write_csv
from .page_visit import AXE, NARROW, Visit
from .page_waking import close_page, wake
from .test_door_in_browser import BROWSER

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or chrome on the path"),
]

#: Chromium on Linux says nothing of its link, and of a machine that is always at the mains.
PHONE = """
window.phone = { charging: true, level: 0.6 };
navigator.getBattery = () => Promise.resolve(phone);
window.link = { type: "wifi" };
Object.defineProperty(navigator, "connection", { value: link });
"""
SAYS = "document.querySelector('#now-says')?.textContent"
#: Seconds in which a page or its service worker would have called.
SOON = 5.0
ACTIVATE = "/v1/fleet/activate-node"


@pytest.fixture
def visit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visit]:
    """A visit of somebody who has joined and recorded, on a phone that is charging and on Wi-Fi."""
    made = Visit(tmp_path, monkeypatch)
    made.tab.open("about:blank")
    made.tab.call("Page.addScriptToEvaluateOnNewDocument", source=PHONE)
    made.tab.call("Page.navigate", url=made.url + f"#{made.code}")
    made.tab.until("document.querySelector('#join-press')")
    made.join("phone")
    made.tab.until("document.querySelector('#file')")
    bring_file(made.tab, write_csv(tmp_path / "own.csv", "02", 0, 99), 14)
    yield made
    made.close()


def choose(visit: Visit, field: str, value: str) -> None:
    """Give a field a value, as a person does."""
    visit.tab.run(f"document.querySelector('#{field}').value = {value!r}")
    visit.tab.run(f"document.querySelector('#{field}').dispatchEvent(new Event('change'))")


def test_a_page_rests_while_a_condition_does_not_hold(visit: Visit) -> None:
    tab, calls = visit.tab, visit.served.link.bodies
    tab.call("Emulation.setDeviceMetricsOverride", **NARROW)
    tab.until(f"/Cannot reach/.test({SAYS})")
    assert calls.pop(ACTIVATE)
    visit.press("#charging")
    visit.press("#wifi")
    choose(visit, "battery", "50")
    tab.run("phone.level = 0.5")
    tab.until(f"/Rests: its battery is not above 50 %/.test({SAYS})")
    tab.run("link.type = 'cellular'")
    tab.until(f"/Rests: it uses mobile data/.test({SAYS})")
    tab.run("phone.charging = false")
    tab.until(f"/Rests: it is not charging/.test({SAYS})")
    calls.clear()
    time.sleep(SOON)
    assert not calls
    tab.run("Object.assign(phone, { charging: true, level: 0.6 })")
    tab.run("link.type = 'wifi'")
    tab.until(f"/Cannot reach/.test({SAYS})")
    assert calls.pop(ACTIVATE)
    hour = int(tab.run("new Date().getHours()"))
    choose(visit, "hours", f"{hour}-{hour}")
    tab.until("/Not changed/.test(document.querySelector('#policy-says').textContent)")
    choose(visit, "hours", f"{(hour + 2) % 24}-{(hour + 3) % 24}")
    tab.until(f"/Rests: it takes part only in the hours/.test({SAYS})")
    assert visit.says("#policy-says") == ""
    tab.run(AXE.read_text("utf-8"))
    assert visit.faults() == []


def test_a_service_worker_goes_by_what_it_can_know(visit: Visit) -> None:
    tab, calls, origin = visit.tab, visit.served.link.bodies, visit.url.rstrip("/")
    tab.until("!!navigator.serviceWorker.controller")
    visit.press("#background")
    tab.until("document.querySelector('#background-says').textContent")
    visit.press("#charging")
    tab.until(f"/Cannot reach/.test({SAYS})")
    close_page(tab)
    calls.clear()
    wake(tab, origin)
    time.sleep(SOON)
    assert not calls
    tab.open(visit.url)
    tab.until("document.querySelector('#charging')?.checked")
    # This tab is none of a phone.
    assert "does not say whether the phone is on mobile data" in tab.text()
    assert not tab.run("document.querySelector('#wifi')")
    assert tab.run("document.querySelector('#background').checked")
    visit.press("#charging")
    tab.until("!document.querySelector('#charging').checked")
    time.sleep(1)
    close_page(tab)
    calls.clear()
    wake(tab, origin)
    end = time.monotonic() + 20
    while ACTIVATE not in calls and time.monotonic() < end:
        time.sleep(0.1)
    assert ACTIVATE in calls
