"""FedAMP: numbers by hand, and when it is another method."""

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.testing.halves import HalfAlone
from fedsub.testing.one_number import BIAS, ONE, WEIGHT, Slope, filled, one_number, samples, weights
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedamp import FedAMPServer, cosine, gauss, shortened
from strategies.parts.last_models import CLIENTS, PAIRS
from strategies.parts.roster import Roster

TURN = Turn(1, 9, 0)


def server(robust: str = "none", **options: Any) -> HalfAlone:
    """Return a server half for a model of one number."""
    given = {f"fedamp.{key.replace('_', '-')}": value for key, value in options.items()}
    config = read_config(None, {"method": "fedamp", "beside": "", "robust": robust, **given})
    return HalfAlone(FedAMPServer(config.server_settings("fedamp")), ONE)


def sent(**values: float) -> dict[str, Bundle]:
    """Return uploads of models of one number, by client."""
    return {
        client: Bundle(
            i + 1,
            tensors={
                WEIGHT: Floats(np.full((1, 1), value, np.float32)),
                BIAS: Floats(np.zeros(1, np.float32)),
            },
        )
        for i, (client, value) in enumerate(values.items())
    }


def after(strategy: HalfAlone, **values: float) -> dict[str, Tensor]:
    """Return the server's state after uploads."""
    state: dict[str, Tensor] = strategy.half.aggregate(
        strategy.half.init(strategy.start()), strategy.round(TURN), sent(**values)
    )[0]
    return state


def means(strategy: HalfAlone, state: Mapping[str, Tensor], *clients: str) -> list[float]:
    """Return the one weight of what each client is sent."""
    found = strategy.half.downloads(dict(state), strategy.round(TURN), clients)
    return [bundle.floats(WEIGHT).item() for bundle in found]


def test_two_scalars_by_hand() -> None:
    """xi = 0.5 * exp(-1) = 0.18394: from 0 and 1 to 0.18394 and 0.81606."""
    strategy = server(similarity="gauss", alpha=0.5)
    state, rows = strategy.half.aggregate(
        strategy.half.init(strategy.start()), strategy.round(TURN), sent(anna=0.0, ben=1.0)
    )
    assert means(strategy, state, "anna", "ben") == pytest.approx([0.18394, 0.81606], abs=1e-5)
    assert [(row.client, row.metric) for row in rows] == [
        ("anna", "weight_of_others"),
        ("ben", "weight_of_others"),
    ]
    assert [row.value for row in rows] == pytest.approx([0.5 * math.exp(-1)] * 2)


def test_gauss_weights_follow_distances_and_never_exceed_one() -> None:
    x = torch.tensor([[0.0], [1.0], [3.0]])
    found = gauss(x, alpha=0.5, sigma=2.0)
    expected = [0.25 * math.exp(-0.5), 0.25 * math.exp(-4.5), 0.25 * math.exp(-2.0)]
    assert found[[0, 0, 1], [1, 2, 2]].tolist() == pytest.approx(expected)
    assert torch.equal(found, found.T) and not found.diagonal().any()
    # Each of the two others would weigh 3.
    assert gauss(torch.zeros(3, 1), alpha=3.0, sigma=1.0).tolist() == [
        [0.0, 0.5, 0.5],
        [0.5, 0.0, 0.5],
        [0.5, 0.5, 0.0],
    ]


def test_cosine_weights_by_hand() -> None:
    """Cosines 1 and 0 at sigma = ln 3: three quarters and a quarter of what one's own leaves."""
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 5.0]])
    found = cosine(x, sigma=math.log(3), own=0.2)
    assert found[0].tolist() == pytest.approx([0.0, 0.6, 0.2])
    assert found[2].tolist() == pytest.approx([0.4, 0.4, 0.0])
    assert cosine(x, 25.0, 0.0).sum(1).tolist() == pytest.approx([2 / 3] * 3)
    assert cosine(x[:1], 25.0, 0.0).tolist() == [[0.0]]


@pytest.mark.parametrize("similarity", ["cosine", "gauss"])
def test_equal_models_return_themselves(similarity: str) -> None:
    strategy = server(similarity=similarity)
    state = after(strategy, anna=0.1, ben=0.1, cleo=0.1)
    (exact,) = np.array([0.1], np.float32).tolist()
    assert means(strategy, state, "cleo", "anna", "ben") == [exact] * 3


@pytest.mark.parametrize("similarity", ["cosine", "gauss"])
def test_of_one_person_without_a_pull_it_is_local(similarity: str, run_method: RunMethod) -> None:
    alone = people(((0, 1, 2),))
    fedamp = run_method("fedamp", alone, hyper={"mu": 0.0, "similarity": similarity})
    assert_equal(fedamp.models()["p1"], run_method("local", alone).models()["p1"])


