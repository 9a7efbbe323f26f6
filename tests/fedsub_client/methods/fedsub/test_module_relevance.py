"""Relevance of any module's units: a chain's numbers, zennit's, and what is worked out by hand."""

import copy
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from fedsub.testing.cover import turns
from fedsub_client.methods.fedsub.module_lrp import require_rules
from fedsub_client.methods.fedsub.module_relevance import module_sums
from fedsub_client.methods.fedsub.relevance import unit_relevance
from fedsub_client.methods.fedsub.relevance_pass import RULES
from fedsub_core.data.stacks import Stack, select_params, stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.from_torch import from_torch
from fedsub_core.models.model import Params
from fedsub_core.models.torch_model import TorchModel

from ....fedsub_core.models.modules import Recurrent, ResidualCNN, normalised
from .test_relevance import CLASSES, NETWORKS, random_stack

# zennit imports torchvision for its own ResNets alone, which fails beside torch's CPU build.
sys.modules.setdefault("zennit.torchvision", ModuleType("zennit.torchvision"))
from zennit.canonizers import (  # noqa: E402
    AttributeCanonizer,
    CompositeCanonizer,
    SequentialMergeBatchNorm,
)
from zennit.composites import LayerMapComposite  # noqa: E402
from zennit.layer import Sum  # noqa: E402
from zennit.rules import AlphaBeta as ZennitAlphaBeta  # noqa: E402
from zennit.rules import Norm, Pass  # noqa: E402
from zennit.types import Activation, AvgPool, Linear  # noqa: E402

Shape = tuple[int, ...]
ALL_RULES = ["naive", "lrp-a1b0", "lrp-a2b1"]


def module_model(build: Callable[[Shape, int], nn.Module], shape: Shape) -> TorchModel:
    return TorchModel.of(build, shape, CLASSES)


def trained(model: TorchModel, clients: int = 1) -> Params:
    """Return numbers as training leaves them: norms shift and scale."""
    stream = torch.Generator().manual_seed(5)
    params = model.init(clients, 3)
    for name, tensor in params.items():
        noise = torch.rand(tensor.shape, generator=stream)
        if name.endswith("running_var") or (tensor == 1).all():
            tensor.copy_(0.5 + noise)
        elif tensor.ndim == 2:
            tensor.copy_(noise - 0.5)
    return params


@pytest.mark.parametrize(
    ("start", "rule", "name"), turns(["logits", "target"], ALL_RULES, list(NETWORKS))
)
def test_a_chain_as_a_module_has_the_chains_relevance(name: str, rule: str, start: str) -> None:
    module, shape = NETWORKS[name]
    chain, params = from_torch(module, shape)
    data = random_stack(shape, (37,))
    model = module_model(lambda *_: copy.deepcopy(module), shape)
    own = {name: t.detach()[None] for name, t in module.named_parameters()}
    expected, logits = unit_relevance(chain, params, data, rule, start)
    got, found = unit_relevance(model, own, data, rule, start)
    torch.testing.assert_close(found, logits, rtol=0, atol=1e-6)
    assert len(got) == len(expected)
    for mine, theirs in zip(got.values(), expected.values(), strict=True):
        assert (mine - theirs).abs().max() <= 2e-6 * theirs.abs().max()


class Summed(AttributeCanonizer):  # type: ignore[misc]
    """What zennit's canonizer of torchvision's ResNets does, for our blocks."""

    def __init__(self) -> None:
        super().__init__(self._attributes)

    @classmethod
    def _attributes(cls, name: str, module: nn.Module) -> dict[str, object] | None:
        if not hasattr(module, "shortcut"):
            return None
        return {"forward": cls.forward.__get__(module), "canonizer_sum": Sum()}

    @staticmethod
    def forward(self: Any, x: Tensor) -> Any:
        made = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(self.canonizer_sum(torch.stack([self.shortcut(x), made], dim=-1)))


