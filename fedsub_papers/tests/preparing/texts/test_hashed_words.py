"""Hashes of words and pairs: literal numbers, and NumPy's own arithmetic of fixed widths."""

import numpy as np
import pytest

from fedsub_papers.preparing.texts.hashed_words import (
    most_words,
    pair_hash,
    token_ids,
    word_hash,
    words_of,
)


@pytest.mark.parametrize(
    ("word", "value"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)]
)
def test_a_word_s_hash_is_fnv_1a(word: str, value: int) -> None:
    assert word_hash(word) == value


@pytest.mark.parametrize("word", ["oil", "naïve", "北京", "prices"])
def test_bytes_count_as_signed(word: str) -> None:
    value = np.uint32(2166136261)
    with np.errstate(over="ignore"):
        for byte in np.frombuffer(word.encode(), np.int8):
            value = (value ^ byte.astype(np.uint32)) * np.uint32(16777619)
    assert word_hash(word) == int(value)


@pytest.mark.parametrize("pair", [("oil", "prices"), ("a", "foobar"), ("prices", "oil")])
def test_a_pair_s_hash_is_of_64_bits_out_of_signed_32(pair: tuple[str, str]) -> None:
    first, second = (np.array(word_hash(w)).astype(np.uint32).view(np.int32) for w in pair)
    with np.errstate(over="ignore"):
        value = first.astype(np.uint64) * np.uint64(116049371) + second.astype(np.uint64)
    assert pair_hash(*map(word_hash, pair)) == int(value)


def test_ids_are_words_then_pairs_then_padding() -> None:
    words = words_of("Oil prices: OIL, up 3%")
    assert words == ["oil", "prices", "oil", "up", "3"]
    ids = token_ids(words, 12, buckets=100, pairs=50)
    assert ids.dtype == np.int32 and len(ids) == 12
    assert ids[0] == ids[2] == 1 + word_hash("oil") % 100
    assert ids[5] == 101 + pair_hash(word_hash("oil"), word_hash("prices")) % 50
    assert (ids[5:9] > 100).all() and (ids[5:9] <= 150).all() and (ids[9:] == 0).all()
    assert (ids[:5] >= 1).all() and (ids[:5] <= 100).all()


@pytest.mark.parametrize(("length", "pairs", "words"), [(1, 5, 1), (4, 5, 2), (5, 5, 3), (5, 0, 5)])
def test_long_texts_lose_their_last_words_and_no_pair(length: int, pairs: int, words: int) -> None:
    assert most_words(length, pairs) == words
    ids = token_ids(list("abcdefgh"), length, 1000, pairs)
    assert (ids > 0).sum() == (2 * words - 1 if pairs else words)
