"""Where a device keeps the sums that it opened, of all runs and methods.

Earlier releases kept what was opened beside the secrets of each run. That is read until there is a
file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from flwr.app import ArrayRecord, RecordDict

from fedsub_core.errors import RunError
from fedsub_core.files import replace_file
from fedsub_core.sealing import Locked, seal, unseal
from fedsub_core.secure.opened_sums import OpenedSum, OpenedSums
from fedsub_core.wire import exchange

OPENED_FILE, OPENED_RECORD = "opened-sums.json", "fedsub-opened-sums"


class OpenedStore:
    """Keeps one person's :class:`OpenedSums`.

    Parameters
    ----------
    folder : of the person, in the node config's ``state-dir``; None: there is none.
    records : of the node's context, which keep them else, as long as it lasts.
    """

    def __init__(self, folder: Path | None, records: RecordDict) -> None:
        self.folder, self.records = folder, records

    def load(self, today: str) -> OpenedSums:
        """Return the sums that the device opened; of a damaged file, that they are lost.

        Raises
        ------
        RunError
            Where there is a file that cannot be read.
        """
        if self.folder is None:
            if OPENED_RECORD not in self.records:
                return OpenedSums(today=today)
            record = cast(ArrayRecord, self.records[OPENED_RECORD])
            return OpenedSums.read(record[exchange.PAYLOAD].data, today)
        path = self.folder / OPENED_FILE
        try:
            return OpenedSums.read(unseal(path.read_bytes(), self.folder.name), today)
        except FileNotFoundError:
            return OpenedSums(_opened_before(self.folder), today)
        except OSError as error:
            raise RunError(f"{path}: cannot be read ({error})") from error
        except Locked:
            raise
        except (RunError, ValueError):
            return OpenedSums(lost=f"{path} is damaged")

    def save(self, opened: OpenedSums) -> None:
        """Keep them in place of those before; a damaged file stays as it is.

        Raises
        ------
        RunError
            Where they cannot be written, as on a full disk.
        """
        if opened.lost or not opened.sums:
            return
        if self.folder is None:
            self.records[OPENED_RECORD] = exchange.pack(opened.written())
            return
        path, kept = self.folder / OPENED_FILE, opened.written()
        try:
            if not path.exists() or unseal(path.read_bytes(), self.folder.name) != kept:
                replace_file(path, seal(kept, self.folder.name))
        except OSError as error:
            raise RunError(f"{path} could not be written ({error}). Free some space") from error


def _opened_before(folder: Path) -> Iterator[OpenedSum]:
    for path in sorted(folder.glob("sums*.json")):
        with suppress(AttributeError, OSError, RunError, TypeError, ValueError):
            kept: Mapping[str, Any] = json.loads(unseal(path.read_bytes(), folder.name))
            for run, sums in kept.get("told", {}).items():
                for what, (vector, *sent) in sums.items():
                    yield OpenedSum(what, run, 0, vector, tuple(sent))
