"""FedFomo: numbers by hand, when it is local training, what it shows and whom it asks."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.testing.halves import HalfAlone, next_from, next_round
from fedsub.testing.hostile_tests import SIX, infect
from fedsub.testing.one_number import BIAS, ONE, WEIGHT
from fedsub.testing.runs import RunMethod, people
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_client.methods.fedfomo import FedFomoLearner, gain, share
from fedsub_client.parts.validation import held_back
from fedsub_core.config.run_config import read_config
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.methods.fedfomo import CARD, GAINS, peer
from fedsub_core.models.kinds import mlp
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, decode_upload, encode_upload
from fedsub_core.wire.envelope import Envelope
from strategies.methods.fedfomo import FedFomoServer
from strategies.parts.last_models import PAIRS

MODEL = mlp(4, 3)
TURN = Turn(1, 9, 0)


def test_gains_and_shares_by_hand() -> None:
    """Base loss 1.0; own 1.2; peers 0.5 at distance 1 and 0.8 at distance 0.2."""
    losses = torch.tensor([[1.0, 1.2, 0.5, 0.8]], dtype=torch.float64)
    distances = torch.tensor([[0.0, 0.4, 1.0, 0.2]], dtype=torch.float64)
    gains = gain(losses, distances)
    assert gains[0].tolist() == pytest.approx([0.0, -0.5, 0.5, 1.0])
    assert share(gains)[0].tolist() == pytest.approx([0.0, 0.0, 1 / 3, 2 / 3])


def test_where_nothing_gains_the_model_before_returns() -> None:
    gains = torch.tensor([[0.0, -0.1, 0.0], [0.0, 0.2, -5.0], [0.0, 0.0, 0.0]])
    assert share(gains).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]


def test_no_distance_and_no_number_gain_nothing() -> None:
    losses = torch.tensor([[1.0, 0.5, math.nan, math.inf, 0.5], [math.nan, 0.5, 0.5, 0.5, 0.5]])
    distances = torch.tensor([[0.0, 1e-13, 1.0, 1.0, math.nan], [0.0, 1.0, 1.0, 1.0, 1.0]])
    assert gain(losses, distances).tolist() == [[0.0] * 5, [0.0] * 5]


def test_whom_a_huge_model_harms_says_so_within_bounds(run_method: RunMethod) -> None:
    """A peer's model whose loss is beyond what the wire takes would get its receivers refused."""

    def huge(upload: Bundle, received: Bundle) -> Bundle:
        tensors = dict(upload.tensors)
        for name, part in upload.tensors.items():
            if name != GAINS and isinstance(part, Floats):
                values = np.clip(1e5 * part.values, -9e5, 9e5).astype(np.float32)
                tensors[name] = replace(part, values=values)
        return replace(upload, tensors=tensors)

    run = run_method("fedfomo", SIX, prepare=infect(huge), rounds=4)
    assert run.strategy.finished_rounds == 4
    assert not any(run.metric("refused_replies").values())
    assert run.states[-1][PAIRS].min() < -1000


# The device.


def learner(lr: float = 0.05, **hyper: Any) -> FedFomoLearner:
    own = replace(CARD.agreed(), **hyper)
    settings = TrainingSettings(lr=lr, batch_size=8)
    return FedFomoLearner(MODEL, settings, own, CARD.sends(MODEL, own))


def stacked(clients: int = 3, samples: int = 30) -> Stack:
    """Return the samples of some people."""
    own = list(people(((0, 1, 2),) * clients, samples=samples).clients.values())
    return stack([c.client for c in own], [c.x for c in own], [c.y for c in own])


def bundle(*models: Mapping[str, Tensor]) -> Bundle:
    """Return a download of the first client's rows of some models."""
    return Bundle(
        tensors={
            peer(k, name): Floats(tensor[0].numpy())
            for k, model in enumerate(models)
            for name, tensor in model.items()
        }
    )


