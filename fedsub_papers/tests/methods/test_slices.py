"""Sub-models that say which units they have: numbers by hand, traps, and what must not differ."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from math import log, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.halves import HalfAlone
from fedsub.testing.runs import RunMethod, assert_equal, assert_near_states, people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.methods.table import METHODS
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.layers import Linear, ReLU
from fedsub_core.models.model import Model
from fedsub_core.training import CE, TrainingSettings, Turn
from fedsub_core.training.batches import Batch
from fedsub_core.training.objectives import Forward
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.methods.flexfl import Taught
from fedsub_papers.client.parts.activity import activity
from fedsub_papers.methods.flexfl import APOZ, FlexFLHyperparameters, share_of
from fedsub_papers.models.pools import (
    largest_fitting,
    numbers,
    numbers_at,
    pool_of,
    room_for,
    sparse_widths,
    width_scores,
    widths_for,
    with_counts,
)
from fedsub_papers.strategies.methods.adaptivefl import draw, learnt, rewards
from fedsub_papers.strategies.methods.flado import keep, multiplications_at, of_units
from strategies.parts.coverage import multiplications
from strategies.rounds.context import Sender

SLICES = ("adaptivefl", "feddse", "flado", "flexfl")
SHARES = "p2=0.5,p3=0.25"
POOL, STARTS = (0.4, 0.66), (1, 2, 3)
SEVEN = pool_of(cnn1d(9, 128, 6), POOL, STARTS)


def server(
    name: str, model: Chain, weak: Mapping[str, float], robust: str = "clip", **hyper: Any
) -> HalfAlone:
    """Return a server half that knows its model, and weak clients, who all take part."""
    return HalfAlone.of(name, model, weak, {"robust": robust}, **hyper)


def start(model: Model) -> dict[str, torch.Tensor]:
    return {name: tensor[0] for name, tensor in model.init(1, 0).items()}


def uploaded(bundle: Bundle, move: float, samples: int = 10) -> Bundle:
    """Return what a client sends that moved all numbers it was sent by as much."""
    moved = {
        n: replace(p, values=p.values + np.float32(move)) if isinstance(p, Floats) else p
        for n, p in bundle.tensors.items()
    }
    return Bundle(samples, tensors=moved)


def test_adaptivefls_pool_has_seven_models_of_three_kinds_without_likes() -> None:
    assert [level.kind for level in SEVEN] == [0, 0, 0, 1, 1, 1, 2]
    assert SEVEN[0].share == pytest.approx(0.181, abs=1e-3) and SEVEN[-1].share == 1
    mlps = pool_of(mlp(3, 6), POOL, STARTS)
    assert [level.kind for level in mlps] == [0, 0, 1, 1, 2], "from its third layer on is whole"
    assert mlps[0].share == pytest.approx(0.177, abs=1e-3)
    assert mlps[1].counts == {"linear1": 128, "linear2": 205}


def test_where_nothing_fits_the_smallest_is_handed_out() -> None:
    """A quarter of the units may be a sixteenth of the numbers: the smallest model has a fifth."""
    assert largest_fitting(SEVEN, 0.25) == 0 and SEVEN[0].share > 0.25**2
    assert largest_fitting(SEVEN, 0.5) == 0 and SEVEN[1].share > 0.25 > SEVEN[0].share
    assert largest_fitting(SEVEN, 1.0) == 6 and largest_fitting(SEVEN, 1.0, most=3) == 3
    # A small model that is narrow from the last layer on alone is larger than a medium one.
    assert SEVEN[2].share > SEVEN[3].share
    whole, hyper = cnn1d(9, 128, 6), METHODS["adaptivefl"].hyperparameters()
    for capacity in (0.25, 0.5, 0.75):
        room = {g.name: g.size for g in room_for(whole, hyper, capacity).unit_groups}
        for most in range(7):
            own = SEVEN[largest_fitting(SEVEN, capacity, most)].counts
            assert all(own[name] <= size for name, size in room.items())


def test_adaptivefls_reward_of_a_fresh_client_and_after_a_whole_model() -> None:
    fresh = torch.ones(10)
    assert rewards(fresh[None], SEVEN)[0].tolist() == pytest.approx([0.5, 3 / 7, 1 / 7])
    table = learnt(fresh, SEVEN, sent=6, trained=6)
    assert table[6] == 5 and table[9] == 3
    assert float(rewards(table[None], SEVEN)[0, 2]) == pytest.approx(0.4545 / 3**0.5, abs=1e-4)


def test_what_adaptivefl_learns_of_a_client_that_was_cut() -> None:
    table = learnt(torch.ones(10), SEVEN, sent=5, trained=3)
    assert table.tolist() == [1, 1, 1, 4, 0, 0, 0, 1, 3, 1], "less 1, 2 and 3, but not below 0"
    accepted = learnt(torch.ones(10), SEVEN, sent=2, trained=2)
    assert accepted.tolist() == [1, 1, 2, 2, 2, 2, 2, 3, 1, 1]


def test_adaptivefl_draws_whoever_can_train_a_model_more_often() -> None:
    able, unable = torch.ones(10), torch.tensor([9.0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
    tables, large = {"a": able, "b": unable}, []
    for seed in range(300):
        stream = torch.Generator().manual_seed(seed)
        drawn = draw(tables, SEVEN, 2, stream)
        assert sorted(drawn) == ["a", "b"], "nobody is drawn twice"
        ((client, model),) = draw(tables, SEVEN, 1, torch.Generator().manual_seed(seed)).items()
        large += [client] if model > 2 else []
    assert set(large) == {"a"}
    # Where nobody who is left ever trained such a model, somebody gets it all the same.
    assert list(draw({"b": unable}, SEVEN, 1, torch.Generator().manual_seed(1))) == ["b"]


def test_adaptivefl_sends_what_a_device_can_hold_and_learns_from_what_was_drawn() -> None:
    strategy = server("adaptivefl", cnn1d(9, 128, 6), {"a": 1.0, "b": 0.5})
    state, turn = start(strategy.model), Turn(1, 9, 3)
    drawn = strategy.half.drawn(state, strategy.round(turn))
    clients = strategy.half.participants(state, strategy.round(turn))
    assert clients == sorted(drawn) == ["a", "b"]
    sent = strategy.half.downloads(state, strategy.round(turn), clients)
    sizes = [sum(p.values.size for p in b.tensors.values() if isinstance(p, Floats)) for b in sent]
    full = numbers(strategy.model)
    assert sizes == [round(SEVEN[drawn["a"]].share * full), round(SEVEN[0].share * full)]
    uploads = {c: uploaded(b, 0.1) for c, b in zip(clients, sent, strict=True)}
    after, rows = strategy.half.aggregate(state, strategy.round(turn), uploads)
    expected = learnt(torch.ones(10), SEVEN, drawn["b"], 0)
    assert torch.equal(after["table/b"], expected)
    assert {row.client: row.value for row in rows if row.metric == "pool_model"}["b"] == 1
    assert "table/b" not in strategy.half.without(after, "b")


def test_adaptivefl_says_whose_model_is_over_its_budget() -> None:
    strategy = server("adaptivefl", mlp(3, 6), {"a": 1.0, "b": 0.25})
    state, turn = start(strategy.model), Turn(1, 9, 0)
    sent = strategy.half.downloads(state, strategy.round(turn), ["a", "b"])
    uploads = {c: uploaded(b, 0.0) for c, b in zip("ab", sent, strict=True)}
    rows = strategy.half.aggregate(state, strategy.round(turn), uploads)[1]
    over = {row.client: row.value for row in rows if row.metric == "over_budget"}
    assert over == {"b": pytest.approx(0.177 * 16, abs=0.02)}


def test_other_units_than_were_sent_are_refused() -> None:
    strategy = server("adaptivefl", mlp(3, 6), {"b": 0.25})
    state, turn = start(strategy.model), Turn(1, 9, 0)
    sent = strategy.half.downloads(state, strategy.round(turn), ["b"])[0]
    strategy.sent = {"b": sent}
    strategy.half.check(state, strategy.round(turn), Sender("b", turn), uploaded(sent, 0.1))
    part = sent.part("linear1.bias")
    fewer = Floats.rows(part.at.held((52,)) & (np.arange(52) > 0), part.values[1:])
    other = Bundle(1, tensors={**sent.tensors, "linear1.bias": fewer})
    with pytest.raises(MessageRefused, match=r"client 'b', round 1: units of \['linear1.bias'\]"):
        strategy.half.check(state, strategy.round(turn), Sender("b", turn), other)


def test_flexfls_widths_follow_zeros_and_sizes() -> None:
    scores = width_scores((0.5, 0.5, 0.75), (10, 100, 1000))
    assert scores == pytest.approx([0.8333, 0.6667, 0.25], abs=1e-4)
    assert sparse_widths(scores, 1.2) == pytest.approx([1.0, 0.8, 0.3])
    assert sparse_widths(scores, 0.001) == [0.01] * 3


@pytest.mark.parametrize("share", [1 / 64, 1 / 16, 0.25, 0.4, 0.5, 0.9])
def test_flexfls_models_keep_to_their_budget_at_small_shares_too(share: float) -> None:
    """The code lets them be larger by 0.05 of all numbers: 4 times the budget at 1/64."""
    model = cnn1d(9, 128, 6)
    counts = widths_for(model, (0.3, 0.5, 0.7), share)
    found = numbers(with_counts(model, counts)) / numbers(model)
    assert found <= share + 1e-9 and found > 0.85 * share
    shares = [0.25, 0.4, 0.5, 0.9, 1.0]
    inside = [widths_for(model, (0.3, 0.5, 0.7), one) for one in shares]
    assert all(a[n] <= b[n] for a, b in pairwise(inside) for n in a)
    assert inside[-1] == {"conv1": 32, "conv2": 64, "linear1": 128}


@pytest.mark.parametrize("model", [mlp(3, 6), cnn1d(9, 128, 6)], ids=["mlp", "cnn1d"])
def test_numbers_are_counted_without_the_model(model: Chain) -> None:
    for share in (1.0, 0.7, 0.3):
        counts = {g.name: int(g.size * share) for g in model.unit_groups}
        small = with_counts(model, counts)
        assert numbers_at(model, counts) == numbers(small)
        assert multiplications_at(model, counts) == multiplications(small)


def test_flexfl_sends_the_largest_of_the_pool_or_less() -> None:
    shares = FlexFLHyperparameters().shares()
    found = [share_of(shares, c) for c in (1.0, 0.75, 0.5, 0.25)]
    assert found == [1.0, 0.5, 0.25, 0.0625]
    for wrong in ("0.5,0.25", "0,1", "0.5,2", "1.0.0"):
        with pytest.raises(ConfigError, match=r"flexfl.pool: got"):
            FlexFLHyperparameters(pool=wrong).shares()


def test_smaller_models_teach_as_constants() -> None:
    """KL(smaller || trained), the mean over samples and classes, T squared, gamma over models."""
    model = mlp(2, 3, (4,))
    part = model.narrow({"linear1": np.arange(2)})
    small = part[0]
    params = {n: t.requires_grad_() for n, t in model.init(1, 5).items()}
    x, y = torch.randn(1, 6, 2, generator=torch.Generator().manual_seed(1)), torch.zeros(1, 6)
    batch = Batch(x, y.long(), torch.full((1, 6), 1 / 6), 0)
    made = model.training_pass(params, x)
    term = Taught((part,), 10.0, 3.0)
    found = term.loss(Forward(params, batch, made.outputs, made.embedding), {})
    with torch.no_grad():
        first = {
            "linear1.weight": params["linear1.weight"][:, :2],
            "linear1.bias": params["linear1.bias"][:, :2],
            "linear2.weight": params["linear2.weight"][:, :, :2],
            "linear2.bias": params["linear2.bias"],
        }
        p, q = (t.div(3).softmax(-1) for t in (small.forward(first, x), made.outputs[0]))
    expected = 10.0 * 9 * (p * (p.log() - q.log())).sum(-1).mean() / 3
    torch.testing.assert_close(found, expected)
    found.backward()  # type: ignore[no-untyped-call]
    # Of what the trained model says alone: with z constant, nothing would move the first layer.
    moved = params["linear2.bias"].grad
    assert moved is not None
    by_hand = 10.0 * 3 * (q - p).mean(1) / 3
    torch.testing.assert_close(moved, by_hand)
    smaller = model.narrow({"linear1": np.arange(1)})
    both, one, other = (
        Taught(some, 10.0, 3.0).loss(Forward(params, batch, made.outputs, made.embedding), {})
        for some in ((part, smaller), (part,), (smaller,))
    )
    torch.testing.assert_close(both, (one + other) / 2)
    assert not Taught((), 10.0, 3.0).active and not Taught((part,), 0.0, 3.0).active


def test_flexfls_first_round_is_for_zeros() -> None:
    """Those who hold all train it and say how silent it is; the others come from then on."""
    model = mlp(2, 2, (4,))
    strategy = server("flexfl", model, {"a": 1.0, "b": 0.5, "c": 1.0})
    state, turn = start(model), Turn(1, 9, 0)
    assert strategy.half.participants(state, strategy.round(turn)) == ["a", "c"]
    sent = strategy.half.downloads(state, strategy.round(turn), ["a", "c"])
    assert APOZ not in sent[0].tensors
    uploads = {}
    for client, bundle, zeros, samples in zip("ac", sent, (0.2, 0.6), (10, 30), strict=True):
        own = {APOZ: Floats(np.array([zeros], np.float32))}
        uploads[client] = Bundle(samples, tensors={**bundle.tensors, **own})
    strategy.sent = dict(zip("ac", sent, strict=True))
    sender = Sender("a", turn)
    strategy.half.check(state, strategy.round(sender.turn), sender, uploads["a"])
    with pytest.raises(MessageRefused, match="apoz: got none"):
        strategy.half.check(state, strategy.round(sender.turn), sender, uploaded(sent[0], 0.0))
    broken = Bundle(9, tensors={**sent[0].tensors, APOZ: Floats(np.full(1, -0.2, np.float32))})
    with pytest.raises(MessageRefused, match="shares from 0 to 1"):
        strategy.half.check(state, strategy.round(sender.turn), sender, broken)
    after, _ = strategy.half.aggregate(state, strategy.round(turn), uploads)
    assert after[APOZ].tolist() == pytest.approx([0.5])
    assert strategy.half.participants(after, strategy.round(Turn(2, 9, 0))) == ["a", "b", "c"]
    of_b = strategy.half.downloads(after, strategy.round(Turn(2, 9, 0)), ["b"])[0]
    assert of_b.floats(APOZ).tolist() == pytest.approx([0.5])
    assert of_b.part("linear1.bias").at.rows is not None
    alone = server("flexfl", model, {"b": 0.5, "d": 0.25})
    assert alone.half.participants(state, alone.round(turn)) == ["b", "d"], (
        "all, if nobody holds all"
    )


ONE_LAYER = Chain((Linear("linear1", 3, 3), ReLU(), Linear("linear2", 2, 3)), (3,))


def test_activity_is_the_mean_over_real_samples() -> None:
    """Outputs (0, 2, 1) and (0, 0, 3): means 0, 1, 2; above 0 in none, half, all of the samples."""
    params = ONE_LAYER.init(2, 0)
    params["linear1.weight"] = torch.eye(3).expand(2, 3, 3).clone()
    params["linear1.bias"] = torch.zeros(2, 3)
    x = np.array([[-1, 2, 1], [0, -5, 3]], np.float32)
    longer = np.ones((5, 3), np.float32)
    data = stack(["a", "b"], [x, longer], [np.zeros(2, np.int64), np.zeros(5, np.int64)])
    for block in (1, 2, 32):
        assert activity(ONE_LAYER, params, data, block)["linear1"][0].tolist() == [0, 1, 2]
        often = activity(ONE_LAYER, params, data, block, often=True)["linear1"]
        assert often.tolist() == [[0, 0.5, 1], [1, 1, 1]], "padding does not count"


def test_flexfls_device_says_which_share_of_outputs_is_0() -> None:
    """A unit above 0 for one sample of four, one for none, one for all: 0.75, 1 and 0."""
    card = METHODS["flexfl"]
    hyper, settings = card.hyperparameters(), TrainingSettings(lr=1e-9, batch_size=2)
    learner = card.load_learner()(ONE_LAYER, settings, hyper, card.sends(ONE_LAYER, hyper))
    state = learner.init(1, 0)
    state["model.linear1.weight"] = torch.eye(3)[None]
    state["model.linear1.bias"] = torch.zeros(1, 3)
    x = np.array([[2, -1, 1], [-1, -1, 1], [-1, -1, 1], [-1, -1, 1]], np.float32)
    data = stack(["a"], [x], [np.array([0, 1, 0, 0])])
    _, (upload,), _ = learner.fit(state, [Bundle()], data, Turn(1, 9, 0))
    assert upload.floats(APOZ).tolist() == pytest.approx([1.75 / 3])
    known = Bundle(tensors={APOZ: Floats(np.full(1, 0.5, np.float32))})
    _, (upload,), _ = learner.fit(state, [known], data, Turn(2, 9, 0))
    assert APOZ not in upload.tensors, "nobody asks for it again"


@pytest.mark.parametrize(("weights", "chosen"), [((1, 2, 1), [1]), ((1, 1, 1), [0])])
def test_feddse_trains_the_units_that_its_samples_excite_most(
    weights: tuple[float, ...], chosen: list[int]
) -> None:
    card = METHODS["feddse"]
    hyper = card.hyperparameters()
    settings = TrainingSettings(lr=0.1, batch_size=2)
    learner = card.load_learner()(ONE_LAYER, settings, hyper, card.sends(ONE_LAYER, hyper))
    state = learner.init(1, 0)
    state["model.linear1.weight"] = torch.diag(torch.tensor(weights, dtype=torch.float32))[None]
    state["model.linear1.bias"] = torch.zeros(1, 3)
    x = np.ones((4, 3), np.float32)
    data = stack(["a"], [x], [np.array([0, 1, 0, 0])], capacities=[1 / 3])
    after, (upload,), _ = learner.fit(state, [Bundle()], data, Turn(1, 9, 0))
    rows = upload.part("linear1.weight").at.rows
    assert rows is not None and rows.tolist() == chosen, "of equal ones the first"
    assert upload.part("linear2.weight").values.shape == (2, 1)
    kept = learner.get(after, "model")["linear1.weight"][0]
    assert not np.delete(kept.numpy(), chosen, axis=0).any(), "what it does not hold is 0"


def test_feddse_refuses_more_units_than_a_device_can_train() -> None:
    strategy = server("feddse", mlp(2, 2, (4,)), {"a": 1.0, "b": 0.5}, every=2)
    state, turn = start(strategy.model), Turn(1, 9, 0)
    sent = strategy.half.downloads(state, strategy.round(turn), ["b"])[0]
    strategy.sent = {"b": sent}
    with pytest.raises(MessageRefused, match="units of linear1: got 4, expected 2"):
        strategy.half.check(state, strategy.round(turn), Sender("b", turn), uploaded(sent, 0.0))
    last = {"choice/b/linear1": torch.tensor([1, 3])}
    own = strategy.half.tested_with(state | last, strategy.round(turn), ["b"])[0]
    assert own.part("linear1.weight").at.rows.tolist() == [1, 3]
    strategy.half.check(state, strategy.round(turn), Sender("b", turn), uploaded(own, 0.0))
    for name, rows, told in (
        ("linear1.bias", [0, 2], "units of linear1.bias: got others"),
        ("linear2.weight", [1], "units of linear2.weight: got others"),
        ("linear2.bias", [1], "units of linear2.bias: got others"),
    ):
        at = replace(own.part(name).at, rows=np.array(rows))
        part = Floats(own.part(name).values[: len(rows)], at)
        elsewhere = replace(own, tensors={**own.tensors, name: part})
        with pytest.raises(MessageRefused, match=told):
            strategy.half.check(state, strategy.round(turn), Sender("b", turn), elsewhere)
    after, _ = strategy.half.aggregate(state, strategy.round(turn), {"b": uploaded(own, 0.5)})
    assert after["choice/b/linear1"].tolist() == [1, 3]
    # The next round is none in which units are chosen: only these travel, and come back.
    again = strategy.half.downloads(after, strategy.round(Turn(2, 9, 0)), ["b"])[0]
    assert again.part("linear2.weight").values.shape == (2, 2)
    strategy.sent = {"b": again}
    others = strategy.half.tested_with(
        {**after, "choice/b/linear1": torch.tensor([0, 1])}, strategy.round(turn), ["b"]
    )
    with pytest.raises(MessageRefused, match="units of linear1: got others"):
        strategy.half.check(
            state, strategy.round(turn), Sender("b", turn), uploaded(others[0], 0.0)
        )
    whole = strategy.half.downloads(after, strategy.round(Turn(3, 9, 0)), ["b"])[0]
    assert whole.part("linear2.weight").values.shape == (2, 4)


def test_flados_chances_are_the_best_within_the_budget() -> None:
    scores, costs = np.array([4.0, 3, 2, 1]), np.ones(4)
    assert keep(scores, costs, 2.0, 0.05).tolist() == pytest.approx([1, 0.9, 0.05, 0.05])
    assert keep(scores, costs, 4.0, 0.05).tolist() == [1, 1, 1, 1]
    assert keep(scores, np.array([8.0, 1, 1, 1]), 3.0, 0.05)[0] == pytest.approx(0.05)
    assert keep(scores, costs, 0.1, 0.05).tolist() == pytest.approx([0.025] * 4)


def test_flado_scores_the_units_that_a_client_held_by_how_moves_agree() -> None:
    strategy = server("flado", mlp(2, 2, (4,)), {"a": 1.0, "b": 0.5}, "none")
    state, turn = start(strategy.model), Turn(1, 9, 0)
    whole, part = strategy.half.downloads(state, strategy.round(turn), ["a", "b"])
    rows = part.part("linear1.weight").at.rows
    assert rows is not None and len(rows) == 2
    after, _ = strategy.half.aggregate(
        state, strategy.round(turn), {"a": uploaded(whole, 3), "b": uploaded(part, 1)}
    )
    score = after["score/b/linear1"]
    # The mean move is 2 where both hold a number; of a unit two weights and a bias.
    assert score[torch.from_numpy(rows)].tolist() == pytest.approx([0.1 * 3 * 2 * 1] * 2, rel=1e-4)
    assert score.sum() == score[torch.from_numpy(rows)].sum() and "score/a/linear1" not in after
    group = strategy.model.unit_groups[0]
    ones = {name: torch.ones(t.shape) for name, t in state.items()}
    assert of_units(group, ones).tolist() == [3.0] * 4


@pytest.mark.parametrize("capacity", [0.75, 0.5, 0.25, 0.1])
def test_flado_keeps_to_the_budget_and_a_unit_a_layer(capacity: float) -> None:
    model = cnn1d(9, 128, 6)
    strategy = server("flado", model, {"b": capacity})
    stream, state = torch.Generator().manual_seed(2), start(model)
    for name, size in strategy.half.sizes(strategy.round()).items():
        state[f"score/b/{name}"] = torch.randn(size, generator=stream)
    for round in range(2, 5):
        units = strategy.half.slices(state, strategy.round(Turn(round, 9, 0)), ["b"])["b"]
        small = with_counts(model, {name: len(own) for name, own in units.items()})
        assert multiplications(small) <= capacity**2 * multiplications(model)
        assert all(len(own) for own in units.values())
    first = strategy.half.slices(start(model), strategy.round(Turn(1, 9, 0)), ["b"])["b"]
    assert len(first["linear1"]) == -(-128 * capacity // 1), "as feddrop, without scores"


@pytest.mark.parametrize("name", SLICES)
def test_a_weak_device_takes_no_part_with_a_model_without_hidden_units(
    name: str, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing of it can be left out."""
    run = run_method(name, model="linear", capacities=SHARES)
    assert set(run.uploads[-1]) == {"p1", "p4"}
    for client, capacity in (("p2", 0.5), ("p3", 0.25)):
        said = f"client {client!r}: capacity: got {capacity} of a model without hidden units"
        assert said in caplog.text


