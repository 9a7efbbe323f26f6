"""The page of an older release beside this server, in a real browser, and a person who leaves."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.engines.page_rehearsal import PAGE, PageRehearsal
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.flower.modules import HTTP, demand_deployable
from fedsub_core.version import VERSION
from fedsub_server.leaving import DELETED, DEPARTURES_FILE, REMAINS
from fedsub_server.live_file import LIVE_FILE
from fedsub_server.rundb import RunDatabase

from .page_tabs import choose_file, join_page, write_csv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42"),
]

OLDER, WEB, ROUNDS, WEB_FOLDER = "0.0.9", "02", 6, PAGE.parents[1]
INDEX = "fetch('/').then(answer => answer.text()).catch(() => '')"
#: Has the page wait for one more run, which the SuperLink does not know; what it waited for.
ONE_MORE = """
new Promise(done => {
  indexedDB.open("fedsub").onsuccess = ({ target: { result } }) => {
    const values = result.transaction("values", "readwrite").objectStore("values");
    values.get("leaving").onsuccess = ({ target: { result: { runs, ...all } } }) => {
      values.put({ ...all, runs: [...runs, "1"] }, "leaving").onsuccess = () => done(runs);
    };
  };
})
"""
SAYS = "document.querySelector('{}')?.textContent"


def older_page(folder: Path, wire: int) -> Path:
    """Return the page of this tree, built as that of a lower version, which speaks one wire."""
    shutil.copytree(WEB_FOLDER / "src", folder / "src")
    for name in ("build.js", "package.json", "kernels", "node_modules"):
        (folder / name).symlink_to(WEB_FOLDER / name)
    abilities = folder / "src" / "device" / "abilities.ts"
    text = abilities.read_text("utf-8")
    now = {f'VERSION = "{VERSION}"': f'VERSION = "{OLDER}"', "WIRE = 2n": f"WIRE = {wire}n"}
    for this, older in now.items():
        assert text.count(this) == 1
        text = text.replace(this, older)
    abilities.write_text(text, "utf-8")
    subprocess.run(["node", "build.js"], cwd=folder, check=True)
    return folder / "dist" / "page"


def serve_page(page: Path, built: Path, card: Path) -> None:
    """Put a page into the folder that the SuperLink reads when it starts."""
    shutil.rmtree(page, ignore_errors=True)
    shutil.copytree(built, page)
    shutil.copy(card, page)


def test_a_page_of_an_older_release_takes_part_and_its_person_leaves(tmp_path: Path) -> None:
    watch = watch_federation()
    few = {name: watch.clients[name] for name in ("01", WEB, "03")}
    write_federation(tmp_path / "data", Federation(watch.card, few))
    card, page = tmp_path / "data" / CARD_FILE, tmp_path / "page"
    serve_page(page, older_page(tmp_path / "wire-1", 1), card)
    before = older_page(tmp_path / "wire-2", 2)
    file = write_csv(tmp_path / "own.csv", WEB, 0, 99)

    def visit(tab: Driven, url: str, client: str) -> None:
        join_page(tab, url, client)
        choose_file(tab, "#file", file)
        tab.until(f"/Waits/.test({SAYS.format('#now-says')})")

    settings: dict[str, str | int | float | bool] = {"method": "fedsub-ridge", "beside": ""}
    settings |= {"rounds": ROUNDS, "quorum": 1.0}
    settings |= {"data": str(tmp_path / "data"), "out": str(tmp_path)}
    config = read_config(None, settings)
    rehearsal = PageRehearsal(config, 3, [WEB], print, print, page, visit)
    with rehearsal.up():
        tab, done = rehearsal.tabs[WEB], list[str]()
        (link,) = (one for one in rehearsal.supervisor.children if one.name == "superlink")
        for finished in rehearsal.follow(rehearsal.submit()):
            says = str(tab.run(SAYS.format("#now-says")) or "")
            if not done and "different releases" in says:
                assert f"expected 1, which fedsub {OLDER} understands" in says
                assert finished == 0
                serve_page(page, before, card)
                link.process.kill()
                done.append("refused")
            if done == ["refused"] and tab.run(INDEX) == (before / "index.html").read_text("utf-8"):
                tab.call("Page.reload")
                done.append("loaded anew")
            if tab.run("!!document.querySelector('#consent-yes')"):
                tab.run("document.querySelector('#consent-yes').click()")
            if done == ["refused", "loaded anew"] and finished:
                live = json.loads((rehearsal.place.run / LIVE_FILE).read_text("utf-8"))
                assert live["people"][WEB]["version"] == OLDER
                link.process.kill()
                tab.run("document.querySelector('#forget').click()")
                tab.run("document.querySelector('#forget-yes').click()")
                tab.until("document.querySelector('#leave-now')")
                assert len(tab.run(ONE_MORE)) == 1
                tab.call("Page.reload")
                done.append("leaves")
        assert done == ["refused", "loaded anew", "leaves"]
        tab.until("document.querySelector('#forgotten')")
        said = str(tab.run("document.querySelector('#left').innerText"))
        assert tab.run("indexedDB.databases().then(all => all.map(one => one.name))") == ["fedsub"]
        assert tab.run("!!document.querySelector('#join-press')")
    assert all(sentence in said for sentence in (*DELETED, *REMAINS))
    run = rehearsal.place.run
    with RunDatabase(rehearsal.database) as database:
        rows = [row for row in database.metrics() if row.client]
    assert {row.client for row in rows if row.round == ROUNDS} == {"01", "03"}
    assert {row.client for row in rows if row.round == 1} == {"01", "03", "(forgotten 1)"}
    (record,) = json.loads((run / DEPARTURES_FILE).read_text("utf-8")).values()
    assert record["deleted"] == list(DELETED)
