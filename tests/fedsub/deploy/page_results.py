"""What a page has made of a run, bit for bit beside what a Python device makes of it."""

import json
import shutil
import struct
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy.driven_browser import Driven
from fedsub.engines.page_rehearsal import PAGE
from fedsub.engines.simulation import train_method
from fedsub_client import cohort_messages
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import CARD_FILE
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.wire.codec import compose_upload
from fedsub_core.wire.v2 import exchange_pb2

from .equal_runs import metrics_of

METHODS, WEB = ("fedsub-ridge", "fedsub"), "02"
Sent = Mapping[tuple[str, int], Mapping[str, bytes]]
#: Of random draws, which are others in each language; and of a tab that is killed.
OTHERS = ("gain_over_own_low", "gain_over_own_high", "messages_resent", "late_replies")
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


def watch_people(folder: Path) -> Federation:
    """Return three of the people with a smartwatch, as they are in ``data`` of a folder."""
    watch = watch_federation()
    few = {name: watch.clients[name] for name in ("01", WEB, "03")}
    people = Federation(watch.card, few)
    write_federation(folder / "data", people)
    return people


def noted_page(folder: Path) -> Path:
    """Return the page with the card of ``data``, whose thread's clock is ahead, and which notes."""
    shutil.copytree(PAGE, folder / "page")
    shutil.copy(folder / "data" / CARD_FILE, folder / "page")
    (thread,) = (folder / "page").glob("thread-*.js")
    thread.write_text(AHEAD + thread.read_text("utf-8"), "utf-8")
    return folder / "page"


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


def assert_as_python(
    config: RunConfig,
    federation: Federation,
    run: Path,
    sent: Sent,
    levels: Mapping[bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check a page's part of the run of a folder: sums and levels are a Python device's."""
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
    for method in config.methods:
        alone = run.parent / f"alone-{method}"
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
            for database in (run / method / "state.db", alone / "state.db")
        )
        if method == "fedsub-ridge":
            assert len(levels) >= 100 and levels.items() <= encoded.items()
        assert ours.keys() == expected.keys()
        assert ours == pytest.approx(expected, abs=1e-5)
