"""Local times: zones, hours that come twice or not at all, offsets, and midnight."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.options import ImportOptions

from .made_tables import written

BERLIN = "Europe/Berlin"
ROWS, RATE = 200, 1.0
FORM = "%Y-%m-%d %H:%M:%S"


def moments(start: datetime, rows: int = ROWS, step: float = 1 / RATE) -> list[datetime]:
    """Moments in UTC."""
    return [start + timedelta(seconds=i * step) for i in range(rows)]


def shown(when: Sequence[datetime], zone: str = BERLIN, form: str = FORM) -> list[str]:
    """What a clock on a wall shows."""
    return [one.astimezone(ZoneInfo(zone)).strftime(form) for one in when]


def table(path: Path, times: Sequence[str], person: str = "01") -> Path:
    """A person walks in every other run of 20 rows."""
    made = ["user,activity,time,ax,ay"]
    for i, time in enumerate(times):
        state = "walk" if i // 20 % 2 else "sit"
        made.append(f"{person},{state},{time},{np.sin(i):.4f},{np.cos(i):.4f}")
    return written(path, made)


def as_file(path: Path) -> object:
    return str(path)


def as_frame(path: Path) -> object:
    return pd.read_csv(path, dtype={"user": str})


def as_dates(path: Path) -> object:
    return pd.read_csv(path, dtype={"user": str}, parse_dates=["time"])


def as_parquet(path: Path) -> object:
    target = path.with_suffix(".parquet")
    duckdb.sql(f"COPY (SELECT * FROM '{path}') TO '{target}'")
    return str(target)


def starts(data: object, **given: object) -> np.ndarray:
    """When windows of 10 s begin, seconds since 1970."""
    made = fedsub.federation(
        data, **({"window": "10s", "overlap": 0.0, "purity": 0.01, "time": "time"} | given)
    )
    (client,) = made.clients.values()
    assert client.t is not None
    return client.t


WAYS = [as_file, as_frame, as_dates, as_parquet]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("month", [1, 7])
def test_local_times_are_read_in_the_zone(
    way: Callable[[Path], object], month: int, tmp_path: Path
) -> None:
    start = datetime(2024, month, 5, 8, tzinfo=UTC)
    path = table(tmp_path / "a.csv", shown(moments(start)))
    t = starts(way(path), timezone=BERLIN)
    assert t.tolist() == [start.timestamp() + 10 * i for i in range(20)]


@pytest.mark.parametrize("way", WAYS)
def test_the_hour_that_comes_twice_is_told_by_the_order(
    way: Callable[[Path], object], tmp_path: Path
) -> None:
    """A clock that shows 02:59:50, then 02:00:00: windows go on as if nothing were."""
    start = datetime(2024, 10, 27, 0, 58, 20, tzinfo=UTC)  # 02:58:20 summer time
    path = table(tmp_path / "a.csv", shown(moments(start)))
    t = starts(way(path), timezone=BERLIN)
    assert t.tolist() == [start.timestamp() + 10 * i for i in range(20)]


@pytest.mark.parametrize(
    ("start", "rows"),
    [
        (datetime(2024, 10, 26, 23, 58, 20, tzinfo=UTC), 200),  # from before the hour into it
        (datetime(2024, 10, 27, 1, 57, 40, tzinfo=UTC), 200),  # out of its second time
    ],
)
def test_rows_before_or_behind_tell_which_hour_it_is(
    start: datetime, rows: int, tmp_path: Path
) -> None:
    path = table(tmp_path / "a.csv", shown(moments(start, rows)))
    assert starts(str(path), timezone=BERLIN)[[0, -1]].tolist() == [
        start.timestamp(),
        start.timestamp() + 190,
    ]


def test_an_hour_that_nothing_tells_is_asked_for(tmp_path: Path) -> None:
    start = datetime(2024, 10, 27, 0, 20, tzinfo=UTC)
    path = table(tmp_path / "a.csv", shown(moments(start)))
    with pytest.raises(DataError, match=r"a\.csv, line 2.*02:20:00.*doubled-hour|doubled_hour"):
        starts(str(path), timezone=BERLIN)
    first, second = (
        starts(str(path), timezone=BERLIN, doubled_hour=h) for h in ("first", "second")
    )
    assert first[0] == start.timestamp()
    assert second[0] == start.timestamp() + 3600


def test_a_clock_that_was_not_put_back_is_asked_for(tmp_path: Path) -> None:
    """02:00 to 03:10 without a fall: an hour is missing somewhere, and nobody knows where."""
    times = [(datetime(2024, 10, 27, 1, 50) + timedelta(seconds=30 * i)).strftime(FORM)
             for i in range(200)]  # fmt: skip
    with pytest.raises(DataError, match="had this time twice"):
        starts(str(table(tmp_path / "a.csv", times)), timezone=BERLIN, window="300s")


@pytest.mark.parametrize("way", WAYS)
def test_the_hour_that_does_not_exist_is_refused_with_its_line(
    way: Callable[[Path], object], tmp_path: Path
) -> None:
    times = [(datetime(2024, 3, 31, 1, 59) + timedelta(seconds=i)).strftime(FORM)
             for i in range(ROWS)]  # fmt: skip
    path = table(tmp_path / "a.csv", times)
    with pytest.raises(DataError, match=r"(line 62|row 61).*does not have this time"):
        starts(way(path), timezone=BERLIN)
    assert starts(way(path))[0] == datetime(2024, 3, 31, 1, 59, tzinfo=UTC).timestamp()


def test_offsets_are_obeyed_beside_times_without(tmp_path: Path) -> None:
    start = datetime(2024, 7, 1, 8, tzinfo=UTC)
    when = moments(start)
    zones = ["", "+05:30", "Z", "-0400"]
    texts = []
    for i, one in enumerate(when):
        hours = {"": 2, "+05:30": 5.5, "Z": 0, "-0400": -4}[zones[i % 4]]
        texts.append((one + timedelta(hours=hours)).strftime(FORM) + zones[i % 4])
    path = table(tmp_path / "a.csv", texts)
    for data in (str(path), as_frame(path)):
        t = starts(data, timezone=BERLIN)
        assert t.tolist() == [start.timestamp() + 10 * i for i in range(20)]
        with pytest.raises(DataError, match=r"name no zone, 150 do.*timezone"):
            starts(data)


def test_a_frames_own_zone_stays_beside_the_option() -> None:
    start = datetime(2024, 10, 27, 0, 20, tzinfo=UTC)
    when = pd.to_datetime(moments(start)).tz_convert("America/New_York")
    frame = pd.DataFrame({"user": "a", "time": when, "ax": np.sin(range(ROWS)),
                          "activity": ["walk", "sit"] * (ROWS // 2)})  # fmt: skip
    assert starts(frame, timezone=BERLIN)[0] == start.timestamp()


def test_midnight_goes_on_to_the_next_day(tmp_path: Path) -> None:
    when = moments(datetime(2024, 1, 1, 23, 58, 20, tzinfo=UTC))
    for form, options in (
        ("%H:%M:%S", {}),
        ("%I:%M:%S %p", {}),
        ("%Hh%Mm%S", {"time_format": "%Hh%Mm%S"}),
    ):
        path = table(tmp_path / "a.csv", shown(when, "UTC", form))
        for data in (str(path), as_frame(path)):
            t = starts(data, **options)
            assert t.tolist() == [86300 + 10.0 * i for i in range(20)]


def test_times_of_day_as_parquet_has_them(tmp_path: Path) -> None:
    when = moments(datetime(2024, 1, 1, 23, 58, 20, tzinfo=UTC))
    path = table(tmp_path / "a.csv", shown(when, "UTC", "%H:%M:%S"))
    assert "TIME" in str(duckdb.sql(f"DESCRIBE SELECT * FROM '{path}'"))
    assert starts(as_parquet(path)).tolist() == [86300 + 10.0 * i for i in range(20)]


def test_a_time_of_day_that_falls_back_a_little_runs_backwards(tmp_path: Path) -> None:
    times = [*shown(moments(datetime(2024, 1, 1, 8, tzinfo=UTC)), "UTC", "%H:%M:%S"), "07:00:00"]
    with pytest.raises(DataError, match="backwards"):
        starts(str(table(tmp_path / "a.csv", times)))


@pytest.mark.parametrize("zone", ["Europe/Berln", "europe/berlin", "CEST?", "+02:00", "../etc"])
def test_unknown_zones_are_refused(zone: str) -> None:
    with pytest.raises(ConfigError, match="timezone: got"):
        ImportOptions(timezone=zone)


def test_a_zone_that_reads_nothing_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = table(tmp_path / "a.csv", [f"{i:.1f}" for i in range(ROWS)])
    with caplog.at_level("INFO", "fedsub"):
        starts(str(path), timezone=BERLIN)
    assert "No time is read by" in caplog.text


def test_days_are_those_of_the_zone(tmp_path: Path) -> None:
    """From 23:50 to 00:10 in Berlin there are two days, in UTC one."""
    when = moments(datetime(2024, 7, 1, 21, 50, tzinfo=UTC), 1200)
    path = table(tmp_path / "a.csv", shown(when, form=f"{FORM}+02:00"))
    for zone, days in ((BERLIN, 2), ("UTC", 1)):
        given = {"timezone": zone, "split_by": "day", "window": "10s", "purity": 0.01}
        (client,) = fedsub.federation(str(path), **given).clients.values()
        assert client.group is not None
        assert len(set(client.group)) == days
