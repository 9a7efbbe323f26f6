"""Sharing, graphs, masks and whole numbers, each alone."""

import hashlib
import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from fedsub_core.secure.graph import enough, neighbours, threshold
from fedsub_core.secure.keys import agreed, expanded, private_key, public_of, seal, unseal
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.shamir import PRIME, split, value_at


def stream(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def test_any_three_of_five_shares_give_the_secret_and_two_fit_every_other() -> None:
    secret = stream("secret")
    shares = dict(enumerate(split(secret, 3, 5, lambda n: stream(str(n)) * 2), 1))
    for places in combinations(shares, 3):
        assert value_at({p: shares[p] for p in places}, 0) == b"\0" + secret
    # With two, each secret has a polynomial of degree 2 through them and it: all are as likely.
    for guess in (0, 1, PRIME - 1):
        two = {0: guess.to_bytes(33), 1: shares[1], 2: shares[2]}
        assert value_at(two, 0) == guess.to_bytes(33)
        assert value_at({1: shares[1], 2: shares[2], 3: value_at(two, 3)}, 0) == guess.to_bytes(33)
    assert value_at({1: shares[1], 2: shares[2]}, 0)[1:] != secret


def test_shamirs_polynomial_by_hand() -> None:
    """5 + 3 x, at 1 and 2, gives 8 and 11; of these 5 at 0 and 14 at 3."""
    five = (5).to_bytes(32)
    shares = split(five, 2, 2, lambda n: (3).to_bytes(n))
    assert [int.from_bytes(share) for share in shares] == [8, 11]
    both = {1: shares[0], 2: shares[1]}
    assert [int.from_bytes(value_at(both, at)) for at in (0, 3)] == [5, 14]
    with pytest.raises(ValueError, match="beyond the field"):
        value_at({1: PRIME.to_bytes(33)}, 0)
    with pytest.raises(ValueError, match="got 3, expected 1 to 2 holders"):
        split(five, 3, 2, bytes)


def test_a_pair_agrees_on_what_nobody_else_has() -> None:
    a, b, c = (stream(name) for name in "abc")
    one, two, third = (private_key(secret) for secret in (a, b, c))
    ours = agreed(one, public_of(b), b"masks")
    assert ours == agreed(two, public_of(a), b"masks")
    others = agreed(one, public_of(b), b"other"), agreed(third, public_of(b), b"masks")
    assert len({ours, *others}) == 3
    with pytest.raises(ValueError):
        agreed(one, bytes(32), b"masks")
    sealed = seal(ours, b"shares", b"from a to b")
    assert unseal(ours, sealed, b"from a to b") == b"shares"
    for key, what, about in (
        (a, sealed, b"from a to b"),
        (ours, sealed[:-1] + b"\0", b"from a to b"),
        (ours, sealed, b"from b to a"),
    ):
        with pytest.raises(ValueError, match="did not seal"):
            unseal(key, what, about)


def test_masks_are_chacha20s_stream() -> None:
    """RFC 8439 (first test vector of the ChaCha20 block function): key and nonce 0, block 0."""
    assert expanded(bytes(32), 4).astype("<u4").tobytes() == bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28"
    )
    assert expanded(bytes(32), 1000)[:4].tolist() == expanded(bytes(32), 4).tolist()


def test_few_mask_with_all_many_with_as_many_as_it_takes() -> None:
    assert neighbours(["c", "a", "b"], b"") == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    assert [enough(n) for n in (3, 30, 100, 300, 1000)] == [2, 29, 72, 112, 166]
    assert [threshold(n) for n in (3, 4, 5, 10)] == [2, 3, 3, 6]
    people = [f"p{i}" for i in range(150)]
    near = neighbours(people, b"one")
    assert all(len(set(others)) == 76 for others in near.values())
    assert all(one in near[other] and one != other for one in near for other in near[one])
    assert near != neighbours(people, b"two")


def test_numbers_become_whole_and_back() -> None:
    levels = Levels.of_people(people=2, weight=10, range=2.0)
    assert levels.each == 2**26 <= (2**31 - 1) // 20 < 2**27
    one = np.array([0.5, -2.0, 3.0], np.float32)
    vector = levels.vector(one, 4)
    assert vector.dtype == np.uint32
    signed = vector.astype(np.int32)
    assert signed.tolist() == [levels.each, -4 * levels.each, 4 * levels.each, 4, 1]
    total = levels.total(vector + levels.vector(np.array([0.5, 1.0, 0.0], np.float32), 50), 2)
    assert (total.weight, total.shortened) == (14, 1)
    expected = [0.5, (4 * -2 + 10) / 14, 4 * 2 / 14]
    np.testing.assert_allclose(total.mean, expected, atol=1e-8)


