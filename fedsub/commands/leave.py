"""``fedsub device leave``: the person of this device takes part no more."""

from pathlib import Path

import click

from fedsub.commands.join import device

__all__ = ["device"]


@device.command(short_help="Leave a federation, and be forgotten.")
@click.argument("state", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("client")
@click.option("--yes", is_flag=True, help="do not ask")
def leave(state: Path, client: str, yes: bool) -> None:
    """Let CLIENT, whose state-dir is STATE, take part no more, and have it forgotten.

    Its state and its model are deleted here, its data are not. The next time that the server asks,
    the device answers that its person leaves, signed by its key. From that round on the server goes
    on without the person, and removes what it has, as `fedsub forget` does. Keep the services
    running until the record that is named says what the server deleted, and what it cannot delete.
    """
    from fedsub_client.leaving import RECORD_FILE
    from fedsub_client.leaving import leave as leave_federation

    if not yes:
        click.confirm(f"Leave as {client}, and delete its state in {state}?", abort=True)
    deleted = leave_federation(state, client)
    click.echo(f"{client} leaves; deleted here: {', '.join(deleted) or 'nothing was kept'}")
    click.echo(f"{state / client / RECORD_FILE}: what was deleted, for you to keep")
