"""A server of secure sums that tells some devices something else than others, and what it reads.

Devices are real ones, each behind messages of its own. The server is FedSub's, but for what it
tells: it opens whatever its answers open, whomever it has to count as silent.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from flwr.app import Message, MessageType
from lies_of_sums import ANY, SUM, Lie, Told

from fedsub.deploy.keys import make_node_key
from fedsub.deploy.roster import OWNER_FILE, ROSTER_FILE, add_to_roster
from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.runs import people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.data.sources import client_ids
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import SECURE
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.summation import Summation
from fedsub_core.wire import exchange
from strategies.protections import secure_sums

#: The person whose numbers the server wants.
VICTIM = "p1"
#: How a run is called, and all that runs share.
RUN = "a run"
KEYS: dict[str, Any] = dict(
    device="cpu", threads=1, lr=0.05, batch_size=16, hidden="8", robust="none",
    secure_aggregation=True, standardise="client", quorum=0.0, round_timeout=0.3, join_timeout=0.3,
    beside="", evaluate_every=99,
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of a lie.

    Parameters
    ----------
    devices : what those did that were told it.
    opened_of : of how many people the opened sum is; 0: none was opened.
    read : share of the victim's numbers that stand in it as they are, 0 to 1.
    """

    devices: str
    opened_of: int
    read: float


