"""The gate before the next round: a pure function of the schedule, the clock and what was seen."""

from dataclasses import dataclass
from datetime import UTC, datetime

from fedsub.service.schedule import ALWAYS, CLOCK, PEOPLE, Schedule
from fedsub.service.state import ServiceState

#: What is done next.
WAIT, BEGIN, CHECK, SUBMIT = "wait", "begin", "check", "submit"
#: Seconds until a start that failed is tried again: the first time, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0


@dataclass(frozen=True)
class Seen:
    """What the supervisor saw of the federation.

    Parameters
    ----------
    finished : rounds in the run's database.
    connected : devices that are connected now; None: the SuperLink does not answer.
    needed : devices that a round needs.
    fresh : people who have more samples than in their last round, when they were last asked.
    """

    finished: int
    connected: int | None
    needed: int
    fresh: int = 0


@dataclass(frozen=True)
class Step:
    """What is done next, and why; `at` is when (seconds since 1970), None where nobody knows."""

    do: str
    why: str
    at: float | None = None


def next_step(schedule: Schedule, state: ServiceState, seen: Seen, now: float) -> Step:
    """Return the next step.

    A start that was begun is finished first, whatever became of it. A new one begins when the
    schedule, the hours and the number of connected devices allow it, and waits without end for
    each of them.
    """
    if state.paused:
        return Step(WAIT, "paused")
    if state.target:
        again = state.failed_at + pause_after(state.failures) if state.failures else now
        if now < again:
            return Step(WAIT, "the last start failed", again)
        if (opens := schedule.opens(moment(now))) is not None:
            return Step(WAIT, "outside its hours", opens.timestamp())
        return _where_devices_are(Step(SUBMIT, "goes on"), seen)
    due = _due(schedule, state, seen, now)
    if due.do == WAIT:
        return due
    if (opens := schedule.opens(moment(now))) is not None:
        return Step(WAIT, "outside its hours", opens.timestamp())
    return _where_devices_are(due, seen)


def pause_after(failures: int) -> float:
    """Return the seconds until the next try after so many failures in a row."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))


def moment(seconds: float) -> datetime:
    """Return a moment, in UTC, that is so many seconds after the begin of 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def _due(schedule: Schedule, state: ServiceState, seen: Seen, now: float) -> Step:
    begin = Step(BEGIN, "due")
    if schedule.kind == CLOCK:
        last, following = schedule.last_and_next(moment(now))
        # A night that nobody was there for is made up for, once.
        if last.timestamp() > max(state.begun, state.created):
            return begin
        return Step(WAIT, "next by the schedule", following.timestamp())
    if schedule.kind == PEOPLE:
        fresh = seen.fresh if seen.finished else seen.connected or 0
        if fresh >= schedule.people:
            return begin
        why = f"{fresh} of {schedule.people} people have new samples"
        if seen.finished and now >= (due := state.checked + schedule.seconds):
            return Step(CHECK, why)
        return Step(WAIT, why, due if seen.finished else None)
    if schedule.kind == ALWAYS or not state.begun or now >= state.begun + schedule.seconds:
        return begin
    return Step(WAIT, "next by the schedule", state.begun + schedule.seconds)


def _where_devices_are(step: Step, seen: Seen) -> Step:
    if seen.connected is None:
        return Step(WAIT, "the SuperLink does not answer")
    if seen.connected < seen.needed:
        return Step(WAIT, f"{seen.connected} of {seen.needed} devices are connected")
    return step
