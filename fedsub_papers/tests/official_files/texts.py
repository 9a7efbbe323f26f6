"""AG News' official files, rebuilt from its real test rows."""

import csv
import io
import lzma
from pathlib import Path

Rows = list[list[str]]


def news(real_data: Path) -> Rows:
    """Return AG News' 7,600 test rows: class, title, description."""
    text = lzma.decompress((real_data / "text/ag_news_test.csv.xz").read_bytes()).decode()
    return list(csv.reader(io.StringIO(text)))


def ag_news(folder: Path, train: Rows, test: Rows) -> Path:
    """Write the two official files into the new folder."""
    folder.mkdir()
    for name, part in (("train.csv", train), ("test.csv", test)):
        with open(folder / name, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(part)
    return folder
