"""A cohort: some clients' data and state, trained as one stack. A device is a cohort of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsub_client.learners.base import Learner, State
from fedsub_client.parts import SplitClient
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card
from fedsub_core.data.stacks import Stack, select_params, stack
from fedsub_core.data.standardise import Scaling, apply, moments
from fedsub_core.data.standardise import scaling as own_scaling
from fedsub_core.methods.table import method
from fedsub_core.metrics import Evaluation, evaluate
from fedsub_core.models.chain import build_model
from fedsub_core.training.loop import TrainingSettings
from fedsub_core.version import VERSION
from fedsub_core.wire.bundles import Download, Upload
from fedsub_core.wire.codec import decode_download, encode_upload
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.handshake import Opening
from fedsub_core.wire.memory import Memory


def build_learner(config: RunConfig, name: str, card: Card, shape: tuple[int, ...]) -> Learner:
    """Return the device half of method `name` for samples of `shape`."""
    settings = TrainingSettings(
        config.epochs, config.lr, config.momentum, config.batch_size, config.seed
    )
    model = build_model(config.model, shape, len(card.classes))
    learner: Learner = method(name).load_learner()(model, settings, config.hyper[name])
    return learner


@dataclass
class Cohort:
    """Clients that share a stack, and what they keep between rounds.

    Parameters
    ----------
    learner : the device half of a method.
    card : of the federation the clients belong to.
    clients : their data, split.
    standardise : ``federation``, ``client`` or ``none``.
    device : where the stack lives.
    wire : how messages are written.
    """

    learner: Learner
    card: Card
    clients: Sequence[SplitClient]
    standardise: str = "federation"
    device: str = "cpu"
    wire: WireSettings = field(default_factory=WireSettings)
    state: State = field(init=False)
    memories: list[Memory | None] = field(init=False)
    _scaled: tuple[object, Stack, Stack] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        initial = self.learner.init(len(self.clients))
        self.state = {name: tensor.to(self.device) for name, tensor in initial.items()}
        remembers = self.wire.upload.feeds_back
        self.memories = [
            Memory.empty(self.learner.model) if remembers else None for _ in self.clients
        ]

    def openings(self) -> list[Opening]:
        """Return what each client says of itself, and what it has, before the first round."""
        return [
            Opening(
                c.client,
                VERSION,
                self.card.classes,
                c.train_x.shape[1:],
                len(c.train_y),
                moments(c.train_x),
            )
            for c in (client.at(0) for client in self.clients)
        ]

    def client_state(self, i: int) -> State:
        """Return all that the `i`-th client keeps, as named tensors without a client axis."""
        memory = self.memories[i]
        wire = {} if memory is None else memory.copy().tensors()
        return {name: tensor[i].cpu() for name, tensor in self.state.items()} | wire

    def load_states(self, states: Sequence[Mapping[str, Tensor]]) -> None:
        """Inverse of :meth:`client_state`, for all clients."""
        self.state = {
            name: torch.stack([own[name] for own in states]).to(self.device) for name in self.state
        }
        self.memories = [
            None if memory is None else Memory.of(own)
            for own, memory in zip(states, self.memories, strict=True)
        ]

    def open(self, i: int, payload: bytes, round: int) -> Download:
        """Decode the `i`-th client's download.

        Raises
        ------
        MessageRefused
            If it does not fit this client, round and model.
        """
        client, model = self.clients[i].client, self.learner.model
        memory = self.memories[i] if self.wire.upload.delta else None
        envelope = Envelope(
            client,
            round,
            model,
            memory=memory,
            limit=self.wire.limit,
            largest=self.wire.largest,
        )
        return decode_download(payload, envelope)

    def seal(self, i: int, upload: Upload, download: Download, round: int) -> bytes:
        """Encode the `i`-th client's upload, and remember what the server will then hold."""
        memory = self.memories[i]
        if memory is not None and self.wire.upload.delta and download.reference != memory.round:
            memory.forget()  # server and device do not hold the same: start anew
        return encode_upload(upload, self.clients[i].client, round, self.wire.upload, memory)

    def fit(
        self,
        round: int,
        scaling: Scaling | None,
        index: Sequence[int],
        downloads: Sequence[Download],
    ) -> list[Upload]:
        """Let the clients at `index` do their round, and keep their new state."""
        train, _ = self._stacks(round, scaling)
        if len(index) == len(self.clients):
            self.state, uploads = self.learner.fit(self.state, downloads, train, round)
            return uploads
        some, uploads = self.learner.fit(
            select_params(self.state, index), downloads, train.select(index), round
        )
        rows = torch.tensor(list(index), device=self.device)
        self.state = {
            name: tensor.index_copy(0, rows, some[name]) for name, tensor in self.state.items()
        }
        return uploads

    def receive(self, downloads: Sequence[Download]) -> State:
        """Return what the clients' state would be with `downloads`, in the order of clients."""
        return self.learner.receive(self.state, downloads)

    def evaluate(
        self,
        round: int,
        scaling: Scaling | None,
        index: Sequence[int],
        downloads: Sequence[Download],
    ) -> Evaluation:
        """Evaluate the clients at `index` on their test parts; nothing is kept of it."""
        _, test = self._stacks(round, scaling)
        state = self.state
        if len(index) < len(self.clients):
            state, test = select_params(state, index), test.select(index)
        logits = self.learner.predict(self.learner.receive(state, downloads), test.x)
        return evaluate(logits, test.y, test.valid)

    def reports(self) -> list[dict[str, float]]:
        """Return what each client's metrics say beside its evaluation."""
        return self.learner.report(self.state)

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
            ids = [c.client for c in held]
            self._scaled = (
                key,
                stack(ids, train, [c.train_y for c in held], self.device),
                stack(ids, test, [c.test_y for c in held], self.device),
            )
        return self._scaled[1], self._scaled[2]
