"""What secure aggregation costs: bytes, CPU seconds of devices and server, and macro F1.

Made people, 100 samples of 24 features each, 6 classes, and the papers' model of 72,326 numbers;
fedsub-ridge has sums of 474 features and of their products, 115,425 numbers. local sends nothing
but what all standardise by, before its one round.
First whole runs in one process, plain and of sums, on the same people. Then the protocol alone,
with vectors of as many numbers, on one thread: what a device sends and gets, its work, and the
server's to open the sum where nobody is silent after sharing its secrets, and where 30 % are.
Without a roster, with one, and with one and the memory of the same numbers' sums of earlier runs,
which a device reads for each message.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric import ec
from script import put_lines, read_arguments
from trained import metrics_of

from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.secure.graph import enough
from fedsub_core.secure.keys import Words
from fedsub_core.secure.opened_sums import OpenedSum, OpenedSums
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.roster import Roster, Signer, public_of
from fedsub_core.secure.summation import Summation
from fedsub_core.secure.transcript import Origin
from strategies.rounds.traffic import Traffic

TINY = ["--people", "5", "--rounds", "2"]
LINES = ("run of", "protocol of")
CLASSES, FEATURES, SAMPLES = 6, 24, 143
#: Of the papers' model for these, with the two slots behind.
NUMBERS = 24 * 128 + 128 + 128 * 512 + 512 + 512 * 6 + 6 + 2
SILENT = 0.3
#: What is measured of a run, and how it is written; of a line of the table, in words.
COLUMNS = (("seconds", ".2f"), ("up", ".0f"), ("down", ".0f"), ("f1", ".4f"))
HEAD = (
    "method", "people", "CPU s a round, plain", "of sums", "bytes up a round, plain", "up, of sums",
    "bytes down a round, plain", "down, of sums", "protocol", "macro F1, plain", "F1, of sums",
)  # fmt: skip
PROTOCOL_HEAD = (
    "people", "protocol", "neighbours", "bytes of a device", "device, CPU ms",
    "server opens the sum, s", "with 30 % silent",
)  # fmt: skip


def made(people: int) -> Federation:
    """Return people whose classes lie about alike, each shifted a little, all features noisy."""
    stream = np.random.default_rng(people)
    centres = stream.normal(size=(CLASSES, FEATURES))
    clients = {}
    for i in range(people):
        y = np.arange(SAMPLES) % CLASSES
        own = centres + 0.5 * stream.normal(size=(CLASSES, FEATURES))
        x = own[y] + 1.5 * stream.normal(size=(SAMPLES, FEATURES))
        name = f"p{i:03}"
        clients[name] = ClientData(name, x.astype(np.float32), y.astype(np.int64))
    names = tuple(f"class {c}" for c in range(CLASSES))
    return Federation(Card("made", "a test", names, tuple(map(str, range(FEATURES)))), clients)


def run(federation: Federation, method: str, rounds: int, sums: bool) -> dict[str, float]:
    """Return CPU seconds and bytes of a person, means over rounds, and macro F1 at the end."""
    rounds = 1 if method == "local" else rounds
    config = RunConfig(
        method=method, beside="", rounds=rounds, evaluate_every=rounds, robust="none", lr=0.02,
        standardise="federation" if method == "local" else "client", threads=1, device="cpu",
        secure_aggregation=sums,
    )  # fmt: skip
    begun = time.process_time()
    rows = metrics_of(config, federation)
    seconds = (time.process_time() - begun) / rounds

    def mean(metric: str) -> float:
        values = [r.value for r in rows if r.metric == metric and r.label is None]
        return sum(values) / (rounds * len(federation.clients))

    last = [r.value for r in rows if r.metric == "macro_f1" and r.round == rounds]
    up, beside = mean("bytes_up_sent"), mean("bytes_secure_sent")
    # Plans go with downloads, of which only Flower's bytes count what stands beside the model.
    down = mean("bytes_down_sent")
    beside += mean("bytes_down_flower") - down
    return {"seconds": seconds, "up": up, "down": down, "beside": beside, "f1": fmean(last)}


def signers(names: Sequence[str]) -> dict[str, Signer]:
    """Return people's keys, with a roster of all of them."""
    own = {name: ec.generate_private_key(ec.SECP384R1()) for name in names}
    roster = Roster({name: public_of(key) for name, key in own.items()})
    return {name: Signer(name, key, roster) for name, key in own.items()}


