"""What the server half of a method is made of: the part of a strategy that methods write and use.

A method's own part is pure functions over a state of plain named tensors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torch import Tensor

from fedsub_core.config.halves import ServerSettings
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.secure import uploads as vectors
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.context import Addends, Opened, Sender, Start
from strategies.rounds.link import Link
from strategies.rounds.memory import Memory
from strategies.rounds.own_time import OwnTime
from strategies.rounds.population import Population
from strategies.rounds.transport import Transport

State = dict[str, Tensor]


class ServerHalf(ABC):
    """The server half of a method, without the rounds that drive it.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.
    """

    #: The architecture, once devices have said what their samples look like.
    model: Model
    #: The way to its nodes, once it has one; and the run's clients, once they have been asked.
    link: Link
    population: Population

    def __init__(self, settings: ServerSettings) -> None:
        self.settings, self.hyper = settings, settings.hyper
        self.card = method(settings.method)
        #: The run's name, by which a device tells this run from another; may be empty.
        self.run_name = ""
        #: Which share each client holds in this round, in (0, 1], and the models of those that hold
        #: less than the run's.
        self.capacities: dict[str, float] = {}
        self.narrow: dict[str, Model] = {}
        self.state: State | None = None
        self.finished_rounds = 0
        #: How long the method's own part takes.
        self.own_time = OwnTime()
        #: Who is in the round's secure sum.
        self.in_sum: frozenset[str] = frozenset()
        #: What each of the round's clients was sent.
        self.delivered: Mapping[str, Bundle] = {}
        self.transport = Transport(settings.wire, settings.rounds.quorum)
        self.memory = Memory(references=self.transport.references)

    # What a method defines.

    @abstractmethod
    def init(self, start: Start) -> State:
        """Return the server's state before the first round."""

    @abstractmethod
    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return what each of `clients` gets at the start of its next round."""

    @abstractmethod
    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Return the state after a round's uploads, and what is to be known of it.

        Uploads come by client in ascending order of ids.
        """

    def check(self, state: State, sender: Sender, upload: Bundle) -> None:
        """Raise MessageRefused (:meth:`Sender.refuse`) if an upload cannot be used as declared."""
        return  # what is as the card declares it can be used

    def addends(self, state: State, clients: Sequence[str], turn: Turn) -> Addends | None:
        """Return what a round's `clients` add up where uploads are summed; None: nothing.

        Here all that the method sends, of all of them.
        """
        numbers = vectors.length(self.transport.sends)
        return Addends(tuple(clients), numbers, self.settings.secure.secure_range)

    def aggregate_sum(
        self, state: State, opened: Opened | None, uploads: Mapping[str, Bundle], turn: Turn
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
        received = self.delivered[min(opened.clients)]  # the same to all
        mean = vectors.mean_upload(opened.total, received, self.transport.sends)
        return self.aggregate(state, {"": mean}, turn)

    def placed(self, state: State, client: str, bundle: Bundle, turn: Turn) -> Bundle:
        """Return what a client sent or was sent, saying where its numbers stand in the run's model.

        `state` is the one before the round. Here a weak device has the first entries of each axis.
        """
        return self.transport.placed(client, bundle)

    def without(self, state: State, client: str) -> State:
        """Return the state without what it keeps of one client; here it keeps of nobody."""
        return state

    def astray(self, state: State) -> list[str]:
        """Return who leads the others astray by what the state holds of it, ascending.

        Asked for where most uploads of a round cannot be used. Here nobody can tell.
        """
        return []

    def of_nobody(self, state: State) -> State:
        """Return the state without anybody in it: by it all are sent what is common to all.

        Here that is the state as it is.
        """
        return state

    def gone_back(self, state: State, left: State) -> State:
        """Return an earlier state that the run goes back to, with what of `left` cannot be undone.

        `left` is the state that it leaves; here all of it can.
        """
        return state

    def participants(self, turn: Turn, state: State) -> list[str]:
        """Return who trains in a round, ascending."""
        population = self.population
        if self.wants_all(turn):
            return population.taking_part(turn.round)
        return population.sample(turn.round)

    def wants_all(self, turn: Turn) -> bool:
        """Whether everybody is asked in a round, whatever ``clients-per-round`` says."""
        return False

    # What methods are made of.

    @property
    def simulated(self) -> bool:
        """Whether nobody takes part but simulated people: all then follows from the run's seed."""
        return self.link.in_process or self.population.registry.simulated

    @property
    def most_examples(self) -> float:
        """Of everybody's median, as how many samples one person counts; 0: nobody is bounded."""
        return self.settings.robust.most_examples

    @property
    def evaluates_download(self) -> bool:
        """Whether the tested model is the one after the newest download."""
        return bool(self.hyper.tested == "received")

    def begin(self) -> State:
        """Return the state that a run begins with among the clients that are there."""
        clients = tuple(self.population.clients)
        return self.init(Start(self.model, self.transport.sends, clients))

    def held_by(self, client: str) -> Model:
        """Return the model that a client holds: the run's, or what its capacity allows of it."""
        return self.narrow.get(client, self.model)

    def turn(self, round: int) -> Turn:
        """Return a round's turn."""
        return Turn(round, self.settings.rounds.rounds, self.settings.rounds.seed)

    def evaluated_downloads(self, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return what makes each client's state the one it is tested in.

        Where few are drawn for each round, who was in none yet is tested with what it would start
        from: all that the run has for it.
        """
        assert self.state is not None
        asked = list(clients)
        if not self.evaluates_download:
            drawn = self.settings.rounds.clients_per_round
            asked = [c for c in clients if drawn and c not in self.memory.trained]
        sent = self.tested_with(self.state, asked, turn) if asked else []
        found = dict(zip(asked, sent, strict=True))
        return [found.get(client, Bundle()) for client in clients]

    def tested_with(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return what clients are tested with; here what they get at the start of a round."""
        return self.downloads(state, clients, turn)

    # What outlives the process.

    def resume(self, round: int, state: State) -> None:
        """Continue after `round`, whose state is `state`."""
        self.finished_rounds = round
        self.memory, self.state = Memory.split(state)
        self.transport.references = self.memory.references

    def lasting_state(self) -> State:
        """Return all that the run needs to go on after the last finished round."""
        assert self.state is not None
        return self.state | self.memory.tensors()

    def forget(self, client: str) -> None:
        """Remove a client from what :meth:`resume` brought back: what others learnt of it stays."""
        assert self.state is not None
        self.memory.forget(client)
        self.state = self.without(self.state, client)
