"""The data set built in: what its recordings become, and that they are found where they lie."""

import hashlib
import io
import pickle
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.data import watch
from fedsub_core.data.federation import Federation, read_federation, write_federation
from fedsub_core.data.held_out import check_trainable
from fedsub_core.data.splits import split
from fedsub_core.data.unpickling import ArraysOnly
from fedsub_core.errors import DataError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def federation() -> Federation:
    return watch.watch_federation()


def test_ten_people_and_their_windows(federation: Federation) -> None:
    assert list(federation.clients) == [f"{i:02d}" for i in range(1, 11)]
    sizes = [len(data.y) for data in federation.clients.values()]
    assert sizes == [433, 418, 234, 226, 377, 367, 405, 372, 373, 400]
    everyone = np.concatenate([data.y for data in federation.clients.values()])
    assert np.bincount(everyone).tolist() == [388, 592, 602, 555, 556, 449, 463]
    assert np.bincount(federation.clients["01"].y).tolist() == [42, 71, 74, 66, 67, 57, 56]
    for data in federation.clients.values():
        assert data.x.shape == (len(data.y), 6, 128)
        assert (data.x.dtype, data.y.dtype) == (np.float32, np.int64)
        assert np.isfinite(data.x).all()
        # Units: a slow arm feels little but gravity, 1 g.
        assert 0.9 < np.median(np.linalg.norm(data.x[:, :3], axis=1)) < 1.4


def test_every_bit_is_what_the_original_file_gave(federation: Federation) -> None:
    digest = hashlib.sha256()
    for person, data in federation.clients.items():
        assert data.t is not None
        for one in (data.x, data.y, data.t):
            digest.update(f"{person}{one.dtype}{one.shape}".encode() + one.tobytes())
    # Taken when the windows were still cut from seglearn's own file.
    golden = "e78ca30240ece1533fa0eb7bc19e781cfe62cda05eb88352d5bfc3171f94d6ee"
    assert digest.hexdigest() == golden


def test_windows_are_the_recordings(federation: Federation) -> None:
    with np.load(watch.watch_file()) as file:
        raw = {name: file[name] for name in file.files}
    assert raw["right"].sum() == 70  # of 140: each exercise once with each arm
    person = np.flatnonzero(raw["people"] == 3)
    assert len(person) == 14
    data = federation.clients["03"]
    ends = np.cumsum(raw["lengths"])
    first, second = (
        raw["signals"][ends[i] - raw["lengths"][i] : ends[i]] for i in person[:2].tolist()
    )
    count = (len(first) - 128) // 64 + 1
    np.testing.assert_array_equal(data.x[0], first[:128].T)
    np.testing.assert_array_equal(data.x[1], first[64:192].T)
    np.testing.assert_array_equal(data.x[count], second[:128].T)
    assert data.y[0] == raw["labels"][person[0]]
    assert data.y[count] == raw["labels"][person[1]]


def test_recordings_never_overlap_in_time(federation: Federation) -> None:
    for data in federation.clients.values():
        assert data.t is not None
        steps = np.diff(data.t)
        within = np.isclose(steps, 1.28)
        assert (~within).sum() == 13  # 14 recordings
        assert (steps[~within] >= 2 * 2.56 - 1e-9).all()


def test_a_blocked_split_tests_every_class_without_leaking(federation: Federation) -> None:
    check_trainable(federation)
    for data in federation.clients.values():
        train, test = split(data, federation.card, "blocked", 0.3, 0)
        assert set(data.y[train]) == set(data.y[test]) == set(range(7))
        assert data.t is not None
        assert np.abs(data.t[train][:, None] - data.t[test][None, :]).min() > 2.56 - 1e-9
        assert len(data.y) - len(train) - len(test) == 7  # one window of each class is the gap


def test_it_is_a_federation_that_can_be_written(federation: Federation, tmp_path: Path) -> None:
    one = Federation(federation.card, {"04": federation.clients["04"]})
    write_federation(tmp_path / "watch", one)
    read = read_federation(tmp_path / "watch")
    assert read.card == federation.card
    np.testing.assert_array_equal(read.clients["04"].x, federation.clients["04"].x)
    np.testing.assert_array_equal(read.clients["04"].t, federation.clients["04"].t)


def test_the_card_in_datasets_says_the_same() -> None:
    card = tomllib.loads((ROOT / "datasets" / "watch" / "card.toml").read_text())
    assert card["source"]["sha256"] == watch.SHA256
    assert card["source"]["file"] == watch.FILE
    assert card["source"]["bytes"] == watch.watch_file().stat().st_size
    assert (card["name"], card["task"]) == (watch.CARD.name, watch.CARD.task)
    assert tuple(card["labels"]["classes"]) == watch.CARD.classes
    assert tuple(card["signals"]["channels"]) == watch.CARD.features
    assert card["signals"]["units"] == watch.CARD.units
    assert card["signals"]["sampling_rate_hz"] == watch.CARD.sampling_rate_hz
    assert card["windowing"] == {
        "window_s": watch.CARD.window_s,
        "overlap": watch.CARD.overlap,
        "time_ordered": watch.CARD.time_ordered,
    }


def test_the_readme_lists_the_windows(federation: Federation) -> None:
    readme = (ROOT / "datasets" / "watch" / "README.md").read_text()
    for name, data in federation.clients.items():
        row = [name, *np.bincount(data.y, minlength=7).tolist(), len(data.y)]
        assert f"| {' | '.join(map(str, row))} |" in readme


def test_recordings_are_found_where_pip_put_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As from the folder in which Flower runs an app: Python files and cards, and no data."""
    recordings = watch.watch_file()
    monkeypatch.setattr(watch, "PACKAGE", "fedsub_watch_of_a_test")  # the other may be installed
    monkeypatch.setattr(watch, "__file__", str(tmp_path / "app/fedsub_core/data/watch.py"))
    with refused(DataError, "recordings.npz", "Reinstall"):
        watch.watch_federation()
    installed = tmp_path / "site-packages" / watch.PACKAGE
    installed.mkdir(parents=True)
    monkeypatch.syspath_prepend(installed.parent)
    shutil.copy(recordings, installed)
    assert watch.watch_file() == installed / watch.FILE
    (installed / watch.FILE).write_bytes(b"else")
    with pytest.raises(DataError, match=r"got sha256 .*, expected 2512447c"):
        watch.watch_federation()


def test_their_licence_goes_with_them() -> None:
    text = (ROOT / "datasets" / "watch" / "LICENSE").read_text("utf-8")
    assert "Copyright (c) 2018, David M. Burns" in text and "Redistributions in binary" in text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert "datasets/watch/LICENSE" in project["license-files"]


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, ("raise SystemExit('code in a pickle ran')",)


@pytest.mark.parametrize("payload", [Evil(), Path("x"), np.float64(1), np.random.default_rng(0)])
def test_a_pickle_of_anything_but_arrays_is_refused(payload: object) -> None:
    with pytest.raises(pickle.UnpicklingError, match="expected numpy arrays only"):
        ArraysOnly(io.BytesIO(pickle.dumps(payload, protocol=2))).load()
