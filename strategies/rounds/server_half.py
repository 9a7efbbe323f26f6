"""The server half of a method: pure functions of a state of plain named tensors and a round.

Nothing that one of them is told is kept for another: what a method knows stands in its state, and
what a round is, in :class:`~strategies.rounds.round.Round`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.secure import uploads as vectors
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.context import (
    DrawnNoise,
    Opened,
    PromisedNoise,
    Sender,
    Start,
    SummedPeople,
    SumRequest,
)
from strategies.rounds.lasting_states import GoesOn
from strategies.rounds.round import Round

State = dict[str, Tensor]


class ServerHalf(GoesOn, ABC):
    """The server half of a method, which :class:`PersonalizedStrategy` drives.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.
    """

    #: Names of uploaded whole numbers that the state holds under ``<name>/<client>`` as they came,
    #: for the whole run, and that nobody changes in place: many people's lie in files
    #: (:mod:`strategies.rounds.on_disk`).
    keeps: frozenset[str] = frozenset()
    #: Whether the state keeps what each person sent last, which a late upload takes the place of:
    #: of a mean it moves the state by less, the older it is (:mod:`strategies.rounds.late`).
    keeps_people = False

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.hyper = settings, settings.hyper
        self.card = method(settings.method)

    @classmethod
    def of(cls, settings: ServerSettings) -> ServerHalf:
        """Return the server half that settings are for, by its card.

        Raises ConfigError if the card, which may be another package's, names none.
        """
        card = method(settings.method)
        try:
            half = card.load_strategy(settings.secure.secure_aggregation)
        except (ImportError, AttributeError) as error:
            raise _none(card, error) from error
        if not (isinstance(half, type) and issubclass(half, ServerHalf)):
            raise _none(card, half)
        return half(settings)

    # What a method defines.

    @abstractmethod
    def init(self, start: Start) -> State:
        """Return the server's state before the first round."""

    @abstractmethod
    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Return the download of each of `clients` at the start of a round."""

    @abstractmethod
    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Return the state after a round's uploads, and what is to be known of it.

        Uploads come by client in ascending order of ids. Whom a row ``left_out`` names trains no
        more.
        """

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Raise MessageRefused (:meth:`Sender.refuse`) if an upload cannot be used as declared."""
        return  # what is as the card declares it can be used

    def sum_request(self, state: State, round: Round, clients: Sequence[str]) -> SumRequest | None:
        """Return the vectors that a round's `clients` add up in secure sums; None: none.

        Here all that the method sends, of all of them.
        """
        numbers = vectors.length(round.sends)
        return SumRequest(tuple(clients), numbers, self.settings.secure.secure_range)

    def fault(self, state: State, round: Round, opened: Opened) -> str:
        """Return why no people who add up what they were asked for lead to a sum; "" if they can.

        Here nobody can tell: of a mean, all that its range allows can be.
        """
        return ""

    def aggregate_sum(
        self, state: State, round: Round, opened: Opened | None, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Return the state after a round whose uploads were summed, and what is to be known of it.

        Here the mean is taken as if one person had sent it.

        Parameters
        ----------
        opened : the sum; None: there is none.
        uploads : what came, by client: vectors under masks, and of others nothing but a header.
        """
        if opened is None or opened.total is None or not opened.total.weight:
            return state, []
        received = round.sent[min(opened.clients)]  # the same to all
        mean = vectors.mean_upload(opened.total, received, round.sends)
        return self.aggregate(state, round, {"": mean})

    def promised_noise(self, state: State) -> PromisedNoise | None:
        """Return the noise that the method promises on what leaves the server; None: none."""
        return None

    def drawn_noise(self, before: State, after: State) -> list[DrawnNoise]:
        """Return the noise on what leaves the server after a sum, and did not before it."""
        return []

    def placed(self, state: State, round: Round, client: str, bundle: Bundle) -> Bundle:
        """Return a client's upload or download with the places of its numbers in the run's model.

        `state` is the one before the round. Here a weak device has the first entries of each axis.
        """
        return round.placed(client, bundle)

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client; here it keeps of nobody."""
        return state

    def astray(self, state: State) -> list[str]:
        """Return the clients that lead others astray by what the state holds of them, ascending.

        Asked for where most uploads of a round cannot be used. Here nobody can tell.
        """
        return []

    def of_nobody(self, state: State, round: Round) -> State:
        """Return the state without anybody in it: by it all are sent what is common to all.

        Here that is the state as it is.
        """
        return state

    def summed_people(self, state: State, round: Round) -> SummedPeople:
        """Return the people whose sums a device is sent that joins after the last round.

        Raises ConfigError if the method solves nothing of sums, as here. Raises RunError if the run
        had too few rounds for that.
        """
        raise ConfigError(
            f"method {self.card.name!r}: got a method that trains models in rounds, expected "
            "fedsub-ridge, which solves a newcomer's of the run's sums. With this method, let the "
            "person take part in a run; split = unseen measures how well it does there"
        )

    def with_nothing(self, state: State, client: str) -> State:
        """Return the state in which a client's device has nothing that it was sent.

        Here the server does not know what devices have.
        """
        return state

    def with_other_samples(self, state: State, client: str) -> State:
        """Return the state for a client that comes with other samples in place of all it had.

        It is sent what newcomers are.
        """
        return self.without(state, client)

    def gone_back(self, state: State, left: State) -> State:
        """Return an earlier state that the run goes back to, with what of `left` cannot be undone.

        `left` is the state that it leaves; here all of it can.
        """
        return state

    def resumed(self, state: State, turn: Turn) -> tuple[State, list[str]]:
        """Return a state that an earlier process left, and whom it leaves out from now on.

        Here it is taken as it is.
        """
        return state, []

    def heard_of(self, state: State) -> list[str]:
        """Return the clients that made rounds by what the state holds; here it does not tell."""
        return []

    def participants(self, state: State, round: Round) -> list[str]:
        """Return the clients that train in a round, ascending."""
        return list(round.present if self.wants_all(round.turn) else round.drawn)

    def wants_all(self, turn: Turn) -> bool:
        """Whether everybody is asked in a round, whatever ``clients-per-round`` says."""
        return False

    def tested_with(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Return the downloads that clients are tested with; here those of a round's start."""
        return self.downloads(state, round, clients)

    def tested_as_in(self, round: Round) -> Round:
        """Return the round as in which clients are tested after `round`; here that round."""
        return round

    # What methods are made of.

    @property
    def most_examples(self) -> float:
        """The most samples that one person counts as, in medians of all; 0: nobody is bounded."""
        return self.settings.robust.most_examples

    @property
    def evaluates_download(self) -> bool:
        """Whether the tested model is the one after the newest download."""
        return bool(self.hyper.tested == "received")


def _none(card: MethodCard, got: object) -> ConfigError:
    return ConfigError(
        f"method {card.name!r}: {card.strategy}: got {got}, expected a server half of this release "
        "(strategies.rounds.server_half.ServerHalf)"
    )
