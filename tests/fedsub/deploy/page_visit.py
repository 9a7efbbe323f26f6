"""A visit to the page with a real browser, behind a door whose SuperLink answers nothing of use."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.deploy.joining import Joins
from fedsub.deploy.page import read_page
from fedsub.deploy.visitors import Visitors
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation

from .joiners import invite, link_nodes
from .served_door import Served
from .test_door_in_browser import browser, tls

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
        self.files = files = read_page(watch_page(folder))
        certificates = tls(folder / "tls")
        visitors = Visitors(files, joins, "CA")
        self.served = Served(
            monkeypatch, visitors, lambda: [n.key for n in nodes.read()], certificates
        )
        (self.code,) = invite(folder / "invitations", "")
        self.url = f"https://localhost:{self.served.fleet}/"
        command = browser(folder, folder / "tls" / "server.pem", "--lang=en-GB")
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

    def key(self, name: str, times: int = 1) -> None:
        """Press a key of the keyboard."""
        codes = {"Tab": 9, "Enter": 13, "Space": 32}
        text = {"Enter": "\r", "Space": " "}.get(name)
        for kind in ("keyDown", "keyUp") * times:
            pressed: dict[str, Any] = {"type": kind, "key": text if name == "Space" else name}
            pressed |= {"code": name, "windowsVirtualKeyCode": codes[name]}
            pressed |= {"text": text} if text and kind == "keyDown" else {}
            self.tab.call("Input.dispatchKeyEvent", **pressed)

    def walk(self, to: str) -> list[str]:
        """Press Tab until an element has the focus; return what had it on the way."""
        seen = list[str]()
        while not seen or seen[-1] != to:
            assert len(seen) < 60, seen
            self.key("Tab")
            seen.append(str(self.tab.run("document.activeElement.id")))
        return seen

    def close(self) -> None:
        self.tab.close()
        self.served.close()