def zennits(module: nn.Module, x: Tensor, first: Tensor, rule: str) -> dict[str, Tensor]:
    """Return the relevance of every Linear and Conv layer's units, ``[samples, units]``."""
    alpha_beta = ZennitAlphaBeta(RULES[rule].alpha, RULES[rule].beta)
    layers = [(Activation, Pass()), (Sum, Norm()), (AvgPool, Norm()), (Linear, alpha_beta)]
    canonizer = CompositeCanonizer((SequentialMergeBatchNorm(), Summed()))
    outs: dict[str, Tensor] = {}
    with LayerMapComposite(layers, canonizers=[canonizer]).context(module) as modified:
        handles = [
            layer.register_forward_hook(lambda _m, _i, out, name=name: outs.update({name: out}))
            for name, layer in modified.named_modules()
            if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d))
        ]
        for norm in (m for m in modified.modules() if isinstance(m, _BatchNorm)):
            norm.eps = 0.0  # merged, it shall be the identity, not 1 - 5e-6 of it
        logits = modified(x.clone().requires_grad_())
        found = torch.autograd.grad(logits, list(outs.values()), first)
        for handle in handles:
            handle.remove()
    return {n: r.flatten(2).sum(2) if r.ndim > 2 else r for n, r in zip(outs, found, strict=True)}


@pytest.mark.parametrize("rule", ["lrp-a1b0", "lrp-a2b1"])
@pytest.mark.parametrize(
    ("build", "shape"),
    [(normalised, (3, 40)), (normalised, (7,))],
    ids=["cnn", "features"],
)
def test_agrees_with_zennit(
    build: Callable[[Shape, int], nn.Module], shape: Shape, rule: str
) -> None:
    model = module_model(build, shape)
    # In float64: float32's roundings grow from layer to layer, in both.
    params = {name: tensor.double() for name, tensor in trained(model).items()}
    data = random_stack(shape, (6,))
    x = data.x.double()
    module = model.as_module({name: tensor[0].float() for name, tensor in params.items()}).double()
    of_sample = torch.eye(6, dtype=torch.float64)[None]
    sums, logits = module_sums(model, params, x, of_sample, rule, "logits")
    expected_logits = module(x[0])
    torch.testing.assert_close(logits[0], expected_logits, rtol=1e-9, atol=1e-9)
    expected = zennits(module, x[0], expected_logits.relu(), rule)
    assert {layer.name for layer in model.affine} == expected.keys()
    for layer, found in zip(model.affine, sums, strict=True):
        theirs = expected[layer.name]
        assert theirs.abs().max() > 0
        assert (found[0] - theirs).abs().max() < 1e-5 * theirs.abs().max(), layer.name


def test_functions_and_modules_are_followed_alike() -> None:
    """No module says that this one normalises, activates or adds up."""

    class Plain(ResidualCNN):
        def forward(self, x: Tensor) -> Tensor:
            x = torch.relu(_norm(self.norm1, self.stem(x)))
            way = _norm(self.norm3, self.second(F.relu(_norm(self.norm2, self.first(x)))))
            way += x
            way = F.relu(way, inplace=True)
            logits: Tensor = self.last(way.mean(-1))
            return logits

    params = trained(module_model(ResidualCNN, (3, 40)))
    data = random_stack((3, 40), (30,))
    for rule in ALL_RULES:
        usual, plain = (
            unit_relevance(module_model(build, (3, 40)), params, data, rule, "logits")[0]
            for build in (ResidualCNN, Plain)
        )
        for name, relevance in usual.items():
            torch.testing.assert_close(plain[name], relevance, rtol=1e-5, atol=1e-6)


def _norm(norm: nn.BatchNorm1d, x: Tensor) -> Tensor:
    return F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias)