def one(params: Mapping[str, Tensor], i: int = 0) -> dict[str, Tensor]:
    """Return a stack of the i-th client alone."""
    return {name: tensor[i : i + 1] for name, tensor in params.items()}


def test_alone_it_is_local_training_while_validation_loss_falls() -> None:
    """On what is not held back, bit for bit."""
    ours, data = learner(lr=0.005), stacked()
    train, judged = held_back(data, 0.2)
    theirs = FedAvgLearner(MODEL, ours.settings, ReceivedHyperparameters(), {})
    state, local = ours.init(3, 0), theirs.init(3, 0)
    for round in range(1, 5):
        turn = Turn(round, 9, 0)
        before = ours._loss(ours.get(state, "before"), judged)
        assert round == 1 or (ours._loss(ours.get(state, "model"), judged) < before).all()
        state, _, reports = ours.fit(state, [Bundle()] * 3, data, turn)
        local, _, _ = theirs.fit(local, [Bundle()] * 3, train, turn)
        for name, tensor in theirs.get(local, "model").items():
            assert torch.equal(ours.get(state, "model")[name], tensor)
        assert [report["weight_of_others"] for report in reports] == [0.0] * 3


def test_alone_and_where_training_harmed_the_model_before_returns() -> None:
    tested, data = learner(tested="received"), stacked()
    state, _, _ = learner(lr=20.0).fit(tested.init(3, 0), [Bundle()] * 3, data, TURN)
    mixed = tested.personalise(state, [Bundle()] * 3, data, TURN)
    for name, tensor in tested.get(state, "before").items():
        assert torch.equal(tested.get(mixed, "model")[name], tensor)
        assert not torch.equal(tested.get(state, "model")[name], tensor)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_model_that_diverged_counts_for_nothing(value: float) -> None:
    tested, data = learner(tested="received"), stacked()
    state = tested.init(3, 0)
    broken = {name: torch.full_like(t, value) for name, t in tested.get(state, "model").items()}
    state |= tested.put(broken, "model")
    mixed = tested.personal(tested.personalise(state, [Bundle()] * 3, data, TURN))
    for name, tensor in tested.get(state, "before").items():
        assert torch.equal(mixed[name], tensor)


def test_the_mix_is_what_the_formula_says() -> None:
    """Against a loop over clients and candidates; the second client was sent one peer, not two."""
    ours, data = learner(peer_models=3), stacked()
    _, judged = held_back(data, 0.2)
    start = ours.init(3, 0)
    state, _, _ = ours.fit(start, [Bundle()] * 3, data, TURN)
    peers = [
        ours.get(ours.fit(start, [Bundle()] * 3, data, Turn(r, 9, 0))[0], "model") for r in (2, 3)
    ]
    noise = {
        n: t + torch.randn(t.shape, generator=torch.Generator().manual_seed(1))
        for n, t in peers[0].items()
    }
    received = [bundle(one(peers[0]), noise), bundle(one(peers[1])), Bundle()]
    mixed, gains, others = ours.mixed(state, received, judged)
    before, trained = ours.get(state, "before"), ours.get(state, "model")
    sent = [[one(peers[0]), one(noise)], [one(peers[1])], []]
    for i, theirs in enumerate(sent):
        base, valid = one(before, i), int(judged.counts[i])
        x, y = judged.x[i : i + 1, :valid], judged.y[i, :valid]
        found = []
        for candidate in [one(trained, i), *theirs]:
            loss, old = (
                torch.nn.functional.cross_entropy(MODEL.forward(p, x)[0], y).item()
                for p in (candidate, base)
            )
            away = math.sqrt(sum(float(((candidate[n] - base[n]) ** 2).sum()) for n in base))
            found.append((old - loss) / away)
        assert gains[i].tolist() == pytest.approx(found[1:] + [0.0] * (4 - len(found)), abs=1e-5)
        kept = [max(r, 0.0) for r in found]
        total = sum(kept)
        for name in base:
            mean = sum(
                r / total * m[name] for r, m in zip(kept, [one(trained, i), *theirs], strict=True)
            )
            torch.testing.assert_close(mixed[name][i : i + 1], mean, atol=1e-5, rtol=0)
        assert others[i].item() == pytest.approx(sum(kept[1:]) / total)
    assert gains[0, 0] > 0 > gains[0, 1], "one that helps and one that harms"


