"""UCI-HAR as people would have it: the archive, the page's archive around it, the folder."""

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub.testing.refusals import refused
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import read_federation, write_federation
from fedsub_core.data.splits import split
from fedsub_core.errors import DataError
from fedsub_data.preparing.options import UCIHAROptions
from fedsub_data.preparing.preparation import Prepared
from fedsub_data.preparing.uci_har import preparer as uci_har

from ....official_files.signals import SIGNALS
from ....official_files.signals import uci_har as uci_har_files

Floats = NDArray[np.float64]


def recorded(person: int) -> tuple[list[int], Floats]:
    """Return labels and windows [3, 9, 128]: two that overlap by half, and one apart."""
    signal = np.random.default_rng(person).normal(size=(9, 320)).astype(np.float32)
    windows = np.stack([signal[:, start : start + 128] for start in (0, 64, 192)])
    return [1 + person % 6, 1 + person % 6, 6], windows.astype(np.float64)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uci") / "UCI HAR Dataset"
    uci_har_files(folder, {person: recorded(person) for person in range(1, 31)})
    return folder


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "UCI HAR Dataset"))


def prepared(source: Path, features: str = "signals") -> Prepared:
    chosen = UCIHAROptions(features=features)
    return uci_har.prepare(source, chosen, 1, lambda done, total: None)


def zipped(folder: Path, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, f"{folder.name}/{file.relative_to(folder)}")
        archive.writestr(f"__MACOSX/{folder.name}/._train", "left by a Mac")
    return path


def test_signals_of_every_person(original: Path) -> None:
    result = prepared(original)
    federation = result.federation
    assert list(federation.clients) == [f"{person:02d}" for person in range(1, 31)]
    for person in (1, 2, 30):
        labels, windows = recorded(person)
        mine = federation.clients[f"{person:02d}"]
        assert mine.y.tolist() == [label - 1 for label in labels]
        assert mine.x.dtype == np.float32
        np.testing.assert_allclose(mine.x, windows, rtol=1e-7)
        # Half a window later; then, after its end at 3.84 s, a window's length.
        assert mine.t is not None
        np.testing.assert_allclose(mine.t, [0, 1.28, 1.28 + 5.12], rtol=1e-12)
    card = federation.card
    assert card.classes[1] == "Walking upstairs" and card.features == tuple(SIGNALS)
    assert (card.units, card.sampling_rate_hz, card.window_s) == ("g, rad/s", 50.0, 2.56)
    assert card.overlap == 0.5 and not card.time_ordered
    assert result.counts == {
        "rows read": 90,
        "stretches of overlapping windows": 60,
        "windows kept": 90,
        "people": 30,
    }


def test_the_561_features_have_names_of_their_own(original: Path) -> None:
    federation = prepared(original, "561").federation
    names = federation.card.features
    assert len(names) == len(set(names)) == 561
    assert names[-3:] == ("bandsEnergy()-1,8", "bandsEnergy()-1,8#2", "bandsEnergy()-1,8#3")
    mine = federation.clients["02"]
    np.testing.assert_allclose(mine.x, recorded(2)[1].reshape(3, -1)[:, :561], rtol=1e-7)
    assert mine.t is not None and mine.t.tolist() == [0, 1.28, 6.4]
    assert federation.card.sampling_rate_hz is None


def test_archives_give_the_same_as_the_folder(original: Path, tmp_path: Path) -> None:
    archive = zipped(original, tmp_path / "UCI HAR Dataset.zip")
    page = tmp_path / "human+activity+recognition+using+smartphones.zip"
    with zipfile.ZipFile(page, "w") as outer:
        outer.writestr("UCI HAR Dataset.names", "names")
        outer.write(archive, archive.name)
    expected = prepared(original)
    for source in (archive, page, tmp_path, original.parent):
        result = prepared(source)
        assert result.counts == expected.counts
        for name, client in result.federation.clients.items():
            np.testing.assert_array_equal(client.x, expected.federation.clients[name].x)


def test_what_is_prepared_can_be_written_and_read(original: Path, tmp_path: Path) -> None:
    for features in ("signals", "561"):
        federation = prepared(original, features).federation
        write_federation(tmp_path / features, federation)
        again = read_federation(tmp_path / features)
        assert again.card == federation.card
        np.testing.assert_array_equal(again.clients["30"].x, federation.clients["30"].x)


def edit(folder: Path, member: str, line: int, text: str) -> None:
    lines = (folder / member).read_text().splitlines(keepends=True)
    lines[line - 1] = text
    (folder / member).write_text("".join(lines))