class LyingGrid(DeviceGrid):
    """Devices between which and the server somebody changes what some of them are told."""

    def __init__(
        self, config: RunConfig, people: int, lie: Lie, lied_to: Collection[str], states: Path
    ) -> None:
        super().__init__(config, people, **{"state-dir": str(states)})
        self.lie, self.lied_to, self.session = lie, lied_to, 2
        self.refused = Counter[str]()
        self._before: dict[str, dict[str, Any]] = {}
        self._names = dict(zip(self.contexts, client_ids(config.data), strict=True))
        for node, client in self._names.items():
            if client in lied_to:
                self.contexts[node].run_config.update(lie.config)

    def give_roster(self, folder: Path) -> None:
        """Give each device a key, and the roster of all."""
        for name in self._names.values():
            make_node_key(folder / name)
        add_to_roster(folder, {name: folder / f"{name}.pub" for name in self._names.values()})
        files = {"secure-roster": ROSTER_FILE, "secure-owner": f"{OWNER_FILE}.pub"}
        for node, name in self._names.items():
            own = files | {"secure-key": name}
            paths = {key: str(folder / file) for key, file in own.items()}
            self.contexts[node].node_config.update(paths)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let devices answer what they were told."""
        for message in messages:
            client = self._names[message.metadata.dst_node_id]
            round, phase = _of(message)
            if self.session < self.lie.session and (client == VICTIM or phase == "unmask"):
                continue
            concerned = client in self.lied_to and round == self.lie.round
            if self.lie.session == self.session and concerned and self.lie.phase in (ANY, phase):
                self._lie(message, client)
            records = dict(message.content)
            for reply in super().answers([message]):
                if reply.has_error() and concerned:
                    why = str(reply.error.reason)
                    found = re.search(r"round \d+: (.*)", why, re.DOTALL)
                    self.refused[found[1] if found else why] += 1
                yield reply
            if phase == SUM:
                self._before[client] = records

    def _lie(self, message: Message, client: str) -> None:
        told = Told(client, dict(message.content), self._before.get(client, {}))
        self.lie.change(told)
        for name, record in told.records.items():
            message.content[name] = record


def outcome(
    lie: Lie,
    lied_to: Collection[str],
    number: int,
    ignored: Collection[str],
    roster: bool = False,
) -> Outcome:
    """Return the outcome of a lie.

    Parameters
    ----------
    number : of people.
    ignored : whose vectors the server takes for lost.
    roster : whether devices have one.
    """
    hyper = {name: method(name).hyperparameters(**own) for name, own in OWN.items()}
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        write_federation(data, people(((0, 1, 2),) * number, samples=12))
        keys = KEYS | {"rounds": max(lie.round, 1)} | dict(lie.keys)
        own = {lie.method: hyper[lie.method]} if lie.method in hyper else {}
        config = RunConfig(method=lie.method, data=str(data), hyper=own, **keys)
        grid = LyingGrid(config, number, lie, lied_to, Path(folder) / "states")
        if roster:
            grid.give_roster(Path(folder) / "keys")
        with _greedy(lie.round, ignored) as seen:
            for session in range(lie.session if lie.session == 1 else 2, 3):
                grid.session = session
                seen.clear()
                strategy = build_strategy(config, lie.method)
                strategy.run_name = RUN
                try:
                    strategy.start(grid)
                except RunError as error:
                    # Too few could take part, or what came out of the sum cannot be.
                    seen.ended = str(error)
    return _outcome(seen, grid.refused, len(lied_to))


#: Hyperparameters with which methods take part in sums.
OWN: dict[str, dict[str, Any]] = {
    "fedsub": {"k_selection": "fixed:1", "fusion": "avg"},
    "fedsub-gated": {"k_selection": "fixed:1", "score": "one", "impute": False},
}


@dataclass
class Seen:
    """The vectors of devices before masks, and what the server opened of whom."""

    vectors: dict[str, Words] = field(default_factory=dict)
    opened: Words | None = None
    sent: frozenset[str] = frozenset()
    ended: str = ""

    def clear(self) -> None:
        """Begin anew, but for vectors: in a round that is repeated they are made once."""
        self.opened, self.sent, self.ended = None, frozenset(), ""


@contextmanager
def _greedy(round: int, ignored: Collection[str]) -> Iterator[Seen]:
    """Let the server open whatever can be opened, and note what devices and it have in a round."""
    seen = Seen()
    masked, opens = Participant.masked, vars(secure_sums)
    served = opens["Summation"]

    def note(self: Participant, vector: Words, name: Any, *more: Any, **named: Any) -> Words:
        if name.round == round:
            seen.vectors[self.client] = vector
        return masked(self, vector, name, *more, **named)

    class Greedy(Summation):
        def take_vector(self, client: str, vector: Words) -> None:
            if client not in ignored or self.name.round != round:
                super().take_vector(client, vector)

        def _told_all(self) -> str:
            told = Counter(self.opening.told.values()).most_common(1)
            return told[0][0] if told else ""

        def open(self) -> Words:
            found = super().open()
            if self.name.round == round:
                seen.opened, seen.sent = found, frozenset(self.sent)
            return found

    Participant.masked = note  # type: ignore[method-assign]
    opens["Summation"] = Greedy
    try:
        yield seen
    finally:
        Participant.masked = masked  # type: ignore[method-assign]
        opens["Summation"] = served


def _outcome(seen: Seen, refused: Counter[str], lied_to: int) -> Outcome:
    reasons = [re.sub(r"\b[0-9a-f]{16}\.\.\.|\d{4,}", "...", why) for why in refused]
    number = min(sum(refused.values()), lied_to)
    devices = "answer" if not number else f"{number} of {lied_to} refuse: {min(reasons)}"
    if seen.opened is None:
        return Outcome(devices, 0, 0.0)
    every = [seen.vectors[client] for client in sorted(seen.sent)]
    alike = len({len(one) for one in every}) == 1
    true = np.sum(every, axis=0, dtype=np.uint32) if alike else None
    if true is None or not np.array_equal(seen.opened, true):
        return Outcome(devices, 0, 0.0)
    own = seen.vectors[VICTIM][:-2]
    shown = own != 0
    same = float((seen.opened[:-2][shown] == own[shown]).mean()) if VICTIM in seen.sent else 0.0
    return Outcome(devices, len(every), same)


def _of(message: Message) -> tuple[int, str]:
    """Return the round of a message, and its phase of a sum; -1: none."""
    records = message.content.config_records
    if SECURE in records:
        return int(records[SECURE]["round"]), str(records[SECURE]["phase"])  # type: ignore[arg-type]
    if message.metadata.message_type == MessageType.TRAIN:
        return int(records[exchange.TURN]["round"]), ANY  # type: ignore[arg-type]
    return -1, ANY
