"""Receipts of secure sums that a page keeps, against the server's transcript, in a real browser."""

import json
import time
from pathlib import Path

import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.deploy.verifying import verified
from fedsub.engines.page_rehearsal import PAGE, PageRehearsal
from fedsub_core.config.run_config import read_config
from fedsub_core.flower.modules import HTTP, demand_deployable

from .page_results import WEB, watch_people
from .page_tabs import bring_file, join_page, write_csv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.release,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42"),
]

SECONDS = 20.0


def test_receipts_of_a_page_verify_the_transcript(tmp_path: Path) -> None:
    watch_people(tmp_path)
    settings: dict[str, str | int | float | bool] = {"method": "fedsub-ridge", "beside": ""}
    settings |= {"rounds": 2, "quorum": 1.0, "secure-aggregation": True, "robust": "none"}
    settings |= {"standardise": "federation"}
    config = read_config(None, settings | {"data": str(tmp_path / "data"), "out": str(tmp_path)})
    file = write_csv(tmp_path / "own.csv", WEB, 0, 99)

    def visit(tab: Driven, url: str, client: str) -> None:
        join_page(tab, url, client)
        bring_file(tab, file, 14)

    own = tmp_path / "receipts"
    own.mkdir()
    rehearsal = PageRehearsal(config, 3, [WEB], print, print, PAGE, visit)
    with rehearsal.up():
        tab = rehearsal.tabs[WEB]
        for _ in rehearsal.follow(rehearsal.submit()):
            if tab.run("!!document.querySelector('#consent-yes')"):
                tab.run("document.querySelector('#consent-yes').click()")
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(own))
        tab.run("document.querySelector('#receipts').click()")
        end = time.monotonic() + SECONDS
        while not list(own.glob("receipts-*.jsonl")) and time.monotonic() < end:
            time.sleep(0.1)
    (receipts,) = own.glob("receipts-*.jsonl")
    transcript = rehearsal.place.run / "fedsub-ridge" / "transcript.jsonl"
    found = verified(transcript, own, None, None)
    assert [one.text for one in found if one.fault] == []
    assert any("each once" in one.text and WEB in one.text for one in found)
    lines = [json.loads(line) for line in receipts.read_text("utf-8").splitlines()]
    other = [line | ({"vector": "0" * 64} if "vector" in line else {}) for line in lines]
    receipts.write_text("".join(json.dumps(line) + "\n" for line in other), "utf-8")
    assert any(one.fault for one in verified(transcript, own, None, None))
