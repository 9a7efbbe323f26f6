"""One client's rows and scores weigh no more than a few times everybody's."""

from __future__ import annotations

import torch

from fedsub_core.models.kinds import mlp
from strategies.fedsub.bounds import bounded
from strategies.fedsub.cache import Cache
from strategies.roster import Roster

MODEL = mlp(4, 3, (5,))


def cache() -> Cache:
    """Five clients whose rows have lengths around 1, and whose scores are around 0.5."""
    made = Cache.empty(Roster(tuple("abcde")), MODEL, 4)
    stream = torch.Generator().manual_seed(0)
    for name, tensor in made.tensors.items():
        if name.startswith("rows."):
            rows = torch.rand(tensor.shape, generator=stream) + 0.5
            tensor.copy_(rows / rows.norm(dim=-1, keepdim=True))
    made.tensors["omega"].copy_(0.4 + 0.2 * torch.rand(5, 3, generator=stream))
    return made


def test_honest_ones_are_the_very_same_tensors() -> None:
    before = cache()
    before.tensors["rows.linear1"][1] = 0  # one who has selected nothing
    after = bounded(before, 3.0)
    assert all(after.tensors[name] is tensor for name, tensor in before.tensors.items())


def test_rows_of_one_that_are_too_long_are_as_the_middle_and_keep_their_direction() -> None:
    before = cache()
    before.tensors["rows.linear1"][2] *= 1e5
    after = bounded(before, 3.0).tensors["rows.linear1"]
    torch.testing.assert_close(after[2].norm(dim=-1), torch.ones(5))
    ratio = after[2] / before.tensors["rows.linear1"][2]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1 / 1e5))
    others = [0, 1, 3, 4]
    assert torch.equal(after[others], before.tensors["rows.linear1"][others])


def test_a_score_that_is_too_great_is_cut() -> None:
    before = cache()
    before.tensors["omega"][0, 1] = 3e38
    after = bounded(before, 3.0).tensors["omega"]
    assert after[0, 1] == 3.0 * before.tensors["omega"][:, 1].median()
    assert torch.equal(after[1:], before.tensors["omega"][1:])
    assert bounded(before, 0.0).tensors["omega"] is before.tensors["omega"]


def test_nobodys_rows_and_scores() -> None:
    empty = Cache.empty(Roster(()), MODEL, 4)
    assert bounded(empty, 3.0).tensors.keys() == empty.tensors.keys()
    nothing = Cache.empty(Roster(("a",)), MODEL, 4)
    assert torch.equal(bounded(nothing, 3.0).tensors["omega"], nothing.tensors["omega"])
