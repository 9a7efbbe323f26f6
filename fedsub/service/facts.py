"""What a service's folder says of it: lines for people, and its run's status with them."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import IO
from zoneinfo import ZoneInfo

from fedsub.service.schedule import Schedule
from fedsub.service.state import LOCK_FILE, RUN, ServiceFile
from fedsub.status.facts import Status, Trouble
from fedsub.status.machine import free_bytes
from fedsub.status.reading import run_status
from fedsub_core.errors import RunError
from fedsub_core.files import lock
from fedsub_server.run_folder import RUN_FILE

#: Starts that are shown, the newest first.
STARTS = 3


def is_served(folder: Path) -> bool:
    """Whether a process serves the folder now."""
    try:
        with (folder / LOCK_FILE).open("r") as file:
            lock(file, wait=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def service_lines(file: ServiceFile, served: bool) -> list[str]:
    """Return a service's schedule, next round, what it waits for, last starts and last failure."""
    state, settings = file.state, file.settings
    schedule = Schedule.parse(settings.when)
    each = "1 round" if settings.each == 1 else f"{settings.each} rounds"
    following = f"at {_moment(state.next_at, schedule)}" if state.next_at else "as soon as it may"
    if state.paused:
        following = "none until `fedsub serve resume`"
    elif state.target:
        following = "goes on" if state.run else f"tried again {following}"
    failure = "none"
    if state.failure:
        tries = f"; {state.failures} in a row" if state.failures > 1 else ""
        failure = f"{_moment(state.failed_at, schedule)}: {state.failure}{tries}"
    return [
        f"schedule: {settings.when}, {each} each time",
        f"next round: {following}",
        f"waits: {state.why or '-'}" if served else "waits: for `fedsub serve` to be started",
        f"last starts: {'; '.join(_starts(file, schedule)) or 'none'}",
        f"last failure: {failure}",
    ]


def service_status(folder: Path, certificate: Path | None = None) -> Status:
    """Return the state of a service; raises as :func:`~fedsub.status.reading.read_status`."""
    with ServiceFile(folder) as file:
        state, served = file.state, is_served(folder)
        lines = service_lines(file, served)
    run = folder / RUN
    if (run / RUN_FILE).is_file():
        status = run_status(run, "service", certificate)
    else:
        status = Status(str(folder), "service", "not begun", disk_free=free_bytes(folder))
    going = status.state in ("going on", "elsewhere") and state.run
    waiting = "paused" if state.paused else "waiting"
    troubles = list(status.troubles) if going else []
    if not served:
        waiting = "stopped"
        said = "nobody serves it: no round begins"
        troubles.append(Trouble("stopped", said, todo=f"Start `fedsub serve {folder}`"))
    if state.failures:
        said = f"the last start failed, {state.failures} in a row"
        troubles.append(Trouble("stopped", said, why=state.failure, todo="It is tried again"))
    return replace(
        status,
        path=str(folder),
        state=status.state if going else waiting,
        seconds_left=None,
        service=lines,
        troubles=tuple(troubles),
    )


def lock_folder(folder: Path) -> IO[str]:
    """Return the lock of a folder, which this process holds until it is closed.

    Raises RunError if another process serves the folder.
    """
    file = (folder / LOCK_FILE).open("a")
    try:
        lock(file, wait=False)
    except OSError as error:
        file.close()
        raise RunError(f"{folder}: another process serves it, expected none") from error
    return file


def _starts(file: ServiceFile, schedule: Schedule) -> Iterator[str]:
    for begun, ended, rounds, tries in file.last_starts(STARTS):
        again = f", {tries} tries" if tries > 1 else ""
        took = max(ended - begun, 0)  # a clock may go back
        yield f"{_moment(begun, schedule)} to round {rounds} in {took:.0f} s{again}"


def _moment(seconds: float, schedule: Schedule) -> str:
    zone = ZoneInfo(schedule.zone or "UTC")
    return f"{datetime.fromtimestamp(seconds, zone):%Y-%m-%d %H:%M:%S} {zone.key}"
