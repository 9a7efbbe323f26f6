"""An epoch of any PyTorch module, beside PyTorch's own loop over the same modules.

Both train every client for one epoch of batches of 32 with momentum, one client after another, one
thread. The plain loop has a module and an optimiser for each client and slices of its samples. The
ratio is of medians; runs alternate.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedsub_core.data.stacks import Stack
from fedsub_core.models.architecture import Shape
from fedsub_core.models.kinds import builder_of
from fedsub_core.models.model import Params
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.training import TrainingSettings, Turn, train
from fedsub_core.training.passes import Passes, order_of_epoch

TURN, CLASSES, SIZE = Turn(1, 1, 0), 6, 32
CPU = torch.device("cpu")
SETTINGS = TrainingSettings(epochs=1, lr=0.01, batch_size=SIZE)
#: Model, its samples.
SHAPES: dict[str, Shape] = {
    "bn-cnn": (9, 128),
    "residual-cnn": (9, 128),
    "lstm": (3, 128),
    "resnet18": (3, 32, 32),
    "mobilenet-v2": (3, 32, 32),
}
TINY = ["--clients", "2", "--samples", "32", "--models", "bn-cnn", "lstm", "--repeats", "1"]
LINES = ("bn-cnn ", "lstm ")


def bn_cnn(shape: Shape, classes: int) -> nn.Module:
    """Return a small CNN with BatchNorm and Dropout, as people write them for windows."""
    return nn.Sequential(
        nn.Conv1d(shape[0], 32, 7, padding=3),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(32, 64, 5, padding=2),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(256, classes),
    )


class ResidualCNN(nn.Module):
    """A residual net of windows, with GroupNorm, which has no statistics to send."""

    def __init__(self, shape: Shape, classes: int) -> None:
        super().__init__()
        self.stem = nn.Conv1d(shape[0], 32, 7, stride=2, padding=3)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(4, 32),
                nn.ReLU(),
                nn.Conv1d(32, 32, 5, padding=2),
                nn.GroupNorm(4, 32),
                nn.ReLU(),
                nn.Conv1d(32, 32, 5, padding=2),
            )
            for _ in range(2)
        )
        self.last = nn.Linear(128, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits ``[batch, classes]`` of ``x [batch, channels, time]``."""
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        logits: Tensor = self.last(F.adaptive_avg_pool1d(x.relu(), 4).flatten(1))
        return logits


def samples(clients: int, count: int, shape: Shape) -> Stack:
    stream = torch.Generator().manual_seed(0)
    x = torch.randn(clients, count, *shape, generator=stream)
    y = torch.randint(0, CLASSES, (clients, count), generator=stream)
    return Stack(tuple(f"c{i}" for i in range(clients)), x, y, (count,) * clients)


HEAD = ("module", "people", "samples", "ours, ms", "plain loop, ms", "ratio")
OWN: dict[str, Callable[[Shape, int], nn.Module]] = {"bn-cnn": bn_cnn, "residual-cnn": ResidualCNN}


def plain_loop(
    model: TorchModel, params: Params, data: Stack, device: torch.device = CPU
) -> Callable[[], None]:
    """Return PyTorch's own epoch over every client's module."""
    modules = [
        model.as_module({name: tensor[i] for name, tensor in params.items()}).train().to(device)
        for i in range(len(data.counts))
    ]
    descents = [
        torch.optim.SGD(module.requires_grad_().parameters(), 0.01, 0.9) for module in modules
    ]
    order, _ = order_of_epoch(data, SIZE, TURN, *Passes(1, SIZE).streams)

    def epoch() -> None:
        for i, (module, descent) in enumerate(zip(modules, descents, strict=True)):
            for batch in torch.split(order[i, : data.counts[i]], SIZE):
                descent.zero_grad()
                F.cross_entropy(module(data.x[i, batch]), data.y[i, batch]).backward()  # type: ignore[no-untyped-call]
                descent.step()

    return epoch


def compare(name: str, clients: int, count: int, repeats: int) -> tuple[float, float]:
    """Return seconds of the processor for our epoch and for the plain loop's, medians."""
    shape = SHAPES[name]
    build = OWN[name] if name in OWN else builder_of(name)
    # Here and below: a run that takes a model of this file does not find the folder's others.
    from turns import medians

    model = TorchModel.of(build, shape, CLASSES)
    params, data = model.init(clients, 0), samples(clients, count, shape)
    ours = lambda: train(model, params, data, TURN, SETTINGS)  # noqa: E731
    found = medians({"ours": ours, "plain": plain_loop(model, params, data)}, repeats)
    return found["ours"], found["plain"]


def main() -> None:
    from script import Known, put_lines, read_arguments

    given = read_arguments(TINY, clients=4, samples=128, models=Known(SHAPES), repeats=5, csv=Path)
    torch.set_num_threads(1)
    print(f"an epoch of {given.clients} clients x {given.samples} samples: ours, plain, ratio")
    for name in given.models:
        ours, plain = compare(name, given.clients, given.samples, given.repeats)
        print(f"{name:<14} {1e3 * ours:9.1f} ms {1e3 * plain:9.1f} ms {ours / plain:6.2f}")
        times = (f"{1e3 * ours:.1f}", f"{1e3 * plain:.1f}", f"{ours / plain:.2f}")
        put_lines(given.csv, HEAD, [(name, given.clients, given.samples, *times)], 3)


if __name__ == "__main__":
    main()
