"""Named parts of a vector of slots, of which a round asks for some entries."""

from __future__ import annotations

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
def test_a_vector_is_joined_and_split(units: list[bool], gate: bool, seed: int) -> None:
    asked = {"asked": np.array(units), "gate.asked": np.array([gate])}
    stream = np.random.default_rng(seed)
    values = {n: stream.random(shape).astype(np.float32) for n, (shape, _) in PARTS.items()}
    vector = layout.joined(values, PARTS, asked)
    assert len(vector) == layout.length(PARTS, asked) == 5 + 5 * sum(units) + 4 * gate
    found = layout.split(vector, PARTS, asked)
    assert layout.counts(PARTS) == ["used"]
    for name, (shape, mask) in PARTS.items():
        shown = asked[mask] if mask else np.ones(shape[0], bool)
        np.testing.assert_array_equal(found[name][shown], values[name][shown])
        assert not found[name][~shown].any()


def test_a_digest_tells_what_is_asked_for_apart() -> None:
    every = [
        {"a": np.array(a), "b": np.array(b)}
        for a in ([True, False], [False, True])
        for b in ([True], [False])
    ]
    digests = {layout.digest_of(asked) for asked in every}
    assert len(digests) == 4 and all(0 <= digest < 2**63 for digest in digests)
