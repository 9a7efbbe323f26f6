"""Data that come during a run, as a cohort trains and tests them."""

import numpy as np
import torch

from fedsub_client.cohort import Cohort
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.config.run_config import read_config
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
CONFIG = read_config(None, {"standardise": "none"})
NOTHING = Bundle()


def person(client: str, n: int = 60, seed: int = 0, since: bool = False) -> SplitClient:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.normal(y[:, None], 0.5, (n, 2)).astype(np.float32)
    data = ClientData(client, x, y, None, np.where(y == 2, 5, 0) if since else None)
    return split_client(data, CARD, CONFIG.split_settings)


def cohort(*clients: SplitClient) -> Cohort:
    return make_cohort(CONFIG.device_settings("fedsub"), CARD, clients)


def test_a_cohort_trains_and_tests_what_each_client_has() -> None:
    both = cohort(person("p", since=True), person("q", seed=1))
    assert [said.facts.examples for said in both.introductions()] == [28, 42]
    held = []
    for round in (1, 4, 5):
        turn = Turn(round, 5, 0)
        uploads, _ = both.fit(turn, None, [0, 1], [NOTHING, NOTHING])
        classes = np.flatnonzero(uploads[0].bits("classes")).tolist()
        held.append((uploads[0].examples, classes, uploads[1].examples))
        tested = both.evaluate(turn, None, [0, 1], both.state).examples
        assert tested.tolist() == [12 if round < 5 else 18, 18]
    assert held == [(28, [0, 1], 42), (28, [0, 1], 42), (42, [0, 1, 2], 42)]


def test_rounds_with_late_data_equal_a_device_alone() -> None:
    late = person("p", since=True)
    both, alone = cohort(late, person("q", 90, seed=1)), cohort(late)
    for round in range(1, 7):
        both.fit(Turn(round, 6, 0), None, [0, 1], [NOTHING, NOTHING])
        alone.fit(Turn(round, 6, 0), None, [0], [NOTHING])
    for name, tensor in alone.state.items():
        torch.testing.assert_close(tensor[0], both.state[name][0], atol=1e-6, rtol=0)
