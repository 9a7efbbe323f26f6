"""``fedsub methods``: the table of methods."""

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from fedsub.commands.as_json import AS_JSON, print_json
from fedsub.report.methods import (
    as_values,
    cards_by_package,
    default,
    facts,
    longer_facts,
    markdown,
    meaning,
)
from fedsub.report.wire_table import renew_page
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import BROKEN, method
from fedsub_core.options import describe


@click.command()
@click.argument("name", required=False)
@click.option("--markdown", "page", is_flag=True, help="print the page of all methods, as Markdown")
@click.option(
    "--wire",
    metavar="PAGE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="write what FedSub's own methods send into docs/wire-format.md",
)
@AS_JSON
def methods(name: str | None, page: bool, wire: Path | None, as_json: bool) -> None:
    """List the methods: paper, what is sent, cost, which model is tested, hyperparameters.

    With NAME, describe only that method, in detail: what it reveals about people, and what was
    decided where its paper leaves something open. Shares of a model are those of the papers'
    3-128-512-6 network. Costs are in epochs of plain training on a device's own data, with one
    epoch a round and the default hyperparameters.
    """
    packages = {"": [method(name)]} if name else cards_by_package()
    if wire is not None:
        renew_page(wire, cards_by_package(ours=True))
        return
    if page:
        click.echo(markdown(packages), nl=False)
        return
    cards = [card for some in packages.values() for card in some]
    if as_json:
        print_json([as_values(card) for card in cards])
        return
    console = Console()
    for package, some in packages.items():
        if package:
            console.print(f"\n[bold]From the package {package}[/bold]", highlight=False)
        for card in some:
            _print(console, card, at_length=name is not None)
    for broken, why in ({} if name else BROKEN).items():
        console.print(f"\n[bold]{broken}[/bold]  not usable: {escape(why)}", highlight=False)


def _print(console: Console, card: MethodCard, at_length: bool) -> None:
    console.print(f"\n[bold]{card.name}[/bold]  {escape(card.paper)}", highlight=False)
    _indented(console, card.idea, 2)
    for title, text in facts(card):
        _indented(console, f"{title}: {text}", 2)
    for title, texts in longer_facts(card) if at_length else []:
        _indented(console, f"{title}:", 2)
        for text in texts:
            _indented(console, text, 4)
    for o in describe(card.hyperparameters):
        line = f"  {card.name}.{o.key} = {default(o)}"
        console.print(escape(line), style="bold", highlight=False)
        _indented(console, meaning(o), 6)


def _indented(console: Console, text: str, columns: int) -> None:
    console.print(Padding(escape(text), (0, 0, 0, columns)), highlight=False)
