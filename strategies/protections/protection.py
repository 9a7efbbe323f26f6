"""A protection: what a server does to learn less of single people, or to let others learn less."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from flwr.app import ConfigRecord

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Declaration
from strategies.protections.noised_means import NoisedMeans
from strategies.protections.open_sum import OpenSum
from strategies.protections.secure_sums import SecureSums
from strategies.rounds.connection import Connection
from strategies.rounds.own_time import OwnTime
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.undoing import Undoing


@dataclass(frozen=True, eq=False)
class Begun:
    """A round that people were asked to prepare.

    Parameters
    ----------
    round : with what was asked of whom.
    clients : who is sent a download.
    sum : of their vectors; None: nothing is added up.
    also : who is asked to evaluate its model after training it.
    """

    round: Round
    clients: list[str]
    sum: OpenSum | None = None
    also: frozenset[str] = frozenset()

    @property
    def records(self) -> Mapping[str, ConfigRecord]:
        """The records that go beside the downloads, by client."""
        return {} if self.sum is None else self.sum.records

    @property
    def left(self) -> frozenset[str]:
        """Who was asked, and did not say what a sum takes."""
        return frozenset() if self.sum is None else self.sum.left


@dataclass(frozen=True, eq=False)
class ProtectedRun:
    """What a run has of which a protection may be made.

    Parameters
    ----------
    half, connection, own_time : a protection's.
    sends : the tensors of an upload.
    undoing : the last rounds, as they can be undone.
    sums : what makes secure sums; None: the run asks for none.
    means : what makes means with noise; None: the run asks for none.
    """

    half: ServerHalf
    connection: Connection
    own_time: OwnTime
    sends: Declaration
    undoing: Undoing
    sums: SecureSums | None = None
    means: NoisedMeans | None = None


@dataclass(frozen=True, eq=False)
class Protection(ABC):
    """The way in which a method's server half gets what people send.

    Parameters
    ----------
    half : the method's.
    own_time : in which the method's own part is counted.
    """

    half: ServerHalf
    connection: Connection
    own_time: OwnTime

    @classmethod
    @abstractmethod
    def wanted(cls, run: ProtectedRun) -> Self | None:
        """Return the protection of a run that asks for this one; None: it does not.

        Raises ConfigError if it asks for something else, too, that does not go with it.
        """

    def begin(self, state: State, round: Round, clients: list[str]) -> Begun:
        """Let a round's clients prepare what they send; here there is nothing to prepare."""
        return Begun(round, clients)

    @abstractmethod
    def take(
        self, state: State, begun: Begun, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Return the state after a round's uploads, and what is to be known of it.

        `uploads` are by client, in ascending order.
        """
