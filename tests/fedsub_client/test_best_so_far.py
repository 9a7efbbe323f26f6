"""Which of two rounds a person's best state is of, by numbers written down."""

from math import nan

import pytest
import torch

from fedsub_client.best_so_far import ROUND, SCORE, better_of, nothing_yet, used, used_round


def judged(score: float, loss: float) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.tensor([score], dtype=torch.float64),
        torch.tensor([loss], dtype=torch.float64),
    )


@pytest.mark.parametrize(
    ("second", "best"),
    [
        ((0.9, 5.0), 2),
        ((0.4, 0.1), 1),
        ((0.5, 0.6), 2),  # equal: the smaller loss
        ((0.5, 0.7), 1),  # equal in both: the earlier
        ((0.5, nan), 1),
    ],
)
def test_the_greater_score_counts_and_of_equal_ones_the_smaller_loss(
    second: tuple[float, float], best: int
) -> None:
    state = {"model.weight": torch.zeros(1, 2)}
    kept = nothing_yet(state)
    for round, scores in enumerate([(0.5, 0.7), second], start=1):
        now = {"model.weight": torch.full((1, 2), float(round))}
        kept = better_of(kept, now, judged(*scores), round)
    assert int(kept[ROUND]) == best
    assert used(now | kept)["model.weight"].tolist() == [[best, best]]
    assert used_round(now | kept, 0, newest=2) == best


def test_who_has_nothing_to_judge_by_uses_the_newest() -> None:
    state = {"model.weight": torch.zeros(1, 2)}
    now = {"model.weight": torch.ones(1, 2)}
    kept = better_of(nothing_yet(state), now, judged(nan, nan), 3)
    assert kept[SCORE].isnan().all()
    assert used(now | kept)["model.weight"].tolist() == [[1.0, 1.0]]
    assert used_round(now | kept, 0, newest=7) == 7
