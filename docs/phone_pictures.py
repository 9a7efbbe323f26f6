"""Make the pictures of docs/phones.md of a deployment here: `python docs/phone_pictures.py`.

Needs Flower 1.42, Chromium and what `make web` builds. A person of the built-in federation joins by
an invitation, and has the page; two others have Python's devices.
"""

import tempfile
from base64 import b64decode
from pathlib import Path

from fedsub.deploy.driven_browser import Driven
from fedsub.engines.page_rehearsal import PageRehearsal
from fedsub_core.config.run_config import read_config

IMAGES = Path(__file__).with_name("images")
#: Widths of a phone and of a window, and the most of a page that is shown, CSS pixels.
WIDTHS, HEIGHT = {"narrow": 360, "wide": 900}, 1100
#: Twelve seconds of sensors, 50 times a second.
MEASURED = """
for (let i = 0, t = performance.now(); i < 600; i++) {
  const axes = {x: Math.sin(i / 9), y: 9.8, z: Math.cos(i / 9)};
  const turns = {alpha: i % 9, beta: 0, gamma: 1};
  const event = new DeviceMotionEvent("devicemotion", {
    accelerationIncludingGravity: axes, rotationRate: turns, interval: 20,
  });
  dispatchEvent(Object.defineProperty(event, "timeStamp", {value: t + 20 * i}));
}
"""
SETTINGS: dict[str, str | int | float | bool] = {
    "data": "watch",
    "method": "fedsub-ridge",
    "beside": "",
    "rounds": 3,
    "quorum": 1.0,
}


class Pictured(PageRehearsal):
    """A rehearsal whose page is pictured where a person has something to do."""

    def _replay(self, tab: Driven, url: str, client: str) -> None:
        tab.open(url)
        tab.until("document.querySelector('#join-press')")
        shoot(tab, "invitation", "#join")
        super()._replay(tab, url, client)
        shoot(tab, "taking-part", "#now")
        shoot(tab, "when", "#when")
        tab.run("document.querySelector('#record-press').click()")
        tab.until("document.querySelector('#record-press').textContent === 'Stop'")
        tab.run(MEASURED)
        tab.until("/ s,/.test(document.querySelector('#record-says').textContent)")
        shoot(tab, "recording", "#record")
        tab.run("document.querySelector('#record-press').click()")
        tab.until("/Recorded/.test(document.querySelector('#record-says').textContent)")
        # It was for the picture alone.
        tab.run("document.querySelector('#data li:last-child button').click()")

    def _agree(self) -> None:
        for tab in self.tabs.values():
            if tab.run("!!document.querySelector('#consent-yes')"):
                shoot(tab, "consent", "#now")
        super()._agree()


def shoot(tab: Driven, name: str, section: str) -> None:
    """Save a picture of a section at each width."""
    for kind, width in WIDTHS.items():
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": True}
        tab.call("Emulation.setDeviceMetricsOverride", **size)
        box = tab.run(f"document.querySelector({section!r}).getBoundingClientRect().toJSON()")
        top = box["top"] + tab.run("scrollY")
        clip = {"x": 0, "y": top, "width": width, "height": min(box["height"], HEIGHT), "scale": 1}
        how = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        data = tab.call("Page.captureScreenshot", **how)["data"]
        (IMAGES / f"phone-{name}-{kind}.png").write_bytes(b64decode(data))


def main() -> None:
    """Rehearse a deployment, and picture its page."""
    # The browser may still write there while it ends.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        config = read_config(None, SETTINGS | {"out": folder})
        rehearsal = Pictured(config, 3, 1, print, lambda finished: None)
        with rehearsal.up():
            for _ in rehearsal.follow(rehearsal.submit()):
                pass
            (tab,) = rehearsal.tabs.values()
            tab.until("/After round 3/.test(document.querySelector('#model').textContent)")
            shoot(tab, "model", "#model")


if __name__ == "__main__":
    main()
