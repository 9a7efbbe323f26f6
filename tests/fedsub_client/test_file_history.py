"""What a device remembers of its file tells growth from change."""

from dataclasses import replace

import numpy as np

from fedsub_client.file_history import FileHistory
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData

CARD = Card("toy", "t", ("a", "b", "c"), ("u", "v"), window_s=2.0)


def person(n: int) -> ClientData:
    y = np.arange(n) % 3
    x = np.random.default_rng(0).normal(y[:, None], 0.5, (n, 2)).astype(np.float32)
    return ClientData("p", x, y)


def test_a_device_tells_growth_from_a_changed_file() -> None:
    small, big = person(30), person(60)
    big = replace(big, x=np.concatenate([small.x, big.x[30:]]))
    history = FileHistory.first(small, CARD)
    assert history.sizes == (30,) and history.continued(small, CARD) is history
    grown = history.continued(big, CARD)
    assert grown is not None and grown.sizes == (30, 60)
    assert grown.continued(big, CARD) is grown
    assert grown.continued(small, CARD) is None
    assert history.continued(replace(big, y=1 - big.y.clip(0, 1)), CARD) is None
    touched = big.x.copy()
    touched[3, 1] += 1
    assert history.continued(replace(big, x=touched), CARD) is None


def test_what_came_later_must_stay_too() -> None:
    first, second, third = person(30), person(60), person(90)
    second = replace(second, x=np.concatenate([first.x, second.x[30:]]))
    third = replace(third, x=np.concatenate([second.x, third.x[60:]]))
    grown = FileHistory.first(first, CARD).continued(second, CARD)
    assert grown is not None
    again = grown.continued(third, CARD)
    assert again is not None and again.sizes == (30, 60, 90)
    changed = third.x.copy()
    changed[59] += 1
    assert grown.continued(replace(third, x=changed), CARD) is None


def test_the_same_bytes_in_another_shape_are_another_file() -> None:
    one = ClientData("p", np.zeros((4, 6), np.float32), np.zeros(4, np.int64))
    turned = replace(one, x=np.zeros((4, 2, 3), np.float32))
    assert FileHistory.first(one, CARD).continued(turned, CARD) is None


def test_other_times_would_be_split_otherwise() -> None:
    small = replace(person(30), t=np.arange(30.0))
    history = FileHistory.first(small, CARD)
    assert history.continued(replace(small, t=np.arange(30.0)), CARD) is history
    assert history.continued(replace(small, t=np.arange(30.0)[::-1].copy()), CARD) is None
    assert history.continued(replace(small, t=None), CARD) is None
    assert history.continued(small, replace(CARD, overlap=0.5)) is None
