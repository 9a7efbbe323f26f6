"""A client's parts, round by round, and people who have labelled little."""

from dataclasses import replace

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.capacity import Capacity
from fedsub_core.config.run_config import read_config
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.errors import DataError

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
SETTINGS = SplitSettings()
PARTS = ("train_x", "train_y", "test_x", "test_y")


def person(n: int = 60, seed: int = 0, since: bool = False) -> ClientData:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.normal(y[:, None], 0.5, (n, 2)).astype(np.float32)
    return ClientData("p", x, y, None, np.where(y == 2, 5, 0) if since else None)


def rows(x: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in x]


def same(one: SplitClient, other: SplitClient) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in PARTS)


def test_what_a_client_has_in_every_round() -> None:
    parts = split_client(person(since=True), CARD, SETTINGS)
    whole = split_client(person(), CARD, SETTINGS)
    assert [parts.held(r) for r in (0, 1, 4, 5, 9)] == [(28, 12)] * 3 + [(42, 18)] * 2
    assert set(parts.at(4).train_y) == set(parts.at(4).test_y) == {0, 1}
    assert same(parts.at(5), whole) and not same(parts.at(4), whole)
    assert whole.at(1) is whole


def test_a_client_without_data_in_round_one_is_refused() -> None:
    late = replace(person(), since=np.where(np.arange(60) < 1, 0, 9))
    with refused(DataError, "client 'p'", "round 1"):
        split_client(late, CARD, SETTINGS)


def test_its_capacity_is_that_of_the_device_in_every_round() -> None:
    for client in (person(), person(since=True)):
        assert split_client(client, CARD, SETTINGS).at(3).capacity == 1.0
        weak = split_client(client, CARD, SETTINGS, capacity=Capacity(0.25))
        assert (weak.capacity, weak.at(1).capacity, weak.at(9).capacity) == (0.25,) * 3


@pytest.mark.parametrize("kind", ["stratified", "blocked"])
@pytest.mark.parametrize(("share", "kept"), [(0.5, [7, 7, 7]), (0.25, [4, 4, 4]), (0.01, [1] * 3)])
def test_train_share_keeps_that_share_of_each_class(
    kind: str, share: float, kept: list[int]
) -> None:
    whole = split_client(person(), CARD, SplitSettings(kind))
    few = split_client(person(), CARD, SplitSettings(kind, train_share=share))
    assert np.bincount(whole.train_y).tolist() == [14, 14, 14]
    assert np.bincount(few.train_y).tolist() == kept
    # In the order of the file, so that a share is still in time.
    places = [rows(whole.train_x).index(row) for row in rows(few.train_x)]
    assert places == sorted(set(places))
    assert np.array_equal(few.train_y, whole.train_y[places])
    assert np.array_equal(few.test_x, whole.test_x) and np.array_equal(few.test_y, whole.test_y)


def test_a_share_of_one_keeps_everything() -> None:
    whole = split_client(person(), CARD, SplitSettings("blocked"))
    assert same(whole, split_client(person(), CARD, SplitSettings("blocked", train_share=1.0)))
    assert len(whole.train_y) + len(whole.test_y) == 60


def test_the_seed_decides_which_samples_are_kept() -> None:
    def few(seed: int, client: str = "p") -> list[bytes]:
        settings = SplitSettings("blocked", train_share=0.5, seed=seed)
        return rows(split_client(replace(person(), client=client), CARD, settings).train_x)

    assert few(0) == few(0)
    assert len({tuple(few(seed)) for seed in range(4)}) == 4
    assert few(0) != few(0, "q"), "people do not share a stream"


def test_a_share_of_what_comes_later_and_of_a_file_that_grew() -> None:
    half = SplitSettings("stratified", train_share=0.5)
    late = split_client(person(since=True), CARD, half)
    assert [late.held(r) for r in (1, 5)] == [(14, 12), (21, 18)]
    whole = split_client(person(), CARD, SplitSettings("stratified"), (30, 60))
    grown = split_client(person(), CARD, half, (30, 60))
    assert np.bincount(grown.train_y).tolist() == [7, 7, 7]
    assert np.array_equal(grown.test_x, whole.test_x)
    assert set(rows(grown.train_x)) < set(rows(whole.train_x))


def test_classes_that_came_with_the_newest_samples() -> None:
    """Class 2 comes in round 5; in round 9 more of class 0 and the first of class 1."""
    y = np.repeat([0, 2, 0, 1], 20)
    since = np.repeat([0, 5, 9, 9], 20)
    client = ClientData("p", np.arange(160, dtype=np.float32).reshape(80, 2), y, None, since)
    parts = split_client(client, CARD, SETTINGS)
    assert {r: parts.new_classes(r) for r in (0, 1, 4, 5, 8, 9, 20)} == (
        {0: [], 1: [], 4: [], 5: [2], 8: [2], 9: [1], 20: [1]}
    )
    assert split_client(person(), CARD, SETTINGS).new_classes(3) == []


