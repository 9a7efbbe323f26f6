"""``fedsub deploy roster``: the signed list of people's public keys."""

from pathlib import Path

import click

from fedsub_core.errors import ConfigError, listed
from fedsub_core.options import key_values

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Sign the list of people's public keys, for secure sums.")
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="folder of the roster and its owner's key",
)
@click.argument("people", nargs=-1, metavar="[CLIENT=FILE]...")
@click.option("--joined", type=_FILE, help="what `fedsub deploy people --keys` wrote on the server")
@click.option("--codes", type=_FILE, help="with --joined: codes.csv of `fedsub deploy invite`")
def roster(folder: Path, people: tuple[str, ...], joined: Path | None, codes: Path | None) -> None:
    """Add people to the roster of a federation: each CLIENT's id, with its public key in FILE.

    With --joined these are the people who joined with your invitations. The server cannot change
    their keys unnoticed: each comes with a seal, which is checked with its code.

    Devices that have the roster take keys for secure sums from these people alone, and not from the
    server. Keep `roster-owner` off the server: whoever has it can add people. The roster only
    grows: nobody is taken out, and nobody's key is changed.
    """
    from fedsub.deploy.roster import OWNER_FILE, ROSTER_FILE, add_to_roster, joined_keys
    from fedsub.deploy.sheet import read_codes

    if (joined is None) != (codes is None) or not (people or joined):
        raise ConfigError("roster: got no people, expected CLIENT=FILE, or --joined with --codes")
    files = key_values(people, "roster", "anna=keys/nodes/anna.pub")
    if len(files) < len(people):
        raise ConfigError(f"roster: got {' '.join(people)}, expected each client once")
    keys = joined_keys(joined, read_codes(codes)) if joined and codes else {}
    whole = add_to_roster(folder, {client: Path(file) for client, file in files.items()}, keys)
    click.echo(f"{folder / ROSTER_FILE}: number {whole.number}, {listed(whole.people, 10)}")
    click.echo(f"Give each device {ROSTER_FILE} and {OWNER_FILE}.pub; its node config needs")
    click.echo(
        f'  secure-roster="/etc/fedsub/{ROSTER_FILE}" '
        f'secure-owner="/etc/fedsub/{OWNER_FILE}.pub" secure-key="/etc/fedsub/node.key"'
    )
