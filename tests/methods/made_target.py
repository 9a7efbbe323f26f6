"""People with a target whose answer is known."""

import numpy as np

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.data.target import Target

W = np.array([3.0, -2.0, 1.0, 0.5])


def made(noise: float = 0.0, apart: float = 0.0, samples: int = 90, people: int = 4) -> Federation:
    """Return people whose target is linear in four features, `apart` from person to person."""
    stream, clients = np.random.default_rng(1), {}
    for i in range(people):
        x = stream.normal(size=(samples + 10 * i, 4)).clip(-2.5, 2.5).astype(np.float32)
        y = x @ W + apart * i + noise * stream.normal(size=len(x))
        clients[f"p{i}"] = ClientData(f"p{i}", x, y)
    card = Card("made", "a test", (), ("a", "b", "c", "d"), target=Target("sum", "m", -20.0, 20.0))
    return Federation(card, clients)
