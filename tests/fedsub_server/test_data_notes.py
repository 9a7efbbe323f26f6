"""What a run notes of devices that are behind: by client id, until they are upgraded."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsub_core.data.findings import SplitNote
from fedsub_core.data.standardise import Moments
from fedsub_core.wire.handshake import Facts, Introduction
from fedsub_server.data_notes import (
    DATA_FILE,
    DataNotes,
    data_in_words,
    forget_notes,
    note_devices,
    read_notes,
    releases_in_words,
    write_notes,
)

SPLIT = SplitNote("in time", 2, 1, 0, 0, 0)


def said(*clients: str) -> dict[str, Introduction]:
    moments = Moments(2, np.ones(1), np.ones(1))
    one = ("0.1.0", ("a",), (1,), Facts(2), moments)
    return {client: Introduction(client, *one, split=SPLIT) for client in clients}


def test_who_is_behind_is_noted_until_upgraded_or_forgotten(tmp_path: Path) -> None:
    note_devices(tmp_path, said("ann", "bob"), "last", {"bob": "0.0.8", "ann": "0.0.9"})
    assert read_notes(tmp_path).behind == {"ann": "0.0.9", "bob": "0.0.8"}
    note_devices(tmp_path, said("ann"), "last", {})  # upgraded; bob is away
    assert read_notes(tmp_path).behind == {"bob": "0.0.8"}
    assert read_notes(tmp_path).splits.keys() == {"ann", "bob"}
    forget_notes(tmp_path, "bob")
    assert "bob" not in (tmp_path / DATA_FILE).read_text("utf-8")


def test_warnings_of_other_methods_of_the_run_stay(tmp_path: Path) -> None:
    """What devices say of their validation parts is said anew, with each device that comes."""
    note_devices(tmp_path, said("ann"), "validation", {}, ["of fedavg"])
    note_devices(tmp_path, said("bob"), "validation", {}, ["of ditto"])
    lacking, *others = read_notes(tmp_path).warnings
    assert others == ["of fedavg", "of ditto"]
    assert lacking.startswith("No validation part, for too few samples: ann, bob.")


def test_devices_whose_windows_may_overlap_are_named(tmp_path: Path) -> None:
    """Their cards are theirs: the server knows no more than how they split."""
    by_order = SplitNote("in time by the order of the file, gap not known", 2, 1, 0, 0, 0)
    few = {name: replace(one, split=by_order) for name, one in said("bob", "eve").items()}
    note_devices(tmp_path, few, "last", {})
    note_devices(tmp_path, said("ann"), "last", {}, ["of ditto"])
    unknown, other = read_notes(tmp_path).warnings
    assert other == "of ditto" and unknown in data_in_words(read_notes(tmp_path))
    assert unknown.startswith("Whether samples overlap is not known for 2 of 3 clients (bob, eve)")
    forget_notes(tmp_path, "bob")
    unknown, _ = read_notes(tmp_path).warnings
    assert unknown.startswith("Whether samples overlap is not known for 1 of 2 clients (eve)")


def test_notes_of_the_release_before_are_read(tmp_path: Path) -> None:
    write_notes(tmp_path, DataNotes({"ann": SPLIT}, ("a warning",)))
    kept = json.loads((tmp_path / DATA_FILE).read_text("utf-8"))
    del kept["behind"]
    (tmp_path / DATA_FILE).write_text(json.dumps(kept), "utf-8")
    assert read_notes(tmp_path) == DataNotes({"ann": SPLIT}, ("a warning",))


def test_a_sentence_names_ten_at_most() -> None:
    assert releases_in_words(DataNotes()) == []
    notes = DataNotes(behind={f"p{i:02d}": "0.0.9" for i in range(12)})
    (sentence,) = releases_in_words(notes)
    assert sentence in data_in_words(notes)
    assert sentence.startswith("Devices behind the server's release: p00 (0.0.9), p01 (0.0.9),")
    assert sentence.endswith("p09 (0.0.9) and 2 more. Upgrade them.") and "p10" not in sentence
