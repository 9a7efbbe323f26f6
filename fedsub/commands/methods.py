"""``fedsub methods``: the table of methods."""

from __future__ import annotations

from math import prod

import click
from rich.console import Console
from rich.padding import Padding

from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import BROKEN, METHODS
from fedsub_core.models.chain import Model
from fedsub_core.models.kinds import mlp
from fedsub_core.options import describe
from fedsub_core.wire.bundles import Bits, Declaration

#: Of which shares are given: the papers' model for activity recognition.
EXAMPLE = mlp(3, 6)


@click.command()
def methods() -> None:
    """List the methods: paper, what is sent, cost, which model is tested, hyperparameters.

    Shares of a model are those of the papers' 3-128-512-6; costs are in epochs of plain training on
    a device's own data, at one epoch a round and the defaults.
    """
    console = Console()
    for card in METHODS.values():
        _print(console, card)
    for name, why in BROKEN.items():
        console.print(f"\n[bold]{name}[/bold]  not usable: {why}", highlight=False)


def _print(console: Console, card: MethodCard) -> None:
    hyper = card.hyperparameters()
    cost = card.cost(hyper, 1)
    extra = f", and {_epochs(cost.evaluation)} in an evaluation" if cost.evaluation else ""
    console.print(f"\n[bold]{card.name}[/bold]  {card.paper}", highlight=False)
    for line in (
        card.idea,
        f"up: {card.up}{_share(card.sends(EXAMPLE, hyper), EXAMPLE)}",
        f"down: {card.down}{_share(card.receives(EXAMPLE, hyper), EXAMPLE)}",
        f"cost of a round: {_epochs(cost.round)}{extra}",
        f"tested: the {hyper.tested} model",
    ):
        console.print(Padding(line, (0, 0, 0, 2)), highlight=False)
    for o in describe(card.hyperparameters):
        default = str(o.default).lower() if o.type is bool else o.default
        console.print(f"  {card.name}.{o.key} = {default}", style="bold", highlight=False)
        values = f": {', '.join(o.choices)}" if o.choices else ""
        console.print(Padding(o.doc + values, (0, 0, 0, 6)), highlight=False)


def _epochs(count: float) -> str:
    return f"{count:g} epoch{'' if count == 1 else 's'}"


def _share(declared: Declaration, model: Model) -> str:
    """Return how many models the tensors are at most, in words."""
    numbers = sum(prod(one.shape) for one in declared.values() if one.kind is not Bits)
    return f" ({4 * numbers / model.full_bytes:.3f} models at most)" if numbers else ""
