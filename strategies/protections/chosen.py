"""What a server does to learn less of single people, or to let others learn less of them.

Secure sums of uploads and of what all standardise by, and noise on means.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from fedsub_core.config.halves import ServerSettings
from fedsub_core.data.standardise import POOLS, Scaling
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.names import resolve_encoder
from fedsub_core.encoders.standardised import shared_features
from fedsub_core.extras import require
from fedsub_core.metrics import MetricRow
from fedsub_core.models.architecture import Shape
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.agreement import Agreement
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.noised_means import NoisedMeans
from strategies.rounds.pace import most_of
from strategies.rounds.secure_sums import SecureSums, TooFew, most_weight
from strategies.rounds.server_half import ServerHalf
from strategies.rounds.standardising import of_each, standardisation

log = logging.getLogger("fedsub")


class Protections(ServerHalf):
    """The protections of a run, as its configuration asks for them.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.

    Raises
    ------
    ConfigError
        If it wants noise on means, and what counts its epsilon is not installed.
    """

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        if settings.noise.dp_noise:
            # Here and not where the configuration is checked: devices need no accountant.
            require("dp-noise", "dp_accounting")
        #: Where the server is to learn sums of uploads alone, what makes them.
        self.sums: SecureSums | None = None
        #: Where what is sent of a mean is to tell little of any person, what makes means.
        self.means: NoisedMeans | None = None
        #: What another method of the same run standardises by, where that was learnt as a sum: a
        #: second one, over other people, would tell of those who are in one alone.
        self.standardised_before: Scaling | None = None
        #: What is to be known of the round.
        self._rows: list[MetricRow] = []
        #: Whether each client that was asked for something answered, and usably if it was to train.
        self._answered: dict[str, bool] = {}

    # Before the first round.

    def _begin_sums(self) -> None:
        if (secure := self.settings.secure).secure_aggregation:
            self.sums = SecureSums(secure, self.transport, self.run_name, self.card.name)

    def _begin_noise(self) -> None:
        if (noise := self.settings.noise).dp_noise:
            self.memory.noise.begin(self.simulated, self.settings.rounds.seed)
            self.means = NoisedMeans(noise, self.memory.noise, self.transport.sends)

    def _shared_features(self, shape: Shape) -> int:
        """Return of how many features of samples of `shape` devices send moments."""
        text = resolve_encoder(self.settings.encoder, self.card.encodes, shape)
        encoder = build_encoder(text, self.settings.rounds.seed, shape)
        return shared_features(encoder, self.card.trains, self.settings.standardise)

    def _standardisation(self, registry: NodeRegistry, agreed: Agreement) -> Scaling | None:
        """Return what all standardise by: nobody who is held out has a part in it."""
        if self.settings.standardise not in POOLS:
            return None
        rounds = self.settings.rounds
        people = sorted(registry.nodes.keys() - agreed.unseen)
        if self.sums is None:
            said = [registry.introductions[client] for client in people]
            everybodys = of_each(said, self.settings.standardise)
        else:
            nodes = {client: registry.nodes[client] for client in people}
            most = 0 if registry.simulated else most_of(len(people), rounds.quorum)
            everybodys = partial(self.sums.moments, self.link, nodes, rounds.round_timeout, most)
        features = self._shared_features(agreed.shape)
        return standardisation(agreed.shape, features, everybodys, self.standardised_before)

    # In a round.

    def _begin_sum(self, sums: SecureSums, turn: Turn, clients: list[str]) -> list[str]:
        """Let a round's clients prepare a secure sum; return who is sent a download."""
        assert self.state is not None
        self.in_sum = frozenset()
        with self.own_time:
            addends = self.addends(self.state, clients, turn)
        if addends is None:
            sums.none()
            return clients
        population, rounds = self.population, self.settings.rounds
        try:
            summed = sums.begin(
                self.link,
                turn.round,
                addends,
                self._most_weight(addends.clients),
                self.settings.noise.longest,
                population.nodes,
                rounds.round_timeout,
                self._most_of(len(addends.clients)),
            )
        except TooFew as error:
            if addends.needed:
                raise
            log.warning("round %d: nothing is added up: %s", turn.round, error)
            summed = []
        self.in_sum = frozenset(summed)
        return clients if addends.others else summed

    def _most_weight(self, clients: Sequence[str]) -> int:
        """Return as how many samples one person counts at most; with noise all count alike."""
        if self.means is not None:
            return 1
        examples = [self.population.facts(client).examples for client in clients]
        return most_weight(examples, self.most_examples)

    def _take_sum(self, sums: SecureSums, turn: Turn, uploads: Mapping[str, Bundle]) -> None:
        """Open the sum of a round's uploads, and let the method take it."""
        assert self.state is not None
        self._answered |= dict.fromkeys(sums.left, False)
        # Who said nothing before training would make everybody wait once more when tested.
        self.transport.delivery.silent |= sums.left
        opened, state = None, self.state
        if self.in_sum:
            rounds, nodes = self.settings.rounds, self.population.nodes
            timeout = self.transport.delivery.time_left(rounds.round_timeout)
            vectors = {client: one for client, one in uploads.items() if client in self.in_sum}
            most = self._most_of(len(vectors))
            opened, rows = sums.close(self.link, turn.round, vectors, nodes, timeout, most)
            self._rows += rows
        if self.means is not None and opened is not None:
            opened, rows = self.means.of_sum(opened, turn.round)
            self._rows += rows
        with self.own_time:
            self.state, rows = self.aggregate_sum(state, opened, uploads, turn)
        self._rows += rows

    def _most_of(self, asked: int) -> int:
        """Return how many answers of those asked set the pace of an exchange; 0: none do.

        Simulated people take turns on one machine, and their results must follow from the seed
        alone. (In one process all have answered before anybody is waited for.)
        """
        simulated = self.population.registry.simulated
        return 0 if simulated else most_of(asked, self.settings.rounds.quorum)

    def _take_noised(self, means: NoisedMeans, turn: Turn, uploads: Mapping[str, Bundle]) -> None:
        """Let the method take the mean of a round's uploads, with noise on it."""
        if not uploads:
            return
        assert self.state is not None
        mean, rows = means.of_uploads(uploads, self.delivered, turn.round)
        self._rows += rows
        with self.own_time:
            self.state, rows = self.aggregate(self.state, {"": mean}, turn)
        self._rows += rows