def test_it_trains_on_the_mix_and_remembers_it() -> None:
    ours, data = learner(), stacked()
    better = ours.get(ours.fit(ours.init(3, 0), [Bundle()] * 3, data, Turn(7, 9, 0))[0], "model")
    received = [bundle(one(better, i)) for i in range(3)]
    _, judged = held_back(data, 0.2)
    start = ours.init(3, 0)
    mixed, gains, _ = ours.mixed(start, received, judged)
    state, uploads, reports = ours.fit(start, received, data, TURN)
    for name, tensor in ours.get(state, "before").items():
        assert torch.equal(tensor, mixed[name])
        np.testing.assert_array_equal(uploads[1].floats(name), ours.get(state, "model")[name][1])
    assert [upload.examples for upload in uploads] == list(data.counts), "all samples, not 80 %"
    assert torch.equal(torch.tensor(np.stack([u.floats(GAINS) for u in uploads])), gains)
    assert (gains[:, 0] > 0).all() and not gains[:, 1:].any()
    assert [report["weight_of_others"] for report in reports] == [1.0] * 3


# The server.


def server(**hyper: Any) -> HalfAlone:
    """Return a server half for models of one number."""
    given = {f"fedfomo.{key.replace('_', '-')}": value for key, value in hyper.items()}
    keys: dict[str, Any] = {"method": "fedfomo", "beside": "", "fedfomo.peers": True}
    config = read_config(None, keys | given)
    return HalfAlone(FedFomoServer(config.server_settings("fedfomo")), ONE)


def upload(value: float, *gains: float, models: int = 5) -> Bundle:
    """Return an upload of a model of one number, and gains."""
    return Bundle(
        1,
        tensors={
            WEIGHT: Floats(np.full((1, 1), value, np.float32)),
            BIAS: Floats(np.zeros(1, np.float32)),
            GAINS: Floats(np.array([*gains, *[0.0] * (models - len(gains))], np.float32)),
        },
    )


CLIENTS = ("anna", "ben", "cleo", "dora")


def known(strategy: HalfAlone, models: int = 5) -> dict[str, Tensor]:
    """Return the state after a first round of four clients: 0, 1, 2, 3."""
    sent = {c: upload(i, models=models) for i, c in enumerate(CLIENTS)}
    state: dict[str, Tensor] = strategy.half.aggregate(
        strategy.half.init(strategy.start()), strategy.round(TURN), sent
    )[0]
    return state


def sent(found: Bundle) -> list[float]:
    """Return the peers' one weight in a download, in their order."""
    count = len(found.tensors) // 2
    return [found.floats(peer(k, WEIGHT)).item() for k in range(count)]


def test_nobody_is_sent_its_own_model_or_one_twice() -> None:
    strategy = server()
    assert (
        strategy.half.downloads(
            strategy.half.init(strategy.start()), strategy.round(TURN), CLIENTS
        )[0].tensors
        == {}
    )
    state = known(strategy)
    for round in range(2, 9):
        found = strategy.half.downloads(state, strategy.round(Turn(round, 9, 0)), [*CLIENTS, "new"])
        for own, download in enumerate(found):
            assert sorted(sent(download)) == [v for v in (0.0, 1.0, 2.0, 3.0) if v != own]


