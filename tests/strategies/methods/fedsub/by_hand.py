"""FedSub's server half and uploads, made by hand for a model that is small enough to count."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsub.testing.halves import HalfAlone
from fedsub_core.config.run_config import read_config
from fedsub_core.methods.fedsub import CLASSES, MASKS, PROTOTYPES, SCORE
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.options import Value
from fedsub_core.wire.bundles import Bits, BoolArray, Bundle, Floats, Part
from strategies.methods.fedsub.strategy import FedSubServer

#: Layers linear1 [4, 2 + 1] and linear2 [3, 4 + 1]; three classes; prototypes of two features.
MODEL = mlp(2, 3, hidden=(4,))

#: Units that each class selected, by layer and class.
Selected = Mapping[str, Mapping[int, Sequence[int]]]


def strategy_of(model: Chain = MODEL, **hyper: Value) -> HalfAlone:
    """Return FedSub's server half, before its first round with `model`."""
    keys = {f"fedsub.{name.replace('_', '-')}": value for name, value in hyper.items()}
    config = read_config(None, {"beside": "", "threads": 1, **keys})
    strategy = HalfAlone(FedSubServer(config.server_settings("fedsub")), model)
    strategy.state = strategy.half.init(strategy.start())
    return strategy


def mask(length: int, chosen: Sequence[int]) -> BoolArray:
    """Return bool [length], true at `chosen`."""
    return np.isin(np.arange(length), chosen)


def upload_of(
    labels: Sequence[int],
    value: float = 1.0,
    version: int = 0,
    selected: Selected | None = None,
    model: Chain = MODEL,
) -> Bundle:
    """Return an upload of a client that holds `labels`; its rows and scores all are `value`.

    With a version it carries prototypes. Every class selects unit 0 of every layer, or what is
    `selected`.
    """
    scores = np.where(mask(model.classes, labels), value, 0).astype(np.float32)
    held = mask(model.classes, labels)
    tensors: dict[str, Part] = {CLASSES: Bits(held), SCORE: Floats(scores)}
    if version:
        size = model.affine[0].fan_in
        means = np.full((len(labels), size), value, np.float32)
        tensors[PROTOTYPES] = Floats.rows(held, means)
    for layer in model.affine:
        of = {y: (0,) for y in labels} if selected is None else selected.get(layer.name, {})
        masks = np.stack([mask(layer.units, of.get(y, ())) for y in range(model.classes)])
        units: BoolArray = np.logical_or.reduce(masks)
        rows = np.full((int(units.sum()), layer.fan_in + 1), value, np.float32)
        tensors[layer.name] = Floats.rows(units, rows)
        tensors[layer.name + MASKS] = Bits(masks)
    return Bundle(9, version, tensors)
