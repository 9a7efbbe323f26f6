"""The files of parts: one JSON document each, a case in a line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedsub.testing.golden import FOLDER

from . import encoders, heads, splits, windows

PARTS = FOLDER / "parts"
#: By file, what is recorded of each case.
RECORDED: dict[str, Callable[[], Any]] = {
    "encoders": encoders.recorded,
    "heads": lambda: {name: heads.recorded(case) for name, case in heads.CASES.items()},
    "splits": lambda: {name: splits.recorded(case) for name, case in splits.CASES.items()},
    "windows": lambda: {name: windows.recorded(case) for name, case in windows.CASES.items()},
}


def write(folder: Path) -> None:
    """Write all files into a folder."""
    for name, recorded in RECORDED.items():
        cases = recorded()
        named, ends = isinstance(cases, dict), "[]"
        lines = map(json.dumps, cases.values() if named else cases)
        if named:
            lines = map("{}: {}".format, map(json.dumps, cases), lines)
            ends = "{}"
        text = ",\n ".join(lines)
        (folder / f"{name}.json").write_text(f"{ends[0]}\n {text}\n{ends[1]}\n", "utf-8")
