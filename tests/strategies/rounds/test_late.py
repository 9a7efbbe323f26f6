"""Late uploads: numbers by hand, and what is refused by name."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsub.testing.halves import HalfAlone
from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.models.kinds import mlp
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.rounds.late import Late, PastRounds, joined
from strategies.rounds.round import Round

PEOPLE = {"ann": 1.0, "ben": 1.0}


@pytest.fixture
def alone() -> HalfAlone:
    """FedAvg's half, of one linear layer."""
    return HalfAlone.of("fedavg", mlp(1, 2, ()), PEOPLE, {"robust": "none"})


def bundle(model: Model, value: float, examples: int = 0) -> Bundle:
    shapes = model.parameter_shapes.items()
    tensors = {name: Floats(np.full(shape, value, np.float32)) for name, shape in shapes}
    return Bundle(examples=examples, tensors=tensors)


def past_round(alone: HalfAlone, number: int, sent: float) -> Round:
    download = bundle(alone.model, sent)
    return alone.round(number, sent=dict.fromkeys(PEOPLE, download))


@pytest.mark.parametrize("age, weight", [(0, 1.0), (1, 2**-0.5), (3, 0.5), (8, 1 / 3)])
def test_a_weight_is_of_the_age(alone: HalfAlone, age: int, weight: float) -> None:
    late = Late(bundle(alone.model, 1.0, 10), past_round(alone, 1, 0.0), age)
    assert late.weight == pytest.approx(weight)


def test_a_mean_moves_by_what_the_late_learnt(alone: HalfAlone) -> None:
    """Sent 1, it came to 1.5; the state is 4 now: 4.5, by half of its 8 samples at age 3."""
    state = alone.half.init(alone.start())
    state = {name: 0 * tensor + 4.0 for name, tensor in state.items()}
    now = past_round(alone, 5, 4.0)
    late = Late(bundle(alone.model, 1.5, 8), past_round(alone, 2, 1.0), 3)
    usable = {"ann": bundle(alone.model, 6.0, 12)}
    round, uploads = joined(alone.half, state, now, usable, {"ben": late})
    assert list(uploads) == ["ann", "ben"] and uploads["ben"].examples == 4
    name = next(iter(alone.model.parameter_shapes))
    assert (uploads["ben"].floats(name) == 4.5).all()
    assert (round.sent["ben"].floats(name) == 4.0).all()
    after, _ = alone.half.aggregate(state, round, uploads)
    assert after[name].unique().tolist() == [(12 * 6.0 + 4 * 4.5) / 16]


def test_without_late_uploads_nothing_is_touched(alone: HalfAlone) -> None:
    now, usable = past_round(alone, 5, 4.0), {"ann": bundle(alone.model, 6.0, 12)}
    round, uploads = joined(alone.half, {}, now, usable, {})
    assert round is now and uploads == usable and uploads["ann"] is usable["ann"]


@pytest.mark.parametrize("method", ["fedsub", "fedsub-gated", "fedsub-ridge", "fedamp"])
def test_what_is_kept_of_people_takes_its_place_as_it_came(method: str) -> None:
    alone = HalfAlone.of(method, mlp(1, 2, (2,)), PEOPLE)
    upload = Bundle(examples=8)
    late = Late(upload, alone.round(2, sent={"ben": Bundle()}), 3)
    round, uploads = joined(alone.half, {}, alone.round(5), {}, {"ben": late})
    assert uploads["ben"] is upload and round.sent.keys() == {"ben"}


@pytest.mark.parametrize(
    "keys, got",
    [
        ({"known": {"ann"}}, "forgotten"),
        ({"usable": 2}, "twice"),
        ({"usable": 3}, "3"),
        ({"number": 1}, "undone"),
    ],
)
def test_what_cannot_count_is_refused_by_name(
    alone: HalfAlone, keys: dict[str, Any], got: str
) -> None:
    past, now = PastRounds(), past_round(alone, 4, 0.0)
    past.note(past_round(alone, 2, 0.0), {2: {"ben"}})
    given: dict[str, Any] = {
        "number": 2,
        "client": "ben",
        "now": now,
        "usable": 0,
        "known": PEOPLE,
    } | keys
    assert past.of(2, "ben", now, 0, PEOPLE).number == 2
    with refused(MessageRefused, what="late upload", client="ben", got=got):
        past.of(**given)
    with refused(MessageRefused, what="late upload", client="ann", got="undone"):
        past.of(2, "ann", now, 0, PEOPLE)  # it was in time


def test_a_model_of_another_shape_is_refused_by_name() -> None:
    whole, half = {"ann": 1.0, "ben": 1.0}, {"ann": 1.0, "ben": 0.5}
    alone = HalfAlone.of("heterofl", mlp(1, 2, (4,)), whole)
    past = PastRounds()
    past.note(alone.round(2, sent={"ben": Bundle()}), {2: {"ben"}})
    weaker = replace(alone, capacities=half).round(4)
    with refused(MessageRefused, what="late upload", client="ben", round=2):
        past.of(2, "ben", weaker, 0, PEOPLE)


def test_only_rounds_with_somebody_awaited_are_kept(alone: HalfAlone) -> None:
    past = PastRounds()
    for number, awaited in ((1, {1: {"ben"}}), (2, {1: {"ben"}, 2: {"ann"}}), (3, {2: {"ann"}})):
        past.note(past_round(alone, number, 0.0), awaited)
    assert {n: set(one.sent) for n, one in past._rounds.items()} == {2: {"ann"}}


@pytest.mark.parametrize(
    "keys",
    [
        {"late-hours": 2, "secure-aggregation": True, "method": "fedavg", "robust": "none"}
        | {"beside": "", "standardise": "client"},
        {"late-hours": 2, "upload-encoding": "int8,delta"},
        {"asynchronous": True, "clients-per-round": 5},
        {"asynchronous": True, "late-hours": 2},
        {"ask": 1.3},
        {"draw": "attendance"},
    ],
)
def test_ways_that_exclude_each_other_are_refused(keys: dict[str, Any]) -> None:
    (first, *_) = (key for key in ("asynchronous", "late-hours", "ask", "draw") if key in keys)
    with refused(ConfigError, first):
        read_config(None, keys)
