"""The machine's cores: how many a process may use, and parts of one task done by idle threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

_thread = threading.local()


def usable_cores() -> int:
    """Return how many of the machine's cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_beside(pool: ThreadPoolExecutor, threads: int) -> None:
    """Let the `threads` of `pool`, of which this is one, take parts of this one's tasks."""
    _thread.pool, _thread.others = pool, threads - 1


def each(work: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """Return the results of `work` on each part, in their order.

    Threads that work beside this one (:func:`work_beside`) take parts, too, as soon as they have
    nothing else to do, so that one large task does not hold up the rest; alone, it is a loop.
    Where a part fails no other is begun, and its error is raised.
    """
    todo, lock = list(enumerate(parts)), threading.Lock()
    others = min(getattr(_thread, "others", 0), len(todo) - 1)
    found: dict[int, Result] = {}
    todo.reverse()

    def take() -> None:
        try:
            while True:
                with lock:
                    if not todo:
                        return
                    place, part = todo.pop()
                found[place] = work(part)
        except BaseException:
            with lock:
                todo.clear()  # so nobody begins another part
            raise

    helpers = [_thread.pool.submit(take) for _ in range(others)]
    try:
        take()
    finally:
        # Who has not begun by now is not waited for: it may be busy with a task like this one.
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in errors:
        if error is not None:
            raise error
    return [found[place] for place in range(len(found))]
