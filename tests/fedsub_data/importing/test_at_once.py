"""Recordings of one person whose times overlap: made at once, or each from 0."""

import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import read_federation
from fedsub_core.data.splits import split
from fedsub_data.importing.options import AUTO

from .made_tables import imported, written

EPOCH = 1.76e9
FROM_NAME = r"([a-z]+)_"


def recording(path: Path, start: float, classes: str = "wsws", late: float = 0.0) -> Path:
    """A recording of 10 Hz: 12 s of each class; `late` is by how much its clock is behind."""
    t = np.arange(120 * len(classes)) / 10
    states = [classes[int((at + late) % (12 * len(classes)) // 12)] for at in t]
    text = ["time,activity,ax,ay"]
    text += [
        f"{start + at:.3f},{state},{np.sin(i):.4f},{np.cos(i):.4f}"
        for i, (at, state) in enumerate(zip(t, states, strict=True))
    ]
    return written(path, text)


def both_wrists(folder: Path, start: float, right: float, late: float = 0.0) -> str:
    """Two people with a recording of either wrist, of which the right begins `right` s later."""
    for person in ("ann", "bob"):
        recording(folder / f"{person}_left.csv", start)
        recording(folder / f"{person}_right.csv", start + right, late=late)
    return str(folder / "*.csv")


def on_both_sides(client: ClientData, train: np.ndarray, test: np.ndarray, width: float) -> int:
    """Training windows that begin less than `width` s from a tested one."""
    assert client.t is not None
    return int((np.abs(client.t[train][:, None] - client.t[test]) < width).any(1).sum())


@pytest.mark.parametrize("start", [EPOCH, 500.0, 0.0], ids=["dates", "since boot", "from 0"])
@pytest.mark.parametrize("right", [0.0, 1.0], ids=["at once", "half a window later"])
def test_two_wrists_keep_their_time_and_are_on_one_side_of_every_split(
    tmp_path: Path, start: float, right: float
) -> None:
    """Half a window later, windows of 2 s begin each second: as if they overlapped by a half."""
    files = both_wrists(tmp_path, start, right, late=right)
    made = imported(files, tmp_path / "out", from_name=FROM_NAME, time_unit="s")
    federation = read_federation(tmp_path / "out")
    client = federation.clients["ann"]
    assert client.t is not None
    assert np.array_equal(np.unique(client.t), start + np.arange(24) * 2.0)
    assert len(client.t) == (48 if right == 0 else 47)
    for seed in range(5):
        train, test = split(client, federation.card, "stratified", 0.3, seed)
        assert not on_both_sides(client, train, test, 2.0) and len(train) + len(test) == len(
            client.t
        )
    train, test = split(client, federation.card, "blocked", 0.3, 0)
    assert not on_both_sides(client, train, test, 2.0)
    (note,) = (note for note in made.notes if "Recorded at the same time" in note)
    assert "'ann' (ann_left.csv, ann_right.csv), 'bob'" in note
    assert note in json.loads((tmp_path / "out" / "preparation.json").read_text())["notes"]


def test_overlapping_windows_of_two_wrists_begin_at_one_time(tmp_path: Path) -> None:
    """Half a step later they would be windows every 0.5 s, which the card contradicts."""
    files = both_wrists(tmp_path, EPOCH, 0.5)
    imported(files, tmp_path / "out", from_name=FROM_NAME, overlap=0.5)
    for client in read_federation(tmp_path / "out").clients.values():
        assert client.t is not None
        assert np.array_equal(np.unique(client.t), EPOCH + np.arange(47))
        assert np.array_equal(client.t, np.sort(client.t))


@pytest.mark.parametrize(
    ("names", "classes", "together"),
    [
        (("ann_left", "ann_right"), ("w", "s"), False),  # other classes at the same times
        (("ann_left", "ann_right"), ("w", "w"), True),
        (("ann_1", "ann_2"), ("w", "w"), False),
        (("ann_left_1", "ann_left_2"), ("w", "w"), False),
        (("ann_left_1", "ann_right_2"), ("w", "w"), False),
        (("ann_1", "ann_2"), ("wsw", "wsw"), True),  # classes change at the same times
    ],
)
def test_of_recordings_from_0_classes_and_names_tell(
    tmp_path: Path, names: tuple[str, str], classes: tuple[str, str], together: bool
) -> None:
    for name, own in zip(names, classes, strict=True):
        recording(tmp_path / f"{name}.csv", 0.0, own)
    recording(tmp_path / "bob_1.csv", 0.0)
    files = str(tmp_path / "*.csv")
    for given, expected in ((AUTO, together), ("together", True), ("behind", False)):
        out = tmp_path / given
        made = imported(files, out, from_name=FROM_NAME, time_unit="s", overlapping=given)
        t = read_federation(out).clients["ann"].t
        lasts = 12.0 * len(classes[0])
        shift = 0.0 if expected else lasts - 0.1 + 2.0
        at = np.arange(lasts / 2) * 2
        assert t is not None and np.allclose(np.sort(t), np.sort(np.r_[at, at + shift]))
        assert ("same time: recordings of 'ann'" in " ".join(made.notes)) == expected
        behind = [note for note in made.notes if note.startswith("Put one behind the other")]
        assert bool(behind) == (not expected and given == AUTO)
        assert all("as each begins at 0 or their classes differ: " in note for note in behind)


def test_two_wrists_in_two_sessions_from_0_are_two_sessions(tmp_path: Path) -> None:
    for session, classes in (("1", "ws"), ("2", "sw")):
        for side in ("left", "right"):
            recording(tmp_path / f"ann_{session}_{side}.csv", 0.0, classes)
    recording(tmp_path / "bob_1.csv", 0.0)
    imported(str(tmp_path / "*.csv"), tmp_path / "out", from_name=FROM_NAME, time_unit="s")
    t = read_federation(tmp_path / "out").clients["ann"].t
    assert t is not None
    at = np.r_[np.arange(12) * 2.0, np.arange(12) * 2.0 + 25.9]
    times, counts = np.unique(t.round(3), return_counts=True)
    assert np.allclose(times[:12], at[:12]) and (counts[:12] == 2).all()
    # Windows of the second session are aligned with those of the first.
    assert np.allclose(np.diff(times[12:]), 2) and (counts[12:] == 2).all()


def test_arrays_and_tables_in_memory_are_placed_alike(tmp_path: Path) -> None:
    """One table with both wrists one below the other, split where its time runs backwards."""
    both_wrists(tmp_path, EPOCH, 0.5)
    frames = []
    for person in ("ann", "bob"):
        for side in ("left", "right"):
            frame = pd.read_csv(tmp_path / f"{person}_{side}.csv")
            frames.append(frame.assign(user=person))
    table_ = pd.concat(frames, ignore_index=True)
    options = {"window": "2s", "overlap": 0.0, "backwards": "split"}
    client = fedsub.federation(table_, **options).clients["ann"]
    assert client.t is not None and len(client.t) == 47
    assert np.array_equal(np.unique(client.t), EPOCH + np.arange(24) * 2)
    duckdb.sql(f"COPY table_ TO '{tmp_path / 'a.parquet'}'")
    imported(tmp_path / "a.parquet", tmp_path / "out", backwards="split")
    again = read_federation(tmp_path / "out").clients["ann"]
    assert again.t is not None and np.array_equal(again.t, client.t)
    assert np.array_equal(again.x, client.x)
