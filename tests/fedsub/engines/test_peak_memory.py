"""The most memory that a process held."""

import sys

import pytest

from fedsub.engines.peak_memory import forget_peak, peak_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and forgets")
def test_the_peak_is_what_was_held_since_it_was_forgotten() -> None:
    held = bytearray(b"1") * 300_000_000
    before = peak_bytes()
    del held
    forget_peak()
    after = peak_bytes()
    assert before is not None and after is not None
    assert before - after > 200_000_000
