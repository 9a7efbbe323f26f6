"""A run of months: how its database grows with rounds, metrics thinned by age or all kept.

Rows of a round are those of a FedSub run of the watch's people, one person after another under
another name, with other numbers in each round; they are written as a server writes them
(`RunDatabase.commit`, `RunDatabase.thin`). Each doubling of the rounds adds as many rounds that are
kept, so the size after months follows from the last doubling that was measured ("by the growth"),
and rows are as many times more for more people ("and by people").
`metrics.csv` is the second copy of all rows, which a run that is thinned has no longer.
"""

import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from script import put_rows, read_arguments

import fedsub
from fedsub_core.metrics import MetricRow
from fedsub_core.seeds import generator
from fedsub_server.results import export_csv
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase

TINY = ["--people", "2", "--rounds", "1024", "--whole", "64"]
LINES = ("1,024 rounds:", "131,400 rounds:")
#: Rounds for which all rows are kept as well, to know what they take.
ALL_KEPT = 100


def template(folder: Path) -> list[MetricRow]:
    """Return the metrics of one evaluated round of a short run."""
    run = fedsub.run(method="fedsub", beside="", rounds=2, out=str(folder))
    with RunDatabase(run.folder / "fedsub" / DATABASE_FILE) as database:
        return [row for row in database.metrics() if row.round == 2]


def rows_of(round: int, rows: list[MetricRow], people: int) -> Iterator[MetricRow]:
    """Yield a round's metrics of so many people, numbers drawn anew where they are no whole."""
    clients = sorted({row.client for row in rows if row.client})
    own = {client: [row for row in rows if row.client == client] for client in ("", *clients)}
    draw = generator(0, "", round, "months").initial_seed() % 1_000_003 / 1_000_003
    for person in range(-1, people):
        of = own[clients[person % len(clients)] if person >= 0 else ""]
        name = f"person-{person:04d}" if person >= 0 else ""
        for at, (_, _, label, metric, value) in enumerate(of):
            moved = (value + draw + math.sqrt(2 + at + person)) % 1
            drawn = value if value == int(value) else moved
            yield MetricRow(round, name, label, metric, drawn)


def size(path: Path) -> int:
    """Return the bytes of a database and of what stands beside it."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def all_kept(folder: Path, rows: list[MetricRow], people: int) -> tuple[float, float]:
    """Return the bytes a round of a database with all rows, and of its second copy as CSV."""
    folder.mkdir()
    sizes = []
    with RunDatabase(folder / DATABASE_FILE, {}) as database:
        for round in range(1, ALL_KEPT + 1):
            database.commit(round, {}, rows_of(round, rows, people))
            if round in (ALL_KEPT // 2, ALL_KEPT):
                sizes.append(size(database.path))
        export_csv(database, folder / "metrics.csv")
    written = (folder / "metrics.csv").stat().st_size
    return (sizes[1] - sizes[0]) / (ALL_KEPT / 2), written / ALL_KEPT


def grown(
    path: Path, rows: list[MetricRow], people: int, rounds: int, whole: int
) -> dict[int, tuple[int, int, float]]:
    """Return, after each doubling of the rounds, bytes, rounds kept, and seconds a commit."""
    marks = [rounds >> n for n in range(int(math.log2(rounds / whole)), -1, -1)]
    found: dict[int, tuple[int, int, float]] = {}
    path.parent.mkdir()
    with RunDatabase(path, {}) as database:
        took, since = 0.0, 0
        for round in range(1, rounds + 1):
            of_round = list(rows_of(round, rows, people))
            began = time.process_time()
            database.commit(round, {}, of_round)
            database.thin(whole, rounds)
            took += time.process_time() - began
            if round in marks:
                kept = database.thinned() or round
                found[round] = size(path), kept, took / (round - since)
                took, since = 0.0, round
    return found


def main() -> None:
    arguments = read_arguments(
        TINY,
        people=10,
        large=(200, "people of the last line"),
        rounds=4000,
        whole=250,
        months=6.0,
        minutes=(2.0, "from round to round"),
        csv=Path,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder, people = Path(temporary), arguments.people
        rows = template(folder)
        each, copy = all_kept(folder / "all", rows, people)
        path = folder / "thinned" / DATABASE_FILE
        found = grown(path, rows, people, arguments.rounds, arguments.whole)
    per_round = sum(1 for _ in rows_of(1, rows, people))
    print(f"{people} people, {per_round:,} rows a round")
    *_, before, last = sorted(found)
    months = round(arguments.months * 365 / 12 * 24 * 60 / arguments.minutes)
    doublings = math.log2(months / last)
    late, earlier = found[last], found[before]
    far = late[0] + doublings * (late[0] - earlier[0]), late[1] + doublings * (late[1] - earlier[1])
    table = []
    lines: list[tuple[int, int, float, float, float | None, str]]
    lines = [(people, r, *of, "measured") for r, of in sorted(found.items())]
    lines.append((people, months, *far, None, "by the growth"))
    times = arguments.large / people
    more = far[0] * times, far[1], None, "by the growth and by people"
    lines.append((arguments.large, months, *more))
    for who, rounds, taken, kept, seconds, how in lines:
        each_now, copy_now = (one * who / people for one in (each, copy))
        line = {
            "people": f"{who}",
            "rounds": f"{rounds:,}",
            "rounds kept": f"{kept:,.0f}",
            "state.db, MB": f"{taken / 1e6:,.1f}",
            "all rows kept, MB (by the first rounds)": f"{rounds * each_now / 1e6:,.0f}",
            "and as metrics.csv, MB": f"{rounds * copy_now / 1e6:,.0f}",
            "CPU ms a commit": "" if seconds is None else f"{1000 * seconds:.0f}",
            "size": how,
        }
        print(f"{line['rounds']} rounds:", ", ".join(f"{k} {v}" for k, v in line.items() if v))
        table.append(line)
    put_rows(arguments.csv, table, ("people", "rounds"))


if __name__ == "__main__":
    main()
