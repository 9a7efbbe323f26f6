"""The rounds that a run has finished, read from its database while it is being written."""

import sqlite3
from contextlib import closing
from pathlib import Path


def rounds_on_disk(database: Path) -> list[int]:
    """Return them; none where there is no database yet, or one without its tables."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'rounds'").fetchone():
            return []
        return [round for (round,) in opened.execute("SELECT round FROM rounds")]
