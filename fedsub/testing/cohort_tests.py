"""A device is a cohort of one: the same numbers alone and in a stack, for every method."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.cover import device, of
from fedsub_client.cohort import Cohort
from fedsub_client.cohort_messages import NOTHING
from fedsub_client.new_cohort import make_cohort
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.capacity import Capacity
from fedsub_core.config.run_config import read_config
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.standardise import moments, scaling
from fedsub_core.methods.table import METHODS
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats

CARD = Card("made", "test", ("a", "b", "c"), ("p", "q"))
SCALING = scaling(moments(np.random.default_rng(9).normal(3, 2, (50, 2)).astype(np.float32)))


def turn(round: int) -> Turn:
    """Return a round of a run of two."""
    return Turn(round, 2, 0)


def people(counts: Sequence[int] = (90, 40, 65), capacity: Sequence[float] = ()) -> Any:
    """Return split clients of so many samples."""
    rng = np.random.default_rng(1)
    made = []
    for i, n in enumerate(counts):
        y = rng.integers(0, 3, n)
        x = rng.normal(y[:, None] * (i + 1), 1, (n, 2)).astype(np.float32)
        share = Capacity(capacity[i] if capacity else 1.0)
        client = ClientData(f"c{i}", x, y)
        made.append(split_client(client, CARD, SplitSettings("stratified"), capacity=share))
    return made


def cohort(method: str, clients: Sequence[SplitClient], standardise: str = "federation") -> Cohort:
    """Return clients as a cohort before a method's first round."""
    given = {"method": method, "standardise": standardise, "fedsub.relevance": "naive"}
    agreed = {f"{method}.{need}": "true" for need in METHODS[method].needs}
    config = read_config(None, given | agreed)
    return make_cohort(config.device_settings(method), CARD, clients)


def assert_equal_uploads(one: Bundle, other: Bundle) -> None:
    """Check that two uploads are equal but for rounding."""
    assert (one.examples, one.version) == (other.examples, other.version)
    assert list(one.tensors) == list(other.tensors)
    for name, part in one.tensors.items():
        same = other.tensors[name]
        assert type(part) is type(same)
        if isinstance(part, Floats) and isinstance(same, Floats):
            assert part.at == same.at
        if isinstance(part, Bits):
            np.testing.assert_array_equal(part.values, same.values)
        else:
            np.testing.assert_allclose(part.values, same.values, atol=1e-6)


def from_a_neighbour(uploads: list[Bundle], of: Cohort) -> list[Bundle]:
    """Return for each client what another one sent, as far as a download may hold it."""
    turned = [*uploads[1:], uploads[0]]
    parts = [{n: t for n, t in u.tensors.items() if n in of.receives} for u in turned]
    return [Bundle(tensors=tensors) for tensors in parts]


class CohortTests:
    """Who else is in a stack changes nobody's numbers, nor does padding."""

    @of(device)
    def test_a_cohort_of_one_gives_the_numbers_of_the_stack(self, name: str) -> None:
        clients = people()
        stack, alone = cohort(name, clients), [cohort(name, [c]) for c in clients]
        received = [NOTHING] * 3
        for round in (1, 2):
            uploads, reports = stack.fit(turn(round), SCALING, range(3), received)
            for i, one in enumerate(alone):
                (upload,), (report,) = one.fit(turn(round), SCALING, [0], [received[i]])
                assert_equal_uploads(upload, uploads[i])
                assert report == pytest.approx(reports[i], abs=1e-6)
                for name, tensor in one.state.items():
                    torch.testing.assert_close(tensor[0], stack.state[name][i], atol=1e-6, rtol=0)
            received = from_a_neighbour(uploads, stack)
        state = stack.personalised(turn(2), SCALING, range(3), received)
        evaluation = stack.evaluate(turn(2), SCALING, range(3), state)
        for i, one in enumerate(alone):
            state = one.personalised(turn(2), SCALING, [0], [received[i]])
            own = one.evaluate(turn(2), SCALING, [0], state)
            assert own.loss[0] == pytest.approx(float(evaluation.loss[i]), abs=1e-6)
