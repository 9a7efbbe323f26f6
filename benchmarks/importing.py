"""What importing a table takes: seconds, CPU seconds and memory, by rows.

The table is CSV: person, activity, time at 50 Hz and three axes, made in a temporary folder, which
is not counted. ``--shuffled`` has people take turns, row by row. ``--dated`` writes times as dates
in Berlin, a day every 100,000 rows, and a split keeps days whole. The import runs in a process of
its own, as a person calls it, without and with the page of `inspect`; its peak is that of this
process. ``--fedsub`` is the program of another release, which ``--release`` names in the file of
results: ``before`` and ``now`` lie beside each other.
"""

import sys
import tempfile
from pathlib import Path

import duckdb
from processes import used_by
from script import put_lines, read_arguments

TINY = ["--rows", "60000", "--people", "4"]
LINES = ("table:", "import alone:", "import and inspect:")
HEAD = ("fedsub data import", "release", "CPU", "by the clock", "peak")


def make(path: Path, rows: int, people: int, shuffled: bool, dated: bool) -> None:
    """Write a table of `rows` rows of signals; each person changes activity every 40 s."""
    each = rows // people
    who, own = f"i // {each}", f"i % {each}"
    if shuffled:
        who, own = f"i % {people}", f"i // {people}"
    axes = ", ".join(
        f"round(sin({own} * 0.{digit}) * (1 + ({own}) // 2000 % 4) + random() / 4, 4) AS {axis}"
        for digit, axis in ((17, "ax"), (23, "ay"), (41, "az"))
    )
    time = f"({own}) / 50"
    if dated:
        day = "strftime(TIMESTAMP '2024-03-01 08:00:00' + to_days((({own}) // 100000)::INT)"
        ms = "to_milliseconds((({own}) % 100000) * 20), '%Y-%m-%d %H:%M:%S.%g')"
        time = f"{day} + {ms}".format(own=own)
    with duckdb.connect(config={"memory_limit": "500MB"}) as db:
        db.execute(
            f"COPY (SELECT 'p' || lpad(({who})::VARCHAR, 3, '0') AS person, "
            f"['walk', 'sit', 'run', 'stand'][1 + ({own}) // 2000 % 4] AS activity, "
            f"{time} AS time, {axes} FROM range({each * people}) r(i)) TO '{path}' (HEADER)"
        )


def main() -> None:
    """Print a line for the table and for each way of importing it."""
    args = read_arguments(
        TINY,
        rows=10_000_000,
        people=36,
        memory="256MB",
        shuffled=False,
        dated=False,
        fedsub=(Path, "a program; left out, this Python's own"),
        release=("now", "its name in the file of results"),
        out=Path,
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder / "table.csv", args.rows, args.people, args.shuffled, args.dated)
        size = (folder / "table.csv").stat().st_size / 1e6
        print(f"table: {args.rows:,} rows, {args.people} people, {size:.0f} MB", flush=True)
        call = [sys.executable, "-c", "from fedsub.cli import main; main()"]
        if args.fedsub is not None:
            call = [str(args.fedsub.absolute())]
        rows = []
        call += ["data", "import", "table.csv"]
        call += ["--memory", args.memory, "--rate", "50"]
        call += ["--timezone", "Europe/Berlin", "--split-by", "day"] if args.dated else []
        for name, more in (("import alone", ["--no-inspect"]), ("import and inspect", [])):
            out = ["--out", name.replace(" ", "-")]
            wall, cpu, peak = used_by([*call, *out, *more], folder)
            print(f"{name}: {wall:.1f} s, {cpu:.1f} s of CPU, peak {peak:.0f} MB", flush=True)
            kind = " with dates, by day" if args.dated else ""
            key = f"{name}, {args.rows:,} rows{kind}, {args.people} people", args.release
            rows.append((*key, f"{cpu:.1f} s", f"{wall:.1f} s", f"{peak:.0f} MB"))
    put_lines(args.out, HEAD, rows, 2)


if __name__ == "__main__":
    main()
