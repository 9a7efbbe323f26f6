"""What a round of FedSub takes by parts, and a round of FedAvg: on devices, and on the server."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import wraps
from statistics import median
from typing import Any
from unittest.mock import patch

from fedsub_client import answers
from fedsub_client.learner import Learner
from fedsub_client.methods.fedsub import learner
from fedsub_client.methods.fedsub.learner import FedSubLearner
from strategies.methods.fedavg import FedAvgServer
from strategies.methods.fedsub import subnetworks
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.strategy import FedSubServer
from strategies.rounds.transport import Transport
from strategies.rounds.undoing import Undoing

#: The functions of each part, and where they are called; what these call of others is not theirs.
PARTS: dict[str, list[tuple[object, str]]] = {
    "device: training": [(Learner, "train")],
    "device: prototypes and the data's hash": [
        (FedSubLearner, "_prototypes"),
        (FedSubLearner, "_versions"),
    ],
    "device: relevance": [(learner, "representatives"), (learner, "unit_relevance")],
    "device: masks, rows and scores": [(FedSubLearner, "described")],
    "device: rows of the download put in place": [(learner, "integrate")],
    "device: uploads written": [(answers, "write_upload")],
    "server: uploads read": [(Transport, "decode")],
    "server: uploads checked": [(FedSubServer, "check")],
    "server: notes by which a round can be undone": [(Undoing, "note")],
    "server: the cache": [(Cache, "updated")],
    "server: bounds of rows": [
        (subnetworks, "begun"),
        (subnetworks, "bounded"),
        (subnetworks, "nearer"),
    ],
    "server: clusters": [(subnetworks, "recluster")],
    "server: fusion, or the mean": [(FedSubServer, "downloads"), (FedAvgServer, "aggregate")],
}
REST, ROUND = "all else", "round"


class PartsClock:
    """CPU seconds of each part, without what it calls of others. One thread works at a time."""

    def __init__(self) -> None:
        self.took: defaultdict[str, float] = defaultdict(float)
        self._inside, self._since = [REST], time.process_time()

    def turn(self) -> None:
        """Add the time since the last turn to the part that runs."""
        now = time.process_time()
        self.took[self._inside[-1]] += now - self._since
        self._since = now

    def timed(self, part: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the work and adds its time to a part."""

        @wraps(work)
        def run(*values: Any, **named: Any) -> Any:
            self.turn()
            self._inside.append(part)
            try:
                return work(*values, **named)
            finally:
                self.turn()
                self._inside.pop()

        return run


@contextmanager
def clock_of_parts() -> Iterator[PartsClock]:
    """Time all parts inside."""
    clock = PartsClock()
    with ExitStack() as stack:
        for part, functions in PARTS.items():
            for owner, name in functions:
                timed = clock.timed(part, getattr(owner, name))
                stack.enter_context(patch.object(owner, name, timed))
        yield clock


def parts_of(rounds: Mapping[str, Callable[[], object]], turns: int) -> dict[str, dict[str, float]]:
    """Return the median CPU seconds of each method's round, by part and as a whole."""
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in rounds}
    with clock_of_parts() as clock:
        for _ in range(turns + 1):
            for name, run in rounds.items():
                clock.turn()
                clock.took.clear()
                run()
                clock.turn()
                seen[name].append(dict(clock.took))
    found = {}
    for name, each in seen.items():
        every = (*PARTS, REST)
        found[name] = {part: median(took.get(part, 0) for took in each[1:]) for part in every}
        found[name][ROUND] = median(sum(took.values()) for took in each[1:])
    return found
