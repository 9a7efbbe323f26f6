"""What one client's updates of all rounds may add up to: by hand, and in a federation of parabolas.

There a client's loss is half the squared distance from a place of its own, so that FedDyn's step is
solved exactly, and the place that all of them should find is the mean of theirs.
"""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.testing.halves import HalfAlone
from fedsub_core.config.robust import RobustSettings
from fedsub_core.models.kinds import mlp
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.models.exits import with_all_exits
from fedsub_papers.strategies.parts.all_rounds import MOVED, bounded
from strategies.rounds.server_half import State

EVIL, PEOPLE, ROUNDS, SHAPE = "p0", 10, 150, (4,)
OLD: State = {"w": torch.zeros(SHAPE)}


def moved_by(*each: float) -> dict[str, Bundle]:
    """Return an upload of each client, which moved all numbers by as much."""
    values = (np.full(SHAPE, one, np.float32) for one in each)
    return {f"p{i}": Bundle(1, tensors={"w": Floats(one)}) for i, one in enumerate(values)}


def lengths(state: State) -> list[float]:
    """Return by how much each client has moved each number."""
    return [float(way.norm()) / 2 for way in state.values()]


def test_whoever_goes_on_and_on_is_held_at_three_medians() -> None:
    """Others go 2, then 1 to and fro; it goes 1 in each round, no farther than they do."""
    state, counted, held = State(), [], []
    for round in range(41):
        other = 2.0 if round == 0 else 1.0 if round % 2 else -1.0
        uploads, ways = bounded(moved_by(1, *[other] * 4), OLD, state, RobustSettings())
        state |= ways
        counted.append(float(uploads[EVIL].floats("w")[0]))
        held.append(lengths(ways)[0])
    assert lengths(ways) == pytest.approx([6, 2, 2, 2, 2])
    assert sum(counted) == pytest.approx(6) and max(held) < 9


def test_who_is_not_bounded_keeps_the_very_same_upload() -> None:
    uploads = moved_by(1, 0.5, 2, -1, 2.5, *[1] * 5)
    found, ways = bounded(uploads, OLD, {}, RobustSettings())
    assert all(found[client] is upload for client, upload in uploads.items())
    assert lengths(ways) == [1, 0.5, 2, 1, 2.5, *[1] * 5]


@pytest.mark.parametrize("far", [[5.0], [5.0, 1.0]], ids=["alone", "of two"])
def test_of_fewer_than_three_nobody_is_the_odd_one(far: Sequence[float]) -> None:
    uploads = moved_by(*far)
    found, _ = bounded(uploads, OLD, {f"{MOVED}{EVIL}": torch.full(SHAPE, 90.0)}, RobustSettings())
    assert found[EVIL] is uploads[EVIL]


def test_of_whoever_is_forgotten_no_way_stays() -> None:
    strategy, state = depthfl(), {f"{MOVED}{c}": torch.ones(2) for c in ("p1", "p10")}
    assert strategy.half.without(state, "p1").keys() == {f"{MOVED}p10"}


def depthfl() -> HalfAlone:
    """Return the server half by its defaults."""
    clients = {f"p{i}": 1.0 for i in range(PEOPLE)}
    return HalfAlone.of("depthfl", with_all_exits(mlp(2, 3, (4, 4, 4))), clients)


def test_who_goes_one_way_in_every_round_leads_nobody_ever_farther() -> None:
    """Within each round's bounds, which never end where what people learn has noise.

    Without a bound over rounds everybody was 3.1 away in the end, and farther in each round.
    """
    strategy, stream = depthfl(), np.random.default_rng(7)
    alpha, clients = strategy.half.hyper.alpha, [f"p{i}" for i in range(PEOPLE)]
    shapes = strategy.model.parameter_shapes
    places = {c: {n: drawn(stream, s) for n, s in shapes.items()} for c in clients}
    own = {c: {n: torch.zeros(s) for n, s in shapes.items()} for c in clients}
    best = {n: torch.stack([places[c][n] for c in clients if c != EVIL]).mean(0) for n in shapes}
    state = {n: torch.zeros(s) for n, s in shapes.items()}
    state |= {f"drift/{n}": torch.zeros(s) for n, s in shapes.items()}
    for round in range(1, ROUNDS + 1):
        begun, uploads = strategy.half.globals_of(state, strategy.round()), dict[str, Bundle]()
        for c in clients:
            sent = {n: w + 100 for n, w in begun.items()}
            if c != EVIL:
                for n, w in begun.items():
                    place = places[c][n] + 0.5 * drawn(stream, shapes[n])
                    sent[n] = (place + own[c][n] + alpha * w) / (1 + alpha)
                    own[c][n] = own[c][n] - alpha * (sent[n] - w)
            uploads[c] = Bundle(1, tensors={n: Floats(t.numpy()) for n, t in sent.items()})
        state, _ = strategy.half.aggregate(state, strategy.round(Turn(round, ROUNDS, 0)), uploads)
    found = strategy.half.globals_of(state, strategy.round())
    assert rms([found[n] - best[n] for n in shapes]) < 0.6


def drawn(stream: np.random.Generator, shape: Sequence[int]) -> Tensor:
    """Return numbers of deviation 1."""
    return torch.from_numpy(stream.normal(size=shape).astype(np.float32))


def rms(tensors: Sequence[Tensor]) -> float:
    """Return the root mean square of all numbers."""
    return float(torch.cat([one.flatten() for one in tensors]).square().mean().sqrt())
