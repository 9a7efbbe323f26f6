"""What people are handed: a table of codes, and a sheet to print with a QR code for each."""

import csv
import html
import io
from collections.abc import Mapping
from pathlib import Path

import segno

from fedsub.deploy.invitations import Invitation
from fedsub_core.errors import RunError
from fedsub_core.files import whole_folder

CODES_FILE, SHEET_FILE = "codes.csv", "sheet.html"
_PAGE = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>Invitations</title>
<style>
body {{ font: 10pt sans-serif; margin: 1cm; }}
section {{ display: inline-block; width: 8.5cm; height: 6cm; padding: .3cm; break-inside: avoid;
  border: 1px dashed #999; box-sizing: border-box; overflow: hidden; vertical-align: top; }}
svg {{ width: 3.6cm; height: 3.6cm; float: left; margin-right: .3cm; }}
code {{ font-size: 11pt; font-weight: bold; }}
small {{ clear: both; display: block; overflow-wrap: anywhere; }}
</style>
{cards}
</html>
"""
_CARD = """<section>{code_svg}<b>{federation}</b><p>{client}<code>{code}</code>
<p>once, until {until}<small>{url}<br>{fingerprint}<br>{number}</small></section>"""


def link(url: str, code: str) -> str:
    """Return the link of an invitation: browsers keep what follows ``#`` to themselves."""
    return f"{url}/#{code}"


def write_sheet(folder: Path, invitations: Mapping[str, Invitation], fingerprint: str) -> None:
    """Write ``codes.csv`` and ``sheet.html`` into a new folder that only its owner can read.

    Parameters
    ----------
    invitations : by code.
    fingerprint : of the authority that signed the server's certificate; "" for a public one.

    Raises RunError if the folder holds something, or cannot be written.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["number", "client", "code", "link", "until", "fingerprint"])
    for code, one in invitations.items():
        row = [one.number, one.client, code, link(one.url, code), one.until, fingerprint]
        table.writerow(row)
    cards = "\n".join(_card(code, one, fingerprint) for code, one in invitations.items())
    with whole_folder(folder, RunError) as draft:
        (draft / CODES_FILE).write_text(text.getvalue(), encoding="utf-8")
        (draft / SHEET_FILE).write_text(_PAGE.format(cards=cards), encoding="utf-8")


def read_codes(path: Path) -> dict[str, str]:
    """Return the codes of a ``codes.csv``, by number.

    Raises RunError if it is none.
    """
    try:
        table = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline=""))
        return {row["number"]: row["code"] for row in table}
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"{path}: got {error}, expected a table of codes") from error


def _card(code: str, one: Invitation, fingerprint: str) -> str:
    drawn = segno.make(link(one.url, code), error="m", micro=False)
    return _CARD.format(
        code_svg=drawn.svg_inline(omitsize=True, border=2),
        federation=html.escape(one.federation),
        client=f"{html.escape(one.client)}<br>" if one.client else "",
        code=code,
        until=one.until[:10],
        url=html.escape(one.url),
        fingerprint=f"CA {fingerprint}" if fingerprint else "",
        number=one.number,
    )
