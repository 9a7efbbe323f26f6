"""A cohort: some clients' data and state, trained as one stack. A device is a cohort of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsub_client.learners.base import Learner, Report, State
from fedsub_client.split_client import SplitClient
from fedsub_core.config.settings import DeviceSettings
from fedsub_core.data.federation import Card
from fedsub_core.data.stacks import Stack, select_params, stack
from fedsub_core.data.standardise import Scaling, apply, moments
from fedsub_core.data.standardise import scaling as own_scaling
from fedsub_core.methods.table import method
from fedsub_core.metrics import Evaluation, evaluate
from fedsub_core.models.kinds import build_model
from fedsub_core.turn import Turn
from fedsub_core.version import VERSION
from fedsub_core.wire.bundles import Bundle, Declaration
from fedsub_core.wire.codec import Address, Newest, decode_download, encode_upload
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.handshake import Facts, Introduction
from fedsub_core.wire.references import Reference

NOTHING = Bundle()
#: float32 values of the widest layer of a client's samples that are tested at a time, and how few
#: and how many samples that may be. All blocks are full: a product's last digits depend on how many
#: rows it has, and so a client's loss would on who shares its stack.
TESTED_VALUES, LEAST_TESTED, MOST_TESTED = 2**15, 32, 64


@dataclass
class Cohort:
    """Clients that share a stack, and what they keep between rounds.

    Parameters
    ----------
    learner : the device half of a method.
    receives : the tensors that the method's card says a device receives.
    card : of the federation the clients belong to.
    clients : their data, split.
    standardise : ``federation``, ``federation-median``, ``client`` or ``none``.
    seed : of the run, from which the first model is drawn.
    device : where the stack lives.
    wire : how messages are written.
    """

    learner: Learner
    receives: Declaration
    card: Card
    clients: Sequence[SplitClient]
    standardise: str = "federation"
    seed: int = 0
    device: str = "cpu"
    wire: WireSettings = field(default_factory=WireSettings)
    state: State = field(init=False)
    references: list[Reference | None] = field(init=False)
    _scaled: tuple[object, Stack, Stack] | None = field(init=False, default=None)
    #: Whether the state's tensors are this cohort's alone, none of them another's.
    _own: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        initial = self.learner.init(len(self.clients), self.seed)
        self.state = {name: tensor.to(self.device) for name, tensor in initial.items()}
        remembers = self.wire.upload.feeds_back
        self.references = [
            Reference.empty(self.learner.sends) if remembers else None for _ in self.clients
        ]

    # What a client says and keeps.

    def introductions(self) -> list[Introduction]:
        """Return what each client says of itself, and what it has, before the first round."""
        return [
            Introduction(
                c.client,
                VERSION,
                self.card.classes,
                c.train_x.shape[1:],
                Facts(len(c.train_y), c.capacity),
                moments(c.train_x),
            )
            for c in (client.at(0) for client in self.clients)
        ]

    def client_state(self, i: int) -> State:
        """Return all that the `i`-th client keeps, as named tensors without a client axis."""
        reference = self.references[i]
        wire = {} if reference is None else reference.copy().state()
        return {name: tensor[i].cpu() for name, tensor in self.state.items()} | wire

    def load_states(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Inverse of :meth:`client_state`, for all clients."""
        self.state = {
            name: torch.stack([own[name] for own in states]).to(self.device) for name in self.state
        }
        self.references = [
            None if reference is None else Reference.of(own)
            for own, reference in zip(states, self.references, strict=True)
        ]

    def put(self, i: int, own: State) -> None:
        """Set all that the `i`-th client keeps, but its reference."""
        if not self._own:  # a method may have put one tensor at two places
            self.state = {name: tensor.clone() for name, tensor in self.state.items()}
            self._own = True
        for name, tensor in self.state.items():
            tensor[i] = own[name]

    def forget_stacks(self) -> None:
        """Let go of the clients' stacked data; they are stacked anew when needed."""
        self._scaled = None

    # What goes over the wire.

    def decode(self, i: int, payload: bytes, round: int, newest: Newest | None = None) -> Bundle:
        """Decode the `i`-th client's download; `newest` knows what others of the cohort were sent.

        Raises
        ------
        MessageRefused
            If it does not fit this client, round and method.
        """
        reference = self.references[i] if self.wire.upload.delta else None
        envelope = Envelope(
            self.clients[i].client,
            round,
            self.receives,
            reference,
            self.wire.limit,
            self.wire.largest,
        )
        return decode_download(payload, envelope, newest)

    def encode(self, i: int, upload: Bundle, received: Bundle, round: int) -> bytes:
        """Encode the `i`-th client's upload, and remember what the server will then hold."""
        reference = self.references[i]
        if (
            reference is not None
            and self.wire.upload.delta
            and received.reference != reference.round
        ):
            reference.forget()  # server and device do not hold the same: start anew
        address = Address(self.clients[i].client, round)
        return encode_upload(upload, address, self.learner.sends, self.wire.upload, reference)

    # What is computed.

    def fit(
        self,
        turn: Turn,
        scaling: Scaling | None,
        index: Sequence[int],
        received: Sequence[Bundle],
    ) -> tuple[list[Bundle], list[Report]]:
        """Let the clients at `index` do their round, keep their new state; what they say of it."""
        train, _ = self._stacks(turn.round, scaling)
        self._own = False
        if len(index) == len(self.clients):
            self.state, uploads, reports = self.learner.fit(self.state, received, train, turn)
            return uploads, reports
        some, uploads, reports = self.learner.fit(
            select_params(self.state, index), received, train.select(index), turn
        )
        rows = torch.tensor(list(index), device=self.device)
        self.state = {
            name: tensor.index_copy(0, rows, some[name]) for name, tensor in self.state.items()
        }
        return uploads, reports

    def personalised(
        self,
        turn: Turn,
        scaling: Scaling | None,
        index: Sequence[int],
        received: Sequence[Bundle],
    ) -> State:
        """Return the state in which the clients at `index` are tested; nothing is kept of it."""
        train, _ = self._stacks(turn.round, scaling)
        state = self.state
        if len(index) < len(self.clients):
            state, train = select_params(state, index), train.select(index)
        return self.learner.personalise(state, received, train, turn)

    def evaluate(
        self, turn: Turn, scaling: Scaling | None, index: Sequence[int], state: State
    ) -> Evaluation:
        """Evaluate the clients at `index` on their test parts; see :meth:`personalised`."""
        _, test = self._stacks(turn.round, scaling)
        if len(index) < len(self.clients):
            test = test.select(index)
        blocks = torch.split(test.x, self._tested_at_a_time, 1)
        logits = torch.cat([self.learner.predict(state, x) for x in blocks], 1)
        return evaluate(logits, test.y, test.valid)

    @property
    def _tested_at_a_time(self) -> int:
        fitting = TESTED_VALUES // self.learner.model.widest
        return min(max(fitting, LEAST_TESTED), MOST_TESTED)

    def scaling(self, i: int, round: int, shared: Scaling | None) -> Scaling | None:
        """Return what the `i`-th client's features are standardised with in `round`."""
        return self._own_scaling(self.clients[i].at(round), shared)

    def _own_scaling(self, held: SplitClient, shared: Scaling | None) -> Scaling | None:
        return own_scaling(moments(held.train_x)) if self.standardise == "client" else shared

    def _stacks(self, round: int, scaling: Scaling | None) -> tuple[Stack, Stack]:
        """Return the round's train and test stacks, standardised; built anew when data come."""
        standard = None if scaling is None else scaling.mean.tobytes() + scaling.std.tobytes()
        key = standard, [c.held(round) for c in self.clients]
        if self._scaled is None or self._scaled[0] != key:
            train, test = [], []
            held = [c.at(round) for c in self.clients]
            for c in held:
                own = self._own_scaling(c, scaling)
                train.append(c.train_x if own is None else apply(own, c.train_x))
                test.append(c.test_x if own is None else apply(own, c.test_x))
            ids, capacities = [c.client for c in held], [c.capacity for c in held]
            self._scaled = (
                key,
                stack(ids, train, [c.train_y for c in held], self.device, capacities),
                stack(
                    ids,
                    test,
                    [c.test_y for c in held],
                    self.device,
                    capacities,
                    self._tested_at_a_time,
                ),
            )
        return self._scaled[1], self._scaled[2]


def make_cohort(
    settings: DeviceSettings, card: Card, clients: Sequence[SplitClient], device: str = "cpu"
) -> Cohort:
    """Return the clients of a method's run, in the state before its first round.

    Raises
    ------
    ConfigError
        If the method's hyperparameters do not fit the model.
    """
    of, hyper = method(settings.method), settings.hyper
    model = build_model(settings.model, clients[0].train_x.shape[1:], len(card.classes))
    learner = of.load_learner()(model, settings.training, hyper, of.sends(model, hyper))
    return Cohort(
        learner,
        of.receives(model, hyper),
        card,
        clients,
        settings.standardise,
        settings.seed,
        device,
        settings.wire,
    )
