"""The page in a real browser: a person joins, brings recordings, takes part and has a model."""

import json
import shutil
import struct
from base64 import b64decode
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.engines.page_rehearsal import PAGE, PageRehearsal
from fedsub.engines.simulation import train_method
from fedsub_client import cohort_messages
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.flower.modules import HTTP, demand_deployable
from fedsub_core.wire.codec import compose_upload
from fedsub_core.wire.v2 import exchange_pb2

from .equal_runs import metrics_of
from .page_tabs import choose_file, kill_tab, second_tab, write_csv

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(demand_deployable() != HTTP, reason="a page needs Flower 1.42"),
]

METHODS, WEB, ROUNDS = ("fedsub-ridge", "fedsub"), "02", 3
#: Of random draws, which are others in each language; and of a tab that is killed.
OTHERS = ("gain_over_own_low", "gain_over_own_high", "messages_resent", "late_replies")
#: Rounds of all methods after which the SuperLink dies, and in the next of which the tab does.
LINK_DIES, TAB_DIES = 1, ROUNDS + 1
#: Of the recordings those that are imported before the question comes; the others while it waits.
FIRST = 6
#: The clock of the page's thread is an hour ahead. Each state that it saves is kept beside, and so
#: is what the encoder makes of windows: bytes of a window, bytes of its levels, and all of them.
#: Each save takes a second, so that a tab can be killed in a round. The first
#: answer is lost on its way: with the kernels, a message, an object, and that a reply has come.
AHEAD = """
{
  const { now } = Date, { fetch } = globalThis, { put } = IDBObjectStore.prototype;
  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (...given) => {
    const { exports } = await instantiate(...given);
    const fedsub_encode = (...asked) => {
      const [, kernels, windows, samples, channels, time, levels] = asked.map(Number);
      const code = exports.fedsub_encode(...asked);
      // The call may have made the memory larger, and so another buffer.
      const sizes = [2 * channels * time, 5 * kernels], of = exports.memory.buffer;
      const parts = [windows, levels].map((at, i) => of.slice(at, at + samples * sizes[i]));
      const kept = new Blob([new Uint32Array(sizes), ...parts]);
      caches.open("levels").then(all => all.put(`/${samples}`, new Response(kept)));
      return code;
    };
    return { exports: { ...exports, fedsub_encode } };
  };
  Date.now = () => now() + 3600000;
  const lost = new Set();
  globalThis.fetch = async (path, ...how) => {
    const answer = await fetch(path, ...how);
    const bytes = (await answer.clone().arrayBuffer()).byteLength;
    const counts = /fleet.(confirm|push)/.test(path) || (bytes && /fleet.pull|wasm/.test(path));
    if (answer.ok && counts && lost.size < lost.add(path).size) throw new TypeError("lost");
    return answer;
  };
  IDBObjectStore.prototype.put = function (value, key) {
    const kept = all => all.put(`/${performance.now()}`, new Response(value));
    if (key === "state") caches.open("states").then(kept);
    for (const end = performance.now() + 1000; key === "state" && performance.now() < end; );
    return put.call(this, value, key);
  };
}
"""
KEPT = """
caches.open(NAME).then(async all => Promise.all((await all.keys()).map(async key => {
  const bytes = new Uint8Array(await (await all.match(key)).arrayBuffer());
  return btoa(Array.from(bytes, byte => String.fromCharCode(byte)).join(""));
})))
"""
#: Notes each moment at which the page's own thread was free, and whether a round was worked on.
FREE = """
window.free = [];
const works = () => /Works/.test(document.querySelector("#now-says")?.textContent);
setInterval(() => free.push([performance.now(), works()]), 10);
"""
#: Rows of a recording as the sensors would give them, 50 a second.
REPLAY = """
rows => {
  const axes = (a, b, c, of) => Object.fromEntries([a, b, c].map((name, i) => [name, of(i)]));
  let at = 0;
  const timer = setInterval(() => {
    const row = rows[at++];
    if (!row) return clearInterval(timer);
    dispatchEvent(new DeviceMotionEvent("devicemotion", {
      accelerationIncludingGravity: axes("x", "y", "z", i => row[i] * 9.80665),
      rotationRate: axes("alpha", "beta", "gamma", i => row[3 + i] * 180 / Math.PI), interval: 20,
    }));
  }, 20);
}
"""
SETTINGS: dict[str, str | int | float | bool] = {
    "method": METHODS[0],
    "beside": METHODS[1],
    "rounds": ROUNDS,
    "quorum": 1.0,
    "threads": 3,
}


