"""CIFAR-100: 60,000 photographs of a hundred kinds of things, 3 x 32 x 32 (Krizhevsky 2009)."""

from pathlib import Path

from fedsub_data.preparing.preparation import Counts, Prepared, Progress
from fedsub_papers.preparing.options import CIFAR100Options
from fedsub_papers.preparing.pictures.batches import labels_in, names_in, pictures_in, read_batches
from fedsub_papers.preparing.pictures.parts import Part, federation_of

FOLDER = "cifar-100-python"
FILES = ("train", "test", "meta")
#: How many classes each kind of labels has.
CLASSES = {"fine": 100, "coarse": 20}


def prepare(source: Path, options: CIFAR100Options, workers: int, progress: Progress) -> Prepared:
    """Return CIFAR-100, uint8 [n, 3, 32, 32], as the clients ``train`` and ``test``.

    The names of the classes are those of the file ``meta``.

    Raises DataError where a file is missing, damaged, holds code, another shape or a wrong label.
    """
    parts: dict[str, Part] = {}
    classes: tuple[str, ...] = ()
    progress(0, len(FILES))
    for done, (name, where, content) in enumerate(read_batches(source, FOLDER, FILES), start=1):
        if name == "meta":
            count = CLASSES[options.labels]
            classes = names_in(content, f"{options.labels}_label_names", count, where)
        else:
            y = labels_in(content, f"{options.labels}_labels", where)
            parts[name] = Part(name, where, pictures_in(content, where), y)
        progress(done, len(FILES))
    ordered = [parts["train"], parts["test"]]
    return federation_of("cifar100", "object recognition", classes, ordered, Counts())
