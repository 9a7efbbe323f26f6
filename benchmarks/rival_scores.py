"""Everybody's scores by table, rival and seed: a file that lines of results follow from."""

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from script import today

from fedsub.report.comparing import interval
from fedsub_core.files import write_whole

Floats = NDArray[np.float64]

#: A line of a file, by column.
Line = dict[str, str]
#: What the others are held against.
OURS = "fedsub-ridge"


def line_of(row: str, f1: Floats, loss: Floats, sent: float) -> Line:
    """Return a line of the file of people, but for its table and seed."""
    scores = {"macro F1": f1, "loss": loss}
    texts = {name: " ".join(f"{v:.4f}" for v in values) for name, values in scores.items()}
    return {"row": row, **texts, "bytes up": f"{sent:.0f}", "written": today()}


class People:
    """Everybody's scores by table, row and seed, in a file that is written as a whole."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lines: dict[tuple[str, str, int], Line] = {}
        self._read()

    def _read(self) -> None:
        """Take the file's lines in place of what was known."""
        if self.path and self.path.exists():
            self.lines = {}
            with gzip.open(self.path, "rt", encoding="utf-8", newline="") as file:
                for line in csv.DictReader(file):
                    self.lines[line["table"], line["row"], int(line["seed"])] = line

    def add(self, table: str, seed: int, lines: Sequence[Line]) -> None:
        """Add a table's lines of one seed, in place of older ones, and write the file."""
        self._read()  # another process may have written it since
        for line in lines:
            self.lines[table, line["row"], seed] = {"table": table, "seed": str(seed), **line}
        if self.path:
            text = io.StringIO()
            writer = csv.DictWriter(text, ["table", "seed", *lines[0]], lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.lines[key] for key in sorted(self.lines))
            # No time of writing, so that equal scores are equal bytes.
            write_whole(self.path, gzip.compress(text.getvalue().encode(), mtime=0))

    def scores(self, table: str, row: str, column: str) -> dict[int, Floats]:
        """Return everybody's scores by seed, [people]."""
        return {
            seed: np.array(line[column].split(), np.float64)
            for (of, name, seed), line in sorted(self.lines.items())
            if (of, name) == (table, row)
        }

    def summary(self, table: str, sent: Mapping[str, str]) -> list[Line]:
        """Return a table's lines of the file of results; `sent`: by row, what everybody sends."""
        known = {row for of, row, _ in self.lines if of == table}
        return [self._row(table, row, what) for row, what in sent.items() if row in known]

    def _row(self, table: str, row: str, sends: str) -> Line:
        f1, loss, ours = (
            self.scores(table, *of) for of in ((row, "macro F1"), (row, "loss"), (OURS, "macro F1"))
        )
        lines = [self.lines[table, row, seed] for seed in f1]
        found = {"table": table, "row": row, "sends": sends, "bytes up": lines[-1]["bytes up"]}
        found |= {"people": str(len(next(iter(f1.values())))), "seeds": str(len(f1))}
        found["macro F1"] = f"{np.mean([v.mean() for v in f1.values()]):.3f}"
        found["10 %"] = f"{np.mean([np.percentile(v, 10) for v in f1.values()]):.3f}"
        found["loss"] = f"{np.mean([v.mean() for v in loss.values()]):.3f}"
        both = sorted(f1.keys() & ours.keys())
        numbers = [""] * 3
        if both and row != OURS:
            each = np.mean([f1[seed] - ours[seed] for seed in both], 0)
            numbers = [f"{v:+.3f}" for v in (each.mean(), *(interval(each) or (np.nan, np.nan)))]
        column = f"less {OURS} (95 %)"
        found |= dict(zip((column, f"{column}: low", f"{column}: high"), numbers, strict=True))
        return found | {"written": max(line["written"] for line in lines)}
