"""What a transcript of secure sums costs: bytes and CPU seconds of a sum, and to check it.

People with a roster add up vectors of the papers' model, as in ``secure_sums.py``. The server
hashes each vector, and writes the sum to the disk. Then all is checked that the file alone shows,
signatures included.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from script import put_lines, read_arguments
from secure_sums import Protocol

from fedsub.deploy.transcript_checks import (
    check_differences,
    check_people,
    check_roster,
    check_thresholds,
)
from fedsub_core.secure.chain import read_chain
from fedsub_core.secure.keys import hash_of
from strategies.protections.sum_transcript import SumTranscript

TINY = ["--people", "5"]
LINES = ("sum of",)
HEAD = (
    "people", "bytes of a plan's head", "bytes of a sum", "ms to hash the vectors",
    "ms to write a sum", "ms to check a sum",
)  # fmt: skip


def costs(people: int, folder: Path) -> tuple[int, int, float, float, float]:
    """Return bytes of a head and of a sum, and CPU seconds to hash, write and check it."""
    of = Protocol(people, signed=True)
    transcript = SumTranscript(path := folder / f"{people}.jsonl", "run", "fedavg")
    server, vector, _ = of.answered()
    words, before = server.open(), path.stat().st_size
    begun = time.process_time()
    for _ in range(people):
        hash_of(vector)
    hashed = time.process_time()
    transcript.add(server, words)
    written = time.process_time()
    lines = read_chain(path.read_bytes())
    roster = of.roster
    checks = (
        check_people(lines),
        check_thresholds(lines),
        check_differences(lines),
        check_roster(lines, roster),
    )
    if any(one.fault for check in checks for one in check):
        raise SystemExit("the transcript does not verify")
    times = hashed - begun, written - hashed, time.process_time() - written
    return len(transcript.head), path.stat().st_size - before, *times


def main() -> None:
    """Print what a transcript costs, by the number of people."""
    args = read_arguments(TINY, people=[10, 30, 100], out=Path)
    rows = list[tuple[object, ...]]()
    with TemporaryDirectory() as folder:
        for people in args.people:
            head, size, *seconds = costs(people, Path(folder))
            times = [f"{1e3 * one:.1f}" for one in seconds]
            rows.append((people, head, size, *times))
            print(
                f"sum of {people:<5}{head:4} bytes{size:9} bytes  hash, write, check:", *times, "ms"
            )
    put_lines(args.out, HEAD, rows, 1)


if __name__ == "__main__":
    main()
