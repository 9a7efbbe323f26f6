"""Named parts of a vector of slots, of which a round asks for some entries."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsub_core.secure import layout

PARTS = {
    "used": ((5,), ""),
    "people": ((5, 2), "asked"),
    "rows": ((5, 3), "asked"),
    "gate": ((1, 2, 2), "gate.asked"),
}


@given(
    units=st.lists(st.booleans(), min_size=5, max_size=5),
    gate=st.booleans(),
    seed=st.integers(0, 99),
)
def test_parts_stand_one_after_another_where_they_are_asked_for(
    units: list[bool], gate: bool, seed: int
) -> None:
    asked = {"asked": np.array(units), "gate.asked": np.array([gate])}
    which = layout.asked_for(PARTS, asked)
    assert which.sum() == 5 + 5 * sum(units) + 4 * gate
    numbers = np.random.default_rng(seed).random(len(which))
    found = layout.by_name(numbers * which, PARTS)
    assert layout.counts(PARTS) == ["used"]
    for name, (shape, mask) in PARTS.items():
        assert found[name].shape == shape
        shown = asked[mask] if mask else np.ones(shape[0], bool)
        assert found[name][shown].all() and not found[name][~shown].any()
    # Views: what is written into a part stands in the numbers.
    layout.by_name(numbers, PARTS)["gate"][:] = 7
    assert (numbers[-4:] == 7).all()


def test_a_digest_tells_what_is_asked_for_apart() -> None:
    digests = {layout.digest_of(np.array(which)) for which in product((False, True), repeat=3)}
    assert len(digests) == 8 and all(0 <= digest < 2**63 for digest in digests)
