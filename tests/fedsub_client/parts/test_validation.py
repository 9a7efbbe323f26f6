"""What is held back: the last of each class, the same in every round."""

import numpy as np
import pytest
import torch

from fedsub_client.parts.validation import held_back, share_held_back
from fedsub_core.data import splits
from fedsub_core.data.stacks import Stack, stack, with_copies


def numbered(*labels: list[int]) -> Stack:
    """Return clients whose samples have the numbers 1, 2, ... as their only feature."""
    xs = [np.arange(1, len(y) + 1, dtype=np.float32)[:, None] for y in labels]
    return stack([f"c{i}" for i in range(len(labels))], xs, [np.array(y) for y in labels])


def numbers(data: Stack) -> list[list[int]]:
    """Return which samples each client has, padding included."""
    return [[int(x) for x in row] for row in data.x.squeeze(2).tolist()]


def test_the_last_of_each_class_are_held_back() -> None:
    data = numbered([0, 1, 0, 1, 0, 1, 0, 1, 0, 1], [2, 2, 2])
    train, judged = held_back(data, 0.2)
    assert numbers(train) == [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 0, 0, 0, 0, 0, 0]]
    assert numbers(judged) == [[9, 10], [3, 0]]
    assert (train.counts, judged.counts) == ((8, 2), (2, 1))
    assert train.y.tolist() == [[0, 1] * 4, [2, 2, 0, 0, 0, 0, 0, 0]]
    assert judged.y.tolist() == [[0, 1], [2, 0]] and judged.clients == data.clients
    assert numbers(data)[0] == list(range(1, 11)), "the stack itself is left alone"


def test_a_class_of_one_is_trained_and_who_has_no_other_is_judged_by_it() -> None:
    train, judged = held_back(numbered([0, 1, 1], [2, 0], [1]), 0.2)
    assert numbers(train) == [[1, 2], [1, 2], [1, 0]]
    assert numbers(judged) == [[3, 0], [1, 2], [1, 0]]
    assert judged.counts == (1, 2, 1)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.9])
def test_each_class_gives_its_share_rounded(share: float) -> None:
    y = torch.randint(4, (57,), generator=torch.Generator().manual_seed(0)).tolist()
    train, judged = held_back(numbered(y, y[:20], y[:1]), share)
    for i, held in enumerate((y, y[:20])):
        for label in set(held):
            count = (judged.y[i, : judged.counts[i]] == label).sum().item()
            assert count == splits.tested_count(held.count(label), share)
        both = numbers(train)[i][: train.counts[i]] + numbers(judged)[i][: judged.counts[i]]
        assert sorted(both) == list(range(1, len(held) + 1))


def test_windows_keep_their_shape() -> None:
    data = stack(["a"], [np.ones((4, 3, 5), np.float32)], [np.zeros(4, np.int64)])
    train, judged = held_back(data, 0.25)
    assert train.x.shape == (1, 3, 3, 5) and judged.x.shape == (1, 1, 3, 5)


def test_more_samples_leave_what_was_trained_in_training() -> None:
    """Windows that a device records later are behind those it has."""
    y = [0, 1] * 30
    before, _ = held_back(numbered(y[:40]), 0.2)
    after, _ = held_back(numbered(y), 0.2)
    assert set(numbers(before)[0]) <= set(numbers(after)[0])


def test_a_share_of_all_samples_is_held_back_whoever_has_few_of_a_class() -> None:
    """Of 2 of each of 6 classes a quarter is 3 samples: one each of three classes or so."""
    labels = [label for label in range(6) for _ in range(2)]
    data = numbered(*[labels] * 40)
    train, judged = share_held_back(data, 0.25, seed=1)
    assert set(judged.counts) <= {2, 3, 4} and 105 <= sum(judged.counts) <= 135
    assert all(a + b == 12 for a, b in zip(train.counts, judged.counts, strict=True))
    held = [judged.y[i, :n].tolist() for i, n in enumerate(judged.counts)]
    assert all(10 <= sum(y in own for own in held) <= 30 for y in range(6)), "by whom differs"
    for own, n in zip(numbers(judged), judged.counts, strict=True):
        assert all(x % 2 == 0 for x in own[:n]), "the later one of two"
    assert numbers(share_held_back(data, 0.25, seed=1)[1]) == numbers(judged)
    assert numbers(share_held_back(data, 0.25, seed=2)[1]) != numbers(judged)


def test_what_was_trained_never_judges_whatever_comes_later() -> None:
    """More of a class, and a class with a lower number."""
    for seed in range(20):
        before, _ = share_held_back(numbered([1, 2] * 9), 0.25, seed)
        _, judged = share_held_back(numbered([1, 2] * 9 + [0] * 7 + [2] * 5), 0.25, seed)
        trained = set(numbers(before)[0][: before.counts[0]])
        assert not trained & set(numbers(judged)[0][: judged.counts[0]])


def test_every_class_keeps_a_sample_and_who_has_few_may_hold_back_none() -> None:
    train, judged = share_held_back(numbered([0, 1, 2], [0] * 8), 0.5, seed=0)
    assert numbers(train)[0][:3] == [1, 2, 3] and judged.counts == (0, 4)
    assert numbers(judged)[1] == [5, 6, 7, 8]
    _, nobody = share_held_back(numbered([0], [1]), 0.5, seed=0)
    assert nobody.counts == (0, 0) and nobody.x.shape == (2, 1, 1)


@pytest.mark.parametrize("hold", [held_back, lambda data, share: share_held_back(data, share, 0)])
def test_samples_that_are_the_same_are_on_one_side(hold: object) -> None:
    """Each stands twice, in a row or the second half again; another client has no copies."""
    ids = [np.repeat(np.arange(20), 2), np.tile(np.arange(20), 2), np.arange(40)]
    data = with_copies(
        stack("abc", [i[:, None].astype(np.float32) for i in ids], [i % 2 for i in ids]),
        [2 * ids[0], ids[1], None],
    )
    train, judged = hold(data, 0.2)  # type: ignore[operator]
    for row, counts in enumerate(zip(train.counts, judged.counts, strict=True)):
        trained, held = (
            set(part.x[row, :count, 0].tolist())
            for part, count in zip((train, judged), counts, strict=True)
        )
        assert not trained & held and len(trained | held) == (40 if row == 2 else 20)
        assert len(held) == pytest.approx(0.2 * len(trained | held), abs=1)
    alone = hold(data.select([0]), 0.2)[1]  # type: ignore[operator]
    assert alone.x[0, : alone.counts[0]].equal(judged.x[0, : judged.counts[0]])
