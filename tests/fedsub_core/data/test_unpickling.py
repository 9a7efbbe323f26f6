"""Pickles of others: arrays of numbers come out of them, and nothing else happens."""

import io
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.data.unpickling import ArraysOnly

ROOT = Path(__file__).resolve().parents[3]
#: What is no more than values, however many they are.
HARMLESS = {
    "an index of 2^32",
    "an index of 2^31",
    "lists in lists",
    "lists of lists twice",
    "a subject of itself",
    "a subject of a million letters",
}


def load(raw: bytes) -> Any:
    return ArraysOnly(io.BytesIO(raw), encoding="latin1").load()


def hostile(changed: int, seed: int) -> dict[str, Any]:
    """Read all hostile pickles in a process of its own, which must come to its end."""
    script = Path(__file__).with_name("read_hostile.py")
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", script, str(changed), str(seed)],
        capture_output=True,
        text=True,
        timeout=500,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("code", ["<f4", ">f8", "<i4", ">i2", "|u1", "|b1", "<f2", "<u8"])
@pytest.mark.parametrize("protocol", range(5))
def test_arrays_of_numbers_come_as_they_were(code: str, protocol: int) -> None:
    draw = np.random.default_rng(protocol)
    for one in (draw.integers(0, 2, (2, 3, 4)), draw.integers(0, 2, (4, 3)).T, np.array(1)):
        array = one.astype(code)
        found = load(pickle.dumps({"a": [array]}, protocol))["a"][0]
        # As numpy reads its own: in this machine's order of bytes.
        assert type(found) is np.ndarray and found.dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found, array)


def test_plain_values_come_as_they_were() -> None:
    values: dict[str, Any] = {
        "a": [1, -(2**40), 2.5, None, True, "ü", b"x", (), (1,), {"b": []}],
        "c": (1, 2, 3, 4),
    }
    for protocol in range(3, 5):  # earlier ones call a function for b"x"
        assert load(pickle.dumps(values, protocol)) == values


def test_two_hundred_crafted_pickles_do_nothing() -> None:
    found = hostile(changed=200, seed=1)
    outcomes = found["crafted"]
    assert len(outcomes) > 200
    assert {name for name, outcome in outcomes.items() if outcome == "read"} == HARMLESS
    assert set(found["prepared"].values()) == {"refused"}
    assert 0 < found["changed"].count("read") < 200


@pytest.mark.slow
@pytest.mark.release
def test_thousands_of_changed_pickles_do_nothing() -> None:
    found = hostile(changed=20_000, seed=2)["changed"]
    assert len(found) == 20_000 and 0 < found.count("read") < 20_000
