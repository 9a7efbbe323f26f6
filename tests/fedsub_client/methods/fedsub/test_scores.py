"""Scores against counts made by hand in numpy."""

import numpy as np
import pytest
import torch

from fedsub_client.methods.fedsub.subnetworks import class_scores
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError

CLASSES = 3


def example() -> tuple[torch.Tensor, Stack]:
    rng = np.random.default_rng(5)
    ys = [rng.integers(0, CLASSES, 40), rng.integers(0, 2, 15)]
    data = stack(["a", "b"], [np.zeros((len(y), 2), np.float32) for y in ys], ys)
    return torch.from_numpy(rng.normal(size=(2, 40, CLASSES)).astype(np.float32)), data


@pytest.mark.parametrize("kind", ["one", "samples", "accuracy", "accuracy-samples"])
def test_scores_agree_with_numpy(kind: str) -> None:
    logits, data = example()
    got = class_scores(kind, logits, data, data)
    assert got.dtype == torch.float32
    for u, n in enumerate(data.counts):
        y, guess = data.y[u, :n].numpy(), logits[u, :n].numpy().argmax(1)
        for c in range(CLASSES):
            held = y == c
            right = int((guess[held] == c).sum())
            expected = {
                "one": float(held.any()),
                "samples": float(held.sum()),
                "accuracy": right / held.sum() if held.any() else 0.0,
                "accuracy-samples": float(right),
            }[kind]
            assert got[u, c].item() == pytest.approx(expected, abs=1e-6)
    assert got[1, 2] == 0  # client b has no class 2
    assert got[0].min() > 0


def test_padding_that_looks_right_is_not_counted() -> None:
    data = stack(["a", "b"], [np.zeros((4, 1), np.float32), np.zeros((1, 1), np.float32)],
                 [np.array([0, 0, 1, 1]), np.array([1])])  # fmt: skip
    logits = torch.zeros(2, 4, 2)
    logits[..., 0] = 1  # always class 0, which padding's label is
    assert class_scores("accuracy-samples", logits, data, data).tolist() == [[2, 0], [0, 0]]
    assert class_scores("one", logits, data, data).tolist() == [[1, 1], [0, 1]]


def test_an_unknown_score_is_refused() -> None:
    logits, data = example()
    with pytest.raises(ConfigError, match="f1"):
        class_scores("f1", logits, data, data)


def test_a_part_of_the_samples_stands_for_all_of_a_class() -> None:
    ys = [np.array([0, 0, 0, 0, 1, 1])]
    data = stack(["a"], [np.zeros((6, 1), np.float32)], ys)
    judged = data.part(torch.tensor([[True, False, True, False, True, False]]))
    logits = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]])  # right, wrong, right
    scores = {
        kind: class_scores(kind, logits, judged, data).tolist()[0]
        for kind in ("one", "samples", "accuracy", "accuracy-samples")
    }
    assert scores == {
        "one": [1, 1],
        "samples": [4, 2],
        "accuracy": [0.5, 1],
        "accuracy-samples": [2, 2],
    }
