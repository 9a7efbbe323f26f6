"""``fedsub device``: this machine becomes a device of a federation, or its person leaves it."""

from pathlib import Path

import click

from fedsub.commands.nearest import Group
from fedsub_core.errors import ConfigError


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def device() -> None:
    """Take part in a federation with this machine."""


@device.command(short_help="Join a federation with an invitation's code.")
@click.argument("url")
@click.argument("code")
@click.option("--name", "client", required=True, help="the name under which this device takes part")
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="gets node.key, device.env, superexec.secret, and ca.crt; a node.key there is used",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="ca.crt of the server's authority [default: the authorities that this machine trusts]",
)
@click.option("--fingerprint", help="instead of --ca: that of the authority, as on the invitation")
def join(
    url: str, code: str, client: str, folder: Path, ca: Path | None, fingerprint: str | None
) -> None:
    """Join the federation at URL with the CODE of an invitation.

    This device makes its own key, and registers the public half. The private half never leaves it,
    and neither does the code. After an interruption, the same command goes on.
    """
    from fedsub.deploy.join_device import SETTINGS
    from fedsub.deploy.join_device import join as join_federation

    if ca is not None and fingerprint is not None:
        raise ConfigError("join: got --ca and --fingerprint, expected one of the two")
    answer = join_federation(url, code, client, folder, ca, fingerprint)
    click.echo(f"{client} has joined {answer['federation']}, as node {answer['node']}")
    click.echo(f"{folder / SETTINGS}: who it is and where to go; start the services next")


@device.command(short_help="Say when this device may take part.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--charging", is_flag=True, help="only at the mains")
@click.option("--wifi", is_flag=True, help="only on a link that is not metered")
@click.option("--hours", default="", help="only in these hours of the device's clock, such as 22-7")
@click.option("--battery", default=0.0, help="only with more of the battery left, such as 0.5")
def policy(folder: Path, charging: bool, wifi: bool, hours: str, battery: float) -> None:
    """Say when the device whose state-dir is FOLDER may take part; without options: always.

    While its policy does not allow it, the device answers that it does not take part now, and the
    server goes on without it. A policy that never allows anything is refused.
    """
    from fedsub_client.policy import POLICY_FILE, Policy
    from fedsub_core.files import write_whole

    if not folder.is_dir():
        raise ConfigError(f"{folder}: got no folder, expected the device's state-dir")
    chosen = Policy(charging, wifi, hours, battery)
    given = {key: value for key, value in vars(chosen).items() if value}
    lines = [f"{key} = {value!r}\n".replace("True", "true") for key, value in given.items()]
    write_whole(folder / POLICY_FILE, "".join(lines).encode())
    click.echo(f"{folder / POLICY_FILE}: {', '.join(map(str.strip, lines)) or 'always'}")


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
