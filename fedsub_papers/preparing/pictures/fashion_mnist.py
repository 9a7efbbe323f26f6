"""Fashion-MNIST: 70,000 pictures of clothes, grey, 28 x 28 (Xiao, Rasul and Vollgraf 2017)."""

from pathlib import Path

from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Prepared, Progress
from fedsub_papers.preparing.pictures.idx import prepare_idx

#: Label 0, 1, ... by the data set's page.
CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def prepare(source: Path, options: NothingToChoose, workers: int, progress: Progress) -> Prepared:
    """Return Fashion-MNIST, uint8 [n, 1, 28, 28], as the clients ``train`` and ``test``."""
    return prepare_idx("fashion-mnist", "clothes recognition", CLASSES, source, progress)
