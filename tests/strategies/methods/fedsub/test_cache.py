"""What the server remembers of every client, by hand."""

import torch

from strategies.methods.fedsub.cache import Cache
from strategies.parts.roster import Roster

from .by_hand import MODEL, upload_of


def test_the_cache_by_hand() -> None:
    one = Cache.empty(Roster(()), MODEL, 2).updated({"b": upload_of([0, 2], 1.0, 7)}, MODEL, 2)
    two = one.updated({"a": upload_of([1], 2.0, 8), "c": upload_of([0], 3.0, 9)}, MODEL, 2)
    assert one.roster.clients == ("b",) and two.roster.clients == ("a", "b", "c")
    assert two.tensors["versions"].tolist() == [8, 7, 9]
    assert two.tensors["omega"].tolist() == [[0, 2, 0], [1, 0, 1], [3, 0, 0]]
    assert two.tensors["rows.linear2"][:, 0, 0].tolist() == [2, 1, 3]
    assert two.tensors["rows.linear2"][:, 1:].abs().max() == 0
    # b lost class 2 and has nothing new to say about class 0.
    assert one.tensors["omega"].tolist() == [[1, 0, 1]], "what came in later reached back"
    three = two.updated({"b": upload_of([0], 5.0)}, MODEL, 2)
    assert three.tensors["holds"].tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert three.tensors["versions"].tolist() == [8, 7, 9]
    assert three.tensors["prototypes"][1, 0].tolist() == [1.0] * 2
    assert not three.tensors["masks.linear1"][1, 1:].any()
    again = Cache.of(three.state())
    assert again.roster == three.roster
    assert all(torch.equal(t, again.tensors[name]) for name, t in three.tensors.items())
    assert three is two, "copied though nobody is new"


def test_rows_that_a_client_selects_no_more_are_forgotten() -> None:
    first = upload_of([0], 1.0, 7, {"linear1": {0: (1, 3)}, "linear2": {0: (0,)}})
    then = upload_of([0], 2.0, 7, {"linear1": {0: (2,)}, "linear2": {0: (0,)}})
    cache = Cache.empty(Roster(()), MODEL, 2).updated({"a": first}, MODEL, 2)
    assert cache.tensors["rows.linear1"][0, :, 0].tolist() == [0, 1, 0, 1]
    cache = cache.updated({"a": then}, MODEL, 2)
    assert cache.tensors["rows.linear1"][0, :, 0].tolist() == [0, 0, 2, 0]
    assert cache.tensors["masks.linear1"][0, 0].tolist() == [False, False, True, False]
