"""An epoch and a relevance pass beside a plain PyTorch loop: the MLP, and the CNN on raw windows.

One thread, CPU seconds; contenders take turns, so that a noisy machine is noisy for all. "By
PyTorch" is the same without compiled kernels. "Matrix products" multiplies by PyTorch what the
steps multiply and does nothing else: below that no step gets whose products are a library's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from round_parts import PARTS, REST, ROUND, parts_of
from script import REAL, put_rows, read_arguments
from torch import Tensor
from torch.nn import functional as F
from trained import first_people
from turns import medians

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.methods.fedsub.relevance import block_samples, unit_relevance
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.stacks import Stack
from fedsub_core.kernels.library import switched_off
from fedsub_core.models.chain import Chain, Step, require_chain
from fedsub_core.models.layers import Affine
from fedsub_core.models.model import Params
from fedsub_core.models.to_torch import to_torch
from fedsub_core.training.loop import train
from fedsub_core.turn import Turn

SETS = ("wisdm", "wisdm-windows", "uci-har")
TINY = ["--data", f"{REAL}/wisdm-windows", "--clients", "2", "--times", "1"]
METHODS = ("FedAvg", "FedSub")
RULES = ("naive", "lrp-a1b0", "lrp-a2b1")
BATCH = 32
#: What the ratios are to be, for an MLP and for a CNN; "" where nothing is asked.
AIMS = {
    "epoch / slice loop": ("", "<= 0.70"),
    "epoch / epoch by PyTorch": ("", ""),
    "lrp-a2b1 / lrp-a2b1 by PyTorch": ("<= 0.50", "<= 0.50"),
    "matrix products of an epoch / epoch": ("", ""),
    "FedAvg round / slice loop": ("", ""),
    "FedSub round / slice loop": ("<= 0.50", "<= 0.50"),
    "FedSub round / FedAvg round": ("<= 1.4", "<= 1.4"),
    "FedSub round of all samples / slice loop": ("", ""),
    "FedSub round of all samples / FedAvg round": ("", ""),
    "lrp-a2b1 / epoch": ("<= 0.40", "<= 0.50"),
    "lrp-a1b0 / epoch": ("", ""),
    "naive / epoch": ("", ""),
    "matrix products of lrp-a2b1 / lrp-a2b1": ("", ""),
}
EVERY = (*PARTS, REST, ROUND)
LINES = (*AIMS, *EVERY)


def slice_loop(model: Chain, params: Params, data: Stack) -> Callable[[], None]:
    """Return an epoch of every client's as people write it, cutting batches by index."""
    own = ({name: tensor[i] for name, tensor in params.items()} for i in range(len(data.clients)))
    nets = [to_torch(model, one).requires_grad_() for one in own]

    def run() -> None:
        for net, x, y, count in zip(nets, data.x, data.y, data.counts, strict=True):
            sgd = torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)
            for index in torch.randperm(count).split(BATCH):  # type: ignore[no-untyped-call]
                sgd.zero_grad()
                F.cross_entropy(net(x[index]), y[index]).backward()  # type: ignore[no-untyped-call]
                sgd.step()

    return run


