"""The gate: when the next round begins, by a made clock."""

from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from fedsub.service.gate import LONGEST_PAUSE, Seen, next_step, pause_after
from fedsub.service.schedule import Schedule
from fedsub.service.state import ServiceState

HERE = Seen(finished=4, connected=3, needed=3)
HOUR = 3600.0


def step(text: str, state: ServiceState, now: float, seen: Seen = HERE) -> tuple[str, float | None]:
    found = next_step(Schedule.parse(text), state, seen, now)
    return found.do, found.at


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp()


def test_always_and_intervals() -> None:
    new, begun = ServiceState(created=1.0), ServiceState(created=1.0, begun=100.0)
    assert step("always", begun, 100.0) == ("begin", None)
    assert step("every 6 hours", new, 2.0) == ("begin", None)
    assert step("every 6 hours", begun, 101.0) == ("wait", 100 + 6 * HOUR)
    assert step("every 6 hours", begun, 100 + 6 * HOUR) == ("begin", None)


@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31", "2027-06-01"])
def test_a_night_comes_once_whatever_the_clock_does(day: str) -> None:
    """The clock runs in steps of ten minutes, over two nights; each begin takes a minute."""
    state, begun = ServiceState(created=seconds(f"{day}T00:30:00")), []
    now = state.created
    while now < seconds(f"{day}T23:00:00") + 5 * HOUR:
        if step("every night at 2:30 Europe/Berlin", state, now)[0] == "begin":
            state = replace(state, begun=now)
            begun.append(now)
        now += 600.0
    assert len(begun) == 2


def test_a_night_that_was_missed_is_made_up_for_once() -> None:
    text = "every night at 2 Europe/Berlin"
    state = ServiceState(created=seconds("2027-06-01T12:00:00"))
    noon = seconds("2027-06-04T12:00:00")
    assert step(text, state, state.created)[0] == "wait"
    assert step(text, state, noon, replace(HERE, connected=2))[0] == "wait"
    assert step(text, state, noon) == ("begin", None)
    following = step(text, replace(state, begun=noon), noon)
    assert following == ("wait", seconds("2027-06-05T02:00:00"))


def test_hours_hold_back_what_is_due() -> None:
    state, noon = ServiceState(created=1.0), seconds("2027-06-01T12:00:00")
    opens = ("wait", seconds("2027-06-01T22:00:00"))
    assert step("always between 22 and 6 Europe/Berlin", state, noon) == opens
    assert step("always between 22 and 6 Europe/Berlin", state, opens[1])[0] == "begin"


def test_people_with_new_samples() -> None:
    text, state = "when 2 people have new samples", ServiceState(created=1.0, begun=9.0)
    assert step(text, state, 10.0, Seen(0, 1, 1))[0] == "wait"
    assert step(text, state, 10.0, Seen(0, 2, 1))[0] == "begin"
    assert step(text, state, 2 * HOUR, replace(HERE, fresh=1))[0] == "check"
    checked = replace(state, checked=2 * HOUR)
    assert step(text, checked, 2 * HOUR + 1, replace(HERE, fresh=1)) == ("wait", 3 * HOUR)
    assert step(text, checked, 2 * HOUR + 1, replace(HERE, fresh=2))[0] == "begin"


@pytest.mark.parametrize("connected", [None, 0, 2])
def test_too_few_devices_are_waited_for_without_end(connected: int | None) -> None:
    seen = replace(HERE, connected=connected)
    for state in (ServiceState(created=1.0), ServiceState(created=1.0, target=5)):
        assert step("always", state, 1e9, seen) == ("wait", None)


def test_a_pause_holds_everything_back() -> None:
    for state in (ServiceState(paused=True), ServiceState(paused=True, target=5)):
        assert step("always", state, 1e9) == ("wait", None)


def test_a_start_that_failed_is_tried_again_later_and_later() -> None:
    state = ServiceState(target=5, failures=1, failed_at=100.0)
    assert step("every 6 hours", state, 104.0) == ("wait", 105.0)
    assert step("every 6 hours", state, 105.0) == ("submit", None)
    pauses = [pause_after(failures) for failures in range(1, 100)]
    assert pauses == sorted(pauses) and pauses[0] == 5.0 and pauses[-1] == LONGEST_PAUSE


def test_a_failed_start_is_repeated_in_its_hours_alone() -> None:
    text = "always between 22 and 6 Europe/Berlin"
    failed = seconds("2027-06-02T05:59:00")
    state = ServiceState(created=failed - HOUR, target=3, failures=1, failed_at=failed)
    assert step(text, state, failed + 600) == ("wait", seconds("2027-06-02T22:00:00"))
    assert step(text, state, seconds("2027-06-02T22:01:00"))[0] == "submit"
