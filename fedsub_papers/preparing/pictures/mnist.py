"""MNIST: 70,000 handwritten digits, grey, 28 x 28 (LeCun, Cortes and Burges)."""

from pathlib import Path

from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Prepared, Progress
from fedsub_papers.preparing.pictures.idx import prepare_idx

CLASSES = tuple("0123456789")


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return MNIST, uint8 [n, 1, 28, 28], as the clients ``train`` and ``test``."""
    return prepare_idx("mnist", "digit recognition", CLASSES, source, progress)
