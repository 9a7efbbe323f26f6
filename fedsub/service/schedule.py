"""Schedules of rounds, as people write them: their grammar, and errors that name what is wrong.

========================================== ====================================================
``always``                                 the next round begins when the last one has ended
``every 6 hours``                          six hours after the last one began
``every night at 2 Europe/Berlin``         once a day at this clock time; also ``every monday at``
``when 20 people have new samples``        once so many people have samples since their last round
``... between 22 and 6 Europe/Berlin``     only in these hours; after any of them but the clock's
``... checked every 30 minutes``           how often ``when`` asks devices; 1 hour without it
========================================== ====================================================

A clock time has a time zone always: a server's own may be anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fedsub_core.errors import ConfigError, cut

ALWAYS, EVERY, CLOCK, PEOPLE = "always", "every", "clock", "people"
UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: Seconds between two questions to devices whether they have new samples.
CHECK_SECONDS = 3600
#: Longest pause between two rounds: a longer one is a mistake.
MOST_DAYS = 366
EXAMPLES = (
    "'always', 'every 6 hours', 'every night at 2 Europe/Berlin' or 'when 20 people have new "
    "samples'"
)
_INTERVAL = rf"(?:(\d+) )?({'|'.join(UNITS)})s?"
_TIME = r"(\d+(?::\d+)?)"
_FORMS = {
    ALWAYS: re.compile("always"),
    CLOCK: re.compile(rf"every (night|day|{'|'.join(DAYS)}) at {_TIME}", re.ASCII),
    EVERY: re.compile(f"every {_INTERVAL}", re.ASCII),
    PEOPLE: re.compile(
        r"when (\d+) (?:people have|person has) new samples"
        f"(?: checked every {_INTERVAL})?",
        re.ASCII,
    ),
}
_WINDOW = re.compile(rf"(.+?) between {_TIME} and {_TIME}", re.ASCII)


@dataclass(frozen=True)
class Schedule:
    """The times at which rounds may begin.

    Parameters
    ----------
    text : as it was written, in single spaces.
    kind : one of ALWAYS, EVERY, CLOCK, PEOPLE.
    seconds : from the begin of a round to the next, or between two questions to devices.
    minute : of the day, by the clock; weekday : 0 is Monday, None is each day.
    people : how many must have new samples.
    window : minutes of the day from which and before which rounds may begin; None: at any.
    zone : of the clock; "" where there is none.
    """

    text: str
    kind: str
    seconds: int = 0
    minute: int = 0
    weekday: int | None = None
    people: int = 0
    window: tuple[int, int] | None = None
    zone: str = ""

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return the schedule that a text describes.

        Raises ConfigError if it is none, never comes, or lacks its time zone.
        """
        words = " ".join(text.split())
        rest, zone = _without_zone(words)
        rest, window = _without_window(words, rest)
        matches = ((kind, form.fullmatch(rest)) for kind, form in _FORMS.items())
        kind, match = next((pair for pair in matches if pair[1] is not None), ("", None))
        if match is None:
            raise _wrong(words, f"{cut(rest)!r}", EXAMPLES)
        if needs_zone := (kind == CLOCK or window is not None):
            if kind == CLOCK and window is not None:
                raise _wrong(words, "a clock time and `between`", "one of them")
            if not zone:
                raise _wrong(words, "no time zone", "one at its end, such as Europe/Berlin or UTC")
        if zone and not needs_zone:
            raise _wrong(words, f"the time zone {zone}", "none, as there is no clock time")
        made = cls(words, kind, window=window, zone=zone)
        return _filled(made, match)

    def begins_on(self, day: date) -> datetime:
        """Return the moment at which a round is due on a local day, of the clock's schedules.

        In spring a clock time that is left out comes an hour later; in autumn one that comes twice
        is the first.
        """
        return self._moment(day, self.minute)

    def last_and_next(self, now: datetime) -> tuple[datetime, datetime]:
        """Return the last moment of a clock's schedule that is not after `now`, and the next."""
        today = now.astimezone(ZoneInfo(self.zone)).date()
        near = (today + timedelta(days) for days in range(-9, 10))
        moments = sorted({self.begins_on(d) for d in near if self.weekday in (None, d.weekday())})
        return (
            max(moment for moment in moments if moment <= now),
            min(moment for moment in moments if moment > now),
        )

    def opens(self, now: datetime) -> datetime | None:
        """Return when rounds may begin next; None where they may now."""
        if self.window is None:
            return None
        local = now.astimezone(ZoneInfo(self.zone))
        start, end = self.window
        at = local.hour * 60 + local.minute
        if (start <= at < end) if start < end else (at >= start or at < end):
            return None
        days = (local.date() + timedelta(days) for days in range(4))
        # On the day on which the clock skips these hours, they do not come.
        moments = (self._moment(day, start) for day in days)
        return min(moment for moment in moments if moment > now and self.opens(moment) is None)

    def odd_days(self, now: datetime) -> list[str]:
        """Return the days of the next year without the clock time, or with two, in words."""
        if self.kind != CLOCK:
            return []
        zone, lines = ZoneInfo(self.zone), []
        today = now.astimezone(zone).date()
        for day in (today + timedelta(days) for days in range(MOST_DAYS)):
            if self.weekday not in (None, day.weekday()):
                continue
            wall = datetime.combine(day, _clock(self.minute), zone)
            moment = self.begins_on(day).astimezone(zone)
            if moment.replace(tzinfo=None) != wall.replace(tzinfo=None):
                lines.append(f"{wall:%Y-%m-%d} has no {wall:%H:%M}: it begins at {moment:%H:%M}")
            elif wall.replace(fold=1).utcoffset() != wall.utcoffset():
                lines.append(f"{wall:%Y-%m-%d} has {wall:%H:%M} twice: it begins at the first")
        return lines

    def _moment(self, day: date, minute: int) -> datetime:
        return datetime.combine(day, _clock(minute), ZoneInfo(self.zone)).astimezone(UTC)


