"""Write `benchmarks/results/loggers.csv`: from a logger's folder to a day's picture.

Recordings of three people are made in each logger's form, with person and class in their names.
Three commands follow, each without an option on the form: import the folder, run `fedsub-ridge`,
answer a new recording with a page. `--before` is the program `fedsub` of another release, of which
the import alone is tried.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from script import Known, put_rows, read_arguments, rows_in

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # what writes recordings in every form is among the tests

from tests.fedsub_data.importing.made_loggers import WRITERS, written  # noqa: E402

TINY = ["--only", "phyphox"]
LINES = ("phyphox",)
PEOPLE = [f"{person}_{label}" for person in ("anna", "ben", "cem") for label in ("sit", "walk")]
NOW = str(Path(sys.executable).with_name("fedsub"))


def answered(folder: Path, *command: str) -> tuple[str, float]:
    """Return the outcome of a command in one line, and its seconds."""
    begun = time.monotonic()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    lines = (done.stdout + done.stderr).splitlines()
    answers = [line for line in lines if " clients, " in line or " windows answered" in line]
    answers += [line.removeprefix("fedsub: ") for line in lines if line.startswith("fedsub: ")]
    text = answers[0].partition(": people")[0] if answers else lines[-1]
    return f"{done.returncode}: {' '.join(text.split())[:200]}", time.monotonic() - begun


def row_of(logger: str, before: str) -> dict[str, str]:
    """Return the row of one logger, by column."""
    with tempfile.TemporaryDirectory(prefix="fedsub-loggers-") as name:
        folder = Path(name)
        written(logger, folder / "data", PEOPLE)
        new = next(iter(sorted((folder / "data").iterdir())))
        dates = ["--dates", "month-first"] if logger == "actigraph" else []
        imports = ["data", "import", "data", "--no-inspect", *dates]
        row = {"logger": logger, "own lines": "0", "options": " ".join(dates), "before": ""}
        if before:
            row["before"], _ = answered(folder, before, *imports, "--out", "older")
        row["import"], first = answered(folder, NOW, *imports, "--out", "people")
        run = ["--method", "fedsub-ridge", "--beside", "", "--rounds", "4", "--out", "runs"]
        _, second = answered(folder, NOW, "run", "--data", "people", *run)
        asked = ["--client", "anna", "--input", str(new), "--output", "day.csv", *dates]
        row["answers"], third = answered(folder, NOW, "predict", *asked, "--page", "day.html")
        row["seconds"] = " + ".join(f"{seconds:.1f}" for seconds in (first, second, third))
    return row


def main() -> None:
    """Try each logger, print its line, and write all of them."""
    args = read_arguments(
        TINY, only=Known(WRITERS), before=("", "the program fedsub of another release"), csv=Path
    )
    for logger in args.only:
        row = row_of(logger, args.before)
        kept = rows_in(args.csv, ["logger"]).get((logger,), {})
        row["before"] = row["before"] or kept.get("before", "")
        print(*row.values(), sep=" | ", flush=True)
        put_rows(args.csv, [row], ["logger"], [(one,) for one in WRITERS])


if __name__ == "__main__":
    main()
