"""Shamir's secret sharing (How to Share a Secret, CACM 1979) over a prime field.

A secret of 32 bytes is the value at 0 of a random polynomial; its values elsewhere are the shares.
Of a polynomial with t coefficients t shares give it back, and fewer say nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

#: The least prime above 2**256, which holds every secret.
PRIME = 2**256 + 297
SECRET_BYTES, SHARE_BYTES = 32, 33
#: Gives so many bytes that nobody can foretell.
Entropy = Callable[[int], bytes]


def split(secret: bytes, threshold: int, holders: int, entropy: Entropy) -> list[bytes]:
    """Return one share for each holder: the polynomial's values at 1, 2, ...

    Raises ValueError if the secret is not of 32 bytes, or there are fewer holders than the
    threshold asks for.
    """
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"secret: got {len(secret)} bytes, expected {SECRET_BYTES}")
    if not 1 <= threshold <= holders:
        raise ValueError(f"threshold: got {threshold}, expected 1 to {holders} holders")
    # 16 bytes beyond the field's: what the remainder favours nobody can see.
    drawn = [int.from_bytes(entropy(SHARE_BYTES + 16)) % PRIME for _ in range(threshold - 1)]
    polynomial = [int.from_bytes(secret), *drawn]
    return [_value(polynomial, at).to_bytes(SHARE_BYTES) for at in range(1, holders + 1)]


def value_at(shares: Mapping[int, bytes], at: int) -> bytes:
    """Return the share at a place of the polynomial through all `shares`, by their places.

    At 0 it is the secret, with a leading zero byte (Lagrange's interpolation).

    Raises ValueError if a share is none of the field's.
    """
    values = {place: int.from_bytes(share) for place, share in shares.items()}
    if any(not value < PRIME for value in values.values()):
        raise ValueError("share: got a number beyond the field, expected one below 2**256 + 297")
    total = 0
    for place, value in values.items():
        above, below = 1, 1
        for other in values:
            if other != place:
                above = above * (at - other) % PRIME
                below = below * (place - other) % PRIME
        total += value * above * pow(below, -1, PRIME)
    return (total % PRIME).to_bytes(SHARE_BYTES)


def _value(polynomial: list[int], at: int) -> int:
    """Return a polynomial's value (Horner's rule)."""
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * at + coefficient) % PRIME
    return value
