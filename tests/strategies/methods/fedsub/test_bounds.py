"""One client's rows and scores weigh no more than a few times everybody's."""

import numpy as np
import torch
from torch import Tensor

from fedsub_core.models.kinds import mlp
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedsub.bounds import LONGER, begun, bounded
from strategies.methods.fedsub.cache import Cache
from strategies.parts.roster import Roster

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
    after, _ = bounded(before, 3.0)
    assert all(after.tensors[name] is tensor for name, tensor in before.tensors.items())


def test_rows_of_one_that_are_too_long_are_as_the_middle_and_keep_their_direction() -> None:
    before = cache()
    before.tensors["rows.linear1"][2] *= 1e5
    after = bounded(before, 3.0)[0].tensors["rows.linear1"]
    torch.testing.assert_close(after[2].norm(dim=-1), torch.ones(5))
    ratio = after[2] / before.tensors["rows.linear1"][2]
    torch.testing.assert_close(ratio, torch.full_like(ratio, 1 / 1e5))
    others = [0, 1, 3, 4]
    assert torch.equal(after[others], before.tensors["rows.linear1"][others])


def test_a_score_that_is_too_great_is_cut() -> None:
    before = cache()
    before.tensors["omega"][0, 1] = 3e38
    after = bounded(before, 3.0)[0].tensors["omega"]
    assert after[0, 1] == 3.0 * before.tensors["omega"][:, 1].median()
    assert torch.equal(after[1:], before.tensors["omega"][1:])
    assert bounded(before, 0.0)[0].tensors["omega"] is before.tensors["omega"]


def test_nobodys_rows_and_scores() -> None:
    empty = Cache.empty(Roster(()), MODEL, 4)
    assert bounded(empty, 3.0)[0].tensors.keys() == empty.tensors.keys()
    nothing = Cache.empty(Roster(("a",)), MODEL, 4)
    assert torch.equal(bounded(nothing, 3.0)[0].tensors["omega"], nothing.tensors["omega"])


def longest(cache: Cache) -> Tensor:
    return torch.stack([cache.tensors[f"rows.linear{i}"].norm(dim=-1).amax(-1) for i in (1, 2)], 1)


def test_usual_lengths_follow_training_and_not_what_was_sent() -> None:
    """Everybody was sent rows 1.5 times as long as the last ones, and trained them by 1.1."""
    now, before = cache(), torch.tensor([1.0, 1.0])
    for layer in (1, 2):
        now.tensors[f"rows.linear{layer}"] *= 1.65
    after, usual = bounded(now, 3.0, before, torch.full((5, 2), 1.5))
    torch.testing.assert_close(usual, torch.tensor([1.1, 1.1]))
    assert after.tensors["rows.linear1"] is now.tensors["rows.linear1"]
    # Nobody's is twice the others': all are twice what they would be.
    now.tensors["rows.linear1"] *= 2
    after, usual = bounded(now, 3.0, before, torch.full((5, 2), 3.0))
    torch.testing.assert_close(longest(after)[:, 0], torch.full((5,), 1.1))
    torch.testing.assert_close(usual, torch.tensor([1.1, LONGER]))


def test_usual_lengths_are_never_beyond_the_median_and_need_nobody_who_was_there() -> None:
    now = cache()
    _, usual = bounded(now, 3.0, torch.tensor([5.0, 0.0]), torch.zeros(5, 2))
    torch.testing.assert_close(usual, torch.ones(2))
    _, usual = bounded(now, 3.0, torch.tensor([0.9, 0.9]), torch.zeros(5, 2))
    torch.testing.assert_close(usual, torch.full((2,), 0.9 * LONGER))


def test_everybody_begins_with_own_rows_and_those_that_were_sent() -> None:
    known = cache()
    known.tensors["rows.linear1"][:, 0] *= 2  # the longest
    values = np.full((1, 5), 3.0, np.float32)
    sent = Bundle(tensors={"linear1": Floats.rows(np.arange(5) == 0, values)})
    found = begun(known, {"b": sent, "new": sent, "c": Bundle()})
    expected = longest(known)
    expected[1, 0] = 3.0 * 5**0.5
    torch.testing.assert_close(found, expected)
