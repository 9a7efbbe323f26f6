"""``fedsub models``: the kinds of models, their size and what they take."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING

import click

from fedsub.commands.as_json import AS_JSON, print_json
from fedsub_core.data.samples import MOST_TOKENS, Nodes, Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.models.names import CNN1D, HIDDEN, LINEAR, MLP, PUBLISHED, installed, parse_hidden
from fedsub_core.packages import by_package

if TYPE_CHECKING:
    from fedsub_core.models.model import Model

#: Samples for which sizes are said where nobody asks for others: what the publications have.
EXAMPLES = {MLP: (3,), LINEAR: (3,), CNN1D: (9, 128), "har-cnn": (9, 128), "lstm": (3, 128)}
WINDOW, NODE = EXAMPLES[CNN1D], (128,)


@click.command(short_help="List the kinds of models.")
@click.argument("name", required=False)
@click.option("--input", "shape", metavar="C,T", help="shape of a sample, such as 9,128 or 3,32,32")
@click.option("--classes", type=click.IntRange(2), default=6, show_default=True)
@click.option(
    "--vocabulary",
    type=int,
    help="samples are token ids below this number; --input is a text's length, by default 64",
)
@click.option(
    "--nodes", is_flag=True, help="samples are nodes of a graph, by default with 128 features"
)
@click.option(
    "--hidden", default=HIDDEN, show_default=True, help="units of each hidden layer of mlp"
)
@AS_JSON
def models(
    name: str | None,
    shape: str | None,
    classes: int,
    vocabulary: int | None,
    nodes: bool,
    hidden: str,
    as_json: bool,
) -> None:
    """List the kinds of models: trained parameters, multiplications for a sample, input shape.

    NAME is one kind, package.module:builder or file.py:builder. Then its tensors are listed, too.
    Sizes are for samples of shape --input, for the kinds that can take them. By default, each kind
    has the input shape of its publication.
    """
    parse_hidden(hidden)
    wanted = _shape(shape) if shape else None
    if vocabulary is not None:
        wanted = _tokens(wanted or (64,), vocabulary)
    if nodes:
        wanted = _nodes(wanted or NODE, vocabulary)
    packages = by_package([MLP, LINEAR, CNN1D, *PUBLISHED], installed())
    found, others, heading = list[_Sized](), list[str](), ""
    if not as_json:
        click.echo(f"{'kind':<14} {'numbers':>12} {'multiplications':>16}  of a sample")
    for package, kinds in packages.items() if name is None else [("", [name])]:
        for kind in kinds:
            try:
                found.append(_sized(kind, wanted or example(kind), classes, hidden))
            except ConfigError as error:
                if name is not None:
                    raise
                others.append(kind if wanted else f"{kind} ({error})")
                continue
            if not as_json:
                if package != heading:
                    click.echo(f"From the package {package}:")
                    heading = package
                _say(found[-1], at_length=name is not None)
    if as_json:
        print_json([asdict(one) for one in found])
    elif others:
        why = "; `fedsub models NAME` with the same options says why" if wanted else ""
        click.echo(f"not for such samples: {', '.join(others)}{why}")


@dataclass(frozen=True)
class _Sized:
    """A kind of model for samples of a shape: trained numbers, products of a pass, tensors."""

    kind: str
    numbers: int
    multiplications: int
    sample: tuple[int, ...]
    tensors: dict[str, tuple[int, ...]]


def _sized(kind: str, shape: tuple[int, ...], classes: int, hidden: str) -> _Sized:
    from fedsub_core.models.kinds import build_model

    model = build_model(kind, shape, classes, hidden=hidden)
    numbers = sum(prod(model.tensor_shapes[one]) for one in model.trained)
    return _Sized(kind, numbers, _multiplications(model), shape, dict(model.tensor_shapes))


def _say(one: _Sized, at_length: bool) -> None:
    size = f"{one.numbers:>12,} {one.multiplications:>16,}"
    click.echo(f"{one.kind:<14} {size}  {_text(one.sample)}")
    for tensor, of in one.tensors.items() if at_length else ():
        click.echo(f"  {tensor}  {_text(of)}")


def _multiplications(model: Model) -> int:
    """Return the products of a forward pass of one sample.

    Matrix products and convolutions as PyTorch's counter has them, and recurrent layers, which it
    does not see: each step goes through all their weights.
    """
    import torch
    from torch import Tensor, nn
    from torch.utils.flop_counter import FlopCounterMode

    from fedsub_core.models.to_torch import to_torch
    from fedsub_core.models.traced import zeros

    params = {name: tensor[0] for name, tensor in model.init(1, seed=0).items()}
    module, recurrent = to_torch(model, params), []

    def note(layer: nn.Module, seen: tuple[Tensor, ...]) -> None:
        steps = seen[0].numel() // seen[0].shape[-1]
        recurrent.append(steps * sum(p.numel() for p in layer.parameters() if p.ndim > 1))

    for layer in module.modules():
        if isinstance(layer, nn.RNNBase):
            layer.register_forward_pre_hook(note)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        module(zeros(model.input_shape)[:1])
    return int(counter.get_total_flops()) // 2 + sum(recurrent)  # a sum for every product


def example(kind: str) -> tuple[int, ...]:
    """Return the sample for which a kind's size is shown; a package's builder may say it."""
    if kind not in installed():
        return EXAMPLES.get(kind, WINDOW)
    example: tuple[int, ...] = getattr(installed()[kind].load(), "example", WINDOW)
    return example


def _tokens(shape: tuple[int, ...], vocabulary: int) -> Tokens:
    if len(shape) != 1:
        raise ConfigError(
            f"--input: got {','.join(map(str, shape))!r} beside --vocabulary, expected one number, "
            "the length of a text"
        )
    if not 2 <= vocabulary <= MOST_TOKENS:
        raise ConfigError(f"--vocabulary: got {vocabulary}, expected 2 to {MOST_TOKENS}")
    return Tokens(shape, vocabulary, 0)


def _nodes(shape: tuple[int, ...], vocabulary: int | None) -> Nodes:
    if len(shape) != 1 or vocabulary is not None:
        got = ",".join(map(str, shape)) if vocabulary is None else f"--vocabulary {vocabulary}"
        raise ConfigError(f"--nodes: got {got} beside it, expected one number, of features")
    return Nodes(shape)


def _shape(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(part.isdigit() and int(part) for part in parts):
        raise ConfigError(f"--input: got {text!r}, expected numbers with commas, such as 9,128")
    return tuple(map(int, parts))


def _text(shape: tuple[int, ...]) -> str:
    ids = f" token ids below {shape.vocabulary:,}" if isinstance(shape, Tokens) else ""
    nodes = " features of nodes" if isinstance(shape, Nodes) else ""
    return " x ".join(map(str, shape)) + ids + nodes
