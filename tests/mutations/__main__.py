"""What the tests protect: each of a list of faults, made on purpose, must fail a test.

    python -m tests.mutations [--only WORDS ...] [--jobs 1] [--out benchmarks/results/mutations.csv]

``list.toml`` names each fault by the protection that is lost, and the tests that must fail. These
run without a fault first, and must pass. Faults are made in a copy of the working tree. Where the
text to change no longer stands there once, a fault cannot be made, and the command fails.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from .mutation import CannotRun, read
from .trying import KILLED, Outcome, every

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("list.toml")
COLUMNS = ("what is protected", "room", "result", "by", "CPU seconds", "written")
#: The last line: all these tests, without a fault.
ALL = "all, without a fault"


def line(outcome: Outcome) -> str:
    """Return an outcome as a line of text."""
    one = outcome.mutation
    return f"{outcome.result:9} {one.room:13} {outcome.seconds:5.1f} s  {one.name}: {outcome.by}"


def write(path: Path, outcomes: Sequence[Outcome], without: float) -> None:
    """Write outcomes into a table, in place of those of before; lines of other mutations stay.

    Parameters
    ----------
    without : CPU seconds of the tests of all without a fault.
    """
    day, lines = datetime.now(UTC).date().isoformat(), dict[str, dict[str, str]]()
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            lines = {one[COLUMNS[0]]: one for one in csv.DictReader(file)}
    for one in outcomes:
        by = one.by.rpartition("\n")[2]
        cells = one.mutation.name, one.mutation.room, one.result, by, f"{one.seconds:.0f}", day
        lines[one.mutation.name] = dict(zip(COLUMNS, cells, strict=True))
    known = [one.name for one in read(LIST)]
    rows = [lines[name] for name in known if name in lines]
    if len(outcomes) == len(known):
        cells = ALL, "", "passed", "", f"{without:.0f}", day
        lines[ALL] = dict(zip(COLUMNS, cells, strict=True))
    rows += [lines[ALL]] if ALL in lines else []
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Try the mutations that are asked for; exit with an error where one is not killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", help="those in whose name one of these words stands")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--out", type=Path, help="CSV file")
    given = parser.parse_args()
    try:
        listed = read(LIST)
        chosen = [
            one for one in listed if given.only is None or any(w in one.name for w in given.only)
        ]
        outcomes, without = every(
            ROOT, chosen, given.jobs, say=lambda outcome: print(line(outcome), flush=True)
        )
    except CannotRun as error:
        sys.exit(str(error))
    if given.out is not None:
        write(given.out, outcomes, without)
    killed = sum(one.result == KILLED for one in outcomes)
    seconds = sum(one.seconds for one in outcomes)
    print(
        f"{killed} of {len(outcomes)} killed in {seconds:.0f} CPU s; "
        f"{without:.0f} CPU s without a fault"
    )
    if killed < len(outcomes):
        sys.exit("\n".join(line(one) for one in outcomes if one.result != KILLED))


if __name__ == "__main__":
    main()
