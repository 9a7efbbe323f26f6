"""Means of prototypes, with numbers that can be checked in one's head, and what is refused."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.halves import HalfAlone, next_from, next_round
from fedsub_core.config.robust import RobustSettings
from fedsub_core.errors import MessageRefused
from fedsub_core.models.kinds import mlp
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.prototype_means import mean_prototypes, no_prototypes

UNFILTERED = RobustSettings(clip=False)


def sent(
    units: Sequence[bool], rho: float, counts: Sequence[float] | None = None, examples: int = 1
) -> Bundle:
    """Return an upload whose prototypes, of 512 numbers, are all `rho`."""
    rows = Floats.rows(np.array(units), np.full((sum(units), 512), rho, np.float32))
    tensors: dict[str, Any] = {"prototypes": rows}
    if counts is not None:
        tensors["counts"] = Floats(np.array(counts, np.float32))
    return Bundle(examples, tensors=tensors)


@pytest.mark.parametrize(("weights", "expected"), [("clients", 2.0), ("samples", 3.0)])
def test_the_mean_by_hand(weights: str, expected: float) -> None:
    """n = 1, 3, rho = 0, 4; of class 1 nobody sends any, of class 2 one person does."""
    held, one = (True, False, False), (True, False, True)
    counted = weights == "samples"
    uploads = {
        "anna": sent(held, 0.0, (1, 0, 0) if counted else None, 1),
        "ben": sent(one, 4.0, (3, 0, 5) if counted else None, 8),
    }
    state = no_prototypes(mlp(4, 3)) | {"prototypes": torch.full((3, 512), 7.0)}
    after = mean_prototypes(state, uploads, UNFILTERED)
    assert after["held"].tolist() == [True, False, True]
    assert after["prototypes"][:, 0].tolist() == [expected, 7.0, 4.0]
    # Who stays away takes nothing with it.
    later = mean_prototypes(after, {"cleo": sent((True, False, False), 1.0)}, UNFILTERED)
    assert later["prototypes"][:, 0].tolist() == [1.0, 7.0, 4.0]
    assert torch.equal(later["held"], after["held"])


def test_filters_are_applied_class_by_class() -> None:
    names = ("anna", "ben", "cleo", "dora", "eve")
    uploads = {name: sent((True, True, False), 1.0 + i / 10) for i, name in enumerate(names)}
    uploads["eve"] = sent((True, False, False), 900.0)
    state = no_prototypes(mlp(4, 3))
    clipped = mean_prototypes(state, uploads, RobustSettings())["prototypes"][:, 0]
    # Of class 0 eve's is cut to three times the median of 1.2, of class 1 it has none.
    assert clipped.tolist() == pytest.approx([(4.6 + 3.6) / 5, 1.15, 0.0])
    median = mean_prototypes(state, uploads, RobustSettings(clip=False, mean="median"))
    assert median["prototypes"][0, 0].item() == pytest.approx(1.2)


def test_who_comes_later_or_is_of_few_counts_as_the_others() -> None:
    """The way from the last mean is longer for them than for who was in it: that is no attack."""
    held = (True, False, False)
    first = {f"a{i}": sent(held, 10.0) for i in range(8)}
    state = mean_prototypes(no_prototypes(mlp(4, 3)), first, RobustSettings())
    both = first | {f"b{i}": sent(held, 5.0) for i in range(2)}
    for _ in range(3):
        state |= mean_prototypes(state, both, RobustSettings())
        assert state["prototypes"][0, 0].item() == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("upload", "words"),
    [
        (sent((False,) * 3, 1.0), "classes with a prototype: got none, expected at least one"),
        (
            sent((True, False, False), 1.0, (2, 3, 0), 5),
            r"counts: got \[2.0, 3.0, 0.0\], expected whole numbers above 0 for classes \[0\]",
        ),
        (sent((True, True, False), 1.0, (5, 0, 0), 5), "counts: got .* which have a prototype"),
        (sent((True, True, False), 1.0, (6, -1, 0), 5), "counts: got .* expected whole numbers"),
        (sent((True, True, False), 1.0, (2.5, 2.5, 0), 5), "counts: got .* expected whole numb"),
        (sent((True, True, False), 1.0, (2, 4, 0), 5), "got 6 samples in all, expected 5, its"),
    ],
)
@pytest.mark.parametrize("name", ["fedproto", "protohar"])
def test_what_does_not_fit_is_refused(name: str, upload: Bundle, words: str) -> None:
    strategy = HalfAlone.of(name, mlp(4, 3))
    with pytest.raises(MessageRefused, match=words) as refused:
        strategy.half.check({}, next_round(strategy), next_from(strategy, "anna"), upload)
    assert "anna" in str(refused.value) and "round 1" in str(refused.value)
    strategy.half.check(
        {},
        next_round(strategy),
        next_from(strategy, "anna"),
        sent((True, True, False), 1.0, (2, 3, 0), 5),
    )