@pytest.mark.parametrize("name", ["feddse", "flado", "flexfl"])
def test_where_all_hold_all_it_is_fedavg(name: str, run_method: RunMethod) -> None:
    hyper: dict[str, Any] = {"weights": "examples"} | ({"gamma": 0.0} if name == "flexfl" else {})
    assert_near_states(run_method(name, hyper=hyper), run_method("fedavg"))


@pytest.mark.parametrize("name", SLICES)
def test_weak_devices_of_their_own_train_as_in_one_process(
    name: str, run_method: RunMethod, tmp_path: Path
) -> None:
    """They send their share alone, and are tested with it."""
    federation = people()
    write_federation(tmp_path / "data", federation)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 3}
    keys |= {"lr": 0.05, "batch_size": 16}
    stacked = run_method(name, federation, **keys)
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, name)
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    assert_equal(strategy.state, stacked.states[-1])
    whole = 4 * numbers(mlp(4, 3))
    sent = stacked.metric("bytes_up_sent")
    # AdaptiveFL's smallest model of an mlp has 0.177 of its numbers.
    for client, share in (("p2", 0.25), ("p3", 0.18 if name == "adaptivefl" else 0.0625)):
        assert 0.1 * share * whole < sent[3, client] <= share * whole * 1.05 + 2000
    for client, model in stacked.models().items():
        held = sum(int((t != 0).sum()) for t in model.values())
        limit = {"p1": 1.0, "p2": 0.25, "p3": 0.19, "p4": 1.0}[client]
        assert held <= limit * whole / 4 * 1.05
    assert stacked.metric("loss")[3, "p2"] < log(3)


