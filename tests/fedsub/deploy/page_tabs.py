"""What a person does in tabs of the page, and its recordings as a file that the page imports."""

import csv
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedsub.deploy.driven_browser import Driven
from fedsub_core.data.watch import RATE_HZ, WINDOW, watch_federation, watch_file


def choose_file(tab: Driven, selector: str, path: Path) -> None:
    """Choose a file in the page's field."""
    root = tab.call("DOM.getDocument")["root"]["nodeId"]
    node = tab.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
    tab.call("DOM.setFileInputFiles", files=[str(path)], nodeId=node)


def join_page(tab: Driven, url: str, client: str) -> None:
    """Join by an invitation's address."""
    tab.open(url)
    tab.until("document.querySelector('#join-press')")
    tab.run(f"document.querySelector('#name').value = {client!r}")
    tab.run("document.querySelector('#agree').click()")
    tab.run("document.querySelector('#join-press').click()")
    tab.until("document.querySelector('#file')")


def bring_file(tab: Driven, file: Path, count: int) -> None:
    """Import a file with so many recordings."""
    choose_file(tab, "#file", file)
    tab.until(f"/Imported {count} /.test(document.querySelector('#import-says').textContent)")


@contextmanager
def second_tab(tab: Driven, url: str) -> Iterator[None]:
    """Drive a second tab while a ``with`` block lasts, and close it."""
    first = tab.session, tab.target
    tab.open(url)
    try:
        yield
    finally:
        tab.session, second = None, tab.target
        tab.call("Target.closeTarget", targetId=second)
        tab.session, tab.target = first


def kill_tab(tab: Driven) -> None:
    """End the tab's process, as a phone does that is short of memory."""
    tab.ask("Page.crash", {})
    time.sleep(0.5)
    tab.session = None
    tab.call("Target.closeTarget", targetId=tab.target)


def write_csv(path: Path, person: str, first: int, last: int) -> Path:
    """Write some of a person's recordings as the page imports them, and as the data has them."""
    with np.load(watch_file()) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    classes, start, t, own = watch_federation().card.classes, 0, 0.0, 0
    features = watch_federation().card.features
    with path.open("w") as file:
        write = csv.writer(file).writerow
        write(["recording", "t", "label", *features])
        for i, length in enumerate(parts["lengths"]):
            if f"{parts['people'][i]:02d}" == person:
                label = classes[parts["labels"][i]]
                for row, x in enumerate(parts["signals"][start : start + length]):
                    if first <= own < last:
                        write([i, t + row / RATE_HZ, label, *map(float, x)])
                own += 1
                t += (length + WINDOW) / RATE_HZ
            start += length
    return path
