"""What a person adds to a sum: by name, and in the order in which a round asks for entries."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedsub_core import addend_numbers
from fedsub_core.addends import Addend

ADDS = (
    Addend("body", (7, 2), weighted=True),  # stands before all others
    Addend("used", (5,), counts="asked"),
    Addend("people", (5, 2), "asked"),
    Addend("rows", (5, 3), "asked"),
    Addend("gate", (1, 2, 2), "gate.asked"),
)


@given(
    units=st.lists(st.booleans(), min_size=5, max_size=5),
    gate=st.booleans(),
    seed=st.integers(0, 99),
)
def test_numbers_stand_one_after_another_where_they_are_asked_for(
    units: list[bool], gate: bool, seed: int
) -> None:
    asked = {"asked": np.array(units), "gate.asked": np.array([gate])}
    which = addend_numbers.asked_for(ADDS, asked)
    assert which.sum() == 5 + 5 * sum(units) + 4 * gate
    numbers = np.random.default_rng(seed).random(len(which))
    found = addend_numbers.by_name(numbers * which, ADDS)
    assert found.keys() == {"used", "people", "rows", "gate"}
    for one in ADDS[1:]:
        assert found[one.name].shape == one.shape
        shown = asked[one.mask] if one.mask else np.ones(one.shape[0], bool)
        assert found[one.name][shown].all() and not found[one.name][~shown].any()
    # Views: what is written into one stands in the numbers.
    addend_numbers.by_name(numbers, ADDS)["gate"][:] = 7
    assert (numbers[-4:] == 7).all()


def test_a_digest_tells_what_is_asked_for_apart() -> None:
    digests = {
        addend_numbers.digest_of(np.array(which)) for which in product((False, True), repeat=3)
    }
    assert len(digests) == 8 and all(0 <= digest < 2**63 for digest in digests)
