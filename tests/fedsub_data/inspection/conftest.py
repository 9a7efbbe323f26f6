"""A federation with everything that an inspection draws: missing classes, long names, gains."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fedsub_core.data.federation import Card, ClientData, Federation

NAMES = ("<b>Walk</b> & run", "costs $5 or $x_1^2$", 'a "quoted" name that is far too long to fit')


def synthetic(
    clients: int, classes: int = 3, seed: int = 0, names: Sequence[str] | None = None
) -> Federation:
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(2, classes, 4))
    made = {}
    for c in range(clients):
        y = np.sort(rng.choice(classes, 40, p=rng.dirichlet(np.ones(classes))))
        x = (centre[c % 2, y] + 0.3 * rng.normal(size=(40, 4))).astype(np.float32)
        made[f"p{c:03d}"] = ClientData(f"p{c:03d}", x, y.astype(np.int64))
    card = Card("synthetic", "test", tuple(names or map(str, range(classes))), tuple("abcd"))
    return Federation(card, made)


@pytest.fixture
def make_synthetic() -> Callable[..., Federation]:
    return synthetic


@pytest.fixture(scope="module")
def awkward() -> Federation:
    made = synthetic(5, names=NAMES)
    card = Card("a <script>&", "t", NAMES, tuple("abcd"), window_s=2.0, overlap=0.5)
    clients = dict(made.clients)
    first = clients["p000"]
    since = np.repeat([0, 1, 10, 20], 10).astype(np.int64)
    clients["p000"] = ClientData("p000", first.x, first.y, None, since)
    lacking = clients["p001"]
    clients["p001"] = ClientData("p001", lacking.x, np.zeros(40, np.int64))
    return Federation(card, clients)