def test_some_people_lack_labels_of_some_classes_that_are_tested() -> None:
    settings = SplitSettings("blocked", unlabelled=0.6, unlabelled_classes=0.7)
    lacking = []
    for i in range(60):
        client = replace(person(), client=f"p{i}")
        whole = split_client(client, CARD, SplitSettings("blocked"))
        parts = split_client(client, CARD, settings)
        assert np.array_equal(parts.test_x, whole.test_x)
        left = np.unique(parts.train_y)
        kept = np.isin(whole.train_y, left)
        assert np.array_equal(parts.train_x, whole.train_x[kept])
        lacking.append(3 - len(left))
    # Of three classes two at most.
    assert set(lacking) == {0, 1, 2} and 25 <= sum(n > 0 for n in lacking) <= 47
    again = split_client(replace(person(), client="p7"), CARD, settings)
    assert 3 - len(np.unique(again.train_y)) == lacking[7]


def test_who_grows_loses_no_class_that_it_has_labelled_and_what_comes_is_labelled() -> None:
    """Two classes at first, a third in the later half of the file, or from round 5 on."""
    settings = SplitSettings("stratified", unlabelled=1.0, unlabelled_classes=0.9)
    y = np.concatenate([np.arange(30) % 2, np.arange(30) % 3])
    since = np.repeat([0, 5], 30)
    for i in range(30):
        client = replace(person(), client=f"p{i}", y=y)
        first = replace(client, x=client.x[:30], y=y[:30])
        before = np.unique(split_client(first, CARD, settings).train_y)
        grown = split_client(client, CARD, settings, (30, 60))
        scenario = split_client(replace(client, since=since), CARD, settings)
        for parts in (grown, scenario):
            assert len(before) == 1 and np.unique(parts.train_y).tolist() == [*before, 2]
        assert np.unique(scenario.at(1).train_y).tolist() == before.tolist()


def test_the_runs_configuration_says_the_share() -> None:
    config = read_config(None, {"train-share": 0.25, "test-share": 0.4, "seed": 3})
    assert config.split_settings == SplitSettings(test_share=0.4, train_share=0.25, seed=3)
    assert config.device_settings("fedsub").split == config.split_settings
    parts = split_client(person(), CARD, config.split_settings)
    assert (len(parts.train_y), len(parts.test_y)) == (9, 24)


def windows(n: int = 120) -> ClientData:
    """Return overlapping windows of three classes, one after another in time."""
    rng = np.random.default_rng(5)
    y = np.arange(n) * 3 // n
    return ClientData("p", rng.normal(y[:, None], 0.5, (n, 2)).astype(np.float32), y)


@pytest.mark.parametrize("kind", ["stratified", "blocked"])
def test_the_validation_part_is_held_back_of_the_training_part_alone(kind: str) -> None:
    card = replace(CARD, overlap=0.5, window_s=2.0)
    whole = split_client(windows(), card, SplitSettings(kind))
    parts = split_client(windows(), card, SplitSettings(kind, best_by="validation"))
    assert whole.validation is None
    assert parts.validation is not None and parts.validation_y is not None
    assert np.array_equal(parts.test, whole.test)
    assert np.array_equal(parts.validation_y, windows().y[parts.validation])
    assert parts.holds_back == pytest.approx(0.3 * len(whole.train), abs=3)
    assert set(parts.validation_y) == {0, 1, 2}
    if kind == "stratified":
        both = np.sort(np.concatenate([parts.train, parts.validation]))
        assert np.array_equal(both, whole.train)
    else:  # no window is next to one of another part: half of it would be the same
        for one, other in ((parts.train, parts.validation), (parts.validation, parts.test)):
            assert np.abs(one[:, None] - other).min() > 1
        assert set(parts.train) | set(parts.validation) < set(whole.train)


def test_who_cannot_be_judged_by_the_same_samples_holds_none_back() -> None:
    settings = SplitSettings("stratified", best_by="validation")
    few = person(6)  # of each class one is trained, one is tested
    assert split_client(few, CARD, settings).holds_back == 0
    assert same(split_client(few, CARD, settings), split_client(few, CARD, SETTINGS))
    grown = split_client(person(), CARD, settings, (30, 60))
    assert grown.validation is not None and grown.holds_back == 0
    with refused(DataError, "client 'p'", "best-by = validation"):
        split_client(person(since=True), CARD, settings)