def _clock(minute: int) -> time:
    return time(minute // 60, minute % 60)


def _wrong(text: str, got: str, expected: str) -> ConfigError:
    return ConfigError(f"schedule {cut(text)!r}: got {got}, expected {expected}")


def _without_zone(words: str) -> tuple[str, str]:
    """Return a text without its last word if that is a time zone, and the zone."""
    rest, _, last = words.rpartition(" ")
    if "/" not in last and last.upper() not in ("UTC", "GMT"):
        return words.lower(), ""
    zone = last.upper() if "/" not in last else last
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        expected = "one of the system's time zones, such as Europe/Berlin, or UTC"
        raise _wrong(words, f"the time zone {cut(last)!r}", expected) from error
    return rest.lower().removesuffix(" in"), zone


def _without_window(words: str, rest: str) -> tuple[str, tuple[int, int] | None]:
    """Return a text without its hours, and these."""
    if (match := _WINDOW.fullmatch(rest)) is None:
        return rest, None
    rest, *texts = match.groups()
    start, end = (_minute(words, text) for text in texts)
    if start == end:
        raise _wrong(words, f"hours from {texts[0]} to {texts[1]}, which never come", "others")
    return rest, (start, end)


def _minute(words: str, text: str) -> int:
    hour, _, minute = text.partition(":")
    if int(hour) > 23 or int(minute or 0) > 59:
        raise _wrong(words, f"the clock time {cut(text)}, which never comes", "0:00 to 23:59")
    return int(hour) * 60 + int(minute or 0)


def _seconds(words: str, count: str | None, unit: str) -> int:
    seconds = int(count or 1) * UNITS[unit]
    if not 0 < seconds <= MOST_DAYS * UNITS["day"]:
        got = f"{cut(count)} {unit}s" + (", which never come" if not seconds else "")
        raise _wrong(words, got, f"at least 1 minute, at most {MOST_DAYS} days")
    return seconds


def _filled(made: Schedule, match: re.Match[str]) -> Schedule:
    """Return a schedule with the numbers of its form."""
    if made.kind == CLOCK:
        day, text = match.groups()
        weekday = DAYS.index(day) if day in DAYS else None
        return replace(made, minute=_minute(made.text, text), weekday=weekday)
    if made.kind == EVERY:
        return replace(made, seconds=_seconds(made.text, *match.groups()))
    if made.kind == PEOPLE:
        people, count, unit = match.groups()
        if int(people) == 0:
            raise _wrong(made.text, "0 people, who always have new samples", "at least 1")
        seconds = CHECK_SECONDS if unit is None else _seconds(made.text, count, unit)
        return replace(made, people=int(people), seconds=seconds)
    return made