def recording(person: str, label: str) -> np.ndarray:
    """The first ten seconds that a person does something, [500, 6]."""
    watch = watch_federation()
    data = watch.clients[person]
    at = int(np.flatnonzero(data.y == watch.card.classes.index(label))[0])
    return np.concatenate([data.x[at + 2 * i].T for i in range(4)])[:500]


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """Three of the people with a smartwatch."""
    watch = watch_federation()
    few = {name: watch.clients[name] for name in ("01", WEB, "03")}
    people = Federation(watch.card, few)
    write_federation(tmp_path / "data", people)
    return people


@pytest.fixture
def page(federation: Federation, tmp_path: Path) -> Path:
    """The page with the federation's card."""
    shutil.copytree(PAGE, tmp_path / "page")
    shutil.copy(tmp_path / "data" / CARD_FILE, tmp_path / "page")
    (thread,) = (tmp_path / "page").glob("thread-*.js")
    thread.write_text(AHEAD + thread.read_text("utf-8"), "utf-8")
    return tmp_path / "page"


def kept(tab: Driven, name: str) -> list[bytes]:
    """Return the blocks that the page's thread has kept beside."""
    return [b64decode(text) for text in tab.run(KEPT.replace("NAME", repr(name)))]


def levels_of(tab: Driven) -> dict[bytes, bytes]:
    """Return the levels that the page has made, by the bytes of the quantised window."""
    found = dict[bytes, bytes]()
    for block in kept(tab, "levels"):
        each, own = struct.unpack_from("<II", block)
        count = (len(block) - 8) // (each + own)
        windows, levels = block[8 : 8 + count * each], block[8 + count * each :]
        for i in range(count):
            found[windows[i * each : (i + 1) * each]] = levels[i * own : (i + 1) * own]
    return found


def uploads(tab: Driven) -> dict[tuple[str, int], dict[str, bytes]]:
    """Return the tensors of what the page has sent, by method and round."""
    found = {}
    for block in kept(tab, "states"):
        # A mark and a digest, the length of a text of JSON, that, and bytes.
        (length,) = struct.unpack_from("<I", block, 48)
        state, data = json.loads(block[52 : 52 + length]), block[52 + length :]
        for saved in state["runs"]:
            at, size = saved["reply"]["at"], saved["reply"]["bytes"]
            reply = exchange_pb2.Bundle.FromString(data[at : at + size])
            found[saved["method"], saved["round"]] = tensors(reply)
    return found


def tensors(bundle: exchange_pb2.Bundle) -> dict[str, bytes]:
    """Return a message's tensors as they were sent."""
    return {one.name: one.SerializeToString() for one in bundle.tensors}


def longest_gap(free: list[tuple[float, bool]]) -> tuple[float, float]:
    """Return milliseconds of the longest work, and the longest without an answer in any work."""
    longest = gap = begun = 0.0
    for (before, worked), (now, works) in pairwise(free):
        begun = begun if worked else now
        if worked and works:
            longest, gap = max(longest, now - begun), max(gap, now - before)
    return longest, gap


