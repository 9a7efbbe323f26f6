"""Random chains trained, passed and related by the kernels and by PyTorch, and held equal.

python random_chains.py SEEDS: with the library that is found, of each instruction set in turn.
"""

import os
import sys

import numpy as np
import torch
from torch import Tensor

from fedsub_client.methods.fedsub.relevance import unit_relevance
from fedsub_core.backend import for_passes, for_relevance
from fedsub_core.data.sensors import Windows
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder
from fedsub_core.errors import ConfigError
from fedsub_core.kernels import library
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.models.model import Params
from fedsub_core.training import (
    CE,
    Gradient,
    Masked,
    Objective,
    PrototypePull,
    Pull,
    Term,
    TrainingSettings,
    Turn,
    train,
)

#: How far sums of other orders may be apart: of a number, and of the greatest of a tensor.
OF_EACH, OF_GREATEST = 2e-3, 2e-4


def random_chain(rng: np.random.Generator) -> Chain:
    """Return a chain that the kernels know: convolutions and pooling first, or none of them."""
    layers: list[Layer | Affine] = []
    shape: tuple[int, ...] = (int(rng.integers(1, 70)),)
    input_shape = shape
    if rng.random() < 0.6:
        input_shape = shape = (int(rng.integers(1, 6)), int(rng.integers(1, 50)))
        for i in range(int(rng.integers(1, 4))):
            padding = int(rng.integers(0, 4))
            kernel = int(rng.integers(1, min(shape[1] + 2 * padding, 7) + 1))
            stride, units = int(rng.integers(1, 4)), int(rng.integers(1, 20))
            layers += [Conv(f"conv{i}", units, shape[0], (kernel,), (stride,), (padding,)), ReLU()]
            shape = layers[-2].output_shape(shape)
            sizes = [n for n in range(2, shape[1] + 1) if shape[1] % n == 0]
            if sizes and rng.random() < 0.6:
                size, kind = int(rng.choice(sizes)), str(rng.choice(["max", "avg", "adaptive-avg"]))
                layers.append(Pool(kind, (shape[1] // size if kind == "adaptive-avg" else size,)))
                shape = layers[-1].output_shape(shape)
        layers.append(Flatten())
        shape = (shape[0] * shape[1],)
    for i in range(int(rng.integers(0, 3))):
        layers += [Linear(f"linear{i}", int(rng.integers(1, 80)), shape[0]), ReLU()]
        shape = layers[-2].output_shape(shape)
    layers.append(Linear("head", int(rng.integers(2, 9)), shape[0]))
    return Chain(tuple(layers), input_shape)


def random_stack(model: Chain, rng: np.random.Generator) -> Stack:
    """Return samples of one to four clients, of whom some may have few."""
    counts = [int(rng.integers(1, 130)) for _ in range(int(rng.integers(1, 5)))]
    xs = [rng.standard_normal((n, *model.input_shape), np.float32) for n in counts]
    ys = [rng.integers(0, model.classes, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


def random_objective(model: Chain, params: Params, rng: np.random.Generator) -> Term | Objective:
    """Return cross-entropy, and each other term that the kernels know or not."""
    objective: Term | Objective = CE
    clients = len(params["head.bias"])

    def like(tensor: Tensor) -> Tensor:
        return torch.from_numpy(rng.standard_normal(tensor.shape, np.float32))

    if rng.random() < 0.5:
        where = {n: (like(t) > 0).float() for n, t in params.items()} if rng.random() < 0.5 else {}
        objective = objective + Pull({n: like(t) for n, t in params.items()}, 0.2, where)
    if rng.random() < 0.5:
        prototypes = like(params["head.weight"])
        held = torch.from_numpy(rng.random((clients, model.classes)) < 0.7)
        objective = objective + PrototypePull(prototypes, held, 0.4)
    if rng.random() < 0.5:
        objective = objective + Masked({n: (like(t) > 0).float() for n, t in params.items()})
    return objective


def try_chain(seed: int) -> None:
    """Hold one random chain's passes, training and relevance against PyTorch's."""
    rng = np.random.default_rng(seed)
    model = random_chain(rng)
    data = random_stack(model, rng)
    params = model.init(len(data.counts), seed)
    objective, turn = random_objective(model, params, rng), Turn(1 + seed % 3, 9, seed)
    settings = TrainingSettings(
        lr=0.01,
        momentum=float(rng.choice([0.0, 0.9])),
        weight_decay=float(rng.choice([0.0, 0.01])),
        batch_size=int(rng.integers(1, 70)),
        optimiser=str(rng.choice(["sgd", "sgd", "adam"])),
    )
    only = None if rng.random() < 0.5 else [str(rng.choice([one.name for one in model.affine]))]
    steps = None if rng.random() < 0.5 else int(rng.integers(1, 5))
    rule = str(rng.choice(["naive", "lrp-a1b0", "lrp-a2b1"]))
    start = str(rng.choice(["logits", "target"]))
    with torch.no_grad():
        assert for_passes(model.known, data.x).name == for_relevance(model.known, data.x).name
        assert Gradient(model, objective).backend(data.x).name == "kernels"

    def compute() -> list[dict[str, Tensor]]:
        with torch.no_grad():
            made = {"logits": model.forward(params, data.x)}
        trained = train(
            model, params, data, turn, settings, objective=objective, only=only, steps=steps
        )
        related, logits = unit_relevance(model, params, data, rule, start)
        return [made, trained.params, {"loss": trained.loss}, related, {"logits": logits}]

    found = compute()
    with library.switched_off():
        expected = compute()
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        for name, tensor in theirs.items():
            size = max(1.0, float(tensor.abs().max()))
            torch.testing.assert_close(ours[name], tensor, rtol=OF_EACH, atol=OF_GREATEST * size)


def try_encoder(seed: int) -> None:
    """Hold the features of random windows against NumPy's, to the bit."""
    rng = np.random.default_rng(seed)
    channels, time = int(rng.integers(1, 12)), int(rng.integers(16, 90))
    axes = tuple(range(int(rng.integers(2, 5))))
    shape = Windows((channels, time), (axes,)) if channels > axes[-1] else (channels, time)
    encoder = StatisticsEncoder(7, seed, shape)
    steps = rng.integers(-2048, 2048, (3, channels, time)).astype(np.int16)
    found = encoder.levels(steps)
    with library.switched_off():
        assert np.array_equal(found, encoder.levels(steps))


def main() -> None:
    """Try as many seeds as asked for."""
    torch.set_num_threads(1)
    tried = 0
    for seed in range(int(sys.argv[1])):
        os.environ[library.VARIABLE] = ("avx512", "avx2", "portable")[seed % 3]
        try:
            assert library.kernels() is not None, "no compiled kernels were found"
        except ConfigError:  # this processor has it not
            os.environ[library.VARIABLE] = "portable"
        try_chain(seed)
        try_encoder(seed)
        tried += 1
    print(f"{tried} random chains are PyTorch's")


if __name__ == "__main__":
    main()
