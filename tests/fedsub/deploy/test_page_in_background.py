"""The page's service worker takes part while the page is closed, in a real browser."""

import time
from pathlib import Path

import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.engines.page_rehearsal import PageRehearsal
from fedsub_core.config.run_config import read_config
from fedsub_core.flower.modules import HTTP, demand_deployable

from .page_results import (
    METHODS,
    WEB,
    assert_as_python,
    levels_of,
    noted_page,
    uploads,
    watch_people,
)
from .page_tabs import bring_file, join_page, write_csv
from .page_waking import close_page, kill_workers, wake

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42"),
]

ROUNDS = 4
#: Seconds in which a service worker would have answered.
SOON = 8.0
YES = "document.querySelector('#consent-yes')"
SAYS = "document.querySelector('#now-says')?.textContent"


def test_a_closed_page_answers_what_its_person_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    federation, page = watch_people(tmp_path), noted_page(tmp_path)
    settings: dict[str, str | int | float | bool] = {"method": METHODS[0], "beside": ""}
    settings |= {"rounds": ROUNDS, "quorum": 1.0, "threads": 3}
    config = read_config(None, settings | {"data": str(tmp_path / "data"), "out": str(tmp_path)})
    file = write_csv(tmp_path / "own.csv", WEB, 0, 99)

    def visit(tab: Driven, url: str, client: str) -> None:
        join_page(tab, url, client)
        bring_file(tab, file, 14)
        tab.until("!!navigator.serviceWorker.controller")
        tab.run("document.querySelector('#background').click()")
        tab.until("document.querySelector('#background-says').textContent")
        # While the page is open, it takes part, and nothing else does.
        wake(tab, url.split("/#")[0])
        tab.until(f"/Waits/.test({SAYS})")

    rehearsal = PageRehearsal(config, 3, [WEB], print, print, page, visit)
    with rehearsal.up():
        tab, origin, steps = rehearsal.tabs[WEB], rehearsal.url, list[str]()
        for finished in rehearsal.follow(rehearsal.submit()):
            if not steps and tab.run(f"!!{YES}"):
                close_page(tab)
                wake(tab, origin)
                time.sleep(SOON)
                assert finished == 0
                kill_workers(tab)
                tab.open(origin)
                tab.until(YES)
                tab.run(f"{YES}.click()")
                steps.append("asked again")
            if steps == ["asked again"] and finished == 1:
                close_page(tab)
                wake(tab, origin)
                steps.append("periodic")
            if steps == ["asked again", "periodic"] and finished == 2:
                kill_workers(tab)
                wake(tab, origin, periodic=False)
                steps.append("killed")
        assert (steps, finished) == (["asked again", "periodic", "killed"], ROUNDS)
        tab.open(origin)
        tab.until(f"/After round {ROUNDS} of/.test(document.querySelector('#model')?.textContent)")
        sent, levels = uploads(tab), levels_of(tab)
    assert_as_python(config, federation, rehearsal.place.run, sent, levels, monkeypatch)
