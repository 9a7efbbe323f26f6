"""Devices that have trained a round, whose models can be exported."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from flwr.app import Context, RecordDict

from fedsub_client.device import Device
from fedsub_core.config.run_config import read_config, to_flat
from fedsub_core.data import standardise
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.codec import Address, encode_download
from fedsub_core.wire.exchange import Instructions

RATE = 50.0
CARD = Card("toy", "test", ("a", "b, c", "d"), ("u", "v"), "m/s^2", RATE, 1.0)
KINDS = {  # of 77 and 50 samples: the adaptive pooling's windows then differ in length
    "mlp": ("mlp", (2,), "federation"),
    "mlp raw": ("mlp", (2,), "none"),
    "mlp on windows": ("mlp", (2, 40), "client"),
    "cnn1d": ("cnn1d", (2, 77), "federation"),
    "cnn1d raw": ("cnn1d", (2, 50), "none"),
}


def device_state(
    folder: Path,
    model: str,
    shape: tuple[int, ...],
    scale: str,
    epochs: int = 30,
    classes: int = 3,
    **keys: str,
) -> Path:
    """Train device "p", who has so many `classes`, for a round; return its state's folder."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % classes
    x = rng.normal(y.reshape(-1, *[1] * len(shape)), 0.5, (60, *shape)) * 3 + 5
    person = ClientData("p", x.astype(np.float32), y)
    card = CARD if len(shape) == 1 else replace(CARD, window_s=shape[1] / RATE)
    write_federation(folder / "data", Federation(card, {"p": person}))
    settings: dict[str, str | int | float | bool] = {"data": "toy", "beside": "", "model": model}
    settings |= {"standardise": scale, "epochs": epochs, "lr": 0.05 if scale != "none" else 0.02}
    config = read_config(None, {**settings, **keys})
    node = {"client-id": "p", "data": str(folder / "data"), "state-dir": str(folder / "state")}
    device = Device(Context(1, 1, node, RecordDict(), to_flat(config)))  # type: ignore[arg-type]
    shared = standardise.scaling(standardise.moments(person.x)) if scale == "federation" else None
    payload = encode_download(Bundle(), Address("p", 1), {}, config.wire.download)
    turn = Instructions(Turn(1, 1, 0), config.method, shared).record()
    device.train(RecordDict({exchange.PAYLOAD: exchange.pack(payload), exchange.TURN: turn}))
    return folder / "state" / "p"
