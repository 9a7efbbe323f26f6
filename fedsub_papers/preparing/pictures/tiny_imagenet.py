"""TinyImageNet: 110,000 photographs of 200 kinds of things, 3 x 64 x 64 (Stanford's CS231n)."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused, text_lines
from fedsub_papers.preparing.options import TinyImageNetOptions
from fedsub_papers.preparing.pictures.encoded import decoded, picture_files
from fedsub_papers.preparing.pictures.parts import Part, federation_of

_SIZE = (64, 64)
_LISTS = ("wnids.txt", "words.txt", "val/val_annotations.txt")
_WANTED = (
    r"train/[^/]+/images/[^/]+\.JPEG|val/images/[^/]+\.JPEG|wnids\.txt|words\.txt"
    r"|val/val_annotations\.txt"
)
_EXPECTED = "tiny-imagenet-200.zip, or the folder tiny-imagenet-200 unpacked from it"

Read = Callable[[str], bytes]


def prepare(
    source: Path, options: TinyImageNetOptions, workers: int, progress: Progress
) -> Prepared:
    """Return TinyImageNet, uint8 [n, 3, 64, 64], as the clients ``train`` and ``val``.

    The official test pictures have no labels and are passed over. A class is called by its id and
    its first word, in the order of ``wnids.txt``.

    Raises DataError where a list is missing or a line of it is off, a picture is damaged, of
    another size, of no class or without a label.
    """
    with picture_files(source, _WANTED, _EXPECTED) as (names, read):
        lists = {end: _lines(source, names, end, read) for end in _LISTS}
        ids = [line for line in lists["wnids.txt"] if line]
        if len(ids) < 2 or len(set(ids)) < len(ids):
            raise refused(f"{source}/wnids.txt", f"{len(ids)} ids", "two or more, none twice")
        words = dict(_split(line, 2, f"{source}/words.txt") for line in lists["words.txt"])
        labels = {one: label for label, one in enumerate(ids)}
        train = _training(source, names, labels, options.per_class)
        val = _validation(source, names, labels, lists["val/val_annotations.txt"])
        total, parts = len(train) + len(val), []
        for name, pictures in (("train", train), ("val", val)):
            if not pictures:
                raise refused(source, f"no picture of {name}", _EXPECTED)
            x = np.empty((len(pictures), 3, *_SIZE), np.uint8)
            for i, (path, _) in enumerate(pictures):
                x[i] = decoded(read(path), f"{source}/{path}", _SIZE)
                done = i + 1 + (len(train) if name == "val" else 0)
                if done % 100 == 0 or done == total:
                    progress(done, total)
            y = np.array([label for _, label in pictures], np.int64)
            parts.append(Part(name, f"{source}/{name}", x, y))
    classes = [f"{one} {words.get(one, '').split(',')[0]}".strip() for one in ids]
    return federation_of("tiny-imagenet", "object recognition", classes, parts, Counts())


def _training(
    source: Path, names: Sequence[str], labels: dict[str, int], most: int
) -> list[tuple[str, int]]:
    """Return path and label of the training pictures, of each class the first `most`; 0 is all."""
    chosen = []
    of_train = sorted((n for n in names if n.split("/")[-4:-3] == ["train"]), key=_in_order)
    for kind, paths in groupby(of_train, key=lambda name: name.split("/")[-3]):
        if kind not in labels:
            raise refused(f"{source}/train/{kind}", f"a folder {kind!r}", "a class of wnids.txt")
        chosen += [(path, labels[kind]) for path in list(paths)[: most or None]]
    return chosen


def _validation(
    source: Path, names: Sequence[str], labels: dict[str, int], lines: Sequence[str]
) -> list[tuple[str, int]]:
    where = f"{source}/val/val_annotations.txt"
    known = {}
    for number, line in enumerate(lines, start=1):
        name, kind, *_ = _split(line, 6, where)
        if kind not in labels:
            raise refused(where, f"class {kind!r}", "one of wnids.txt", number)
        known[name] = labels[kind]
    paths = [n for n in names if n.split("/")[-3:-1] == ["val", "images"]]
    for path in paths:
        if path.rsplit("/", 1)[-1] not in known:
            raise refused(f"{source}/{path}", "a picture without a label", f"one in {where}")
    return [(path, known[path.rsplit("/", 1)[-1]]) for path in sorted(paths, key=_in_order)]


def _lines(source: Path, names: Sequence[str], end: str, read: Read) -> list[str]:
    found = [name for name in names if f"/{name}".endswith(f"/{end}")]
    if len(found) != 1:
        raise refused(source, f"{len(found)} files {end}", _EXPECTED)
    lines = read(found[0]).splitlines()
    return [text for _, text in text_lines(lines, f"{source}/{found[0]}")]


def _split(line: str, count: int, where: str) -> list[str]:
    fields = line.split("\t")
    if len(fields) != count:
        raise refused(where, f"a line of {len(fields)} fields", f"{count}, with tabs between")
    return fields


def _in_order(path: str) -> tuple[str, int, str]:
    """Sort by folder, then by the number at the end of the name: 9 before 10."""
    folder, _, name = path.rpartition("/")
    digits = name.removesuffix(".JPEG").rpartition("_")[2]
    return folder, int(digits) if digits.isdecimal() else 0, name