def test_a_weak_device_of_adaptivefl_has_room_for_its_models_alone(run_method: RunMethod) -> None:
    run = run_method("adaptivefl", capacities="p2=0.5,p4=0.5", rounds=1)
    kept = {n: t for n, t in run.client_state("p2").items() if n.startswith("model.")}
    whole = sum(prod(shape) for shape in run.strategy.model.parameter_shapes.values())
    assert sum(t.numel() for t in kept.values()) / whole == pytest.approx(0.177, abs=0.01)


def test_medium_models_must_be_larger_than_small_ones() -> None:
    card = METHODS["adaptivefl"]
    with pytest.raises(ConfigError, match=r"got small = 0.8 and medium = 0.66, expected a larger"):
        card.check(replace(card.hyperparameters(), small=0.8), 3)


def test_cross_entropy_is_what_a_pool_of_one_minimises() -> None:
    card = METHODS["flexfl"]
    model, turn = mlp(3, 2, (4,)), Turn(2, 9, 0)
    x = np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32)
    data = stack(["a"], [x], [np.array([0, 1] * 4)])
    ends = []
    for hyper in ({"pool": "1"}, {"gamma": 0.0}, {}):
        given = replace(card.hyperparameters(), **hyper)
        learner = card.load_learner()(
            model, TrainingSettings(lr=0.1), given, card.sends(model, given)
        )
        download = Bundle(tensors={APOZ: Floats(np.zeros(1, np.float32))})
        after, _, _ = learner.fit(learner.init(1, 0), [download], data, turn)
        ends.append(after["model.linear1.weight"])
    assert learner.loss is CE
    assert torch.equal(ends[0], ends[1]) and not torch.equal(ends[0], ends[2])
