"""Reads hostile pickles in a process of its own, which ends with 0 where none of them did anything.

Prints, as JSON, by each one's name how it was refused, or "read".
"""

import codecs
import io
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fedsub_core.data.unpickling import ArraysOnly
from fedsub_core.errors import DataError
from fedsub_data.preparing.wesad.pickled import Person, read_recording
from tests.fedsub_core.data.hostile_pickles import changed, crafted, valid

#: What reading a pickle has no business with, by CPython's audit events.
FORBIDDEN = ("os.", "subprocess.", "exec", "ctypes.", "socket.", "pickle.find_class", "import")
#: Bytes that all of them together may add to the process.
MOST_MEMORY = 300 * 2**20
armed = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    wrote = event == "open" and arguments[1] not in (None, "r", "rb")
    if armed and (wrote or event.startswith(FORBIDDEN)):
        os.write(2, f"{event} {arguments!r:.200}\n".encode())
        os._exit(3)


def read(raw: bytes) -> str:
    global armed
    armed = True
    try:
        found = ArraysOnly(io.BytesIO(raw), encoding="latin1").load()
    except Exception as error:
        return type(error).__name__
    finally:
        armed = False
    look(found)
    return "read"


def look(found: object, left: int = 4) -> None:
    """Read all of an array, which would end the process if it were made of pointers."""
    if isinstance(found, np.ndarray):
        assert type(found) is np.ndarray and found.dtype.kind in "biufO"
        look(found.tolist() if found.dtype.kind == "O" else found.tobytes(), left - 1)
    elif left and isinstance(found, list | tuple | dict):
        for one in found.values() if isinstance(found, dict) else found:
            look(one, left - 1)


def prepared(raw: bytes, path: Path) -> str:
    """Return how the data set's reader refuses it."""
    path.write_bytes(raw)
    try:
        read_recording(Person(2, path), "chest")
    except DataError as error:
        assert str(error).startswith(f"{path}: got ") and len(str(error)) < 1000, error
        return "refused"
    return "read"


def main(count: int, seed: int) -> None:
    sys.addaudithook(watch)
    codecs.lookup("raw-unicode-escape")  # is imported where a pickle first has such text
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [read(raw) for raw in valid()] == ["read"] * len(valid())
    outcomes = {name: read(raw) for name, raw in crafted().items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "S2.pkl"
        refusals = {name: prepared(raw, path) for name, raw in crafted().items()}
    mutations = [read(raw) for raw in changed(count, seed)]
    more = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert more < MOST_MEMORY, more
    print(json.dumps({"crafted": outcomes, "prepared": refusals, "changed": mutations}))


main(int(sys.argv[1]), int(sys.argv[2]))