def test_a_person_takes_part_in_a_browser(
    federation: Federation,
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = read_config(None, SETTINGS | {"data": str(tmp_path / "data"), "out": str(tmp_path)})
    files = [
        write_csv(tmp_path / f"own-{first}.csv", WEB, first, last)
        for first, last in ((0, FIRST), (FIRST, 99))
    ]

    def bring(tab: Driven, file: Path, count: str) -> None:
        choose_file(tab, "#file", file)
        tab.until(f"/Imported {count} /.test(document.querySelector('#import-says').textContent)")

    def visit(tab: Driven, url: str, client: str) -> None:
        tab.open(url)
        tab.until("document.querySelector('#join-press')")
        tab.run(f"document.querySelector('#name').value = {WEB!r}")
        tab.run("document.querySelector('#agree').click()")
        tab.run("document.querySelector('#join-press').click()")
        tab.until("document.querySelector('#file')")
        bring(tab, files[0], str(FIRST))
        tab.until("/Waits/.test(document.querySelector('#now-says').textContent)")
        with second_tab(tab, rehearsal.url):
            tab.until("/Another tab/.test(document.querySelector('#now-says')?.textContent)")
        assert "Waits" in tab.run("document.querySelector('#now-says').textContent")

    people = len(federation.clients)
    rehearsal = PageRehearsal(config, people, [WEB], print, print, page, visit)
    with rehearsal.up():
        tab = rehearsal.tabs[WEB]
        tab.run(FREE)
        (link,) = (one for one in rehearsal.supervisor.children if one.name == "superlink")
        agreed = restarted = killed = False
        gap = (0.0, 0.0)
        for finished in rehearsal.follow(rehearsal.submit()):
            if not agreed and tab.run("!!document.querySelector('#consent-yes')"):
                assert "means of products" in tab.text()
                assert "Parts of yours may reach people like you" in tab.text()
                bring(tab, files[1], str(14 - FIRST))
                tab.run("document.querySelector('#consent-yes').click()")
                agreed = True
            if finished == LINK_DIES and not restarted:
                link.process.kill()
                restarted = True
            if finished == TAB_DIES and not killed:
                tab.until("/Works on round/.test(document.querySelector('#now-says').textContent)")
                gap = longest_gap(tab.run("free"))
                kill_tab(tab)
                tab.open(rehearsal.url)
                killed = True
        assert (agreed, restarted, killed, finished) == (True, True, True, 2 * ROUNDS)
        tab.until("/After round 3 of 3/.test(document.querySelector('#model').textContent)")
        sent, levels = uploads(tab), levels_of(tab)
        tab.run("document.querySelector('#live').click()")
        tab.run(f"({REPLAY})({recording(WEB, 'ROW').tolist()})")
        tab.until("/^Now: /.test(document.querySelector('#live-says').textContent)")
    worked, longest = gap
    assert worked > 100
    assert longest < worked / 2

    composed = dict[int, dict[str, bytes]]()

    def note(bundle: Any, address: Any, *arguments: Any, **named: Any) -> Any:
        made = compose_upload(bundle, address, *arguments, **named)
        if address.client == WEB:
            composed[address.round] = tensors(exchange_pb2.Bundle.FromString(made.to_bytes()))
        return made

    monkeypatch.setattr(cohort_messages, "compose_upload", note)
    encoded, encode = dict[bytes, bytes](), KernelsEncoder.levels

    def note_levels(encoder: KernelsEncoder, steps: Any) -> Any:
        made = encode(encoder, steps)
        encoded.update((w.tobytes(), own.tobytes()) for w, own in zip(steps, made, strict=True))
        return made

    monkeypatch.setattr(KernelsEncoder, "levels", note_levels)
    for method in METHODS:
        alone = tmp_path / method
        alone.mkdir()
        train_method(config, method, federation, alone, lambda round: None)
        if method == "fedsub-ridge":
            with_sums = {round: theirs for round, theirs in composed.items() if theirs}
            assert with_sums
            for round, theirs in with_sums.items():
                assert sent[method, round] == theirs
        ours, expected = (
            {
                (round, metric, label): value
                for (round, client, metric, label), value in metrics_of(database).items()
                if client == WEB and "bytes" not in metric and metric not in OTHERS
            }
            for database in (rehearsal.place.run / method / "state.db", alone / "state.db")
        )
        if method == "fedsub-ridge":
            assert len(levels) >= 100 and levels.items() <= encoded.items()
        assert ours.keys() == expected.keys()
        assert ours == pytest.approx(expected, abs=1e-5)
