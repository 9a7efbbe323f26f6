"""Recordings that are added to a folder: as if imported at once, or nothing is changed."""

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.newcomers.people import read_people
from fedsub_core.data.federation import Federation, read_federation
from fedsub_core.errors import ConfigError, DataError, FedSubError
from fedsub_core.files import lock
from fedsub_data.importing.adding import add_files
from fedsub_data.importing.importing import import_files
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.samples import Imported

from .made_tables import written

HEAD = "user,activity,time,ax,ay"


def rows(person: str, day: int, labels: tuple[str, ...] = ("walk", "sit"), times: float = 1.0,
         rate: int = 10) -> list[str]:  # fmt: skip
    """Twenty seconds of a day, half of them of each label."""
    made, rng = [], np.random.default_rng([day, *person.encode()])
    for i in range(20 * rate):
        at = datetime(2024, 5, 6 + day, 8, tzinfo=UTC) + timedelta(seconds=i / rate)
        label = labels[i * len(labels) // (20 * rate)]
        x, y = times * (1 + rng.normal(size=2) / 5)
        made.append(f"{person},{label},{at:%Y-%m-%dT%H:%M:%S.%f},{x:.4f},{y:.4f}")
    return made


def imported(path: Path, lines: list[str], out: Path, **given: Any) -> Imported:
    options = ImportOptions(**({"window": "2s"} | given))
    return import_files([str(written(path, [HEAD, *lines]))], out, options, lambda done, of: None)


def added(folder: Path, lines: list[str], new_classes: bool = False, **given: Any) -> Imported:
    options, asked = ImportOptions(**given), [key.replace("_", "-") for key in given]
    source = str(written(folder.with_name("b.csv"), [HEAD, *lines]))
    return add_files([source], folder, options, asked, new_classes, lambda done, of: None)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def assert_equal(one: Federation, other: Federation) -> None:
    assert one.clients.keys() == other.clients.keys()
    for name, data in one.clients.items():
        theirs = other.clients[name].arrays()
        assert data.arrays().keys() == theirs.keys()
        for key, array in data.arrays().items():
            np.testing.assert_array_equal(array, theirs[key], err_msg=f"{name} {key}")


FIRST = [*rows("ann", 0), *rows("ben", 0)]
LATER = [*rows("ann", 1), *rows("ben", 2)]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A folder with the first recordings."""
    imported(tmp_path / "a.csv", FIRST, tmp_path / "people")
    return tmp_path / "people"


@pytest.mark.parametrize("by", ["window", "recording", "day", "session"])
@pytest.mark.parametrize("overlap", [0.0, 0.5])
def test_it_is_as_if_both_were_imported_at_once(tmp_path: Path, by: str, overlap: float) -> None:
    """Each table alone is a recording, and the card keeps what the first import was told."""
    given: dict[str, Any] = {"overlap": overlap, "split_by": by, "purity": 1.0}
    imported(tmp_path / "a.csv", FIRST, tmp_path / "people", **given)
    made = added(tmp_path / "people", LATER)
    assert made.people == 2
    both = tmp_path / "both"
    for name in ("a.csv", "b.csv"):
        (both / "in").mkdir(parents=True, exist_ok=True)
        (both / "in" / name).write_text((tmp_path / name).read_text())
    options = ImportOptions(window="2s", subject="user", **given)
    import_files([str(both / "in")], both / "out", options, lambda done, of: None)
    assert_equal(read_federation(tmp_path / "people"), read_federation(both / "out"))
    record = json.loads((tmp_path / "people" / "preparation.json").read_text())
    assert [one["counts"]["people"] for one in record["added"]] == [2]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_new_person_is_added_and_said(people: Path) -> None:
    made = added(people, rows("cleo", 0))
    assert "New people: 'cleo'." in made.notes
    assert set(read_federation(people).clients) == {"ann", "ben", "cleo"}


def test_one_class_alone_is_enough(people: Path) -> None:
    added(people, rows("ann", 1, ("sit",)))
    data = read_federation(people).clients["ann"]
    assert set(data.y[-5:].tolist()) == {0}


def test_new_classes_come_behind_the_others(people: Path) -> None:
    made = added(people, rows("ann", 1, ("climb", "sit")), True)
    assert "New classes: 'climb'." in made.notes
    federation = read_federation(people)
    assert federation.card.classes == ("sit", "walk", "climb")
    assert set(federation.clients["ann"].y[-19:].tolist()) == {0, 2}


def test_a_merged_spelling_is_the_folders(people: Path) -> None:
    added(people, rows("ann", 1, ("Walk", "sit")), spelling="merge")
    assert read_federation(people).card.classes == ("sit", "walk")


def test_times_from_0_are_put_behind(tmp_path: Path) -> None:
    def from_0(person: str, seed: int) -> list[str]:
        rng = np.random.default_rng(seed)
        return [f"{person},{'walk' if i < 100 else 'sit'},{i / 10},{x:.4f},{y:.4f}"
                for i, (x, y) in enumerate(1 + rng.normal(size=(200, 2)) / 5)]  # fmt: skip

    imported(tmp_path / "a.csv", [*from_0("ann", 0), *from_0("ben", 1)], tmp_path / "people")
    added(tmp_path / "people", from_0("ann", 2))
    t = read_federation(tmp_path / "people").clients["ann"].t
    assert t is not None
    assert (np.diff(t) > 0).all()
    assert np.diff(t).max() >= 2 * 2.0  # no window beside the seam shares a moment with another
    with pytest.raises(DataError, match="there already"):
        added(tmp_path / "people", from_0("ann", 2))


def test_a_sensor_at_rest_may_repeat_itself(tmp_path: Path) -> None:
    def still(day: int) -> list[str]:
        return [",".join([*line.split(",")[:3], "0", "1"]) for line in rows("ann", day)]

    imported(tmp_path / "a.csv", [*still(0), *rows("ben", 0)], tmp_path / "people",
             features="ax,ay", mixed_units="keep")  # fmt: skip
    added(tmp_path / "people", still(1))
    assert len(read_federation(tmp_path / "people").clients["ann"].y) == 38


def test_samples_without_a_label_are_added_to_theirs(tmp_path: Path) -> None:
    first = [*rows("ann", 0, ("walk", "")), *rows("ben", 0)]
    imported(tmp_path / "a.csv", first, tmp_path / "people", unlabelled="keep", overlap=0.0)
    added(tmp_path / "people", rows("ann", 1, ("", "sit")))
    apart = read_people(str(tmp_path / "people" / "unlabelled")).clients["ann"]
    assert apart.t is not None
    assert len(apart.t) == 10
    assert len(read_federation(tmp_path / "people").clients["ann"].y) == 10


Change = Callable[[Path], object]
REFUSED: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "again": (FIRST, {}, "newer ones than it has"),
    "partly there": ([*rows("ann", 0), *rows("ann", 1)], {}, "newer ones than it has"),
    "one person too old": ([*rows("ann", 1), *rows("ben", 0)], {}, "person 'ben'"),
    "another class": (rows("ann", 1, ("climb", "sit")), {}, "new.classes"),
    "another spelling": (rows("ann", 1, ("Walk", "sit")), {}, "spelling"),
    "another case": (rows("Ann", 1), {}, "'Ann'.*'ann'"),
    "another rate": (rows("ann", 1, rate=25), {}, "25 samples a second"),
    "another unit": ([*rows("ann", 1, times=1000.0), *rows("cy", 1)], {}, "thousandth"),
    "another window": (LATER, {"window": "1s"}, "window: got '1s'"),
    "another overlap": (LATER, {"overlap": 0.25}, "overlap: got 0.25"),
    "other features": (LATER, {"features": "ax"}, "features: got 'ax'"),
    "other units": (LATER, {"units": "g"}, "units: got 'g'"),
    "other groups": (LATER, {"split_by": "day"}, "split-by: got 'day'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_changes_nothing(case: str, tmp_path: Path) -> None:
    lines, given, words = REFUSED[case]
    imported(tmp_path / "a.csv", FIRST, tmp_path / "people", overlap=0.5)
    before = content(tmp_path / "people")
    with pytest.raises(FedSubError, match=words):
        added(tmp_path / "people", lines, **given)
    assert content(tmp_path / "people") == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_channel_that_is_missing_is_refused(people: Path, tmp_path: Path) -> None:
    path = written(tmp_path / "b.csv", [",".join(line.split(",")[:4]) for line in [HEAD, *LATER]])
    with pytest.raises(DataError, match="'ay'"):
        add_files([str(path)], people, ImportOptions(), (), False, lambda done, of: None)


def test_the_folders_rate_resamples_if_it_is_said(tmp_path: Path) -> None:
    imported(tmp_path / "a.csv", FIRST, tmp_path / "people", overlap=0.5)
    made = added(tmp_path / "people", rows("ann", 1, rate=25), rate=10.0)
    assert made.dropped.resampled.by_person()


def change_card(folder: Path, old: str, new: str) -> None:
    card = folder / "federation.toml"
    text = card.read_text()
    assert old in text
    card.write_text(text.replace(old, new))


DAMAGED: dict[str, tuple[Change, str]] = {
    "no card": (lambda folder: (folder / "federation.toml").unlink(), "federation.toml"),
    "half a card": (lambda folder: os.truncate(folder / "federation.toml", 40), "TOML|missing"),
    "a later release's card": (
        lambda folder: change_card(folder, "overlap", "places = 3\noverlap"), "unknown key 'places'"
    ),
    "another card": (lambda folder: change_card(folder, '"ax"', '"az"'), "'az'"),
    "half a file": (lambda folder: os.truncate(folder / "clients" / "ben.npz", 900), "ben.npz"),
    "nobody": (lambda folder: shutil.rmtree(folder / "clients"), "nobody"),
    "half a record": (lambda folder: os.truncate(folder / "preparation.json", 99), "record"),
    "another record": (
        lambda folder: (folder / "preparation.json").write_text(
            '{"made by": "import", "options": {"window": 3}}'
        ),
        "options",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_folder_is_refused_and_stays(case: str, people: Path) -> None:
    change, words = DAMAGED[case]
    change(people)
    before = content(people)
    with pytest.raises(FedSubError, match=words):
        added(people, rows("ann", 1))
    assert content(people) == before


def test_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        added(tmp_path / "people", LATER)


def test_another_import_at_once_is_refused(people: Path) -> None:
    with open(people / "federation.toml", "rb") as file:
        lock(file)
        with pytest.raises(DataError, match="another import"):
            added(people, LATER)


def test_what_a_killed_import_put_aside_comes_back(people: Path, tmp_path: Path) -> None:
    os.replace(people, tmp_path / ".people.before")
    added(people, LATER)
    assert len(read_federation(people).clients["ann"].y) == 38
    assert not (tmp_path / ".people.before").exists()


def test_what_else_lies_there_stays(tmp_path: Path) -> None:
    imported(tmp_path / "a.csv", [*FIRST, *rows("cy", 0)], tmp_path / "people")
    (tmp_path / "people" / "notes.txt").write_text("mine")
    (tmp_path / "people" / "clients" / "cy.npz").chmod(0o644)
    added(tmp_path / "people", LATER)
    assert (tmp_path / "people" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "people" / "clients" / "cy.npz").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "people" / "clients" / "ann.npz").stat().st_mode & 0o777 == 0o600


def test_conversion_is_to_the_folders_unit(tmp_path: Path) -> None:
    def three(person: str, day: int, g: float = 1.0) -> list[str]:
        rng = np.random.default_rng(day)
        made = []
        for line in rows(person, day):
            own = rng.normal(size=3) / 50 + [0, 0, 1]
            made.append(",".join([*line.split(",")[:3], *(f"{v * g:.4f}" for v in own)]))
        return made

    def with_head(lines: list[str], path: Path) -> str:
        return str(written(path, ["user,activity,time,acc_x,acc_y,acc_z", *lines]))

    people = tmp_path / "people"
    first = with_head([*three("ann", 0), *three("ben", 0)], tmp_path / "a.csv")
    import_files([first], people, ImportOptions(window="2s"), lambda done, of: None)
    later = with_head(three("ann", 1, 9.81), tmp_path / "b.csv")

    def add(**given: Any) -> Imported:
        return add_files(
            [later], people, ImportOptions(**given), [*given], False, lambda d, of: None
        )

    with pytest.raises(DataError, match=r"g and m/s\^2"):
        add()
    with pytest.raises(ConfigError, match="convert: got a unit"):
        add(convert="m/s^2")
    add(convert="g")
    assert abs(read_federation(people).clients["ann"].x[:, 2].mean() - 1) < 0.01