def test_without_weights_and_pull_it_is_local(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    hyper = {"mu": 0.0, "similarity": "gauss", "gauss_sigma": 1e-6}
    fedamp, local = run_method("fedamp", hyper=hyper), run_method("local")
    for client, model in local.models().items():
        assert_equal(fedamp.models()[client], model)
    assert set(fedamp.metric("weight_of_others").values()) == {0.0}
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1 and "fedamp" in warned[0] and "has become local" in warned[0]


def test_nothing_is_warned_of_where_others_weigh(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    run_method("fedamp", people(((0, 1, 2),)), hyper={"similarity": "gauss"})
    weighed = run_method("fedamp").metric("weight_of_others").values()
    assert list(weighed) == pytest.approx([3 / 4] * 12)
    assert not [r for r in caplog.records if r.levelno == logging.WARNING]


def test_with_plain_weights_it_is_fedavg_of_equal_people(run_method: RunMethod) -> None:
    """sigma 0, 1 / n each: the same models from everybody, up to the order of additions."""
    equal = Federation(people().card, {})
    for i in range(4):
        (data,) = people(((0, 1, 2),), seed=i).clients.values()
        equal.clients[f"p{i}"] = replace(data, client=f"p{i}")
    fedamp = run_method("fedamp", equal, hyper={"cosine_sigma": 0.0, "mu": 0.0})
    fedavg = run_method("fedavg", equal, hyper={"tested": "trained"}, robust="none")
    for round in range(3):
        for client, upload in fedavg.uploads[round].items():
            for name in upload.tensors:
                theirs, ours = upload.floats(name), fedamp.uploads[round][client].floats(name)
                np.testing.assert_allclose(ours, theirs, atol=2e-6)


def test_training_starts_at_the_mean_and_is_pulled_to_it() -> None:
    """mu * lr = 1: a step of slope 4 leaves the mean by lr * 4, and is undone by the next."""
    settings = TrainingSettings(epochs=2, lr=0.5, momentum=0.0)
    learner = one_number("fedamp", Slope(4.0), settings, mu=2.0)
    received = sent(server=3.0)["server"]
    state, (upload,), _ = learner.fit(filled(learner, 1, model=8.0), [received], samples(3), TURN)
    # 3 - 0.5 * 4 = 1, then 1 - 0.5 * (4 + 2 * (1 - 3)) = 1.
    assert weights(learner, state, "model") == [1.0] == [upload.floats(WEIGHT).item()]


def test_who_sent_nothing_starts_from_the_mean_of_all() -> None:
    strategy = server()
    start = ONE.init(1, strategy.half.settings.rounds.seed)[WEIGHT].item()
    assert means(strategy, strategy.half.init(strategy.start()), "anna", "ben") == [start] * 2
    state = after(strategy, anna=0.0, ben=1.0)
    assert means(strategy, state, "zoe", "anna", "yves") == [0.5, 0.5, 0.5]
    # And whoever is silent keeps its last model.
    state, _ = strategy.half.aggregate(state, strategy.round(TURN), sent(zoe=5.0))
    assert Roster.of(state[CLIENTS]).clients == ("anna", "ben", "zoe")
    assert state[f"model.{WEIGHT}"].flatten().tolist() == [0.0, 1.0, 5.0]


def test_a_forgotten_client_counts_for_nobody() -> None:
    strategy = server(similarity="gauss", alpha=0.5)
    state = strategy.half.without(after(strategy, anna=0.0, ben=1.0, cleo=-9.0), "ben")
    assert Roster.of(state[CLIENTS]).clients == ("anna", "cleo")
    assert state[PAIRS].shape == (2, 2) and state[f"model.{WEIGHT}"].flatten().tolist() == [0, -9]
    assert means(strategy, state, "anna", "cleo", "ben") == pytest.approx([0.0, -9.0, -4.5])
    state, _ = strategy.half.aggregate(state, strategy.round(TURN), sent(anna=0.0))
    assert means(strategy, state, "anna") == pytest.approx([0.0])
    left = strategy.half.without(strategy.half.without(state, "anna"), "cleo")
    assert means(strategy, left, "anna") == means(
        strategy, strategy.half.init(strategy.start()), "anna"
    )


def test_one_huge_model_pulls_nobody_far() -> None:
    """Of a median distance of 1, three count."""
    x = torch.tensor([[0.0], [1.0], [-1.0], [1000.0]])
    even = (1 - torch.eye(4, dtype=torch.float64)) / 4
    pulls = shortened(even, x)[0] * x[:, 0]
    assert pulls.tolist() == pytest.approx([0.0, 0.25, -0.25, 0.75])
    near, far = (shortened(even, torch.tensor([[0.0], [1.0], [-1.0], [d]])) for d in (3.0, 4.0))
    assert near[0].tolist() == [0.0, 0.25, 0.25, 0.25]
    assert far[0].tolist() == pytest.approx([0.0, 0.25, 0.25, 0.25 * 3 / 4])
    plain, clipped = server(cosine_sigma=0.0), server(cosine_sigma=0.0, robust="clip")
    values = {"anna": 0.0, "ben": 1.0, "cleo": -1.0, "mallory": 1000.0}
    assert means(plain, after(plain, **values), "anna") == [250.0]
    assert means(clipped, after(clipped, **values), "anna") == [pytest.approx(0.75)]


@pytest.mark.parametrize("robust", ["median", "clip,multi-krum"])
def test_filters_of_one_mean_for_all_are_refused(robust: str) -> None:
    name = robust.split(",")[-1]
    with refused(ConfigError, "robust", got=[f"'{name}'", "fedamp"], expected="clip"):
        server(robust=robust)