@dataclass
class Protocol:
    """People of one sum, and what it costs them.

    `runs`: earlier ones in which each opened a sum of the same numbers, of the same people.
    """

    people: int
    signed: bool = False
    runs: int = 0
    traffic: Traffic = field(default_factory=Traffic)

    def __post_init__(self) -> None:
        names = [f"p{i:03}" for i in range(self.people)]
        own = signers(names) if self.signed else {}
        self.roster = own[names[0]].roster if own else Roster({})
        self.persons = {name: Participant(name, 3, signer=own.get(name)) for name in names}
        self.kept = OpenedSums().written()

    def answer(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return a device's answer, both of which are counted."""
        person = self.remembering(name)
        said = person.answer(asked, 1)
        for record in (asked, said):
            self.traffic.add_record(name, record)
        return said

    def remembering(self, name: str) -> Participant:
        """Return a person who has read what it opened, as for each message."""
        self.persons[name].opened = OpenedSums.read(self.kept)
        return self.persons[name]

    def answered(self, silent: float = 0.0) -> tuple[Summation, Words, float]:
        """Return a sum that can be opened, each person's vector, and a device's CPU seconds.

        `silent`: the share of people who send no vector.
        """
        names, server = list(self.persons), Summation(1, 3, NUMBERS)
        sending = names[: self.people - int(silent * self.people)]
        before = OpenedSum("sums", "", 2, "", tuple(sending), (), True, 3)
        earlier = (replace(before, run=f"run {i}") for i in range(self.runs))
        self.kept = OpenedSums(earlier).written()
        levels = Levels.of_people(self.people, SAMPLES, 8.0)
        vector = levels.vector(np.full(NUMBERS - 2, 0.01, np.float32), SAMPLES)
        begun = time.process_time()
        for name in names:
            server.take_keys(name, self.answer(name, server.ask_keys()))
        for name, asked in server.ask_shares().items():
            server.take_shares(name, self.answer(name, asked))
        plans = server.plans(levels)
        for name in sending:
            self.traffic.add_record(name, plans[name].record())
            plan, person = Reader(name, 1).plan(plans[name].record()), self.remembering(name)
            person.accept(plan)
            server.take_vector(name, person.masked(vector, plan.name, Origin("sums")))
        for name, seen in server.ask_views().items():
            server.take_view(name, self.answer(name, seen))
        for name, unmask in server.ask_unmask().items():
            server.take_unmasked(name, self.answer(name, unmask.record()))
        return server, vector, (time.process_time() - begun) / self.people

    def measured(self, silent: float) -> tuple[float, float, float]:
        """Return bytes of a device, its CPU seconds, on average, and the server's to open the sum.

        `silent` is :meth:`answered`'s.
        """
        server, vector, devices = self.answered(silent)
        begun = time.process_time()
        opened = server.open()
        seconds = time.process_time() - begun
        expected = (np.uint32(len(server.sent)) * vector).astype(np.uint32)
        if not np.array_equal(opened, expected):
            raise SystemExit("the sum is not the plain one")
        sent = sum(row.value for row in self.traffic.rows(1))
        return sent / self.people, devices, seconds


#: The protocol without a roster, and with all that devices can have.
KINDS = (("alone", False, 0), ("with a roster", True, 0), ("and 20 earlier runs", True, 20))


def protocol_lines(each: Sequence[int]) -> list[tuple[object, ...]]:
    """Return the protocol's lines of the table, by how many people there are."""
    lines = list[tuple[object, ...]]()
    for people, (kind, signed, runs) in product(each, KINDS):
        size, device, opened = Protocol(people, signed, runs).measured(0.0)
        _, _, few = Protocol(people, signed, runs).measured(SILENT)
        numbers = f"{size:.0f}", f"{1e3 * device:.1f}", f"{opened:.2f}", f"{few:.2f}"
        lines.append((people, kind, enough(people), *numbers))
        print("protocol of", *lines[-1], sep=" | ", flush=True)
    return lines


def main() -> None:
    """Print what runs of sums cost beside plain ones, and the protocol alone."""
    args = read_arguments(
        TINY,
        people=[10, 30, 100],
        rounds=5,
        methods=["fedavg", "fedsub-ridge", "local"],
        out=Path,
        protocol_out=(Path, "the same of the protocol alone"),
    )
    torch.set_num_threads(1)
    print(f"{'runs':25}{'s plain':>9}{'s sums':>9}{'up plain':>11}{'up sums':>11}"
          f"{'protocol':>11}{'F1 plain':>10}{'F1 sums':>10}")  # fmt: skip
    lines = list[tuple[object, ...]]()
    for method, people in product(args.methods, args.people):
        federation = made(people)
        plain, sums = (run(federation, method, args.rounds, one) for one in (False, True))
        beside = sums["beside"] - plain["beside"]
        print(f"run of {people:<5}{method:13}{plain['seconds']:9.2f}{sums['seconds']:9.2f}"
              f"{plain['up']:11.0f}{sums['up']:11.0f}{beside:11.0f}{plain['f1']:10.4f}"
              f"{sums['f1']:10.4f}")  # fmt: skip
        both = [f"{one[key]:{form}}" for key, form in COLUMNS for one in (plain, sums)]
        lines.append((method, people, *both[:6], f"{beside:.0f}", *both[6:]))
    put_lines(args.out, HEAD, lines, 2)
    put_lines(args.protocol_out, PROTOCOL_HEAD, protocol_lines(args.people), 2)


if __name__ == "__main__":
    main()
