"""What a device verified of a transcript before: so far its older files need not be there again."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from fedsub.deploy.transcript_checks import Finding, Findings
from fedsub_client.state_files import run_digest
from fedsub_core.files import read_table, write_whole
from fedsub_core.secure.chain import Line


@dataclass(frozen=True)
class VerifiedBefore:
    """The end of what held when the device looked last.

    Parameters
    ----------
    head : hash of the last line, in hexadecimal.
    receipts : how many receipts the device had then; all were checked.
    """

    head: str
    receipts: int

    @classmethod
    def of(cls, folder: Path, run: str) -> Self | None:
        """Return the note in a device's folder of a run; None: there is none that can be read."""
        try:
            return cls(**read_table(_file(folder, run)))
        except TypeError:
            return None

    def note(self, folder: Path, run: str) -> None:
        """Keep it; raises RunError where that cannot be written."""
        write_whole(_file(folder, run), json.dumps(asdict(self)).encode())


def check_begin(lines: Sequence[Line], before: VerifiedBefore | None) -> Findings:
    """Check that lines go on from what the device verified before, if they lack the first ones."""
    first = lines[0].entry["before"]
    heads = {first, *(line.hash for line in lines)} - {""}
    if before is not None and before.head not in heads:
        got = f"none with the head {before.head[:16]}..., up to which it was verified"
        yield Finding(f"files: got {got}, expected that: it is cut or changed", fault=True)
    elif first and before is None:
        got = f"a first file that follows on {first[:16]}..., and nothing verified up to there"
        yield Finding(f"files: got {got}, expected all files before it beside it", fault=True)
    elif first:
        less = "verified before, and are compared with no sum of these"
        yield Finding(f"files: older ones, up to {first[:16]}..., were {less}")


def _file(folder: Path, run: str) -> Path:
    return folder / f"verified-{run_digest(run)}.json"
