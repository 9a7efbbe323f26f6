"""FRAMP, the server half: a network makes everybody's model, and learns from how it was trained."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import cos, radians, sin, sqrt

import torch
from torch import Tensor

from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.seeds import generator
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.methods.framp import DESCRIPTOR, OF_SAMPLES, WANTED
from fedsub_papers.strategies.parts.elements import ElementServer
from fedsub_papers.strategies.parts.hypernetwork import generated, learnt, network
from strategies.parts.prototype_means import (
    check_prototypes,
    known_prototypes,
    mean_prototypes,
    no_prototypes,
)
from strategies.parts.prototype_places import prototype_places
from strategies.parts.roster import Roster
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

CLIENTS, DESCRIPTORS, CENTRE, SPREAD = "clients", "descriptors", "centre", "spread"
#: A median of ways from the centre, times this, is a normal deviation; and how many count at most.
NORMAL, FARTHEST = 1.4826, 3.0
_NETWORK = "network."


class FRAMPServer(ElementServer):
    """State: ``network.<tensor>``; the prototypes; whose ``descriptors`` [n, size] are known.

    ``centre`` and ``spread`` [size] are those of the first round's descriptors, 0 before it. Norms'
    running statistics, which are everybody's mean, go by their names in the model.
    """

    def init(self, start: Start) -> State:
        """Return a network whose model of the mean descriptor is the plain start."""
        model, seed, size = start.model, self.settings.rounds.seed, self.hyper.size
        first = {n: t[0] for n, t in model.init(1, seed).items() if n in model.parameter_shapes}
        others = {name: first.pop(name) for name in first.keys() - set(model.trained)}
        made = network(first, size, self.hyper.hidden, generator(seed, "", 0, "hypernetwork"))
        none = {CLIENTS: Roster(()).tensor(), DESCRIPTORS: torch.zeros(0, size)}
        none |= {CENTRE: torch.zeros(size), SPREAD: torch.zeros(size)}
        made = {f"{_NETWORK}{name}": tensor for name, tensor in made.items()}
        return made | others | none | no_prototypes(model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send each its share of its own model, prototypes, and whether to describe its data."""
        known, beside = Roster.of(state[CLIENTS]).place, known_prototypes(state)
        asked = {WANTED: Floats(torch.ones(1).numpy())}
        every = self.hyper.descriptor_every
        anew = every > 0 and (round.number - 1) % every == 0
        sent = []
        for client, model in zip(clients, self.models(state, clients), strict=True):
            own = self.part(
                round, model | _statistics(state, round.model), round.capacities[client]
            )
            tensors = {**own.tensors, **beside}
            if WANTED in round.receives and (anew or client not in known):
                tensors |= asked
            sent.append(Bundle(tensors=tensors))
        return sent

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the numbers that were sent, prototypes, and a descriptor if it was asked for."""
        super().check(state, round, sender, upload)
        check_prototypes(upload, sender.refuse)
        asked = WANTED in round.sent[sender.client].tensors
        if asked and DESCRIPTOR not in upload.tensors:
            raise sender.refuse(DESCRIPTOR, "none", "one, as it was asked for")
        if DESCRIPTOR in upload.tensors:
            if not asked:
                raise sender.refuse(DESCRIPTOR, "one", "none, as nobody asked for it")
            if (least := float(upload.floats(DESCRIPTOR).min())) < 0:
                raise sender.refuse(DESCRIPTOR, f"a mean of {least:g}", "none below 0")

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Step the network along what the models moved by, average prototypes, note descriptors."""
        if not uploads:
            return state, []
        if not 0 < self.hyper.freeze_after < round.number:
            state = state | self._learnt(state, round, uploads)
        rows = self.counted(round, uploads)
        rows += prototype_places(state, uploads, round.turn, self.settings.rounds)
        if self.hyper.descriptor == "one-hot":
            return numbered(state, uploads), rows
        state, told = self._described(state, uploads, round.number)
        return state, told + rows

    def _learnt(self, state: State, round: Round, uploads: Mapping[str, Bundle]) -> State:
        """Return the network, statistics and prototypes after a round's uploads."""
        phi, vectors = _network(state), self.vectors(state, list(uploads))
        moves, held = self._moves(state, uploads)
        after = learnt(phi, vectors, moves, held, self.hyper.beta, self.settings.robust)
        made = {f"{_NETWORK}{name}": tensor for name, tensor in after.items()}
        made |= self.mean(uploads, _statistics(state, round.model))
        return made | mean_prototypes(state, uploads, self.settings.robust)

    def without(self, state: State, client: str) -> State:
        """Return the state without a client's descriptor."""
        roster = Roster.of(state[CLIENTS])
        kept = [i for i, one in enumerate(roster.clients) if one != client]
        left = {CLIENTS: roster.without(client).tensor(), DESCRIPTORS: state[DESCRIPTORS][kept]}
        return state | left

    def of_nobody(self, state: State, round: Round) -> State:
        """Return the state in which everybody's model is the mean descriptor's."""
        blind = f"{_NETWORK}hidden.weight"
        return state | {blind: torch.zeros_like(state[blind])}

    def vectors(self, state: State, clients: Sequence[str]) -> Tensor:
        """Return the vectors from which clients' models are made, [n, size]; 0 where unknown."""
        found = torch.zeros(len(clients), self.hyper.size)
        if self.hyper.descriptor == "drawn":
            seed = self.settings.rounds.seed
            for i, client in enumerate(clients):
                found[i].normal_(generator=generator(seed, client, 0, "descriptor"))
        elif self.hyper.descriptor == "one-hot":
            place = Roster.of(state[CLIENTS]).place
            for i, client in enumerate(clients):
                if client in place:  # as long as what is drawn
                    found[i] = state[DESCRIPTORS][place[client]] * sqrt(self.hyper.size)
        elif self.hyper.descriptor in OF_SAMPLES:
            place, spread = Roster.of(state[CLIENTS]).place, state[SPREAD]
            for i, client in enumerate(clients):
                if client in place:
                    away = state[DESCRIPTORS][place[client]] - state[CENTRE]
                    found[i] = (away / spread).where(spread > 0, 0).clamp(-FARTHEST, FARTHEST)
        blur, turned = self.hyper.descriptor_noise, radians(self.hyper.descriptor_rotation)
        for i, client in enumerate(clients) if blur or turned else ():
            stream = generator(self.settings.rounds.seed, client, 0, "descriptor noise")
            found[i] = disturbed(found[i], blur, turned, stream)
        return found

    def models(self, state: State, clients: Sequence[str]) -> Iterator[State]:
        """Yield each client's model, whole, without statistics.

        One at a time: the bits of one do not depend on the others, nor does what is held.
        """
        phi = _network(state)
        for vector in torch.split(self.vectors(state, clients), 1):
            yield {name: made[0] for name, made in generated(phi, vector).items()}

    def _moves(self, state: State, uploads: Mapping[str, Bundle]) -> tuple[Tensor, Tensor]:
        """Return how each client's numbers moved [n, d], 0 where it has none, and which it has."""
        moves, held = list[Tensor](), list[Tensor]()
        for upload, model in zip(uploads.values(), self.models(state, list(uploads)), strict=True):
            ways, own = list[Tensor](), list[Tensor]()
            for name, made in model.items():
                part = upload.part(name)
                way = torch.from_numpy(part.values.copy()) - part.at.take(made)
                ways.append(part.at.put(torch.zeros_like(made), way).flatten())
                own.append(torch.from_numpy(part.at.held(made.shape)).flatten())
            moves.append(torch.cat(ways))
            held.append(torch.cat(own))
        return torch.stack(moves), torch.stack(held)

    def _described(
        self, state: State, uploads: Mapping[str, Bundle], round: int
    ) -> tuple[State, list[MetricRow]]:
        """Return the state with the descriptors in uploads; the first ones say what is usual."""
        sent = {c: u.floats(DESCRIPTOR) for c, u in uploads.items() if DESCRIPTOR in u.tensors}
        if not sent:
            return state, []
        before = Roster.of(state[CLIENTS])
        roster = before.joined(sent)
        known = torch.zeros(len(roster.clients), self.hyper.size)
        before.moved(state[DESCRIPTORS], known, roster)
        for client, numbers in sent.items():
            known[roster.place[client]] = torch.from_numpy(numbers.copy())
        state = state | {CLIENTS: roster.tensor(), DESCRIPTORS: known}
        if not state[SPREAD].any():  # nobody could be told apart yet
            centre = known.quantile(0.5, dim=0)
            state |= {CENTRE: centre, SPREAD: (known - centre).abs().quantile(0.5, dim=0) * NORMAL}
        spread = float(known.std(0, correction=0).norm() / known.mean(0).norm().clamp(min=1e-12))
        return state, [MetricRow(round, "", None, "descriptor_spread", spread)]


