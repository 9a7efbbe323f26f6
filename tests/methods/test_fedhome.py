"""FedHome: FedAvg to the bit, then heads at home, and nothing on the wire."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.cost_tests import flops, one_client, round_of
from fedsub.testing.halves import HalfAlone, next_from, next_round
from fedsub.testing.one_number import one_number
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_core.config.run_config import read_config
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.training import CE, TrainingSettings, Turn, train
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.roster import Roster
from strategies.rounds.server_half import ServerHalf

HEAD = {"linear3.weight", "linear3.bias"}
TWO_ROUNDS: dict[str, Any] = {"head_rounds": 2}


def model_of(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor for name, tensor in state.items() if name != "at_home"}


def test_it_is_fedavg_until_heads_train_and_then_the_server_stands_still(
    run_method: RunMethod,
) -> None:
    run, fedavg = run_method("fedhome", rounds=5, hyper=TWO_ROUNDS), run_method("fedavg", rounds=5)
    for ours, theirs in zip(run.states[:3], fedavg.states[:3], strict=True):
        assert_equal(model_of(ours), theirs)
    for ours in run.states[3:]:
        assert_equal(model_of(ours), fedavg.states[2])
    for key, loss in fedavg.metric("loss").items():
        if key[0] <= 3:
            assert run.metric("loss")[key] == loss


def test_heads_become_everybodys_own_and_the_body_stays_to_the_bit(run_method: RunMethod) -> None:
    run = run_method("fedhome", rounds=5, hyper=TWO_ROUNDS)
    earlier = run_method("fedhome", rounds=5, hyper=TWO_ROUNDS, until=4)
    for client, model in run.models().items():
        for name, tensor in model.items():
            assert torch.equal(tensor, run.states[2][name]) == (name not in HEAD), (client, name)
            before = earlier.client_state(client)[f"model.{name}"]
            assert torch.equal(tensor, before) == (name not in HEAD), "heads train in every round"
    assert run.client_state("p1")["at_home"].item() == 1


def test_in_the_last_rounds_only_the_examples_travel(run_method: RunMethod) -> None:
    run = run_method("fedhome", rounds=5, hyper=TWO_ROUNDS)
    for metric in ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent"):
        for (round, client), sent in run.metric(metric).items():
            silent = round > 3 and (metric == "bytes_up_sent" or round > 4)
            silent = silent or (metric == "bytes_evaluation_sent" and round == 4)
            assert (sent < 60) == silent, (metric, round, client)
    assert all(not u.tensors and u.examples > 0 for u in run.uploads[4].values())
    assert Roster.of(run.states[-1]["at_home"]).clients == ("p1", "p2", "p3", "p4")


def test_whoever_is_asked_later_gets_the_model_once(run_method: RunMethod) -> None:
    """And who is only tested there, too."""
    run = run_method("fedhome", rounds=8, hyper={"head_rounds": 4}, clients_per_round=2)
    seen: set[str] = set()
    for round in (5, 6, 7, 8):
        asked = run.uploads[round - 1]
        for client in asked:
            sent = run.metric("bytes_down_sent")[round, client]
            assert (sent < 60) == (client in seen), (round, client)
        seen |= set(asked)
        for client in people().clients:
            sent = run.metric("bytes_evaluation_sent")[round, client]
            assert (sent < 60) == (client in seen), (round, client)
    for client in people().clients:
        models, final = run.models()[client], run.states[-1]
        assert torch.equal(models["linear1.weight"], final["linear1.weight"])
        assert torch.equal(models["linear3.weight"], final["linear3.weight"]) == (
            client not in seen
        )


def test_whoever_joins_when_only_heads_are_trained_starts_from_the_model(
    run_method: RunMethod,
) -> None:
    keys = {"split": "unseen", "unseen_share": 0.25, "unseen_rounds": 1, "rounds": 4}
    run = run_method("fedhome", hyper=TWO_ROUNDS, **keys)
    (late,) = run.strategy.population.agreed.unseen
    own, body = run.models()[late], run.states[-1]
    assert [late in uploads for uploads in run.uploads] == [False, False, False, True]
    for name, tensor in own.items():
        assert torch.equal(tensor, body[name]) == (name not in HEAD)


def test_a_head_of_ones_own_survives_a_model_that_comes_again() -> None:
    """A reply that was lost: the server sends the model to who has its head by now."""
    learner = one_number("fedhome", CE, TrainingSettings(), mlp(4, 3))
    data = Stack(("a", "b"), torch.randn(2, 9, 4), torch.arange(18).view(2, 9) % 3, (9, 6))
    state, uploads, _ = learner.fit(learner.init(2, 0), [Bundle(), Bundle()], data, Turn(6, 6, 0))
    assert [upload.examples for upload in uploads] == [9, 6]
    shapes = learner.model.parameter_shapes
    again = Bundle(tensors={n: Floats(np.ones(s, np.float32)) for n, s in shapes.items()})
    assert_equal(learner.receive(state, [again, again]), state)
    after, _, _ = learner.fit(state, [again, Bundle()], data, Turn(6, 6, 0))
    assert torch.equal(after["model.linear1.weight"], state["model.linear1.weight"])


def test_without_smote_it_trains_the_head_on_the_data_as_they_are() -> None:
    model = mlp(4, 3)
    settings, turn = TrainingSettings(lr=0.1, batch_size=8, epochs=2), Turn(6, 6, 0)
    data = Stack(("a", "b"), torch.randn(2, 30, 4), torch.randint(0, 3, (2, 30)), (30, 17))
    learner = one_number("fedhome", CE, settings, model, smote=False)
    state, _, _ = learner.fit(learner.init(2, 0), [Bundle()] * 2, data, turn)
    plain = train(model, model.init(2, 0), data, turn, settings, only=model.head())
    for name, tensor in plain.params.items():
        torch.testing.assert_close(state[f"model.{name}"], tensor, atol=1e-6, rtol=1e-5)
    faster = one_number("fedhome", CE, settings, model, smote=False, head_lr_factor=3.0)
    moved, _, _ = faster.fit(faster.init(2, 0), [Bundle()] * 2, data, turn)
    assert not torch.allclose(moved["model.linear3.weight"], state["model.linear3.weight"])


def test_smote_changes_the_head_of_who_has_few_of_a_class() -> None:
    """And not that of somebody whose classes are equally frequent."""
    model, turn = mlp(4, 2), Turn(6, 6, 0)
    y = torch.tensor([[0, 1] * 10, [0] * 17 + [1] * 3])
    data = Stack(("even", "odd"), torch.randn(2, 20, 4), y, (20, 20))
    heads = {}
    for smote in (True, False):
        learner = one_number("fedhome", CE, TrainingSettings(lr=0.1), model, smote=smote)
        state, _, _ = learner.fit(learner.init(2, 0), [Bundle()] * 2, data, turn)
        heads[smote] = state["model.linear3.weight"]
    torch.testing.assert_close(heads[True][0], heads[False][0], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(heads[True][1], heads[False][1], atol=1e-4)


@pytest.mark.parametrize("layers", [1, 2])
def test_heads_of_windows(layers: int) -> None:
    model = cnn1d(2, 40, 3)
    learner = one_number("fedhome", CE, TrainingSettings(), model, head_layers=layers)
    data = Stack(("a", "b"), torch.randn(2, 9, 2, 40), torch.arange(18).view(2, 9) % 3, (9, 5))
    start = learner.init(2, 0)
    state, _, _ = learner.fit(start, [Bundle()] * 2, data, Turn(6, 6, 0))
    for name in model.parameter_shapes:
        same = torch.equal(state[f"model.{name}"], start[f"model.{name}"])
        assert same == (name.rpartition(".")[0] not in model.head(layers))


@pytest.mark.parametrize("hyper", [{"rare": "drop"}, {"neighbours": 1}, {"smote": False}])
def test_each_way_of_balancing_runs(hyper: dict[str, Any], run_method: RunMethod) -> None:
    federation = people(((0, 1, 2), (0, 1), (2,), (0, 1, 2)), samples=3)
    run = run_method("fedhome", federation, hyper=hyper)
    assert all(t.isfinite().all() for model in run.models().values() for t in model.values())


def test_a_sixth_of_the_run_by_default_and_never_more_than_it(run_method: RunMethod) -> None:
    run = run_method("fedhome", rounds=12)
    assert [bool(uploads["p1"].tensors) for uploads in run.uploads] == [True] * 10 + [False] * 2
    keys: dict[str, Any] = {"method": "fedhome", "beside": "", "rounds": 9}
    assert read_config(None, keys | {"fedhome.head-rounds": 9})
    with refused(ConfigError, "fedhome.head-rounds", got="round 10 of 9"):
        read_config(None, keys | {"fedhome.head-rounds": 10})


@pytest.mark.parametrize(
    ("finished", "tensors", "words"),
    [
        (0, (), "tensors: got none, expected linear1.bias, linear1.weight"),
        (0, ("linear1.weight",), "tensors: got linear1.weight, expected linear1.bias, linear1.we"),
        (5, ("linear1.weight",), "tensors: got linear1.weight, expected none"),
    ],
)
def test_models_are_demanded_and_then_refused(
    finished: int, tensors: tuple[str, ...], words: str
) -> None:
    config = read_config(None, {"method": "fedhome", "beside": "", "rounds": 6})
    strategy = HalfAlone(ServerHalf.of(config.server_settings("fedhome")), mlp(4, 3))
    strategy.finished_rounds, sends = finished, strategy.round().sends
    one = Floats(np.zeros((128, 4), np.float32))
    with pytest.raises(MessageRefused, match=words) as caught:
        strategy.half.check(
            {},
            next_round(strategy),
            next_from(strategy, "anna"),
            Bundle(3, tensors=dict.fromkeys(tensors, one)),
        )
    assert "anna" in str(caught.value) and f"round {finished + 1}" in str(caught.value)
    fitting = {} if finished else dict.fromkeys(sends, one)
    strategy.half.check(
        {}, next_round(strategy), next_from(strategy, "anna"), Bundle(3, tensors=fitting)
    )


def test_a_client_that_is_forgotten_may_come_again(run_method: RunMethod) -> None:
    run = run_method("fedhome")
    assert run.strategy.state is not None
    state = run.strategy.half.without(run.strategy.state, "p2")
    assert Roster.of(state["at_home"]).clients == ("p1", "p3", "p4")
    one, two = run.strategy.half.downloads(state, run.strategy.round(3), ["p1", "p2"])
    assert not one.tensors and set(two.tensors) == set(model_of(state))


@pytest.mark.usefixtures("by_pytorch")
@pytest.mark.parametrize("epochs", [1, 4])
def test_a_round_of_heads_costs_what_the_card_says_in_words(epochs: int) -> None:
    """0.33 for the forward pass, 0.02 a pass: the classes of this person are equally frequent."""
    cohort = one_client("fedhome", epochs)
    spent = flops(lambda: cohort.fit(Turn(9, 9, 0), None, [0], [Bundle()]))
    epoch = round_of(one_client("local", 1))
    assert spent / epoch == pytest.approx(0.33 + 0.02 * epochs, rel=0.1)
