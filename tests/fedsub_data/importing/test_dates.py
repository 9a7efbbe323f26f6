"""Dates as text: which are read, which order is said, and what is said of others."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest

import fedsub
from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Federation, read_federation
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.importing.dates import ORDERS, date, date_in_sql

from .made_tables import as_parquet, imported, lines, written

START = datetime(2025, 5, 9, 8, tzinfo=UTC).timestamp()


def dated(path: Path, form: str) -> Path:
    """The table with dates of one form, with semicolons between columns."""
    head, *rest = lines()
    made = [head.replace(",", ";")]
    for line in rest:
        user, state, t, *axes = line.split(",")
        when = datetime.fromtimestamp(START + float(t), UTC).strftime(form)
        made.append(";".join([user, state, when, *axes]))
    return written(path, made)


def ways_in(path: Path) -> list[Callable[..., Federation]]:
    """The table as text, Parquet, a DataFrame and an array of NumPy."""
    frame = pd.read_csv(path, sep=";", dtype=str).assign(
        ax=lambda table: table.ax.astype(float), ay=lambda table: table.ay.astype(float)
    )
    array = frame.astype({c: "U40" for c in ("user", "activity", "time")}).to_records(index=False)
    np.save(
        path.with_suffix(".npy"),
        array.astype(
            [(n, "U40" if n in ("user", "activity", "time") else "f8") for n in array.dtype.names]
        ),
    )
    given = {"window": "2s", "overlap": 0}
    texts = path.parent / "texts"
    texts.mkdir()
    duckdb.sql(
        f"COPY (SELECT * REPLACE (ax::FLOAT AS ax, ay::FLOAT AS ay) FROM read_csv('{path}', "
        f"all_varchar = true)) TO '{texts}/a.parquet'"
    )
    data = (str(path), str(texts), frame, str(path.with_suffix(".npy")))
    return [lambda one=one, **more: fedsub.federation(one, **given, **more) for one in data]


@pytest.mark.parametrize(
    ("form", "dates"),
    [
        ("%Y-%m-%d %H:%M:%S.%f", "year-first"),
        ("%Y-%m-%d %H:%M:%S,%f", "year-first"),
        ("%Y-%m-%dT%H:%M:%S.%f +0000", "year-first"),
        ("%Y-%m-%d %H:%M:%S.%f +00:00", "year-first"),
        ("%d.%m.%Y %H:%M:%S.%f", "day-first"),
        ("%d/%m/%Y %H:%M:%S,%f", "day-first"),
        ("%m/%d/%Y %H:%M:%S.%f", "month-first"),
        ("%d.%m.%Y %H:%M:%S.%f", "auto"),
        ("%Y-%m-%d %H:%M:%S.%f +0000", "auto"),
        ("%m/%d/%Y %I:%M:%S.%f %p", "month-first"),
        ("%Y-%m-%d %I:%M:%S,%f a.m.", "auto"),
    ],
)
def test_dates_are_read_in_every_way_in(tmp_path: Path, form: str, dates: str) -> None:
    for way in ways_in(dated(tmp_path / "a.csv", form)):
        data = way(dates=dates).clients["02"]
        assert data.t is not None and data.t[:2].tolist() == [START, START + 2]
        assert data.x.shape == (6, 2, 20)


@pytest.mark.parametrize(
    ("form", "first"),
    [("%d %b %Y %H:%M:%S.%f", "09 May 2025"), ("%m/%d/%y %H:%M:%S.%f", "05/09/25")],
)
def test_a_form_that_is_not_read_is_shown_with_what_is(
    tmp_path: Path, form: str, first: str
) -> None:
    for way in ways_in(dated(tmp_path / "a.csv", form)):
        said = rf"column 'time': got '{re.escape(first)} 08:00:00.000000': 360 of 360 times .*"
        with pytest.raises(DataError, match=said + "such as 2025-05-09 .*dates='?day-first"):
            way()
        with pytest.raises(DataError, match="360 of 360 times cannot be read"):
            way(rate=10)


@pytest.mark.parametrize("form", ["%d/%m/%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M:%S.%f"])
def test_a_day_above_12_decides_and_else_somebody_must(tmp_path: Path, form: str) -> None:
    path = dated(tmp_path / "a.csv", form)
    ways = ways_in(path)
    for way in ways:
        with refused(DataError, "dates", "day-first", "month-first", got="05"):
            way()
    later = path.read_text().replace("09/05", "19/05").replace("05/09", "05/19")
    order = "day-first" if form.startswith("%d") else "month-first"
    # The last person's day alone decides, far behind the first rows.
    head, *rest = path.read_text().splitlines()
    text = [head, *rest[:240], *later.splitlines()[241:]]
    made = imported(written(tmp_path / "b.csv", text), tmp_path / "out")
    assert f"Guessed: --dates {order}, as one number of dates is above 12." in made.notes
    t = read_federation(tmp_path / "out").clients["03"].t
    assert t is not None and t[0] == START + 10 * 86400


def test_a_form_of_ones_own_is_read_in_every_way_in(tmp_path: Path) -> None:
    form = "%d %b %Y, %H:%M:%S.%f"
    for way in ways_in(dated(tmp_path / "a.csv", form)):
        data = way(time_format=form).clients["02"]
        assert data.t is not None and data.t[:2].tolist() == [START, START + 2]
    with refused(ConfigError, "time-format", got="'day'", expected="%"):
        fedsub.federation(str(tmp_path / "a.csv"), time_format="day")


def test_half_of_the_times_may_lack(tmp_path: Path) -> None:
    text = [line.replace("01,walk,", "01,walk,x") for line in lines()]
    made = imported(written(tmp_path / "a.csv", text), tmp_path / "out", time="time")
    (said,) = [one for one in made.dropped.sentences() if "without a time" in one]
    assert "--time" not in said  # it was given


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("2025-05-09", "year-first"),
        ("2025-05-09T08:00:00.25", "year-first"),
        ("2025-05-09 08:00:00,25", "year-first"),
        ("2025-05-09 08:00:00.25 -05:30", "year-first"),
        ("2025-05-09 08:00:00.25 +0200", "year-first"),
        ("9.5.2025 08:00:00", "day-first"),
        ("2025-05-09 08:00:00", "day-first"),
        ("5/9/2025", "month-first"),
        ("09.05.2025", "year-first"),
        ("13/13/2025", "day-first"),
        ("25-05-09 08:00:00", "year-first"),
        ("08:00:00", "year-first"),
        ("none", "month-first"),
        ("5/9/2025 12:30:00 AM", "month-first"),
        ("5/9/2025 12:30:00.5 PM", "month-first"),
        ("5/9/2025 8:30:00 pm", "month-first"),
        ("09.05.2025 08:00", "%d.%m.%Y %H:%M"),
        ("09.05.2025 08:00 +0200", "%d.%m.%Y %H:%M %z"),
        ("x", "%d.%m.%Y %H:%M"),
    ],
)
def test_text_is_read_alike_in_sql_and_in_python(text: str, order: str) -> None:
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        found = db.execute(f"SELECT {date_in_sql('v', order)} FROM (SELECT ? AS v)", [text])
        assert found.fetchall() == [(date(text, order),)]
    assert order in ORDERS or "%" in order


def test_dates_of_parquet_stay_dates(tmp_path: Path) -> None:
    path = dated(tmp_path / "a.csv", "%Y-%m-%d %H:%M:%S.%f")
    imported(as_parquet(path), tmp_path / "out")
    t = read_federation(tmp_path / "out").clients["02"].t
    assert t is not None and t[0] == START
