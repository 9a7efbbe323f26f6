"""CIFAR-10: 60,000 photographs of ten kinds of things, 3 x 32 x 32 (Krizhevsky 2009)."""

from pathlib import Path

import numpy as np

from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_papers.preparing.pictures.batches import labels_in, names_in, pictures_in, read_batches
from fedsub_papers.preparing.pictures.parts import Part, checked, federation_of

FOLDER = "cifar-10-batches-py"
CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
TRAIN = tuple(f"data_batch_{i}" for i in range(1, 6))
TEST, META = "test_batch", "batches.meta"


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return CIFAR-10, uint8 [n, 3, 32, 32], as the clients ``train`` and ``test``.

    Raises DataError where a batch is missing, damaged, holds code, another shape or a wrong label.
    """
    batches = {}
    total = len(TRAIN) + 2
    progress(0, total)
    for name, where, content in read_batches(source, FOLDER, (*TRAIN, TEST, META)):
        if name == META:
            _check_names(names_in(content, "label_names", len(CLASSES), where), where)
        else:
            x, y = pictures_in(content, where), labels_in(content, "labels", where)
            # Before the batches are joined, so that a message names the one.
            batches[name] = checked(Part(name, where, x, y), len(CLASSES))
        progress(len(batches), total)
    train = _joined("train", [batches[name] for name in TRAIN])
    test = _joined("test", [batches[TEST]])
    progress(total, total)
    return federation_of("cifar10", "object recognition", CLASSES, [train, test], Counts())


def _joined(name: str, batches: list[Part]) -> Part:
    x, y = np.concatenate([b.x for b in batches]), np.concatenate([b.y for b in batches])
    return Part(name, batches[0].where, x, y)


def _check_names(names: tuple[str, ...], where: str) -> None:
    if names != CLASSES:
        raise refused(where, f"classes {', '.join(names)}", ", ".join(CLASSES))
