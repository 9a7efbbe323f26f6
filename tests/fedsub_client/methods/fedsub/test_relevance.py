"""Relevance against zennit, its conservation, its independence of stack and padding."""

import sys
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from fedsub.testing.cover import turns
from fedsub_client.methods.fedsub.lrp import AlphaBeta, propagate, signed_parts
from fedsub_client.methods.fedsub.relevance import representatives, unit_relevance
from fedsub_client.methods.fedsub.relevance_pass import class_sums
from fedsub_core.data.stacks import Stack, select_params, stack
from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step, require_chain
from fedsub_core.models.from_torch import from_torch
from fedsub_core.models.kinds import build_model, mlp
from fedsub_core.models.layers import Layer

# zennit imports torchvision for ResNets alone; torchvision's wheels fail beside torch's CPU build.
sys.modules.setdefault("zennit.torchvision", ModuleType("zennit.torchvision"))
from zennit.composites import LayerMapComposite  # noqa: E402
from zennit.rules import AlphaBeta as ZennitAlphaBeta  # noqa: E402
from zennit.rules import Norm, Pass  # noqa: E402
from zennit.types import Activation, AvgPool, Linear  # noqa: E402

#: The kernels, and PyTorch in blocks.
pytestmark = pytest.mark.usefixtures("either")
CLASSES = 4


def random_stack(shape: tuple[int, ...], counts: tuple[int, ...] = (23, 40, 11)) -> Stack:
    rng = np.random.default_rng(1)
    xs = [rng.normal(size=(n, *shape)).astype(np.float32) for n in counts]
    ys = [rng.integers(0, CLASSES, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


def networks() -> dict[str, tuple[nn.Sequential, tuple[int, ...]]]:
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(3)
    made = {
        "mlp": (
            nn.Sequential(
                nn.Linear(5, 128), nn.ReLU(), nn.Linear(128, 96), nn.ReLU(),
                nn.Linear(96, CLASSES),
            ),
            (5,),
        ),
        "narrow": (
            nn.Sequential(
                nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 7), nn.ReLU(),
                nn.Linear(7, CLASSES),
            ),
            (5,),
        ),
        "linear-chain": (nn.Sequential(nn.Linear(5, 9), nn.Linear(9, CLASSES)), (5,)),
        "conv1d": (
            nn.Sequential(
                nn.Conv1d(3, 8, 5, stride=2, padding=2), nn.ReLU(),
                nn.MaxPool1d(2), nn.Conv1d(8, 12, 3, padding=1), nn.ReLU(),
                nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Linear(36, CLASSES),
            ),
            (3, 40),
        ),
        "conv2d": (
            nn.Sequential(
                nn.Conv2d(2, 6, (3, 2)), nn.ReLU(),
                nn.AvgPool2d(3, 2, 1), nn.Conv2d(6, 8, 3, stride=2),
                nn.MaxPool2d(2, 1, 1), nn.AdaptiveAvgPool2d((1, 1)),
                nn.ReLU(), nn.Flatten(), nn.Linear(8, 10), nn.ReLU(), nn.Linear(10, CLASSES),
            ),
            (2, 12, 12),
        ),
    }  # fmt: skip
    for module, _ in made.values():
        module.eval()
    torch.random.set_rng_state(torch_state)
    return made


NETWORKS = networks()


def zennit_relevance(
    module: nn.Sequential, x: torch.Tensor, start: torch.Tensor, alpha: float, beta: float
) -> list[torch.Tensor]:
    """Relevance at the input and at every affine layer's output."""
    composite = LayerMapComposite(
        [(Activation, Pass()), (AvgPool, Norm()), (Linear, ZennitAlphaBeta(alpha, beta))],
    )
    # Pooling by MaxPool and Flatten has no rule: its gradient is the relevance.
    outs: list[torch.Tensor] = []
    leaf = x.clone().requires_grad_()
    with composite.context(module) as modified:
        handles = [
            layer.register_forward_hook(lambda _m, _i, out: outs.append(out))
            for layer in modified
            if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d))
        ]
        logits = modified(leaf)
        grads = torch.autograd.grad(logits, [leaf, *outs], start)
        for handle in handles:
            handle.remove()
    return list(grads)


