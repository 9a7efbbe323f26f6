"""Schedules: their grammar, what is refused, days on which the clock has no such time, or two."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.service.schedule import Schedule
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("always", {"kind": "always"}),
        ("Every 6  hours", {"kind": "every", "seconds": 21_600}),
        ("every minute", {"kind": "every", "seconds": 60}),
        ("every night at 2 Europe/Berlin", {"kind": "clock", "minute": 120, "weekday": None}),
        ("every sunday at 23:59 in UTC", {"kind": "clock", "minute": 1439, "weekday": 6}),
        ("when 20 people have new samples", {"kind": "people", "people": 20, "seconds": 3600}),
        (
            "when 1 person has new samples checked every 2 minutes between 22 and 6:30 utc",
            {"kind": "people", "seconds": 120, "window": (1320, 390), "zone": "UTC"},
        ),
    ],
)
def test_texts_are_read(text: str, fields: dict[str, object]) -> None:
    schedule = Schedule.parse(text)
    assert {name: getattr(schedule, name) for name in fields} == fields
    assert Schedule.parse(schedule.text) == schedule


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "always"),
        ("now and then", "now and then"),
        ("every night at 2", "Europe/Berlin"),
        ("every night at 24 UTC", "24"),
        ("every night at 2:60 UTC", "2:60"),
        ("every night at 2 Europe/Atlantis", "Europe/Atlantis"),
        ("every night at 2 ../UTC", "../UTC"),
        ("every 6 hours UTC", "UTC"),
        ("every 0 hours", "0 hours"),
        ("every 367 days", "367 days"),
        ("every ٣ hours", "always"),
        ("when 0 people have new samples", "0 people"),
        ("always between 2 and 2 UTC", "never come"),
        ("always between 2 and 3", "Europe/Berlin"),
        ("every night at 2 between 1 and 3 UTC", "one of them"),
    ],
)
def test_what_never_comes_or_is_none_is_refused(text: str, named: str) -> None:
    with refused(ConfigError, "schedule", named):
        Schedule.parse(text)


def test_the_dropped_and_the_doubled_hour_come_once() -> None:
    schedule = Schedule.parse("every night at 2:30 Europe/Berlin")
    for day, local in (
        ("2027-03-27", "02:30"),
        ("2027-03-28", "03:30"),
        ("2027-10-31", "02:30"),
        ("2027-11-01", "02:30"),
    ):
        moment = schedule.begins_on(datetime.fromisoformat(day).date()).astimezone(BERLIN)
        assert f"{moment:%Y-%m-%d %H:%M}" == f"{day} {local}" and moment.fold == 0
    odd = schedule.odd_days(datetime(2027, 1, 1, tzinfo=UTC))
    assert [line.split()[0] for line in odd] == ["2027-03-28", "2027-10-31"]
    assert not Schedule.parse("every night at 4 Europe/Berlin").odd_days(datetime.now(UTC))


@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"]),
    st.integers(0, 1439),
    st.datetimes(datetime(2011, 12, 1), datetime(2031, 1, 1), timezones=st.just(UTC)),
)
def test_the_last_and_the_next_moment_stand_around_now(
    zone: str, minute: int, now: datetime
) -> None:
    schedule = Schedule.parse(f"every day at {minute // 60}:{minute % 60:02} {zone}")
    last, following = schedule.last_and_next(now)
    assert last <= now < following
    # Apia left out a day in 2011.
    assert timedelta(hours=22) <= following - last <= timedelta(hours=49)
    assert schedule.last_and_next(following)[0] == following


@given(
    st.integers(0, 23),
    st.integers(0, 23),
    st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)),
)
def test_hours_open_when_they_say(start: int, end: int, now: datetime) -> None:
    if start == end:
        return
    schedule = Schedule.parse(f"always between {start} and {end} Europe/Berlin")
    hours = {(start + n) % 24 for n in range((end - start) % 24)}
    opens = schedule.opens(now)
    assert (opens is None) == (now.astimezone(BERLIN).hour in hours)
    if opens is not None:
        assert opens > now and schedule.opens(opens) is None