@dataclass(frozen=True)
class Products:
    """The matrix products of passes over blocks of samples, on made-up activations."""

    model: Chain
    params: Params
    block: Tensor
    times: int

    def training(self) -> None:
        """Forward, weights' gradients, and inputs' gradients but the first layer's."""
        for i, (seen, weight, rows) in enumerate(self.operands * self.times):
            seen.bmm(weight.transpose(1, 2))
            rows.transpose(1, 2).bmm(seen)
            if i % len(self.operands):
                rows.bmm(weight)

    def relevance(self) -> None:
        """Forward; above the first layer the positive parts, and both parts' way back."""
        for i, (seen, weight, rows) in enumerate(self.operands * self.times):
            seen.bmm(weight.transpose(1, 2))
            if i % len(self.operands):
                seen.bmm(weight.transpose(1, 2))
                rows.bmm(weight)
                rows.bmm(weight)

    @cached_property
    def operands(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Of each layer with units: what it sees, its weights, what it makes."""
        tape: list[Step] = []
        self.model.forward(self.params, self.block, tape)
        found = []
        for layer, step in zip(self.model.layers, tape, strict=True):
            if isinstance(layer, Affine) and step.patches is not None:
                weight = layer.matrix(self.params[f"{layer.name}.weight"])
                found.append((step.patches, weight, step.patches @ weight.transpose(1, 2)))
        return found


def products(model: Chain, params: Params, data: Stack) -> dict[str, Callable[[], None]]:
    """Return the products of an epoch and of a relevance pass, by name."""
    steps, size = -(-max(data.counts) // BATCH), min(block_samples(model), max(data.counts))
    one = {name: tensor[:1] for name, tensor in params.items()}
    blocks = sum(-(-count // size) for count in data.counts)
    return {
        "matrix products of an epoch": Products(model, params, data.x[:, :BATCH], steps).training,
        "matrix products of lrp-a2b1": Products(model, one, data.x[:1, :size], blocks).relevance,
    }


def rounds_of(config: RunConfig, method: str, people: Federation) -> Callable[[], None]:
    """Return rounds of a method on CohortGrid, one per call, without evaluation."""
    grid, strategy = build_grid(config, method, people), build_strategy(config, method)
    strategy.connect(grid)

    def run() -> None:
        strategy.run_round(grid, strategy.finished_rounds + 1, timeout=60, evaluated=False)

    return run


def contenders(people: Federation) -> dict[str, Callable[[], object]]:
    """Return the contenders, by name."""
    said: dict[str, str | int | float | bool] = {
        "method": "fedsub", "beside": "local,fedavg", "device": "cpu", "threads": 1,
        "fedsub.k-selection": "dbi-capped",
    }  # fmt: skip
    config = read_config(None, said)
    whole = read_config(None, {**said, "fedsub.relevance-samples": 0})
    cohort = build_grid(config, "fedsub", people).cohorts[0]
    learner = cohort.learner
    model, turn = require_chain(learner.model), Turn(1, 1, 0)
    data, _ = cohort.data.at(turn.round, None)
    params = learner.get(cohort.state, "model")

    def relevance(rule: str) -> Callable[[], object]:
        return lambda: unit_relevance(model, params, data, rule, "logits")

    def epoch() -> None:
        train(model, params, data, turn, learner.settings)

    return {
        "slice loop": slice_loop(model, params, data),
        "epoch": epoch,
        "epoch by PyTorch": by_pytorch(epoch),
        "lrp-a2b1 by PyTorch": by_pytorch(relevance("lrp-a2b1")),
        **products(model, params, data),
        "FedAvg round": rounds_of(config, "fedavg", people),
        "FedSub round": rounds_of(config, "fedsub", people),
        "FedSub round of all samples": rounds_of(whole, "fedsub", people),
        **{rule: relevance(rule) for rule in RULES},
    }


def by_pytorch(run: Callable[[], object]) -> Callable[[], None]:
    """Return a run without compiled kernels."""

    def switched() -> None:
        with switched_off():
            run()

    return switched


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=[f"{REAL}/{name}" for name in SETS],
        clients=8,
        times=15,
        csv=Path,
        parts=(Path, "CSV file of a round's parts"),
    )
    torch.set_num_threads(1)
    rows: dict[str, dict[str, object]] = {ratio: {"ratio": ratio} for ratio in AIMS}
    shares: dict[str, dict[str, object]] = {part: {"part": part} for part in EVERY}
    for path in arguments.data:
        people = first_people(path, arguments.clients)
        raw = next(iter(people.clients.values())).x.ndim > 2
        every = contenders(people)
        found = medians(every, arguments.times)
        kind, clients = "CNN" if raw else "MLP", len(people.clients)
        print(f"\n{Path(path).name}, {kind}, {clients} clients, CPU ms:")
        print(", ".join(f"{name} {1000 * value:.0f}" for name, value in found.items()))
        for ratio, aims in AIMS.items():
            above, _, below = ratio.partition(" / ")
            aim = f"   aim {aims[raw]}" if aims[raw] else ""
            rows[ratio][f"{kind}, {Path(path).name}"] = f"{found[above] / found[below]:.2f}"
            print(f"{ratio:40} {found[above] / found[below]:8.2f}{aim}")
        of_parts = parts_of({name: every[f"{name} round"] for name in METHODS}, arguments.times)
        for part in EVERY:
            took = [of_parts[name][part] / of_parts["FedAvg"][ROUND] for name in METHODS]
            print(f"{part:45}", *(f"{share:8.2f}" for share in took))
            for name, share in zip(METHODS, took, strict=True):
                shares[part][f"{name}, {Path(path).name}"] = f"{share:.2f}"
    for ratio, (vectors, windows) in AIMS.items():
        rows[ratio] |= {"aim, MLP": vectors, "aim, CNN": windows}
    put_rows(arguments.csv, list(rows.values()), ["ratio"], [(ratio,) for ratio in AIMS])
    put_rows(arguments.parts, list(shares.values()), ["part"], [(part,) for part in EVERY])


if __name__ == "__main__":
    main()
