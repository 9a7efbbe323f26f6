"""Attacks on secure sums: what lying servers and devices do, who refuses it, and what is read.

`docs/privacy.md` has the same table.
"""

from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused

from .lying_servers import (
    Attack,
    all_others_apart,
    another_name,
    model_again,
    one_more,
    replaced_keys,
    split_view,
    through_one,
    wrong_vector,
)

#: In place of a refusal: the victim's vector is read.
READ: dict[str, Any] = {}
#: What the first says who is asked to open a sum with or without `p000`.
KEYS = {"client": "p000", "what": "keys", "got": "'p001'", "expected": "roster"}
VIEWS = {"what": "views", "got": "the same of", "expected": "7 of 10"}
BACK = {"client": "p001", "round": 1, "what": "rounds", "got": "round 1", "expected": "round 2"}
AGAIN = {"client": "p001", "round": 1, "what": "round 1 again", "got": "['p000']"}
NAME = {"client": "p001", "round": 3, "what": "statistics again", "got": "['p000']"}
THROUGH = {"client": "p000", "round": 2, "what": "statistics again", "got": "['p000']"}
FIRST = {"expected": ["round 1", "'run'"]}
ATTACKS: dict[str, tuple[Attack, dict[str, Any], dict[str, Any]]] = {
    "replaced keys": (replaced_keys, READ, KEYS),
    "split view, two of ten help": (split_view, READ, VIEWS),
    "rounds 1, 2, 1 without one": (lambda signed: model_again(signed, 1, 2), BACK, BACK),
    "a round again without one": (lambda s: model_again(s, 1), AGAIN | FIRST, AGAIN | FIRST),
    "another run's name": (another_name, NAME | FIRST, NAME | FIRST),
    "another run's, of one more": (one_more, NAME | FIRST, NAME | FIRST),
    "sums through one": (through_one, THROUGH, THROUGH),
    "all others apart": (all_others_apart, READ, READ),
}


@pytest.mark.parametrize("signed", [False, True], ids=["without a roster", "with a roster"])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_or_known_to_read(name: str, signed: bool) -> None:
    attack, *outcomes = ATTACKS[name]
    if outcomes[signed] is READ:
        assert not attack(signed).any()
        return
    with refused(MessageRefused, **outcomes[signed]):
        attack(signed)


@pytest.mark.parametrize("signed", [False, True], ids=["without a roster", "with a roster"])
def test_a_wrong_vector_spoils_the_sum_and_reads_nothing(signed: bool) -> None:
    with refused(ValueError, got=2**32 - 2, expected=6):
        wrong_vector(signed)
