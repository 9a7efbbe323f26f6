"""Parts of one task in idle threads."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fedsub_core.cores import each, work_beside


def test_alone_it_is_a_loop() -> None:
    here = threading.get_ident()
    assert each(lambda part: (part, threading.get_ident()), "ab") == [("a", here), ("b", here)]
    assert each(str, []) == []


def _pool(threads: int) -> ThreadPoolExecutor:
    pool: ThreadPoolExecutor
    pool = ThreadPoolExecutor(threads, initializer=lambda: work_beside(pool, threads))
    return pool


def test_an_idle_thread_takes_a_part() -> None:
    together = threading.Barrier(2, timeout=30)

    def work(part: int) -> int:
        together.wait()  # passed by two threads at once, or never
        return 10 * part

    with _pool(2) as pool:
        assert pool.submit(each, work, range(4)).result() == [0, 10, 20, 30]


def test_a_busy_thread_is_not_waited_for() -> None:
    done = threading.Event()
    with _pool(2) as pool:
        busy = pool.submit(done.wait, 30)
        assert pool.submit(each, str, range(3)).result(20) == ["0", "1", "2"]
        done.set()
        assert busy.result()


def test_tasks_of_all_threads_at_once_and_within_one_another() -> None:
    with _pool(2) as pool:
        tasks = [
            pool.submit(each, lambda a: sum(each(lambda b: a * b, range(5))), range(20))
            for _ in range(6)
        ]
        assert [task.result(30) for task in tasks] == [[10 * a for a in range(20)]] * 6


@pytest.mark.parametrize("bad", [0, 7])
def test_a_part_that_fails_ends_the_task(bad: int) -> None:
    begun = []

    def work(part: int) -> None:
        begun.append(part)
        if part == bad:
            raise ValueError(f"part {part}")

    with _pool(2) as pool, pytest.raises(ValueError, match=f"part {bad}"):
        pool.submit(each, work, range(1000)).result(30)
    assert len(begun) < 1000
