"""FedSub, the device half (Algorithm 1): integrate, train, prototypes, relevance, subnetworks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from fedsub_client.learner import Fitted, Learner, Received, Report, State, reported
from fedsub_client.methods.fedsub.module_lrp import require_rules
from fedsub_client.methods.fedsub.noise import (
    RELEASES,
    SECRET,
    PrototypeNoise,
    noise_ledger,
    own_secret,
    release,
    spent_epsilon,
)
from fedsub_client.methods.fedsub.prototypes import (
    content_hash,
    prototype_features,
    prototypes,
)
from fedsub_client.methods.fedsub.relevance import representatives, unit_relevance
from fedsub_client.methods.fedsub.relevance_pass import RULES
from fedsub_client.methods.fedsub.subnetworks import (
    Masks,
    class_scores,
    first_units_of,
    integrate,
    union_rows,
    unit_masks,
)
from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import CLASSES, MASKS, PROTOTYPES, SCORE
from fedsub_core.models.model import Params
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part


class FedSubLearner(Learner):
    """Keeps a model of its own, of which the server replaces single units.

    State: the personal model's parameters; with prototype noise also the ledger of their releases.
    """

    #: In messages.
    method = "fedsub"

    def check(self) -> None:
        """Refuse a depth beyond the model, graphs, layers without a rule, means of ids and more."""
        hyper, model = self.hyper, self.model
        if hyper.depth > len(model.affine):
            raise ConfigError(
                f"{self.method}.depth: got {hyper.depth}, expected at most {len(model.affine)}, "
                "the model's layers with units; 0 means all"
            )
        if isinstance(model.input_shape, Nodes):
            raise ConfigError(
                f"{self.method}: got nodes of a graph, expected samples that a model sees one by "
                "one: relevance goes back from an output to one sample. Take a method without "
                "relevance (fedavg, ditto, framp and others)"
            )
        if isinstance(model, TorchModel) and hyper.relevance in RULES:
            require_rules(model, RULES[hyper.relevance])
        if hyper.prototype == "input" and isinstance(model.input_shape, Tokens):
            raise ConfigError(
                f"{self.method}.prototype: got 'input' of token ids, which have no mean; set "
                f"{self.method}.prototype = embedding"
            )
        self.noise: PrototypeNoise | None = None
        if hyper.prototype_noise != "none":
            self.noise = PrototypeNoise(
                hyper.prototype_noise, hyper.prototype_clip, hyper.prototype_sigma
            )
        elif hyper.prototype_clip or hyper.prototype_sigma:
            raise ConfigError(
                f"{self.method}.prototype-noise: got 'none' beside a clip or sigma, expected "
                "gaussian or laplace; set one, or leave clip and sigma out"
            )

    def init(self, clients: int, seed: int) -> State:
        """Return one shared model, and an empty ledger where prototypes get noise."""
        return super().init(clients, seed) | (noise_ledger(clients) if self.noise else {})

    def first_model(self, clients: int, seed: int) -> Params:
        """Return the run's first model, of a weak device the units that it has.

        Nobody is sent a model before the first round: rows are fused place by place, and what is to
        be fused must have begun alike.
        """
        if self.whole is None:
            return super().first_model(clients, seed)
        return first_units_of(self.whole, self.model, clients, seed)

    def own_secrets(self) -> State:
        """Return the secret of the device's noise, which the server must not know."""
        return {SECRET: own_secret()} if self.noise else {}

    def receive(self, state: State, received: Received) -> State:
        """Replace the units that the downloads name, keep all others."""
        params = integrate(self.model, self.get(state, "model"), received)
        return state | self.put(params, "model")

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train for one round of Algorithm 1, every client of the stack."""
        state = self.receive(state, received)
        params, loss = self.train(self.get(state, "model"), data, turn)
        state = state | self.put(params, "model")
        state, uploads, reports = self.described(state, received, data, turn)
        losses = reported(training_loss=loss)
        return state, uploads, [{**a, **b} for a, b in zip(losses, reports, strict=True)]

    def described(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Return uploads with prototypes of each class and the units that matter for it."""
        params = self.get(state, "model")
        rho, counts = self._prototypes(params, data)
        versions = self._versions(state, data)
        reports: list[Report] = [{} for _ in data.clients]
        if self.noise is not None:
            # Where the data do not name the prototypes, every round releases new ones.
            names = [version or turn.round for version in versions]
            state, rho = release(state, rho, self.noise, data.clients, turn.seed, names)
            spent = [
                spent_epsilon(self.noise, n, self.hyper.prototype_delta)
                for n in state[RELEASES].tolist()
            ]
            reports = [{"epsilon": e} for e in spent]
        known = [bundle.version for bundle in received]
        return state, self._uploads(params, known, data, rho, counts > 0, versions), reports

    def masks(self, relevance: Mapping[str, Tensor], held: Tensor) -> Masks:
        """Return the units that each class selects; `held` bool [clients, classes]."""
        return unit_masks(relevance, held, self.hyper.depth)

    def further(self, relevance: Mapping[str, Tensor], masks: Masks) -> dict[str, Tensor]:
        """Return whole tensors ``[clients, ...]`` that a method sends in addition, by name."""
        return {}

    def _uploads(
        self,
        params: Params,
        known: Sequence[int],
        data: Stack,
        rho: Tensor,
        held: Tensor,
        versions: Sequence[int],
    ) -> list[Bundle]:
        hyper, model = self.hyper, self.model
        judged = representatives(data, hyper.relevance_samples)
        relevance, logits = unit_relevance(model, params, judged, hyper.relevance, hyper.lrp_start)
        masks = self.masks(relevance, held)
        further = {name: t.cpu().numpy() for name, t in self.further(relevance, masks).items()}
        rows = union_rows(model, params, masks)
        chosen = {name: mask.cpu().numpy() for name, mask in masks.items()}
        scores = class_scores(hyper.score, logits, judged, data).cpu().numpy()
        means, holds = rho.cpu().numpy(), held.cpu().numpy()
        uploads = []
        for i, (count, version) in enumerate(zip(data.counts, versions, strict=True)):
            tensors: dict[str, Part] = {CLASSES: Bits(holds[i]), SCORE: Floats(scores[i])}
            # The server says which version it holds, so a lost upload heals itself.
            if not 0 < version == known[i]:
                tensors[PROTOTYPES] = Floats.rows(holds[i], means[i, holds[i]])
            for layer in model.affine[: hyper.depth or None]:
                tensors |= {own.name: rows[i][own.name] for own in layer.rows}
                tensors[layer.name + MASKS] = Bits(chosen[layer.name][i])
            tensors |= {name: Floats(array[i]) for name, array in further.items()}
            uploads.append(Bundle(count, version, tensors))
        return uploads

    def _prototypes(self, params: Params, data: Stack) -> tuple[Tensor, Tensor]:
        """Return :func:`prototypes`; of inputs they are made once, as the data make them."""
        model, kind = self.model, self.hyper.prototype

        def make() -> tuple[Tensor, Tensor]:
            features = prototype_features(model, params, data, kind)
            return prototypes(features, data, model.classes)

        return data.once(("prototypes", model.classes), make) if kind == "input" else make()

    def _versions(self, state: State, data: Stack) -> list[int]:
        """Return names of the data behind the prototypes; 0 if a model is behind them, too."""
        if self.hyper.prototype != "input":
            return [0] * len(data.counts)
        # With noise, the name must not let the server test guesses about the data.
        secret = state.get(SECRET)
        key = b"" if secret is None or not secret.any() else secret.cpu().numpy().tobytes()
        hashes = data.once(("content hash", key), lambda: content_hash(data, key))
        # 63 bits, and never the 0 that means unknown.
        return [(value & (2**63 - 1)) or 1 for value in hashes.tolist()]