def test_a_vector_of_other_levels_becomes_one_of_these() -> None:
    few, many = Levels.of_people(2, 10, 2.0), Levels.of_people(5, 6, 2.0)
    move = np.array([0.5, -2.0, 3.0], np.float32)
    for old, new, examples in ((few, many, 10), (many, few, 10), (many, few, 4)):
        found = new.again(old.vector(move, examples), old, examples).astype(np.int32)
        expected = new.vector(move, examples).astype(np.int32)
        np.testing.assert_array_equal(found[-2:], expected[-2:])
        # Of the coarser levels an error of one half remains.
        np.testing.assert_allclose(found[:-2], expected[:-2], rtol=0, atol=new.each / old.each + 1)
    # Who counts as one person stays one, however many samples it has.
    once = many.again(few.vector(np.array([2.0, 0.0]), 1), few, 10)
    np.testing.assert_array_equal(once, many.vector(np.array([2.0, 0.0]), 1))
    none = few.vector(np.array([np.nan], np.float32), 10)
    np.testing.assert_array_equal(many.again(none, few, 10), none)


@pytest.mark.parametrize("people", [2, 2**20])
def test_rounded_a_change_is_no_longer_than_it_may_be(people: int) -> None:
    """Also where many people leave few levels, by which each number is rounded."""
    levels = replace(Levels.of_people(people, 1, 8.0), longest=0.5)
    change = np.random.default_rng(2).normal(size=1000)
    for scale, shortened in ((1.0, True), (1e-4, people > 2)):
        vector = levels.vector(scale * change, 70)
        norm = np.linalg.norm(vector[:-2].astype(np.int32) * (levels.range / levels.each))
        assert norm <= 0.5
        # Also where a round is repeated with many more people.
        coarse = replace(Levels.of_people(2**21, 1, 8.0), longest=0.5)
        again = coarse.again(vector, levels, 70)[:-2].astype(np.int32)
        assert np.linalg.norm(again * (coarse.range / coarse.each)) <= 0.5
        assert shortened or norm == pytest.approx(scale * np.linalg.norm(change), rel=1e-3)
    unbound = replace(levels, longest=math.inf)
    bound = levels.vector(np.zeros(3), 70)
    np.testing.assert_array_equal(bound, unbound.vector(np.zeros(3), 70))


def test_the_largest_sum_fits() -> None:
    levels = Levels.of_people(people=1000, weight=300, range=8.0)
    for sign in (-1, 1):
        most = levels.vector(np.array([sign * 8.0], np.float32), 300)
        total = levels.total((1000 * most.astype(np.uint64)).astype(np.uint32), 1000)
        np.testing.assert_allclose(total.mean, [sign * 8.0], rtol=1e-6)
    with pytest.raises(ValueError, match="more than 2"):
        Levels.of_people(people=2**16, weight=2**16, range=1.0)


def test_a_number_beyond_what_people_may_send_is_refused() -> None:
    levels = Levels.of_people(people=3, weight=4, range=2.0)
    summed = levels.vector(np.array([-2.0], np.float32), 4) * np.uint32(3)
    assert levels.total(summed, 3).mean.tolist() == [-2.0]
    with pytest.raises(ValueError, match="a number: got 30, expected 24 at most"):
        levels.total(summed - np.array([3 * levels.each, 0, 0], np.uint32), 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_of_no_use_has_no_weight(bad: float) -> None:
    levels = Levels.of_people(2, 5, 1.0)
    vector = levels.vector(np.array([0.5, bad], np.float32), 5)
    assert vector.tolist() == [0, 0, 0, 1]
    alone = levels.total(vector, 2)
    assert (alone.weight, alone.shortened, alone.mean.tolist()) == (0, 1, [0.0, 0.0])
    with pytest.raises(ValueError, match="got 11 and 0, expected at most 10 and 2"):
        levels.total(np.array([0, 0, 11, 0], np.uint32), 2)
