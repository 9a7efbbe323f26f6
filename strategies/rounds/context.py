"""Values that a method gets: a run's start, what people add up, its sum, an upload's sender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.models.model import Model
from fedsub_core.secure.quantise import Levels, Total
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Declaration
from fedsub_core.wire.envelope import refusal
from strategies.rounds.agreement import Agreement, check_gained
from strategies.rounds.identity import Identities


@dataclass(frozen=True)
class Start:
    """The start of a run, once devices have said who they are and what their samples are like.

    Parameters
    ----------
    model : the architecture.
    sends : the tensors that the method's card says a device sends, by name.
    clients : ids of those who are there.
    simulated : whether nobody takes part but simulated people: all then follows from the seed.
    """

    model: Model
    sends: Declaration
    clients: tuple[str, ...]
    simulated: bool = True


@dataclass(frozen=True, eq=False)
class Earlier:
    """What another run left, with whose models a run begins.

    Parameters
    ----------
    run : its name, by which devices know their own states of it; "": they have none.
    agreed : what it had agreed on.
    state : its server half's.
    where : its folder, for errors.
    identities : whose key is whose: people's own parts of the state are for their devices alone.
    left_out : who trained no more.
    """

    run: str
    agreed: Agreement
    state: dict[str, Tensor]
    where: str
    identities: Identities
    left_out: frozenset[str]

    def check(self, classes: tuple[str, ...], shape: tuple[int, ...]) -> None:
        """Refuse (RunError) a run whose people have other samples than this one's had."""
        check_gained(self.agreed.classes, classes, f"from-run = {self.where}: the run of now")
        if shape != self.agreed.shape:
            raise RunError(
                f"from-run = {self.where}: samples: got {shape}, expected {self.agreed.shape} as "
                "its models see them. Begin without it"
            )


@dataclass(frozen=True)
class SumRequest:
    """The vectors that are added up in a round of secure sums.

    Parameters
    ----------
    clients : whose.
    numbers : of each one's vector, with the two behind.
    range : greatest size of a number for each sample that a person weighs.
    opened_of : of how many people at least it may be opened; 0: as many as any sum.
    others : whether all others of the round are sent their downloads, too, and answer with nothing.
    needed : whether the run ends where too few people take part.
    detail : what that is, in the method's own words, for who makes downloads and takes the sum.
    once : the name of vectors that stay the same from round to round; "": they change.
    """

    clients: tuple[str, ...]
    numbers: int
    range: float
    opened_of: int = 0
    others: bool = False
    needed: bool = True
    detail: Any = None
    once: str = ""


@dataclass(frozen=True)
class Opened:
    """A round's sum.

    Parameters
    ----------
    total : what it says; None: what no people who add up what they were asked for can say.
    clients : whose vectors are in it, ascending.
    levels : by which their numbers were rounded; as how many samples one of them counted at most.
    lost : whose vectors were in an opened sum of which nothing is used, ascending.
    """

    total: Total | None
    clients: tuple[str, ...]
    levels: Levels
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class PromisedNoise:
    """Noise that a run promises on what leaves the server of its sums.

    Parameters
    ----------
    options : that say how much, with their values.
    secret : what it follows from.
    """

    options: Mapping[str, float]
    secret: int


@dataclass(frozen=True)
class DrawnNoise:
    """Noise that was drawn: normal, of one stream.

    Parameters
    ----------
    seed : of the stream.
    draws : of each draw, one after another, how many numbers, and their deviation.
    """

    seed: int
    draws: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class SummedPeople:
    """The people whose sums newcomers are sent.

    Parameters
    ----------
    people : how many; of a device that holds the whole encoder.
    holders : how many of them have each class at most, by label.
    knows : the ids of people whose samples the server can tell from others'.
    """

    people: int
    holders: tuple[int, ...]
    knows: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sender:
    """The sender of an upload, and its round.

    Parameters
    ----------
    client : its id.
    turn : the round's.
    """

    client: str
    turn: Turn

    def refuse(self, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error for an upload that the method cannot use."""
        return refusal(self.client, self.turn.round, what, got, expected)