GYRO = "train/Inertial Signals/body_gyro_y_train.txt"
FAULTS = [
    ("test/y_test.txt", 5, "7\n", r"y_test\.txt, line 5: got '7', expected a whole number from 1"),
    ("train/subject_train.txt", 2, "31\n", r"subject_train\.txt, line 2: got '31', expected a"),
    (GYRO, 7, " 1.0\n", r"body_gyro_y_train\.txt, line 7: got 1 values, expected 128 on each"),
    (GYRO, 7, "", r"body_gyro_y_train\.txt: got 62 lines, expected 63 as in train/subject_train"),
    ("train/y_train.txt", 7, "", r"train/y_train\.txt: got 62 lines, expected 63 as in"),
    ("activity_labels.txt", 2, "2 RUNNING\n", r"activity_labels\.txt, line 2: got '2 RUNNING'"),
    ("activity_labels.txt", 6, "", r"activity_labels\.txt: got 5 lines, expected 6"),
    ("test/subject_test.txt", 1, "1\n", r"got person 1 in train and in test"),
]


@pytest.mark.parametrize(("member", "line", "text", "message"), FAULTS)
def test_refused_with_file_and_line(
    member: str, line: int, text: str, message: str, copy: Path
) -> None:
    edit(copy, member, line, text)
    with pytest.raises(DataError, match=message):
        prepared(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / GYRO).unlink()
    with refused(DataError, "body_gyro_y_train.txt", got="no such file"):
        prepared(copy)


def test_faults_in_archives_and_features_name_the_member(copy: Path, tmp_path: Path) -> None:
    edit(copy, "train/X_train.txt", 3, " 1.0" * 560 + "\n")
    edit(copy, "features.txt", 9, "9\n")
    archive = zipped(copy, tmp_path / "UCI HAR Dataset.zip")
    with refused(DataError, "Dataset.zip/UCI HAR Dataset/features.txt", "line 9"):
        prepared(archive, "561")
    edit(copy, "features.txt", 9, "9 name\n")
    outer = tmp_path / "page.zip"
    with zipfile.ZipFile(outer, "w") as page:
        page.write(zipped(copy, archive), archive.name)
    expected = r"page\.zip/UCI HAR Dataset\.zip/UCI HAR Dataset/train/X_train\.txt, line 3: got 560"
    with pytest.raises(DataError, match=expected):
        prepared(outer, "561")


def test_a_person_without_windows_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "UCI HAR Dataset"
    uci_har_files(folder, {person: recorded(person) for person in range(1, 31) if person != 17})
    with refused(DataError, got="person 17"):
        prepared(folder)


def real_windows(real_data: Path, person: int) -> tuple[list[int], Floats]:
    path = real_data / "uci-har" / "clients" / f"{person:02d}.npz"
    if not path.is_file():
        pytest.skip(f"no real windows at {path}")
    with np.load(path) as file:
        return (file["y"] + 1).tolist(), file["x"].astype(np.float64)


def overlapping(client: ClientData, one: NDArray[np.int64], other: NDArray[np.int64]) -> int:
    """Return how many windows of `one` share half their samples with one of `other`."""
    halves = [{x[:, :64].tobytes() for x in client.x[part]} for part in (one, other)]
    tails = [{x[:, 64:].tobytes() for x in client.x[part]} for part in (one, other)]
    return len(tails[0] & halves[1]) + len(halves[0] & tails[1])


def test_real_windows_come_back_and_a_blocked_split_shares_no_sample(
    real_data: Path, tmp_path: Path
) -> None:
    people = {person: recorded(person) for person in range(1, 31)}
    people |= {person: real_windows(real_data, person) for person in (1, 2)}
    uci_har_files(tmp_path / "UCI HAR Dataset", people)
    federation = prepared(tmp_path).federation
    for person, stretches in ((1, 33), (2, 28)):
        labels, windows = people[person]
        mine = federation.clients[f"{person:02d}"]
        np.testing.assert_array_equal(mine.x.astype(np.float16), windows.astype(np.float16))
        assert mine.y.tolist() == [label - 1 for label in labels]
        assert mine.t is not None
        steps = np.diff(mine.t).round(9)
        assert set(steps.tolist()) == {1.28, 5.12} and (steps == 5.12).sum() + 1 == stretches
        # No stretch holds two activities: the recordings were cut where the label changed.
        assert (np.diff(mine.y)[steps == 1.28] == 0).all()
        train, test = split(mine, federation.card, "blocked", 0.3, 0)
        assert overlapping(mine, train, test) == 0
        train, test = split(mine, federation.card, "stratified", 0.3, 0)
        assert overlapping(mine, train, test) > 50
