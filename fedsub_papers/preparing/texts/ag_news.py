"""AG News: 127,600 news, title and description, of four topics (Zhang, Zhao and LeCun 2015).

The official files ``train.csv`` and ``test.csv`` have a row a text and no header: the class from 1
to 4, the title, the description, all in quotes. They are read row by row.
"""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import TOKENS
from fedsub_data.preparing.members import Member, find_members
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused, text_lines
from fedsub_papers.preparing.options import AGNewsOptions
from fedsub_papers.preparing.texts.hashed_words import PADDING, most_words, token_ids, words_of

CLASSES = ("World", "Sports", "Business", "Sci/Tech")
_PARTS = ("train", "test")
_LABELS = {str(i): i - 1 for i in range(1, len(CLASSES) + 1)}


def prepare(source: Path, options: AGNewsOptions, workers: int, progress: Progress) -> Prepared:
    """Return AG News as token ids, int32 [n, length], of the clients ``train`` and ``test``.

    Parameters
    ----------
    source : a folder or a zip with both files, or one of them alone, which is then the only client.

    Raises DataError where a file is missing, damaged or not UTF-8; at a row of other than three
    fields, of an unknown class, or without a word.
    """
    members = _members(source)
    counts, clients = Counts(), {}
    progress(0, len(members))
    for part, member in members.items():
        x, y = _read(member, options, counts)
        clients[part] = ClientData(part, x, y)
        counts.add(f"texts: {part}", len(y))
        progress(len(clients), len(members))
    card = Card(
        name="ag-news",
        task="news topics",
        classes=CLASSES,
        features=("word",),
        sample=TOKENS,
        vocabulary=1 + options.words + options.bigrams,
        padding=PADDING,
    )
    return Prepared(Federation(card, clients), counts)


def _members(source: Path) -> dict[str, Member]:
    expected = "train.csv and test.csv of ag_news_csv, or one of them as the file itself"
    found = find_members(source, r"(?:.*/)?(?:train|test)\.csv", expected)
    members = {member.name.removesuffix(".csv"): member for member in found}
    missing = [f"{part}.csv" for part in _PARTS if part not in members]
    if missing and source.suffix != ".csv":
        raise refused(source, f"no {missing[0]} in it", expected)
    return {part: members[part] for part in _PARTS if part in members}


def _read(
    member: Member, options: AGNewsOptions, counts: Counts
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    texts, labels = [], []
    longest = most_words(options.length, options.bigrams)
    counts.add("texts cut to their first words", 0)
    with member.open() as file:
        # Fields may hold ends of lines.
        rows = csv.reader((f"{text}\n" for _, text in text_lines(file, str(member))), strict=True)
        try:
            for row in rows:
                label, words = _parsed(row, str(member), rows.line_num)
                counts.add("texts cut to their first words", len(words) > longest)
                texts.append(token_ids(words, options.length, options.words, options.bigrams))
                labels.append(label)
        except csv.Error as error:
            expected = "rows of quoted fields; is the file whole?"
            raise refused(str(member), f"{error}", expected, rows.line_num) from error
    if not texts:
        raise refused(str(member), "no row", "a text on each line")
    return np.stack(texts), np.array(labels, np.int64)


def _parsed(row: list[str], where: str, line: int) -> tuple[int, list[str]]:
    """Return a row's label and words."""
    if len(row) != 3:
        raise refused(where, f"{len(row)} fields", "3: class, title, description", line)
    if row[0] not in _LABELS:
        raise refused(where, f"class {row[0][:20]!r}", f"1 to {len(CLASSES)}", line)
    words = words_of(f"{row[1]} {row[2]}")
    if not words:
        raise refused(where, "a text without a word", "a title or a description", line)
    return _LABELS[row[0]], words
