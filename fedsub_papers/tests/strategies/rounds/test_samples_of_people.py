"""The handshake: whose token ids or images are not those of the others, or of the run's card."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsub_core.config.halves import ServerSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.samples import Pixels, Tokens
from fedsub_core.errors import RunError
from strategies.methods.fedavg import FedAvgServer
from strategies.rounds.agreement import Agreement
from tests.strategies.finished_run import RunMethod
from tests.strategies.rounds.test_handshake import introduced, saying

TEXTS = Card("texts", "test", ("a", "b"), ("word",), sample="tokens", vocabulary=50, padding=3)
IMAGES = Card("images", "test", ("a", "b"), ("grey",), sample="image")


def federation(card: Card, people: int = 4) -> Federation:
    stream = np.random.default_rng(0)
    shape, kind = ((8,), np.int32) if card is TEXTS else ((1, 8, 8), np.uint8)
    y = np.arange(12) % 2
    clients = {
        f"p{i + 1}": ClientData(f"p{i + 1}", stream.integers(4, 50, (12, *shape)).astype(kind), y)
        for i in range(people)
    }
    return Federation(card, clients)


@pytest.mark.parametrize(
    ("card", "key", "value", "said"),
    [
        (
            TEXTS,
            "vocabulary",
            51,
            "shape: got (8,) of token ids below 51, padding 3, expected (8,)",
        ),
        (TEXTS, "padding", 0, "shape: got (8,) of token ids below 50, padding 0, expected (8,)"),
        (IMAGES, "levels", 255, "handshake: got ValueError"),
    ],
)
def test_who_holds_others_is_turned_away(
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
    card: Card,
    key: str,
    value: Any,
    said: str,
) -> None:
    tamper = introduced(saying(key, value), "p2")
    run = run_method(federation(card), "fedavg", tamper=tamper, rounds=1)
    assert run.strategy.population.clients == ["p1", "p3", "p4"]
    assert said in caplog.text


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(TEXTS, vocabulary=60), "vocabulary: got 50, expected 60 of the run's card"),
        (replace(TEXTS, padding=0), "padding: got 3, expected 0 of the run's card"),
        (
            Card("vectors", "test", ("a", "b"), tuple("abcdefgh")),
            "vocabulary: got 50, expected None of the run's card",
        ),
    ],
)
def test_the_operators_card_says_of_which_ids_texts_are(
    run_method: RunMethod, other: Card, said: str
) -> None:
    def with_card(settings: ServerSettings) -> FedAvgServer:
        return FedAvgServer(replace(settings, card=other))

    with pytest.raises(RunError, match=said):
        run_method(federation(TEXTS), "fedavg", strategy=with_card, rounds=1)


@pytest.mark.parametrize("shape", [Tokens((8,), 50, 3), Pixels((1, 8, 8)), (8,)])
def test_what_was_agreed_on_is_read_as_it_was_written(shape: tuple[int, ...]) -> None:
    back = Agreement.of(Agreement(("a", "b"), shape, None, frozenset()).tensors())
    assert back.shape == shape and type(back.shape) is type(shape)