def test_gains_are_added_up_and_the_best_are_sent() -> None:
    strategy = server(peer_models=2, explore=0.0)
    state = known(strategy, models=2)
    turn = Turn(2, 9, 0)
    first = strategy.half.peers(state, "anna", turn)
    state, _ = strategy.half.aggregate(
        state, strategy.round(turn), {"anna": upload(0.0, 0.5, -0.25, models=2)}
    )
    gained = dict(zip(CLIENTS, state[PAIRS][0].tolist(), strict=True))
    (left,) = set(CLIENTS) - {"anna", *first}
    assert gained == {"anna": 0.0, first[0]: 0.5, first[1]: -0.25, left: 0.0}
    assert not state[PAIRS][1:].any()
    # The best stays, and one not tried yet is better than one that harmed.
    assert strategy.half.peers(state, "anna", Turn(3, 9, 0)) == [first[0], left]
    state, _ = strategy.half.aggregate(
        state, strategy.round(Turn(3, 9, 0)), {"anna": upload(0.0, -2.0, 0.5, models=2)}
    )
    assert strategy.half.peers(state, "anna", Turn(4, 9, 0)) == [left, first[1]]


@pytest.mark.parametrize("seed", range(5))
def test_gains_are_of_those_who_were_sent_though_others_joined_since(seed: int) -> None:
    strategy = server(peer_models=1)
    state, turn = known(strategy, models=1), Turn(2, 9, seed)
    (other,) = strategy.half.peers(state, "ben", turn)
    uploads = {"aaron": upload(9.0, models=1), "ben": upload(1.0, 0.5, models=1)}
    state, _ = strategy.half.aggregate(state, strategy.round(turn), uploads)
    assert strategy.half.roster(state).clients == ("aaron", *CLIENTS)
    gained = dict(zip(strategy.half.roster(state).clients, state[PAIRS][2].tolist(), strict=True))
    assert {client: r for client, r in gained.items() if r} == {other: 0.5}


def test_people_who_are_equal_are_drawn_and_exploring_falls() -> None:
    strategy = server(peer_models=1, explore=0.6, explore_fall=0.1)
    state = known(strategy, models=1)
    equal = {strategy.half.peers(state, "anna", Turn(r, 99, 0))[0] for r in range(1, 40)}
    assert equal == {"ben", "cleo", "dora"}, "all are equal at first"
    state[PAIRS][0] = torch.tensor([0.0, 9.0, 0.0, 0.0])
    # Round 3: a chance of 0.4, of which a third draws ben all the same.
    turns = [Turn(3, 9, seed) for seed in range(600)]
    others = sum(strategy.half.peers(state, "anna", turn) != ["ben"] for turn in turns)
    assert others / 600 == pytest.approx(0.4 * 2 / 3, abs=0.06)
    once = server(peer_models=1, explore=1.0, explore_fall=1.0)
    drawn = [once.half.peers(state, "anna", Turn(1, 9, seed))[0] for seed in range(60)]
    assert set(drawn) == {"ben", "cleo", "dora"}, "the first round has the whole chance"
    assert {once.half.peers(state, "anna", Turn(2, 9, seed))[0] for seed in range(60)} == {"ben"}
    late = [strategy.half.peers(state, "anna", Turn(round, 99, 0)) for round in range(7, 99)]
    assert late == [["ben"]] * 92
    again = server(peer_models=1, explore=0.6, explore_fall=0.1)
    assert [again.half.peers(state, "anna", t) for t in turns] == [
        strategy.half.peers(state, "anna", t) for t in turns
    ]


def test_a_forgotten_client_is_no_peer_and_in_no_sum() -> None:
    strategy = server()
    state = known(strategy)
    state[PAIRS] = torch.arange(16, dtype=torch.float64).view(4, 4)
    state = strategy.half.without(state, "ben")
    assert state[PAIRS].tolist() == [[0, 2, 3], [8, 10, 11], [12, 14, 15]]
    (download,) = strategy.half.downloads(state, strategy.round(Turn(3, 9, 0)), ["anna"])
    assert sorted(sent(download)) == [2.0, 3.0]
    # Whoever vanishes and is not forgotten goes on serving its last model.
    state, _ = strategy.half.aggregate(state, strategy.round(Turn(3, 9, 0)), {"anna": upload(0.0)})
    assert sorted(
        sent(strategy.half.downloads(state, strategy.round(Turn(4, 9, 0)), ["anna"])[0])
    ) == [2.0, 3.0]


