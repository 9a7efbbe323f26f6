"""``fedsub deploy invite``: one-time codes with which devices join."""

from pathlib import Path

import click

from fedsub_core.errors import ConfigError


@click.command(short_help="Make one-time codes with which devices join.")
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="folder of invitations, which the server has as --invitations; gets hashes alone",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="folder to create, for codes.csv and sheet.html; it is not for the server",
)
@click.option("--url", required=True, help="the devices' port, such as https://fl.example.org:9092")
@click.option("--count", type=click.IntRange(1, 10_000), help="number of codes [default: 1]")
@click.option(
    "--person",
    "people",
    multiple=True,
    metavar="NAME",
    help="a code for this name alone, also where its key was revoked; may be repeated",
)
@click.option("--days", default=14.0, show_default=True, help="after which the codes end")
@click.option("--federation", help="its name, for people [default: the URL's host]")
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="ca.crt of your own authority: its fingerprint is put on the sheet",
)
def invite(
    folder: Path,
    out: Path,
    url: str,
    count: int | None,
    people: tuple[str, ...],
    days: float,
    federation: str | None,
    ca: Path | None,
) -> None:
    """Make codes, each for one device, once, with an end; and a sheet of QR codes to hand out.

    A person opens the link of its QR code on a phone, or types `fedsub device join URL CODE` on
    another device. The device makes its own key. Whoever has a code can join with it: hand them out
    as you would a key. Where there is a roster, its owner makes them, on a machine of its own.
    """
    from urllib.parse import urlsplit

    from fedsub.deploy.codes import checked_url
    from fedsub.deploy.invitations import new_invitations, write_batch
    from fedsub.deploy.join_device import fingerprint
    from fedsub.deploy.sheet import CODES_FILE, SHEET_FILE, write_sheet
    from fedsub_core.files import check_new_folder

    if people and count is not None:
        raise ConfigError("invite: got --count and --person, expected one of the two")
    url = checked_url(url)
    check_new_folder(out, ConfigError)
    known = "" if ca is None else fingerprint(ca)
    name = federation or str(urlsplit(url).hostname)
    made = new_invitations(url, name, days, people or [""] * (count or 1))
    batch = write_batch(folder, list(made.values()))
    write_sheet(out, made, known)
    until = next(iter(made.values())).until
    click.echo(f"{out}: {CODES_FILE} and {SHEET_FILE} with {len(made)} codes, until {until}")
    click.echo(f"{batch}: what the server needs of them, in its folder of --invitations")
