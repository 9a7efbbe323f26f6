"""Which slots of rows a round asks for, and where numbers of no cluster stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from fedsub_core.methods.fedsub import FedSubHyperparameters
from fedsub_core.methods.fedsub_sums import ASKED, ASKED_UNITS, OPEN
from fedsub_core.models.kinds import mlp
from fedsub_core.secure.cluster_slots import Layout, one_class_each

ABLE = arrays.arrays(np.bool_, (3, 2, 5))


@given(able=ABLE, round=st.integers(1, 50))
def test_each_unit_is_asked_for_in_one_class_and_each_class_has_its_turn(
    able: NDArray[np.bool_], round: int
) -> None:
    found = [one_class_each(able, round + i) for i in range(3)]
    for asked in found:
        classes = np.logical_or.reduce(asked, axis=1)
        assert (classes.sum(0) == able.any((0, 1))).all()
        # All clusters of a class whose turn it is: they have nobody in common.
        assert (asked == able & classes[:, None]).all()
    lengths = able.any(1).sum(0)
    for unit, length in enumerate(lengths):
        got = sum(asked[..., unit].astype(int) for asked in found[:length])
        assert np.array_equal(got, able[..., unit].astype(int)) or not length


@pytest.mark.parametrize("beside", [{}, {"gate": (3,), "gate.curves": (2, 4)}])
def test_a_vector_is_joined_and_split(beside: dict[str, tuple[int, ...]]) -> None:
    model = mlp(4, 3, (8,))
    layout = Layout.of(model, FedSubHyperparameters(k_selection="fixed:2"), beside)
    stream = np.random.default_rng(1)
    names = {OPEN: (3, 2), ASKED: (3, 2)}
    names |= {layer.name + ASKED_UNITS: (6, layer.units) for layer in layout.layers}
    asked = {name: stream.random(shape) < 0.5 for name, shape in names.items()}
    parts = {n: stream.random(s).astype(np.float32) for n, s in layout.shapes.items()}
    for layer in layout.layers:
        wanted = asked[layer.name + ASKED_UNITS].reshape(3, 2, layer.units)
        parts |= {own.name: parts[own.name][wanted] for own in layer.rows}
    vector = layout.joined(parts, asked)
    assert len(vector) == layout.length(asked)
    found = layout.split(vector, asked)
    for name in beside:
        np.testing.assert_array_equal(found[name], parts[name])
    np.testing.assert_array_equal(found["people"], parts["people"] * asked[OPEN])
    for layer in layout.layers:
        wanted = asked[layer.name + ASKED_UNITS].reshape(3, 2, layer.units)
        for own in layer.rows:
            np.testing.assert_array_equal(found[own.name][wanted], parts[own.name])
            assert not found[own.name][~wanted].any()
