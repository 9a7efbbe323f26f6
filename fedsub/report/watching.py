"""A report that is written anew while its run goes on."""

import time
from collections.abc import Callable
from pathlib import Path

from fedsub.report.report import write_report
from fedsub_core.errors import RunError
from fedsub_server.run_folder import DATABASE_FILE, RUN_FILE

#: Seconds between two looks at the databases, and after which a watched page loads itself anew.
EVERY = 4


def watch_report(
    folder: Path,
    say: Callable[[str], None],
    every: float = EVERY,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Write the report whenever a database changed, until the run has finished; return its path.

    Interrupted, it leaves a page that no longer loads itself anew.

    Raises RunError if `folder` is no run's, or the report cannot be written.
    """
    if not (folder / RUN_FILE).is_file():
        raise RunError(f"{folder}: no {RUN_FILE} there: not a run's folder")
    path = failed = before = None
    try:
        while True:
            now = _changes(folder)
            if now and now != before:
                try:
                    path, finished = write_report(folder, max(1, round(every)))
                except RunError:
                    if now == failed:  # not just a database that was being made
                        raise
                    failed = now
                else:
                    if finished:
                        return path
                    if before is None:
                        say(f"Report: {path}, written anew while the run goes on; Ctrl-C ends it")
                    before = now
            sleep(every)
    except KeyboardInterrupt:
        if path is None:
            raise
        return write_report(folder)[0]


def _changes(folder: Path) -> list[tuple[str, int, int]]:
    """Return the sizes and times of databases and their logs, which each commit changes."""
    found = []
    for path in sorted(folder.glob(f"*/{DATABASE_FILE}*")):
        # Reading a database makes and removes its index (-shm), which says nothing.
        if path.name.endswith("-shm"):
            continue
        try:
            stat = path.stat()
        except FileNotFoundError:  # a log whose run has just ended
            continue
        found.append((str(path), stat.st_size, stat.st_mtime_ns))
    return found
