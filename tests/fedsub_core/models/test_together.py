"""Passes of many clients as one: equal to each client's own, or why they cannot be."""

import pytest
import torch
from torch import Tensor, nn

from fedsub_core.data.stacks import Stack
from fedsub_core.models.architecture import Shape
from fedsub_core.models.kinds import builder_of
from fedsub_core.models.model import Params
from fedsub_core.models.module_passes import Passes
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.training import TrainingSettings, Turn, train

from .modules import MODULES

SHAPE, CLASSES, CPU = (3, 40), 4, torch.device("cpu")
#: In batches of 8, the last ones have 5, 5 and 3 samples, and the fourth client has none of them.
COUNTS = (21, 21, 19, 8)


def model_of(name: str) -> TorchModel:
    return TorchModel.of(MODULES[name], SHAPE, CLASSES, seed=5)


def trained(model: TorchModel, device: str = "cpu") -> tuple[Params, Tensor, Tensor]:
    """Return parameters, losses and logits of training."""
    stream = torch.Generator().manual_seed(1)
    x = torch.randn(len(COUNTS), max(COUNTS), *SHAPE, generator=stream).to(device)
    y = torch.randint(0, CLASSES, x.shape[:2], generator=stream).to(device)
    data = Stack(tuple(f"c{i}" for i in range(len(COUNTS))), x, y, COUNTS)
    start = {name: tensor.to(device) for name, tensor in model.init(len(COUNTS), 3).items()}
    settings = TrainingSettings(epochs=2, lr=0.05, batch_size=8)
    params, loss = train(model, start, data, Turn(2, 5, 7), settings)
    with torch.no_grad():
        return params, loss, model.forward(params, x)


@pytest.mark.parametrize("name", ["residual", "convolved"])
def test_training_together_equals_training_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, loss, logits = trained(model_of(name))
    passes = list[int]()

    def call(by: Passes, module: nn.Module, own: Params, x: Tensor) -> Tensor:
        passes.append(len(x))
        return made(by, module, own, x)

    made = Passes._call
    monkeypatch.setattr(Passes, "_call", call)
    trained(model_of(name))
    one_by_one = len(passes)
    monkeypatch.setattr(Passes, "together", lambda by, x, training: 3)
    passes.clear()
    together, loss_beside, logits_beside = trained(model_of(name))
    assert len(passes) < one_by_one
    for key, tensor in alone.items():
        torch.testing.assert_close(together[key], tensor, atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(loss_beside, loss, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(logits_beside, logits, atol=1e-4, rtol=1e-3)


class Branching(nn.Module):
    """Goes by its numbers, which no pass of several clients can."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(shape[0] * shape[1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        x = x.flatten(1)
        logits: Tensor = self.last(-x if float(x.sum()) > 0 else x)
        return logits


class Reading(nn.Module):
    """Counts its passes: a pass of several clients is one."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(shape[0] * shape[1], classes)
        self.passes = 0

    def forward(self, x: Tensor) -> Tensor:
        """Return logits that grow with each pass."""
        self.passes += 1
        logits: Tensor = self.last(x.flatten(1)) * self.passes
        return logits


@pytest.mark.parametrize(
    ("build", "training", "why_not"),
    [
        (MODULES["residual"], True, ""),
        (MODULES["convolved"], True, ""),
        (MODULES["normalised"], False, ""),
        (MODULES["normalised"], True, "each client's pass draws from a stream of its own"),
        (MODULES["recurrent"], True, "vmap: Batching rule not implemented for aten::lstm"),
        (Branching, False, "vmap: It looks like you're calling .item()"),
        (Reading, False, "vmap makes other numbers of it"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_speaks_against_it_is_found_by_a_trial(
    build: type[nn.Module], training: bool, why_not: str
) -> None:
    model = TorchModel.of(build, SHAPE, CLASSES)
    found = model.passes.apart(CPU, training)
    assert found.startswith(why_not) and bool(found) == bool(why_not)
    assert model.together(torch.zeros(4, 2, *SHAPE), training) == 1, "a CPU takes one"


@pytest.mark.parametrize(("name", "shape"), [("har-cnn", (9, 128))])
def test_published_models_pass_together_in_tests(name: str, shape: Shape) -> None:
    assert TorchModel.of(builder_of(name), shape, CLASSES).passes.apart(CPU, False) == ""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("name", MODULES)
def test_a_gpu_trains_as_a_cpu_does(name: str) -> None:
    """But for Dropout, whose stream is the GPU's."""
    (params, loss, logits), model = trained(model_of(name)), model_of(name)
    on_gpu, its_loss, its_logits = trained(model, "cuda")
    x = torch.zeros(4, 8, *SHAPE, device="cuda")
    assert (model.together(x, training=True) > 1) == (name in {"residual", "convolved"})
    assert all(tensor.is_cuda for tensor in on_gpu.values())
    if name == "normalised":
        assert its_loss.isfinite().all()
        return
    for key, tensor in params.items():
        torch.testing.assert_close(on_gpu[key].cpu(), tensor, atol=2e-3, rtol=2e-2)
    torch.testing.assert_close(its_loss.cpu(), loss, atol=2e-3, rtol=1e-2)
    torch.testing.assert_close(its_logits.cpu(), logits, atol=2e-2, rtol=2e-2)
