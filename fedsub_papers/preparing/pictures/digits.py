"""Four domains of digits, 3 x 28 x 28, that anybody can make from MNIST's files.

``mnist``, MNIST's digits in grey; ``optical``, scikit-learn's digits of 8 x 8, enlarged;
``photographs``, other digits of MNIST over patches of photographs; ``rendered``, digits drawn with
fonts. They are the like of Digit5's domains, and not Digit5 (Peng et al., ICCV 2019): that has
MNIST, MNIST-M, USPS, SVHN and SYN. No number on the one can be compared with one on the other.
"""

from pathlib import Path

import numpy as np
from PIL import Image

from fedsub_core.seeds import derive_seed
from fedsub_data.preparing.options import NothingToChoose
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_papers.preparing.options import DigitsOptions
from fedsub_papers.preparing.pictures import mnist
from fedsub_papers.preparing.pictures.parts import Part, Pictures, federation_of
from fedsub_papers.preparing.pictures.rendered import rendered

CLASSES = mnist.CLASSES
SIZE = 28
# Levels of scikit-learn's digits.
_LEVELS = 16


def prepare(source: Path, options: DigitsOptions, workers: int, progress: Progress) -> Prepared:
    """Return the four domains as clients, uint8 [n, 3, 28, 28] and as many samples in each.

    Parameters
    ----------
    source : MNIST's official files, as for MNIST itself.

    Raises DataError; as MNIST's preparer, and where it has too few digits for two domains.
    """
    n = options.samples
    of_mnist = mnist.prepare(source, NothingToChoose(), workers, progress)
    ours = of_mnist.federation.clients["train"]
    if len(ours.y) < 2 * n:
        raise refused(source, f"{len(ours.y)} training digits", f"{2 * n}: two domains of {n}")
    other = ours.part(np.arange(n, 2 * n))
    over = over_photographs(other.x[:, 0], _stream(options, "patches"))
    labels = np.arange(n, dtype=np.int64) % len(CLASSES)
    parts = [
        Part("mnist", "MNIST", np.repeat(ours.x[:n], 3, axis=1), ours.y[:n]),
        _optical(n),
        Part("photographs", "MNIST", over, other.y),
        Part("rendered", "fonts", rendered(labels, SIZE, _stream(options, "fonts")), labels),
    ]
    return federation_of("digits", "digit recognition", CLASSES, parts, Counts())


def over_photographs(digits: Pictures, rng: np.random.Generator) -> Pictures:
    """Return digits [n, 28, 28] over patches of scikit-learn's photographs, [n, 3, 28, 28].

    The absolute difference of digit and patch, as MNIST-M has it (Ganin et al., Domain-Adversarial
    Training of Neural Networks, JMLR 2016): paper is the patch, ink its negative.
    """
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    patches = np.empty((len(digits), SIZE, SIZE, 3), np.uint8)
    for i in range(len(digits)):
        photograph = photographs[rng.integers(len(photographs))]
        top, left = (rng.integers(photograph.shape[axis] - SIZE + 1) for axis in (0, 1))
        patches[i] = photograph[top : top + SIZE, left : left + SIZE]
    return difference(digits[:, None], patches.transpose(0, 3, 1, 2))


def difference(one: Pictures, other: Pictures) -> Pictures:
    """Return the absolute difference of two pictures' bytes."""
    apart: Pictures = np.abs(one.astype(np.int16) - other).astype(np.uint8)
    return apart


def _optical(n: int) -> Part:
    from sklearn.datasets import load_digits

    found = load_digits()
    grey = np.rint(found.images[:n] * (255 / _LEVELS)).astype(np.uint8)
    size, how = (SIZE, SIZE), Image.Resampling.BICUBIC
    large = np.stack([np.asarray(Image.fromarray(one).resize(size, how)) for one in grey])
    labels = found.target[:n].astype(np.int64)
    return Part("optical", "scikit-learn's digits", np.repeat(large[:, None], 3, axis=1), labels)


def _stream(options: DigitsOptions, what: str) -> np.random.Generator:
    return np.random.default_rng(derive_seed(options.seed, "", 0, f"digits: {what}"))