def numbered(state: State, clients: Iterable[str]) -> State:
    """Return the state in which clients without a number have one each, while there are any.

    ``descriptors`` are then 1 at the client's number, else 0: it stays when others are forgotten.
    """
    before = Roster.of(state[CLIENTS])
    free = (~state[DESCRIPTORS].bool().any(0)).nonzero().flatten().tolist()
    new = dict(zip(sorted(set(clients) - set(before.clients)), free, strict=False))
    roster = before.joined(new)
    known = torch.zeros(len(roster.clients), state[DESCRIPTORS].shape[1])
    before.moved(state[DESCRIPTORS], known, roster)
    for client, number in new.items():
        known[roster.place[client], number] = 1.0
    return state | {CLIENTS: roster.tensor(), DESCRIPTORS: known}


def disturbed(vector: Tensor, blur: float, angle: float, stream: torch.Generator) -> Tensor:
    """Return a vector turned by an angle in radians, towards what is drawn, and blurred.

    What is added is of `blur` times its length, in the mean of squares.
    """
    length: Tensor = vector.norm()
    if not length > 0:
        return vector
    aside, noise = torch.randn(2, len(vector), generator=stream)
    aside = aside - vector * (aside @ vector) / length.square()
    aside = aside / aside.norm().clamp(min=1e-12) * length
    turned = vector * cos(angle) + aside * sin(angle)
    blurred: Tensor = turned + noise * length * (blur / sqrt(len(vector)))
    return blurred


def _statistics(state: State, model: Model) -> State:
    return {n: state[n] for n in model.parameter_shapes if n not in model.trained}


def _network(state: State) -> State:
    return {n.removeprefix(_NETWORK): t for n, t in state.items() if n.startswith(_NETWORK)}
