"""Words and pairs of neighbours as hashed ids, so that nobody's words make up a vocabulary.

A dictionary would have to be counted over everybody's texts. Joulin, Grave, Bojanowski and Mikolov
(Bag of Tricks for Efficient Text Classification, EACL 2017, section 2.1) hash bigrams; here words
are hashed, too. The hashes are fastText's: FNV-1a of 32 bits, whose bytes count as signed, and for
a pair 64 bits out of both words'.
"""

import re
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

#: The id that fills short texts up. Words and pairs have ids from 1 on.
PADDING = 0

_WORD = re.compile(r"\w+")
_BASIS, _PRIME, _PAIR = 2166136261, 16777619, 116049371
_32, _64 = 2**32, 2**64


def words_of(text: str) -> list[str]:
    """Return a text's words in lower case: runs of letters, digits and ``_``."""
    return _WORD.findall(text.lower())


def token_ids(words: list[str], length: int, buckets: int, pairs: int) -> NDArray[np.int32]:
    """Return a text's ids, int32 [length], padded: its words', then its pairs'.

    Parameters
    ----------
    words : the first of them that fit are taken; of n words there are n - 1 pairs.
    buckets, pairs : words have ids from 1 to `buckets`, pairs the next `pairs` ids; 0 is no pairs.
    """
    kept = words[: most_words(length, pairs)]
    hashes = [word_hash(word) for word in kept]
    ids = [1 + h % buckets for h in hashes]
    if pairs:
        ids += [1 + buckets + pair_hash(a, b) % pairs for a, b in pairwise(hashes)]
    padded = np.full(length, PADDING, np.int32)
    padded[: len(ids)] = ids
    return padded


def most_words(length: int, pairs: int) -> int:
    """Return how many words of a text fit into `length` ids, with their pairs."""
    return (length + 1) // 2 if pairs else length


@lru_cache(maxsize=2**18)
def word_hash(word: str) -> int:
    """Return the hash of a word, 0 to 2**32 - 1."""
    value = _BASIS
    for byte in word.encode():
        signed = byte if byte < 128 else byte + _32 - 256
        value = (value ^ signed) * _PRIME % _32
    return value


def pair_hash(first: int, second: int) -> int:
    """Return the hash of two neighbours out of their words' hashes, 0 to 2**64 - 1."""
    return (_widened(first) * _PAIR + _widened(second)) % _64


def _widened(value: int) -> int:
    # As 32 bits with a sign become 64.
    return value if value < 2**31 else value + _64 - _32
