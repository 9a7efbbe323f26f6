"""People whose rows an import resampled, from the federation's record of its origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedsub_core.errors import DataError, cut
from fedsub_data.preparing.preparation import REPORT_FILE


def resampled_people(folder: Path | str) -> dict[str, list[str]]:
    """Return clauses on how each person's rows were resampled; {} if no import made `folder`.

    Raises
    ------
    DataError
        Where the record is not as an import writes it.
    """
    path = Path(folder, REPORT_FILE)
    if not path.is_file():
        return {}
    try:
        record: Any = json.loads(path.read_text("utf-8"))
        found = record.get("resampled", {})
        return {str(person): [str(one) for one in said] for person, said in found.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DataError(
            f"{path}: resampled: got {cut(error)}, expected sentences by person, as `fedsub data "
            "import` writes them. Import again"
        ) from error
