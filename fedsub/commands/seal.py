"""``fedsub deploy seal``: what lies there is sealed by a passphrase."""

import os
from pathlib import Path

import click


@click.command(short_help="Seal a run's or a device's state by a passphrase.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--passphrase",
    type=click.Path(path_type=Path),
    help="the passphrase's file [default: the one that FEDSUB_PASSPHRASE_FILE names]",
)
@click.option("--plain", is_flag=True, help="make it plain again, such as to change the passphrase")
def seal(folder: Path, passphrase: Path | None, plain: bool) -> None:
    """Seal the state in FOLDER, a run's folder on the server or a device's state-dir.

    Set FEDSUB_PASSPHRASE_FILE for the services, too: from then on they seal what they write. Stop
    them before. A run's metrics, settings and people's names stay readable; states, prototypes,
    sums and models do not.
    """
    from fedsub.deploy.sealing import seal_folder
    from fedsub_core.sealing import FILE

    if passphrase is not None:
        os.environ[FILE] = str(passphrase)

    for name in seal_folder(folder, plain):
        click.echo(f"{name}: {'plain' if plain else 'sealed'}")
