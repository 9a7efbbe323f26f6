"""A model of windows, and recordings in frames, of which tests know every number."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from fedsub_client.personal_model import PersonalModel
from fedsub_core.data.card import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.data.target import Target
from fedsub_core.models.kinds import build_model

RATE, LENGTH = 20.0, 40
CARD = Card(
    "toy", "test", ("sit", "walk", "run"), ("acc_x", "acc_y", "acc_z"), "m/s^2",
    sampling_rate_hz=RATE, window_s=2.0, overlap=0.5,
)  # fmt: skip


def made_model() -> PersonalModel:
    """Return a model of an accelerometer, drawn large enough to say different things."""
    chain = build_model("cnn1d", (3, LENGTH), 3)
    params = {name: 4 * tensor[0] for name, tensor in chain.init(1, seed=3).items()}
    scaling = Scaling(np.array([0, 9, 1], np.float32), np.array([3, 3, 3], np.float32))
    return PersonalModel("p", "ditto", 4, params, chain, "cnn1d", CARD, scaling)


def made_target_model() -> PersonalModel:
    """Return a model of the same windows that predicts a pulse."""
    chain = build_model("cnn1d", (3, LENGTH), 2)
    params = {name: 2 * tensor[0] for name, tensor in chain.init(1, seed=3).items()}
    card = replace(CARD, target=Target("pulse", "1/min", 40.0, 180.0))
    scaling = made_model().scaling
    return PersonalModel("p", "ditto", 4, params, chain, "cnn1d", card, scaling)


def made_frame(rng: np.random.Generator, rows: int = 2000, rate: float = RATE) -> Any:
    """Return a recording that is at rest in between, at `rate` rows a second."""
    t = np.arange(rows) / rate
    still = np.sin(t / 9)[:, None] ** 2
    x = np.array([0, 9, 1]) + rng.normal(0, 3, (rows, 3)) * still + np.sin(t)[:, None]
    return pd.DataFrame({"time": t, "acc_x": x[:, 0], "acc_y": x[:, 1], "acc_z": x[:, 2]})
