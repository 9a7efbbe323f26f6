"""One device that answers in the last moment, for ever: what each round of a deployment takes.

Real deployments on loopback (`fedsub deploy local`), FedAvg. One device's answer comes so many
seconds after a round has begun, as long as that is in time; the others answer at once.
"""

import fcntl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from deployment import look_as_apart, small_federation  # a script beside this one
from script import read_arguments

from fedsub.engines.rehearsal import Rehearsal
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_server.rundb import RunDatabase

TINY = ["--rounds", "2", "--clients", "2", "--seconds", "1"]
#: A deployment comes up.
SLOW = True
LINES = ("rounds 2 to 2:",)
LATE = "c0"
LOOK_SECONDS = 0.1


@contextmanager
def kept_late(state: Path, seconds: float, rounds: Callable[[], int]) -> Iterator[None]:
    """Keep a device from training, by the lock on its state, until so long after a round began."""
    over = threading.Event()

    def keep() -> None:
        state.mkdir(parents=True, exist_ok=True)
        with (state / "lock").open("w") as lock:
            while not over.is_set():
                fcntl.flock(lock, fcntl.LOCK_EX)
                round, since = rounds(), time.monotonic()
                while time.monotonic() < since + seconds and not over.wait(LOOK_SECONDS):
                    if (now := rounds()) > round:
                        round, since = now, time.monotonic()
                fcntl.flock(lock, fcntl.LOCK_UN)
                over.wait(1.0)  # it takes the lock now, if it waits for it

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def deployed(config: RunConfig, clients: int, late: float) -> tuple[list[float], list[int]]:
    """Return the seconds of rounds, and in which the late one took part.

    Neither the first, before which all starts, nor the last, which is also evaluated.
    """
    rehearsal = Rehearsal(config, clients, lambda text: None, lambda round: None)
    ends: dict[int, float] = {}
    state = rehearsal.place.state / LATE
    with rehearsal.up(), kept_late(state, late, lambda: max(ends, default=0)):
        for finished in rehearsal.follow(rehearsal.submit()):
            ends.setdefault(finished, time.monotonic())
    with RunDatabase(rehearsal.database) as database:
        rows = list(database.metrics("bytes_up_sent"))
    times = [seconds for round, seconds in sorted(ends.items()) if round > 0]
    return list(np.diff(times)[:-1]), [row.round for row in rows if row.client == LATE]


def main() -> None:
    arguments = read_arguments(
        TINY,
        rounds=16,
        clients=4,
        seconds=(22.0, "of the late answer"),
        timeout=(25.0, "of a round"),
    )
    look_as_apart()
    with tempfile.TemporaryDirectory() as temporary:
        config = read_config(
            None,
            {
                "data": small_federation(Path(temporary, "data"), arguments.clients, 60),
                "out": temporary,
                "method": "fedavg",
                "beside": "",
                "evaluate-every": 1000,
                "rounds": arguments.rounds + 1,
                "round-timeout": arguments.timeout,
            },
        )
        seconds, used = deployed(config, arguments.clients, arguments.seconds)
    print(f"rounds 2 to {arguments.rounds}: {np.sum(seconds):.1f} s: ", end="")
    print(*(f"{s:.1f}" for s in seconds), f" (the late one's part: {used})", flush=True)


if __name__ == "__main__":
    main()