def test_naive_is_what_comes_of_the_norm_and_the_activation_right_behind() -> None:
    model = module_model(ResidualCNN, (3, 40))
    params = trained(model)
    net: Any = model.as_module({name: tensor[0] for name, tensor in params.items()})
    data = random_stack((3, 40), (30,))
    got, logits = unit_relevance(model, params, data, "naive", "logits")
    x = data.x[0]
    stem = net.norm1(net.stem(x)).relu()
    first = net.norm2(net.first(stem)).relu()
    # No activation is its own: that of the block is behind the sum.
    second = net.norm3(net.second(first))
    for name, made in (("stem", stem), ("first", first), ("second", second)):
        for c in range(CLASSES):
            expected = made[data.y[0] == c].mean((0, 2))
            torch.testing.assert_close(got[name][0, c], expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(got["last"][0, 0], logits[0][data.y[0] == 0].mean(0))


class Series(nn.Module):
    """A Linear layer over each moment, as many units as moments, and BatchNorm of moments."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.each, self.norm = nn.Linear(shape[0], 5), nn.BatchNorm1d(5)
        self.last = nn.Linear(25, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ``x [batch, channels, 5 moments]``."""
        seen = self.each(x.transpose(1, 2))
        seen[:, 0]  # to look at it changes nothing
        logits: Tensor = self.last(self.norm(seen).relu().flatten(1))
        return logits


def test_a_norm_of_moments_is_no_units() -> None:
    model = module_model(Series, (3, 5))
    assert [row.name for row in model.affine[0].rows] == ["each.weight"]
    params, data = trained(model), random_stack((3, 5), (20,))
    net: Any = model.as_module({name: tensor[0] for name, tensor in params.items()})
    with torch.no_grad():
        made = net.each(data.x[0].transpose(1, 2))
    naive, logits = unit_relevance(model, params, data, "naive", "logits")
    expected = made[data.y[0] == 2].mean((0, 1))
    torch.testing.assert_close(naive["each"][0, 2], expected, rtol=1e-5, atol=1e-6)
    # The norm passes relevance on, so it is what the last layer gives of its input.
    head = module_model(lambda *_: nn.Sequential(nn.Linear(25, 25), nn.Linear(25, CLASSES)), (25,))
    own = {"0.weight": torch.eye(25)[None], "0.bias": torch.zeros(1, 25)}
    own |= {f"1.{part}": params[f"last.{part}"] for part in ("weight", "bias")}
    with torch.no_grad():
        seen = stack(["c0"], [net.norm(made).relu().flatten(1).numpy()], [data.y[0].numpy()])
    through, same = unit_relevance(head, own, seen, "lrp-a2b1", "logits")
    torch.testing.assert_close(same, logits, rtol=1e-5, atol=1e-5)
    found = unit_relevance(model, params, data, "lrp-a2b1", "logits")[0]["each"]
    by_unit = through["0"].view(1, CLASSES, 5, 5).sum(2)
    torch.testing.assert_close(found, by_unit, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_a_stack_equals_each_client_alone_and_padding_never_counts(rule: str) -> None:
    model = module_model(ResidualCNN, (3, 40))
    data, params = random_stack((3, 40)), trained(model, 3)
    for tensor in params.values():
        tensor *= 1 + 0.1 * torch.arange(3).view(3, *[1] * (tensor.dim() - 1))
    for i, count in enumerate(data.counts):
        data.x[i, count:] = 1e6
    together, logits = unit_relevance(model, params, data, rule, "logits")
    for i, count in enumerate(data.counts):
        x, y = data.x[i : i + 1, :count], data.y[i : i + 1, :count]
        one = Stack((data.clients[i],), x, y, (count,))
        alone, own = unit_relevance(model, select_params(params, [i]), one, rule, "logits")
        assert torch.equal(logits[i, :count], own[0]) and not logits[i, count:].any()
        for name, relevance in together.items():
            assert torch.equal(relevance[i], alone[name][0])


def test_threads_follow_modules_of_their_own() -> None:
    model = module_model(ResidualCNN, (3, 40))
    params, data = trained(model), random_stack((3, 40), (60,))

    def relevance(rule: str) -> dict[str, Tensor]:
        return unit_relevance(model, params, data, rule, "logits")[0]

    rules = ALL_RULES * 4
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(relevance, rules))
    for rule, found in zip(rules, together, strict=True):
        alone = relevance(rule)
        assert all(torch.equal(found[name], alone[name]) for name in alone)


class Deep(nn.Module):
    """Two recurrent layers; the last state is the embedding."""

    def __init__(self, kind: Any, shape: Shape, classes: int) -> None:
        super().__init__()
        self.body = kind(shape[0], 6, num_layers=2, batch_first=True)
        self.last = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of ``x [batch, channels, time]``."""
        _, state = self.body(x.transpose(1, 2))
        state = state[0] if isinstance(state, tuple) else state
        logits: Tensor = self.last(state[-1])
        return logits


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_hidden_units_of_recurrent_layers(kind: Any) -> None:
    """Their states over time; of the lower layer those of that layer alone."""
    model = module_model(lambda shape, classes: Deep(kind, shape, classes), (3, 40))
    assert [layer.name for layer in model.affine] == ["body.l0", "body.l1", "last"]
    params = model.init(1, 0)
    data = random_stack((3, 40), (20,))
    got, logits = unit_relevance(model, params, data, "naive", "logits")
    torch.testing.assert_close(logits, model.forward(params, data.x), rtol=1e-5, atol=1e-6)
    net: Any = model.as_module({name: tensor[0] for name, tensor in params.items()})
    below = kind(3, 6, batch_first=True)
    own = {name: t for name, t in net.body.state_dict().items() if name.endswith("l0")}
    below.load_state_dict(own)
    with torch.no_grad():
        steps = data.x[0].transpose(1, 2)
        made = {"body.l0": below(steps)[0], "body.l1": net.body(steps)[0]}
    for name, states in made.items():
        expected = states[data.y[0] == 1].mean((0, 1))
        torch.testing.assert_close(got[name][0, 1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", ["lrp-a1b0", "lrp-a2b1"])
def test_relevance_reaches_the_units_of_a_first_recurrent_layer(rule: str) -> None:
    """What the Linear layer behind it says of its last state."""
    model = module_model(Recurrent, (3, 40))
    require_rules(model, RULES[rule])
    params, data = model.init(1, 0), random_stack((3, 40), (20,))
    got, _ = unit_relevance(model, params, data, rule, "logits")
    net: Any = model.as_module({name: tensor[0] for name, tensor in params.items()})
    with torch.no_grad():
        states = net.lstm(data.x[0].transpose(1, 2))[0][:, -1]
    head = module_model(lambda *_: nn.Sequential(nn.Linear(10, 10), nn.Linear(10, CLASSES)), (10,))
    through = {"0.weight": torch.eye(10)[None], "0.bias": torch.zeros(1, 10)}
    through |= {f"1.{part}": params[f"last.{part}"] for part in ("weight", "bias")}
    seen = stack(["c0"], [states.numpy()], [data.y[0].numpy()])
    expected, _ = unit_relevance(head, through, seen, rule, "logits")
    torch.testing.assert_close(got["lstm.l0"], expected["0"], rtol=1e-4, atol=1e-6)


class Gated(nn.Module):
    """A sigmoid that says how much of each number counts."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.gate, self.way = nn.Linear(shape[0], 6), nn.Linear(shape[0], 6)
        self.last = nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.last(self.gate(x).sigmoid() * self.way(x))
        return logits


class InPlace(nn.Module):
    """Rectifies without assigning the result."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(shape[0], 6), nn.Linear(6, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = self.first(x)
        x.add_(10 * x)
        logits: Tensor = self.last(x)
        return logits


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (Gated, "got mul in the module itself, for which there is no rule"),
        (
            lambda shape, classes: nn.Sequential(
                nn.Linear(shape[0], 6), nn.Sequential(nn.LayerNorm(6)), nn.Linear(6, classes)
            ),
            r"got layer_norm in layer 1.0 \(LayerNorm\), .* relevance = naive takes any layer",
        ),
        (InPlace, "some function changes a tensor in place"),
    ],
    ids=["product", "layer norm", "in place"],
)
def test_what_relevance_cannot_pass_is_refused(
    build: Callable[[Shape, int], nn.Module], said: str
) -> None:
    model = module_model(build, (5,))
    with pytest.raises(ConfigError, match=said):
        require_rules(model, RULES["lrp-a2b1"])
    params, data = model.init(1, 0), random_stack((5,), (9,))
    for relevance in unit_relevance(model, params, data, "naive", "logits")[0].values():
        assert np.isfinite(relevance.numpy()).all()
