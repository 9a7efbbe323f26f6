"""What comes of small files with a fault: the exit code, and what the importer says of it.

The files (`import_faults.py`) are made in a temporary folder and imported as by the command line,
`fedsub data import`, or from Python where they are a DataFrame or arrays. ``--fedsub`` is the
program of another release, beside whose Python it lies; ``--column before`` then keeps what came
beside what comes now. One process imports all: starting it takes longer than an import. Lines of
other cases stay in the file.
"""

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from script import put_rows, read_arguments, rows_in, today

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # what writes recordings in every form is among the tests

from import_case import WINDOWS, Case  # noqa: E402
from import_faults import cases  # noqa: E402

from tests.fedsub_data.importing.ways_in import ARRAYS, FRAME, frame, windows, write  # noqa: E402

TINY = ["--only", "units and signs", "--variants", "g, one of six", "--forms", "csv", FRAME]
LINES = ("units and signs | g, one of six | csv |", f"units and signs | g, one of six | {FRAME} |")
KEY = ("kind", "variant")
HEAD = (*KEY, "right", "before", "now", "forms", "written")
#: Letters of what was said that are kept.
LONGEST = 400
#: What is said of files without a fault, too.
USUAL = re.compile(
    r"Guessed: ((--)?(subject|label|time|features|window|rate)[ =]|each file)|Train on it"
)
#: Read by the Python of the release: a line of JSON is what to import, a line is what comes of it.
TELLER = """
import contextlib, io, json, logging, sys
import numpy as np, pandas as pd
import fedsub
from fedsub.cli import main
log = logging.getLogger("fedsub")
log.setLevel(logging.INFO)
log.propagate = False

def read(path, given):
    if path.endswith(".pkl"):
        data = pd.read_pickle(path)
    else:
        with np.load(path) as file:
            data = {key[2:]: (file[key], file["y " + key[2:]]) for key in file if key[:2] == "x "}
    made = fedsub.federation(data, **given)
    samples = sum(len(one.y) for one in made.clients.values())
    print(f"{len(made.clients)} clients, {samples:,} samples, overlap {made.card.overlap}: data")

for line in sys.stdin:
    asked, said, code = json.loads(line), io.StringIO(), 0
    handler = logging.StreamHandler(said)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            if "path" in asked:
                log.addHandler(handler)
                read(asked["path"], asked["given"])
            else:
                sys.argv = ["fedsub", *asked["argv"]]
                main()
        except SystemExit as end:
            code = end.code or 0
        except Exception as error:
            print(f"fedsub: {error}")
            code = 2
    log.removeHandler(handler)
    print(json.dumps([code, said.getvalue()]), flush=True)
"""


class Release:
    """A process that imports by one release of FedSub; to be closed."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", TELLER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",  # a checkout's own folder would come before what is installed
        )

    def asked(self, **what: object) -> tuple[int, str]:
        """Return exit code and text of an import."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        code, text = json.loads(self._process.stdout.readline())
        return int(code), str(text)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def outcome(case: Case, form: str, release: Release, folder: Path) -> str:
    """Return the exit code of a case's import in one form, and its first sentence."""
    made, files, options = case.made, folder / "files", list(case.options)
    if form not in WINDOWS and "--window" not in options:
        options += ["--window", "1s"]
    if form in (FRAME, ARRAYS):
        given: dict[str, object] = {
            key[2:].replace("-", "_"): float(value) if key == "--rate" else value
            for key, value in zip(options[::2], options[1::2], strict=True)
        }
        code, text = release.asked(path=str(_in_memory(case, form, folder)), given=given)
    else:
        pattern = write(made, form, files)
        if case.edit is not None:
            for path in files.iterdir():
                path.write_text(case.edit(path.read_text("utf-8")), "utf-8")
        out = ["--out", str(folder / "out"), "--no-inspect"]
        code, text = release.asked(argv=["data", "import", str(pattern), *out, *options])
    text = text.replace(f"{files}/", "")
    if code:
        said = next((x for x in text.splitlines() if x.startswith("fedsub: ")), text.strip()[-300:])
        return f"{code}: {_short(said.removeprefix('fedsub: '))}"
    return f"0: {_short(_read(text, folder / 'out' / 'federation.toml'))}"


def _in_memory(case: Case, form: str, folder: Path) -> Path:
    """Write what is in memory for another process; return the file."""
    if form == FRAME:
        path = folder / "frame.pkl"
        frame(case.made).reset_index(drop=True).to_pickle(path)
        return path
    arrays: dict[str, Any] = {}
    for person, columns in case.made.items():
        arrays[f"x {person}"], labels = windows(columns)
        arrays[f"y {person}"] = labels.astype(str)
    np.savez(folder / "arrays.npz", **arrays)
    return folder / "arrays.npz"


def _read(text: str, card: Path) -> str:
    """Return the number of samples read, and the notes that are no guesses."""
    lines = [line.strip() for line in text.splitlines()]
    size = next((line for line in lines if re.match(r"[\d,]+ clients?, ", line)), "")
    about = [line for line in lines if re.match(r"[A-Z].*\.$", line) and not USUAL.match(line)]
    overlap = ""
    if card.is_file() and "overlap" in (found := tomllib.loads(card.read_text("utf-8"))):
        overlap = f", overlap {found['overlap']}"
    return " ".join([f"{size.partition(': ')[0]}{overlap}.", *about])


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 4].rsplit(" ", 1)[0] + " ..."


def keep(path: Path, column: str, lines: Mapping[tuple[str, str], Mapping[str, str]]) -> None:
    """Put what came of cases, by form, into a column of the file of results.

    A line says what came of the first form, and of which others the exit code differs. The other
    column and other cases stay as they are.
    """
    before, rows = rows_in(path, KEY), list[dict[str, str]]()
    known = {(case.kind, case.variant): case for case in cases()}
    for key, by in lines.items():
        first = next(iter(by.values()))
        unlike = [form for form, said in by.items() if said[:1] != first[:1]]
        first += f" [{', '.join(f'{form}: {by[form][:1]}' for form in unlike)}]" if unlike else ""
        row = before.get(key, dict.fromkeys(HEAD, "")) | dict(zip(KEY, key, strict=True))
        row |= {"right": known[key].right, column: first, "forms": ", ".join(by)}
        rows.append(row | {"written": today()})
    put_rows(path, rows, KEY, known)


def main() -> None:
    """Import every case, print what comes, and keep it."""
    args = read_arguments(
        TINY,
        fedsub=(Path, "a program; left out, this Python's own"),
        column=("now", "or before"),
        only=[str],
        variants=[str],
        forms=([str], "forms; left out, all that a case can have"),
        out=Path,
    )
    own = args.fedsub is None
    release = Release(sys.executable if own else str(args.fedsub.absolute().with_name("python")))
    lines: dict[tuple[str, str], dict[str, str]] = {}
    for case in cases():
        if args.only and case.kind not in args.only:
            continue
        if args.variants and case.variant not in args.variants:
            continue
        for form in case.forms:
            if args.forms and form not in args.forms:
                continue
            with tempfile.TemporaryDirectory(prefix="fedsub-import-") as folder:
                said = outcome(case, form, release, Path(folder))
            print(case.kind, case.variant, form, said, sep=" | ", flush=True)
            lines.setdefault((case.kind, case.variant), {})[form] = said
    release.close()
    if args.out is not None and lines:
        keep(args.out, args.column, lines)


if __name__ == "__main__":
    main()
