"""``fedsub deploy verify``: check what a server says of its secure sums."""

import sys
from pathlib import Path

import click

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(short_help="Check a transcript of secure sums on a device.")
@click.argument("transcript", type=_FILE)
@click.option(
    "--state",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="this device's state: <state-dir>/<client-id>, or <state-dir> with a single client; it "
    "has receipts of the sums that the device took part in",
)
@click.option(
    "--owner",
    type=_FILE,
    help="public key of the roster's owner, roster-owner.pub: also check signatures",
)
@click.option(
    "--key",
    type=_FILE,
    help="for who runs the server, or whom it trusts: transcript.key, to draw noise again",
)
def verify(transcript: Path, state: Path | None, owner: Path | None, key: Path | None) -> None:
    """Check TRANSCRIPT, `transcript.jsonl` of a run's method, against what a device keeps.

    Each check prints one line. They say whether the chain is whole, up to the last head that the
    device was shown, and whether each of its vectors was counted once. Also whether sums were of
    people enough, no two of the same vectors differ by few people, and noise is as promised.
    Without --state only the file is checked. Older files of it lie beside it; those that the device
    checked before may lack. Exit code 1: something is wrong.
    """
    from fedsub.deploy.verifying import verified

    found = verified(transcript, state, owner, key)
    for one in found:
        # A server that lies may have written what a terminal would obey.
        text = "".join(c if c.isprintable() else " " for c in one.text)
        click.echo(f"{'WRONG' if one.fault else 'ok'}: {text}")
    if any(one.fault for one in found):
        sys.exit(1)
