"""A cohort: some clients' data and state, trained as one stack. A device is a cohort of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fedsub_client.best_so_far import ROUND, best_tensors, better_of, nothing_yet, used, used_round
from fedsub_client.evaluation import on_test_parts, on_validation_parts
from fedsub_client.learner import Learner, Report, State
from fedsub_client.own_heads import own_heads
from fedsub_client.personal_model import PersonalModel
from fedsub_client.scaled_data import ScaledData
from fedsub_client.split_client import SplitClient
from fedsub_client.stays import mean_stay
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.data.federation import Card
from fedsub_core.data.stacks import select_params
from fedsub_core.data.standardise import Moments, Scaling, moments
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.evaluation import Evaluation
from fedsub_core.models.model import Params
from fedsub_core.models.names import resolve_kind
from fedsub_core.pytorch import HERE, Tensor, copied, library, torch
from fedsub_core.secure.messages import FEATURES
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Declaration
from fedsub_core.wire.handshake import Facts, Introduction
from fedsub_core.wire.references import Reference


@dataclass
class Cohort:
    """Clients that share a stack, and what they keep between rounds.

    Parameters
    ----------
    receives : the tensors that the method's card says a device receives.
    card : of the federation the clients belong to.
    settings : of the method's device half.
    device : where the stack lives.
    encoder : what makes the features that the model sees; None: it sees samples.
    trains : whether the model is trained: its features are then standardised, too.
    own_encoder : what makes the features of people's own heads; None: they have none.
    """

    learner: Learner
    receives: Declaration
    card: Card
    clients: Sequence[SplitClient]
    settings: DeviceSettings
    device: str = "cpu"
    encoder: Encoder | None = None
    trains: bool = True
    own_encoder: Encoder | None = None
    state: State = field(init=False)
    references: list[Reference | None] = field(init=False)
    data: ScaledData = field(init=False)
    #: Whether the state's tensors are this cohort's alone, none of them another's.
    _own: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        widest = self.learner.model.widest
        self.data = ScaledData(
            self.clients, self.settings.standardise, self.device, widest, self.encoder, self.trains
        )
        initial = self.learner.init(len(self.clients), self.settings.seed)
        if self.clients[0].validation is not None:
            initial |= nothing_yet(initial)
        self.state = {name: self._here(tensor) for name, tensor in initial.items()}
        remembers = self.settings.wire.upload.feeds_back
        self.references = [
            Reference.empty(self.learner.sends) if remembers else None for _ in self.clients
        ]

    def hold(self, clients: Sequence[SplitClient]) -> None:
        """Hold these clients' data instead."""
        self.clients = clients
        self.data = replace(self.data, clients=clients)

    @property
    def keeps_best(self) -> bool:
        """Whether clients keep their best round's state beside the newest."""
        return ROUND in self.state

    # What a client says and keeps.

    def introductions(self) -> list[Introduction]:
        """Return the introduction of each client, with what it has before the first round."""
        return [
            Introduction(
                c.client,
                self.settings.version,
                self.card.classes,
                c.shape,
                Facts(len(c.train_y), c.can_hold),
                self._shown(moments(c.train_x)),
                features=None if made is None else self._shown(made),
                split=c.note,
            )
            for i, c in enumerate(client.at(0) for client in self.clients)
            for made in [self.data.shared_moments(i, FEATURES)]
        ]

    def _shown(self, own: Moments) -> Moments:
        """Return a client's sums; zeros where the server is to learn no single person's."""
        if not self.settings.secure.secure_aggregation:
            return own
        return replace(own, sum=0 * own.sum, sumsq=0 * own.sumsq)

    def client_state(self, i: int) -> State:
        """Return the kept tensors of the `i`-th client, by name, without a client axis."""
        reference = self.references[i]
        wire = {} if reference is None else reference.copy().state()
        return {name: _at_home(tensor[i]) for name, tensor in self.state.items()} | wire

    def fits(self, state: Mapping[str, Tensor]) -> bool:
        """Return whether a client of this cohort may have kept such a :meth:`client_state`.

        One that said another capacity then kept tensors of other shapes.
        """
        return all(
            name in state and state[name].shape == t.shape[1:] for name, t in self.state.items()
        )

    def load_states(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Inverse of :meth:`client_state`, for all clients."""
        self.state = {
            name: self._here(library(states[0][name]).stack([own[name] for own in states]))
            for name in self.state
        }
        self.references = [
            None if reference is None else Reference.of(own)
            for own, reference in zip(states, self.references, strict=True)
        ]

    def put(self, i: int, own: State) -> None:
        """Set all that the `i`-th client keeps, but its reference."""
        if not self._own:  # a method may have put one tensor at two places
            self.state = {name: copied(tensor) for name, tensor in self.state.items()}
            self._own = True
        for name, tensor in self.state.items():
            tensor[i] = own[name]

    def personal_model(
        self, i: int, params: Params, round: int, shared: Scaling | None
    ) -> PersonalModel:
        """Return the `i`-th client's model in use after `round`, with all that is needed for it.

        `params` are those of all, stacked; `shared` is the federation's scaling.
        """
        own = self.data.scaling(i, round, shared)
        return PersonalModel(
            self.clients[i].client,
            self.settings.method,
            used_round(self.state, i, round),
            {name: copied(_at_home(tensor[i])) for name, tensor in params.items()},
            self.learner.predictor.model,
            resolve_kind(self.settings.model, self.learner.model.input_shape),
            self.card,
            own,
            self.learner.predictor.describe(),
            self.data.encoder_of(i, own),
            mean_stay(self.clients[i].at(round), self.card),
        )

    # What is computed.

    def fit(
        self, turn: Turn, scaling: Scaling | None, index: Sequence[int], received: Sequence[Bundle]
    ) -> tuple[list[Bundle], list[Report]]:
        """Let the clients at `index` do their round, keep their new state; what they say of it.

        Whoever's upload the server would refuse as NaN or too large keeps its state from before: a
        model that left all bounds is of no use to its owner either.
        """
        train, _ = self.data.at(turn.round, scaling)
        self._own = False
        everybody = self.data.are_all(index)
        before = self.state if everybody else select_params(self.state, index)
        some = train if everybody else train.select(index)
        after, uploads, reports = self.learner.work(before, received, some, turn)
        after = after | best_tensors(before)  # of which a learner knows nothing
        broken = [
            i for i, upload in enumerate(uploads) if not upload.within(self.settings.wire.largest)
        ]
        if broken:
            after = self._with_rows(after, broken, select_params(before, broken))
        self.state = after if everybody else self._with_rows(self.state, index, after)
        return uploads, reports

    def personalised(
        self, turn: Turn, scaling: Scaling | None, index: Sequence[int], received: Sequence[Bundle]
    ) -> State:
        """Return the state in which the clients at `index` are tested.

        Nothing is kept of it but, where the best round is chosen, what turns out better than before
        on the validation parts; who is no better is tested in its best state so far.
        """
        train, _ = self.data.at(turn.round, scaling)
        state = self.state
        if not self.data.are_all(index):
            state, train = select_params(state, index), train.select(index)
        now = self.learner.personalise(state, received, train, turn)
        now |= self.learner.settled(now, train)
        if not self.keeps_best:
            return now
        half = None if self.card.target is None else self.card.target.half
        judged = on_validation_parts(self.learner, self.data, scaling, index, now, half)
        best = better_of(best_tensors(state), now, judged, turn.round)
        self.state = self._with_rows(self.state, index, best)
        return used(now | best)

    def _with_rows(self, state: State, index: Sequence[int], some: State) -> State:
        """Return a state with the tensors of `some` in the rows of the clients at `index`."""
        if not HERE:
            return state | some  # of the one who is here
        rows = torch.tensor(list(index), device=self.device)
        return state | {n: state[n].index_copy(0, rows, tensor) for n, tensor in some.items()}

    def _here(self, tensor: Tensor) -> Tensor:
        """Return a tensor where the stack lives."""
        return tensor.to(self.device) if HERE else tensor

    def in_use(self, turn: Turn, scaling: Scaling | None) -> State:
        """Return the state in which all clients' models are used after training."""
        train, _ = self.data.at(turn.round, scaling)
        state = used(self.state)
        return state | self.learner.settled(state, train)

    def evaluate(
        self, turn: Turn, scaling: Scaling | None, index: Sequence[int], state: State
    ) -> Evaluation:
        """Evaluate the clients at `index` on their test parts; see :meth:`personalised`."""
        best = select_params(best_tensors(self.state), index)
        scores = on_test_parts(self.learner, self.data, turn, scaling, index, state, best)
        how = self.own_encoder, len(self.card.classes), turn.round, scaling, index
        scores = replace(scores, own_heads=own_heads(self.data, *how))
        return scores if self.settings.class_counts else replace(scores, confusion=None)


def _at_home(row: Tensor) -> Tensor:
    """Return one client's part of a stacked tensor, on the CPU; without PyTorch an array."""
    return row.cpu() if HERE else np.asarray(row)  # type: ignore[return-value]
