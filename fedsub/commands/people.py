"""``fedsub deploy people``: who has joined; codes are withdrawn, and people's keys revoked."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.table import Table

from fedsub.commands.status import WIDE
from fedsub_core.errors import ConfigError, RunError, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedsub_core.flower.control import LinkNode

#: The state of a node whose key is refused for good, by Flower's name.
REVOKED = "unregistered"


@click.command(short_help="List who has joined; revoke keys, withdraw codes.")
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="folder of invitations, which the server has as --invitations",
)
@click.option("--superlink", metavar="HOST:PORT", help="the SuperLink's port for runs")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="with --superlink: the ca.crt that signed its certificate",
)
@click.option(
    "--revoke",
    "revoked",
    multiple=True,
    metavar="NAME",
    help="refuse this person's device from now on, for good; needs --superlink; may be repeated",
)
@click.option(
    "--withdraw",
    "withdrawn",
    multiple=True,
    metavar="NUMBER",
    help="let nobody join any more with this invitation, or this batch; may be repeated",
)
@click.option(
    "--keys",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write the public keys of who has joined, for the roster's owner",
)
def people(
    folder: Path,
    superlink: str | None,
    ca: Path | None,
    revoked: tuple[str, ...],
    withdrawn: tuple[str, ...],
    keys: Path | None,
) -> None:
    """List the invitations of a server and who has joined with them.

    With --superlink it also shows who is connected, and people whose keys were registered by hand.
    """
    from datetime import UTC, datetime

    from fedsub.deploy.invitations import read_batches, withdraw
    from fedsub.deploy.joining import read_joined, write_keys

    if revoked and superlink is None:
        raise ConfigError("--revoke: got no --superlink, expected it, too")
    if withdrawn:
        click.echo(f"Withdrawn: {listed(withdraw(folder, withdrawn), 10)}")
    joined = read_joined(folder)
    nodes = [] if superlink is None else _nodes(superlink, ca, revoked)
    if keys is not None:
        gone = {str(node.node) for node in nodes if node.status == REVOKED}
        kept = [one for one in joined if one.node and one.node not in gone]
        write_keys(keys, kept)
        click.echo(f"{keys}: public keys of {len(kept)} people")
    now, used = datetime.now(UTC), {one.token_hash for one in joined}
    states = Counter(
        "used" if one.token_hash in used else "ended" if one.ended(now) else "open"
        for one in read_batches(folder).values()
    )
    click.echo(f"Invitations: {', '.join(f'{states[s]} {s}' for s in ('open', 'used', 'ended'))}")
    table = Table("person", "node", "state", "joined", "invitation")
    by_node = {str(node.node): node for node in nodes}
    for one in joined:
        node = by_node.pop(one.node, None)
        state = "interrupted" if not one.node else node.status if node else "joined"
        table.add_row(one.client, one.node, state, one.joined, one.number)
    for node in by_node.values():
        table.add_row(node.name, str(node.node), node.status, "", "by hand")
    if table.row_count:
        console = Console()
        if not console.is_terminal:  # a pipe has no width
            console.width = WIDE
        console.print(table)


def _nodes(superlink: str, ca: Path | None, revoked: tuple[str, ...]) -> Sequence[LinkNode]:
    """Return a SuperLink's nodes, after those of some people are unregistered."""
    from fedsub_core.flower.control import ask_superlink, unregister

    signed = None if ca is None else ca.read_bytes()
    nodes, _ = ask_superlink(superlink, signed)
    valid = [node for node in nodes if node.status != REVOKED]
    if missing := sorted({*revoked} - {node.name for node in valid}):
        raise RunError(f"--revoke: got {listed(missing, 10)}, expected names of registered people")
    if ids := [node.node for node in valid if node.name in revoked]:
        unregister(superlink, signed, ids)
        click.echo(f"Revoked: {listed(revoked, 10)}")
        nodes, _ = ask_superlink(superlink, signed)
    return nodes