def test_gains_of_peers_that_were_not_sent_are_refused() -> None:
    strategy = server()
    state = known(strategy)
    strategy.finished_rounds = 1
    strategy.half.check(
        state, next_round(strategy), next_from(strategy, "anna"), upload(0.0, 0.1, -0.2, 0.3)
    )
    with pytest.raises(MessageRefused) as refused:
        strategy.half.check(
            state,
            next_round(strategy),
            next_from(strategy, "anna"),
            upload(0.0, 0.1, -0.2, 0.3, 0.4),
        )
    words = str(refused.value)
    assert "anna" in words and "round 2" in words and "gains" in words
    assert "0.4" in words and "the 3 peers whose models were sent" in words
    with pytest.raises(MessageRefused, match="0 but for the 0 peers"):
        strategy.half.check(
            strategy.half.init(strategy.start()),
            next_round(strategy),
            next_from(strategy, "anna"),
            upload(0.0, 0.1),
        )


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e30])
def test_gains_that_are_no_numbers_are_refused(value: float) -> None:
    declared = CARD.sends(ONE, CARD.agreed())
    message = encode_upload(upload(0.0, value), Address("anna", 3), declared)
    with pytest.raises(MessageRefused) as refused:
        decode_upload(message, Envelope("anna", 3, declared))
    assert all(word in str(refused.value) for word in ("anna", "round 3", "gains", "finite"))


# What it shows of people.


def test_without_consent_it_is_refused() -> None:
    keys = {"method": "fedfomo", "beside": ""}
    with pytest.raises(ConfigError) as refused:
        read_config(None, keys)
    words = str(refused.value)
    assert "needs people's consent" in words and "Other people's devices receive" in words
    assert "Set fedfomo.peers = true" in words
    with pytest.raises(ConfigError, match="consent"):
        read_config(None, {"method": "local", "beside": "fedfomo"})
    read_config(None, keys | {"fedfomo.peers": "true"})


def test_what_a_device_receives_is_what_others_sent(run_method: RunMethod) -> None:
    """And what they gained from it is credited to those who sent it."""
    run = run_method("fedfomo", rounds=3)
    strategy, clients = run.strategy, sorted(people().clients)
    assert isinstance(strategy.half, FedFomoServer)
    total = torch.zeros(4, 4, dtype=torch.float64)
    for round in (2, 3):
        turn, before = strategy.turn(round), run.states[round - 2]
        found = strategy.half.downloads(before, strategy.round(round), clients)
        for row, (client, download) in enumerate(zip(clients, found, strict=True)):
            peers = strategy.half.peers(before, client, turn)
            assert sorted(peers) == [other for other in clients if other != client]
            gains = run.uploads[round - 1][client].floats(GAINS)
            assert gains[:3].all() and not gains[3:].any()
            for k, other in enumerate(peers):
                theirs = run.uploads[round - 2][other]
                for name in strategy.model.parameter_shapes:
                    np.testing.assert_array_equal(
                        download.floats(peer(k, name)), theirs.floats(name)
                    )
                total[row, clients.index(other)] += gains[k]
    assert torch.equal(run.states[-1][PAIRS], total)
    shares = run.metric("weight_of_others")
    assert {shares[1, client] for client in clients} == {0.0}, "in round 1 there are no peers"
    assert all(0 <= share <= 1 for share in shares.values()) and any(shares.values())


def test_the_bytes_down_are_those_of_the_peers(run_method: RunMethod) -> None:
    run = run_method("fedfomo", rounds=2, hyper={"peer_models": 2})
    full = run.strategy.model.full_bytes
    down = run.metric("bytes_down_sent")
    assert all(down[1, client] < 0.1 * full for client in people().clients)
    assert all(down[2, client] == pytest.approx(2 * full, rel=0.1) for client in people().clients)
    assert all(
        re.fullmatch(r"peer[01]\..*", name)
        for name in run.strategy.models.receives(run.strategy.model)
    )