@pytest.mark.parametrize("start", ["logits", "target"])
@pytest.mark.parametrize(("rule", "alpha", "beta"), [("lrp-a1b0", 1, 0), ("lrp-a2b1", 2, 1)])
@pytest.mark.parametrize("name", NETWORKS)
def test_agrees_with_zennit(name: str, rule: str, alpha: float, beta: float, start: str) -> None:
    module, shape = NETWORKS[name]
    data = random_stack(shape, (60,))
    model, params = from_torch(module, shape)
    x, y = data.x[0], data.y[0]
    first = module(x).detach().relu()
    if start == "target":
        first = first * nn.functional.one_hot(y, CLASSES)
    expected = zennit_relevance(module, x, first, alpha, beta)

    got, logits = unit_relevance(model, params, data, rule, start)
    torch.testing.assert_close(logits[0], module(x).detach(), rtol=1e-5, atol=1e-5)
    for layer, per_sample in zip(model.affine, expected[1:], strict=True):
        units = per_sample.flatten(2).sum(2) if per_sample.dim() > 2 else per_sample
        for c in range(CLASSES):
            mean = units[y == c].mean(0)
            scale = units.abs().max()
            assert (got[layer.name][0, c] - mean).abs().max() < 1e-5 * scale

    tape: list[Step] = []
    model.forward(params, data.x, tape)
    at = propagate(
        model, signed_parts(model, params), tape, first[None], AlphaBeta(alpha, beta), to_input=True
    )
    assert at[0] is not None
    assert (at[0][0] - expected[0]).abs().max() < 1e-5 * expected[0].abs().max()


# Without a ReLU, relevance is lost at a negative unit that has no positive contribution.
@pytest.mark.parametrize("name", sorted(NETWORKS.keys() - {"linear-chain"}))
def test_a1b0_conserves_relevance_without_biases(name: str) -> None:
    module, shape = NETWORKS[name]
    model, params = from_torch(module, shape)
    params = {k: torch.zeros_like(v) if "bias" in k else v for k, v in params.items()}
    data = random_stack(shape, (50,))
    tape: list[Step] = []
    first = model.forward(params, data.x, tape).relu()
    at = propagate(model, signed_parts(model, params), tape, first, AlphaBeta(1, 0), to_input=True)
    totals = [r.flatten(2).sum(2) for r in at if r is not None]
    assert len(totals) == len(model.layers) + 1
    for above, below in pairwise(reversed(totals)):
        torch.testing.assert_close(below, above, rtol=1e-3, atol=1e-4)
    assert totals[0].abs().max() > 0.05


def test_naive_is_the_mean_activation_after_the_nonlinearity() -> None:
    module, shape = NETWORKS["conv1d"]
    model, params = from_torch(module, shape)
    data = random_stack(shape, (30,))
    got, _ = unit_relevance(model, params, data, "naive", "logits")
    with torch.no_grad():
        first = module[1](module[0](data.x[0])).mean(2)
        logits = module(data.x[0])
    for c in range(CLASSES):
        of_class = data.y[0] == c
        torch.testing.assert_close(got["layer1"][0, c], first[of_class].mean(0))
        torch.testing.assert_close(got["layer3"][0, c], logits[of_class].mean(0))


@pytest.mark.parametrize(
    ("rule", "shape"), turns(["naive", "lrp-a1b0", "lrp-a2b1"], [(5,), (3, 40)])
)
def test_a_stack_equals_each_client_alone_and_padding_never_counts(
    rule: str, shape: tuple[int, ...]
) -> None:
    model = require_chain(build_model("auto", shape, CLASSES))
    data = random_stack(shape)
    params = model.init(3, 0)
    for tensor in params.values():
        tensor += torch.arange(3).view(3, *[1] * (tensor.dim() - 1)) * 0.1 * tensor
    for i, count in enumerate(data.counts):
        data.x[i, count:] = 1e6  # what padding holds must not matter
    together, logits = unit_relevance(model, params, data, rule, "logits")
    for i, count in enumerate(data.counts):
        x, y = data.x[i : i + 1, :count], data.y[i : i + 1, :count]
        alone_data = Stack((data.clients[i],), x, y, (count,))
        alone, alone_logits = unit_relevance(
            model, select_params(params, [i]), alone_data, rule, "logits"
        )
        assert torch.equal(logits[i, :count], alone_logits[0])
        assert not logits[i, count:].any()
        for name, relevance in together.items():
            assert torch.equal(relevance[i], alone[name][0])
            assert relevance.abs().max() > 0


