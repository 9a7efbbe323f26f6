"""Images of calls that are alike on every chip: encoders, training, relevance, sums."""

import numpy as np
from calls import At, Image, Word, pair
from numpy.typing import NDArray

from fedsub_core.data.sensors import sensors_of
from fedsub_core.encoders.names import GROUPS, PER_KERNEL
from fedsub_core.encoders.spectrum import length_of, turns
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder, sensor_table
from fedsub_core.kernels.known import AFFINE
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp

#: Samples, and samples of a batch: ten steps an epoch.
SAMPLES, BATCH = 100, 10
#: Learning rate, momentum and weight decay.
RATE, MOMENTUM, DECAY = 0.02, 0.9, 1e-3


def random_windows(n: int, shape: tuple[int, ...]) -> NDArray[np.int16]:
    """Return windows ``[n, channels, time]`` in steps, the first nine as odd as there are."""
    steps = np.random.default_rng(0).integers(-2048, 2048, (n, *shape)).astype(np.int16)
    t = np.arange(shape[1])
    steps[0], steps[1], steps[2] = 0, -2048, 2047
    steps[3] = np.where(t % 2, 2047, -2048)
    steps[4] = np.where(t < shape[1] // 2, 2047, -2048)
    steps[5] = np.where(t == shape[1] // 3, -2048, 2047)
    steps[6], steps[6, 0, 0] = 0, 1
    steps[7] >>= 10
    steps[8] = np.where(steps[8] < 0, -2048, 2047)
    return steps


def encode(image: Image, encoder: StatisticsEncoder, steps: NDArray[np.int16]) -> list[At]:
    """Add the encoding of windows; return where their statistics and answers are."""
    shape = len(steps), *steps.shape[1:]
    sensors, table = sensor_table(sensors_of(encoder.input_shape)), turns(length_of(shape[2]))
    windows, rows = image.put(steps), [encoder.statistics, encoder.size * PER_KERNEL]
    found = [image.put(np.zeros((shape[0], row), np.int8)) for row in rows]
    image.call("fedsub_encode", image.put(encoder.table), encoder.size, windows, *shape, found[1])
    groups = 2 ** len(GROUPS) - 1, image.put(sensors), len(sensors), image.put(table), len(table)
    image.call("fedsub_describe", *groups, windows, *shape, found[0])
    return found


def trained(epochs: int) -> tuple[Image, list[At]]:
    """Return an image that trains, tests and relates two models, and where their numbers are."""
    image, found = Image(), list[At]()
    for seed, model in enumerate((mlp(17, 5, (33, 19)), cnn1d(3, 64, 5))):
        found += _of_model(image, model, epochs, np.random.default_rng(seed))
    return image, found


def _of_model(image: Image, model: Chain, epochs: int, rng: np.random.Generator) -> list[At]:
    shape = SAMPLES, *model.input_shape
    y = np.arange(SAMPLES) % model.classes
    raw = rng.standard_normal(shape, np.float32) + y.reshape(-1, *[1] * len(model.input_shape))
    x = np.zeros(shape, np.float32)
    channels, time = (*shape[1:], 1)[:2]
    mean, deviation = rng.random(channels, np.float32), rng.random(channels, np.float32) + 0.5
    x_words = image.whole(x)
    image.call(
        *("fedsub_standardise", image.put(raw.astype(np.float32)), SAMPLES, channels, time),
        *(image.put(mean), image.put(deviation), x_words[0]),
    )
    steps = image.put(np.zeros(shape, np.int16))
    image.call("fedsub_quantise", x_words[0], x.size, steps)
    chain, where = image.chain(model.known, model.init(1, seed=3))
    weight, loss = np.full(SAMPLES, 1 / BATCH, np.float32), np.zeros(1, np.float32)
    loss_words, y_words = image.whole(loss), image.whole(y)
    weight_words, counts = image.whole(weight), image.whole(np.array([SAMPLES]))
    how = image.structure(
        [
            *(BATCH, 0, 1, pair(MOMENTUM, RATE), pair(DECAY, 0), 0),
            *[0] * 9,
            *loss_words,
        ]
    )
    absent = image.whole(None)
    for _ in range(epochs):
        order = image.whole(rng.permutation(SAMPLES))
        samples = [1, SAMPLES, SAMPLES, *counts, *x_words, *y_words, *order, *weight_words]
        image.call("fedsub_descend", chain, image.structure(samples), how)
    seen = image.structure([1, SAMPLES, 0, *counts, *x_words, *y_words, *absent, *absent])
    out = image.whole(np.zeros((SAMPLES, model.classes), np.float32))
    image.call("fedsub_forward", chain, seen, image.structure(out))
    words = [x_words[0], steps, *where.values(), loss_words[0], out[0]]
    for rule in (0, 1):
        sums: list[Word] = []
        for layer in model.known:
            made = np.zeros((model.classes, layer.units), np.float32)
            sums += image.whole(made if layer.kind == AFFINE else None)
        logits = image.whole(np.zeros((SAMPLES, model.classes), np.float32))
        how = image.structure([rule, pair(2, 1), 0, image.structure(sums), *logits])
        image.call("fedsub_relate", chain, seen, how)
        words += *sums, *logits
    return [word for word in words if isinstance(word, At)]
