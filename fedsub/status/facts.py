"""What is known of how a run is doing, and whether that is well."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Verdict(IntEnum):
    """What an exit code says; 2 is a command's that could not do what it was asked for."""

    WELL = 0
    TROUBLE = 1
    STOPPED = 3


#: What can be wrong, by the name that scripts and alerts know it by.
KINDS = ("stopped", "silent", "refused", "resting", "away", "left out", "turned away", "behind",
         "began anew", "quorum", "long round", "devices", "disk", "certificate")  # fmt: skip
#: What somebody can be.
STATES = ("trained", "waited for", "silent", "refused", "resting", "away", "left out", "idle",
          "retired", "forgotten")  # fmt: skip
#: Of these, who will not come back: the key was unregistered, or the run was told to forget it.
DEPARTED = ("retired", "forgotten")


@dataclass(frozen=True)
class Trouble:
    """What somebody should look at.

    Parameters
    ----------
    kind : one of :data:`KINDS`.
    said : what it is; it names nobody.
    clients : who it is about.
    why : as a device, a file or an error has it: it may name people, paths, anything.
    todo : a sentence that says what to do.
    """

    kind: str
    said: str
    clients: Sequence[str] = ()
    why: str = ""
    todo: str = ""

    @property
    def text(self) -> str:
        """All of it as a sentence."""
        who = f"{', '.join(self.clients)}: " if self.clients else ""
        why = f": {self.why}" if self.why else ""
        return f"{who}{self.said}{why}{f'. {self.todo}' if self.todo else ''}"


@dataclass(frozen=True)
class Person:
    """What is known of one who takes part; None is what nobody knows.

    Parameters
    ----------
    client, node : the person's id, and Flower's id of its node.
    state : one of :data:`STATES`.
    since : when its node was let in last, as Flower writes it.
    version, capacity : as the device said.
    usable : the round of its last upload that was used.
    failed, refused : of the rounds looked back at, how many it was asked in and did not answer,
        and messages that could not be used.
    why : of its last refusal, with the round.
    rests_until : the round in which it is asked again, if not earlier as hours have passed.
    seconds : its last usable answer took.
    bytes_up, bytes_down : in the last round that it took part in.
    macro_f1, mae : when it was tested last; the mean absolute error at a target, else macro F1.
    alone : what it is by the method's twin, which learns from nobody else; None without one.
    """

    client: str
    state: str
    node: int | None = None
    since: str | None = None
    version: str | None = None
    capacity: float | None = None
    usable: int | None = None
    failed: int = 0
    refused: int = 0
    why: str | None = None
    rests_until: int | None = None
    seconds: float | None = None
    bytes_up: float | None = None
    bytes_down: float | None = None
    macro_f1: float | None = None
    mae: float | None = None
    alone: float | None = None

    @property
    def worse_than_alone(self) -> bool:
        """Whether the twin without others gave it a better model."""
        if self.alone is None:
            return False
        if self.mae is not None:
            return self.mae > self.alone
        return self.macro_f1 is not None and self.macro_f1 < self.alone


@dataclass(frozen=True)
class Together:
    """People whom a method takes for alike; everybody else is alone.

    Parameters
    ----------
    of : the class in which they are alike; "" where they are in all.
    groups : of two people or more each, the largest first.
    """

    of: str
    groups: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Status:
    """How a run is doing.

    Parameters
    ----------
    kind : ``run``, ``deployment``, ``study`` or ``service``.
    state : ``starting``, ``going on``, ``finished``, ``stopped``, ``not begun``, or ``elsewhere``:
        on another machine, whose server has spoken of late. Of a service also ``waiting`` and
        ``paused``.
    host, version : the machine whose process says so, and its release; "" where none has said it.
    method, methods : whose rounds these are, and all of the run.
    twin : of the method, which learns from nobody else: own heads or `local`; "" for none.
    round, finished, rounds : the one it is in, the last committed one, how many there are; 0 as
        long as that is not known.
    phase, phase_seconds, limit : what it is doing, for how long, how long it waits at most.
    seconds, seconds_left : of all rounds so far; estimated until the run's end.
    round_seconds : of the last committed round.
    asked, waited_for : in the exchange that goes on.
    bytes_up, bytes_down : of all people, in the last round.
    disk_free : bytes.
    memory : bytes that the server's process holds; None where it cannot be seen.
    certificate_days : until the server's certificate ends.
    together : who is with whom, after the last committed round.
    turned_away : by node, and why.
    parts : of a study: a line for each run that is not finished.
    service : of a service: lines on its schedule, its next round, and its last failure.
    troubles : empty where all is well.
    """

    path: str
    kind: str
    state: str
    host: str = ""
    version: str = ""
    method: str = ""
    methods: Sequence[str] = ()
    twin: str = ""
    round: int = 0
    finished: int = 0
    rounds: int = 0
    phase: str = ""
    phase_seconds: float | None = None
    limit: float | None = None
    seconds: float = 0.0
    seconds_left: float | None = None
    round_seconds: float | None = None
    asked: Sequence[str] = ()
    waited_for: Sequence[str] = ()
    bytes_up: float | None = None
    bytes_down: float | None = None
    disk_free: int | None = None
    memory: int | None = None
    certificate_days: float | None = None
    people: Sequence[Person] = ()
    together: Sequence[Together] = ()
    turned_away: Sequence[tuple[str, str]] = ()
    parts: Sequence[str] = ()
    service: Sequence[str] = ()
    troubles: Sequence[Trouble] = ()

    @property
    def expected(self) -> list[Person]:
        """The people who should take part: all who have not departed."""
        return [person for person in self.people if person.state not in DEPARTED]

    @property
    def there(self) -> int:
        """How many of these are connected, as far as is known."""
        return sum(person.state != "away" for person in self.expected)

    @property
    def worse_than_alone(self) -> list[str]:
        """The people whose twin without others is better than their model."""
        return [person.client for person in self.people if person.worse_than_alone]

    @property
    def compared(self) -> int:
        """The number of people of whom both scores are known."""
        known = [p for p in self.people if p.macro_f1 is not None or p.mae is not None]
        return sum(person.alone is not None for person in known)

    @property
    def verdict(self) -> Verdict:
        """Whether it is well."""
        if self.state in ("stopped", "not begun"):
            return Verdict.STOPPED
        return Verdict.TROUBLE if self.troubles else Verdict.WELL
