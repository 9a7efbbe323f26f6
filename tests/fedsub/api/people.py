"""People in memory: features of three classes, drawn apart."""

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[np.float32], NDArray[np.str_]]


def people(names: tuple[str, ...] = ("01", "02", "03", "04")) -> dict[str, Arrays]:
    """40 samples of 4 features each; classes a and b lie two standard deviations apart."""
    made = {}
    for number, name in enumerate(names):
        stream = np.random.default_rng(number)
        label = stream.integers(0, 2, 40)
        x = stream.normal(size=(40, 4)) + 2 * label[:, None]
        made[name] = x.astype(np.float32), np.array(["a", "b"])[label]
    return made
