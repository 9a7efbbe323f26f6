"""What every preparer shares: its signature, its counts, people side by side, honest errors.

A preparer is a module with ``prepare(source, options, workers, progress) -> Prepared``; its options
stand in :mod:`fedsub_data.preparing.options`. It reads a data set's official files, never writes,
and refuses what it does not understand with the file, the line and what was expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from threadpoolctl import threadpool_limits

from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError

#: Written beside a federation: what it was made from, how, and what was dropped.
REPORT_FILE = "preparation.json"
#: Bytes of a line of text at most.
LONGEST_LINE = 1 << 20

Progress = Callable[[int, int], None]
T = TypeVar("T")
R = TypeVar("R")


class Counts(dict[str, int]):
    """Counts of rows and windows read, repaired, dropped and kept, in the order of counting."""

    @classmethod
    def zero(cls, *what: str) -> Counts:
        """Return counts in which these appear, even if none is ever counted."""
        return cls(dict.fromkeys(what, 0))

    def add(self, what: str, count: int = 1) -> None:
        """Count `count` more of `what`; 0 makes it appear in the report."""
        self[what] = self.get(what, 0) + count

    def merge(self, other: dict[str, int]) -> None:
        """Add another's counts, such as another person's."""
        for what, count in other.items():
            self.add(what, count)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A federation made from official files, and what happened on the way."""

    federation: Federation
    counts: Counts = field(default_factory=Counts)


def refused(path: Path | str, got: object, expected: str, line: int | None = None) -> DataError:
    """Return the error for something in a file that is not as the official format has it.

    Parameters
    ----------
    path : the file, with the member's name where it is inside an archive.
    line : its number from 1, where the file is text.
    """
    where = f"{path}" if line is None else f"{path}, line {line}"
    return DataError(f"{where}: got {got}, expected {expected}")


def text_lines(lines: Iterable[bytes], path: Path | str) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line, without its end.

    Raises DataError at a line that is not UTF-8, or longer than :data:`LONGEST_LINE`.
    """
    if (read := getattr(lines, "readline", None)) is not None:
        lines = iter(partial(read, LONGEST_LINE + 1), b"")  # a file may be one line of gigabytes
    for number, raw in enumerate(lines, start=1):
        if len(raw) > LONGEST_LINE:
            raise refused(path, "a longer line", f"at most {LONGEST_LINE} bytes", number)
        try:
            yield number, raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            got = f"byte 0x{raw[error.start]:02x}"
            raise refused(path, got, "text in UTF-8", number) from error


def each_person(
    work: Callable[[T], R], people: Sequence[T], workers: int, progress: Progress
) -> list[R]:
    """Return ``work(person)`` for all, in their order, side by side in processes of one thread.

    `work` and what it takes and returns must be picklable. The first error ends it all.
    """
    progress(0, len(people))
    if workers <= 1 or len(people) <= 1:
        results = []
        for person in people:
            results.append(work(person))
            progress(len(results), len(people))
        return results
    # Not forked: a fork while torch's or Arrow's threads hold a lock would hang.
    context = get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(people)), context, _one_thread)
    try:
        futures = [pool.submit(work, person) for person in people]
        for done, future in enumerate(as_completed(futures), start=1):
            future.result()
            progress(done, len(people))
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise DataError(
            "a process that prepared a person's data was killed, perhaps for want of memory; "
            "nothing was written. Use fewer --workers."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _one_thread() -> None:
    # For the life of the process: several threads in each of several processes fight over cores.
    threadpool_limits(1)