def test_one_block_of_the_whole_stack_gives_the_same_sums() -> None:
    model, data = mlp(5, CLASSES, (128, 96)), random_stack((5,))
    params = model.init(3, 0)
    by_block, _ = unit_relevance(model, params, data, "lrp-a2b1", "logits")
    of_class = nn.functional.one_hot(data.y, CLASSES) * data.valid.unsqueeze(2).float()
    with torch.no_grad():
        sums, _ = class_sums(
            model, signed_parts(model, params), data.x, of_class, "lrp-a2b1", "logits"
        )
    for layer, total in zip(model.affine, sums, strict=True):
        mean = total / of_class.sum(1).unsqueeze(2)
        torch.testing.assert_close(by_block[layer.name], mean, rtol=1e-4, atol=1e-6)


def test_a_client_of_many_samples_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = mlp(5, CLASSES, (128, 96)), random_stack((5,))
    params = model.init(3, 0)
    whole, logits = unit_relevance(model, params, data, "lrp-a2b1", "target")
    monkeypatch.setattr("fedsub_client.methods.fedsub.relevance.PART", 16)
    found, same = unit_relevance(model, params, data, "lrp-a2b1", "target")
    assert torch.equal(same, logits)
    for name, relevance in whole.items():
        torch.testing.assert_close(found[name], relevance, rtol=1e-5, atol=1e-8)


def test_a_class_the_client_lacks_is_zero() -> None:
    model, data = mlp(5, CLASSES), random_stack((5,))
    data.y[1][data.y[1] == 2] = 0
    relevance, _ = unit_relevance(model, model.init(3, 0), data, "lrp-a1b0", "logits")
    assert not any(r[1, 2].any() for r in relevance.values())
    assert all(r[0, 2].any() for r in relevance.values())


def test_representatives_are_spread_over_each_class() -> None:
    y = np.array([0, 1] * 10 + [2])
    x = np.arange(len(y), dtype=np.float32)[:, None]
    data = stack(["a", "b"], [x, x[:3]], [y, np.array([1, 1, 0])])
    assert representatives(data, 0) is data
    assert representatives(data, 10) is data
    some = representatives(data, 4)
    assert representatives(data, 4) is some
    assert representatives(data, 3) is not some
    assert some.clients == data.clients
    assert some.counts == (9, 3)
    # Of ten the third, fifth, eighth and last.
    kept = [4, 5, 8, 9, 14, 15, 18, 19, 20]
    assert some.x[0, :, 0].tolist() == kept
    assert some.y[0].tolist() == y[kept].tolist()
    assert some.x[1].flatten().tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 0]
    # Nobody else in a stack changes who stands for a client's class.
    alone = representatives(data.select([0]), 4)
    assert torch.equal(alone.x, some.x[:1])


def test_relevance_of_representatives_is_near_that_of_all() -> None:
    model, data = mlp(5, CLASSES), random_stack((5,), (400, 300, 200))
    params = model.init(3, 0)
    few = representatives(data, 40)
    assert max(few.counts) == 4 * 40
    everything, _ = unit_relevance(model, params, data, "lrp-a2b1", "logits")
    got, _ = unit_relevance(model, params, few, "lrp-a2b1", "logits")
    for name, relevance in everything.items():
        away = (got[name] - relevance).norm() / relevance.norm()
        assert 0 < away < 0.3


@dataclass(frozen=True)
class Swish(Layer):
    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(x)


def test_refusals_name_what_is_wrong() -> None:
    data, good = random_stack((5,)), mlp(5, CLASSES)
    with pytest.raises(ConfigError, match="lrp-a3b2"):
        unit_relevance(good, good.init(3, 0), data, "lrp-a3b2", "logits")
    with pytest.raises(ConfigError, match="targets"):
        unit_relevance(good, good.init(3, 0), data, "naive", "targets")
    bad = Chain((good.layers[0], Swish(), *good.layers[2:]), (5,))
    with pytest.raises(ConfigError, match=r"layer 1 \(Swish\)"):
        unit_relevance(bad, bad.init(3, 0), data, "lrp-a2b1", "logits")
