"""What is resampled: rows that are taken as they are, what is said, what is refused."""

import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.errors import DataError
from fedsub_data.importing.dropped import Dropped
from fedsub_data.importing.resampled import resampled_sentences
from fedsub_data.importing.windowing import Cut, Kept, windows

from .made_tables import imported, lines, written
from .test_windowing import recording

CUT = Cut(rate=20.0, length=32, step=32, purity=0.5, gap_s=None)


def slow(path: Path, rate: float) -> Path:
    """The table with one more person, whose watch has another rate."""
    return written(path, [*lines(), *lines(("slow",), round(12 * rate), rate)[1:]])


@pytest.mark.parametrize("kind", ["even", "normal"])
def test_three_ms_of_jitter_on_fifty_move_no_value_and_lose_no_row(kind: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        late = rng.uniform(-3, 3, 320) if kind == "even" else rng.normal(0, 3, 320)
        one = recording(np.arange(320) / 20)
        assert one.t is not None
        one = one.at(one.t + late / 1000)
        dropped = Dropped()
        found = windows([one], CUT, Kept(), "p", dropped)
        assert np.array_equal(found.x[:, 0].ravel(), one.x[:, 0])
        assert not dropped.counts and not dropped.resampled.by_person()


def test_a_clock_that_drifts_and_trembles_moves_no_value() -> None:
    t = np.arange(3200) / 20 * (1 + 0.015 * np.sin(np.arange(3200) / 900))
    one = recording(t + np.random.default_rng(1).uniform(-0.003, 0.003, 3200))
    found = windows([one], CUT, Kept(), "p", Dropped())
    assert np.array_equal(found.x[:, 0].ravel(), one.x[:, 0])


@pytest.mark.parametrize("lost", [1, 2, 100, 318])
def test_a_row_that_is_lost_is_seen(lost: int) -> None:
    one = recording(np.delete(np.arange(321) / 20, lost))
    dropped = Dropped()
    found = windows([one], CUT, Kept(), "p", dropped)
    assert len(found.y) == 10
    assert dropped.resampled.by_person() == {
        "p": ["uneven steps, interpolated to 20 Hz without a filter"]
    }


def test_steps_that_wander_are_resampled() -> None:
    """Each step is between 0.6 and 1.4 samples: the rows are no samples of the rate."""
    steps = np.random.default_rng(2).uniform(0.6, 1.4, 319) / 20
    one = recording(np.concatenate(([0.0], np.cumsum(steps))))
    dropped = Dropped()
    found = windows([one], CUT, Kept(), "p", dropped)
    expected = np.sin(np.pi * (found.t[:, None] + np.arange(32) / 20))
    np.testing.assert_allclose(found.x[:, 0], expected, atol=0.02)
    assert dropped.resampled.by_person()


def test_a_resampled_stretch_does_not_lose_its_last_row() -> None:
    late = np.random.default_rng(4).uniform(-0.2, 0.2, 320)
    late[100] = 0.4
    one = recording((np.arange(320) + late) / 20)
    dropped = Dropped()
    assert len(windows([one], CUT, Kept(), "p", dropped).y) == 10 and not dropped.counts


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (6.0, "6 Hz, resampled to 10 Hz: 40 % of points are interpolated"),
        (9.0, "9 Hz, resampled to 10 Hz: 10 % of points are interpolated"),
        (
            12.0,
            "12 Hz, resampled to 10 Hz: interpolated without a filter, waves above 5 Hz fold over",
        ),
        (20.0, "20 Hz, resampled to 10 Hz: each point is of the mean of 3 rows"),
        (50.0, "50 Hz, resampled to 10 Hz: each point is of the mean of 5 rows"),
    ],
)
def test_it_is_said_of_each_person_in_notes_and_in_the_record(
    tmp_path: Path, rate: float, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = slow(tmp_path / "a.csv", rate)
    made = imported(path, tmp_path / "out")
    found = made.dropped.resampled.by_person()
    assert found == {"slow": [words]} and resampled_sentences(found) == [f"slow: {words}."]
    kept = json.loads((tmp_path / "out" / "preparation.json").read_text("utf-8"))
    assert kept["resampled"] == {"slow": [words]}
    with caplog.at_level(logging.WARNING, "fedsub"):
        fedsub.federation(str(path), window="2s")
    assert f"slow: {words}." in caplog.messages


def test_more_than_twofold_is_refused_unless_the_rate_is_given(tmp_path: Path) -> None:
    path = slow(tmp_path / "a.csv", 2.0)
    said = (
        "person 'slow': got 2 samples a second, the median over people is 10: 80 % of points would "
        "be interpolated, expected half of them at most. --rate 2 averages the others, --rate 10 "
        "interpolates; or import the others alone"
    )
    with pytest.raises(DataError, match=re.escape(said)):
        imported(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    made = imported(path, tmp_path / "up", rate=10.0)
    assert made.dropped.resampled.by_person() == {
        "slow": ["2 Hz, resampled to 10 Hz: 80 % of points are interpolated"]
    }
    made = imported(path, tmp_path / "down", rate=2.0)
    assert resampled_sentences(made.dropped.resampled.by_person()) == [
        "01, 02, 03: 10 Hz, resampled to 2 Hz: each point is of the mean of 5 rows."
    ]
    assert imported(slow(path, 5.0), tmp_path / "twofold").people == 4


def test_no_rate_makes_hundreds_of_samples_of_a_row(tmp_path: Path) -> None:
    """Of nanoseconds that are taken for seconds, no memory holds them."""
    path = scaled(written(tmp_path / "a.csv", lines()), 1000)
    with refused(DataError, "person '01'", "--time-unit", got="0.01 samples"):
        imported(path, tmp_path / "out", rate=10.0, time_unit="s")


def scaled(path: Path, factor: float) -> Path:
    """The table whose times are so many times as large."""
    head, *rest = path.read_text("utf-8").splitlines()
    made = [head]
    for line in rest:
        user, state, t, *axes = line.split(",")
        made.append(",".join([user, state, f"{float(t) * factor:.0f}", *axes]))
    return written(path, made)


def test_of_part_of_the_points_it_is_said_of_how_many() -> None:
    dropped = Dropped()
    parts = [recording(np.arange(640) / 20), recording(100 + np.arange(321) / 10)]
    windows(parts, CUT, Kept(), "p", dropped)
    assert dropped.resampled.by_person() == {
        "p": ["50 % of points: 10 Hz, resampled to 20 Hz: 50 % of points are interpolated"]
    }


def test_of_many_people_some_are_shown() -> None:
    alike = {f"p{i}": ["5 Hz, resampled to 10 Hz"] for i in range(30)}
    (said,) = resampled_sentences(alike)
    assert said.startswith("p0, p1, ") and "p19 and 10 more: 5 Hz, resampled" in said
    different = {f"p{i}": [f"{i} Hz, resampled to 99 Hz"] for i in range(30)}
    lines_ = resampled_sentences(different)
    assert len(lines_) == 21 and lines_[-1] == "More people's rows are resampled: preparation.json."
