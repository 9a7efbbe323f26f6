"""Who is asked in a round, when it ends, and what comes of uploads that miss it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from fedsub_core.options import choice, option

#: Who is drawn: at random, or so that people who are seldom there have their share, too.
AT_RANDOM, BY_ATTENDANCE = DRAWS = ("random", "attendance")


@dataclass(frozen=True)
class ParticipationSettings:
    """Who is asked in a round, when it ends, and what comes of uploads that miss it."""

    clients_per_round: int = option(
        0,
        "number of clients drawn in each round; 0 = all. A client that was never drawn is tested "
        "with its initial model",
        minimum=0,
    )
    draw: str = choice(
        *DRAWS,
        doc="how clients-per-round are drawn; random: all who are there alike; attendance: people "
        "who are there rarely, sometimes and mostly get the share of the round that they are of "
        "all people, as far as they are there",
    )
    ask: float = option(
        1.0,
        "people asked in a round for each of clients-per-round: the round ends once "
        "clients-per-round of them sent a usable upload. Above 1, who is likely to answer is drawn "
        "more often",
        minimum=1,
        maximum=10,
    )
    late_hours: float = option(
        0.0,
        "for how many hours after its round an upload still counts, in the round that goes on: in "
        "a mean by 1 / sqrt(1 + age in rounds), else in the place of what the person sent before; "
        "0: it is not used",
        minimum=0,
    )
    asynchronous: bool = option(
        False,
        "no rounds: the state moves with each clients-per-round usable uploads, of whatever age; "
        "who still works is not asked anew; needs late-hours",
    )

    pause_hours: float = option(
        0.0,
        "for how many hours after its upload a device is not asked to train again; 0: it may be "
        "asked in every round; of no effect in a simulation in one process, which has no hours",
        minimum=0,
    )

    @property
    def enough(self) -> int:
        """The number of usable uploads with which a round ends; 0: it waits for all it asked."""
        return self.clients_per_round if self.ask > 1 or self.asynchronous else 0

    @property
    def by_attendance(self) -> bool:
        """Whether people are drawn by how often they are there and answer."""
        return self.ask > 1 or self.draw == BY_ATTENDANCE

    @property
    def asked(self) -> int:
        """The number of people who are asked in a round; 0: all."""
        return ceil(self.ask * self.clients_per_round)
