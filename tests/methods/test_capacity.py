"""Weak devices: a part of the run's encoder, beside people who hold all of it."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_grid, build_strategy, split_clients, train_method
from fedsub.export.formats import export
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.refusals import refused
from fedsub.testing.runs import Run, RunMethod, assert_equal
from fedsub_client.cohort import Cohort
from fedsub_client.loaded_model import load_model
from fedsub_client.new_cohort import make_cohort
from fedsub_core.closed_form.noise import sensitivity
from fedsub_core.closed_form.sums import total, triangle
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.watch import watch_federation
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedsub_ridge.groups import class_distances
from strategies.methods.fedsub_ridge.people import held, people

NAME, SIZE = "fedsub-ridge", 12
#: Of 12 kernels, five features each: those of three capacities.
MIXED, WIDTHS = "01=0.25,02=0.5", (15, 30, 60)
OF_SIX = f"{MIXED},04=0.25,05=0.5"
#: Numbers of the first four people when everybody held everything, from before anybody held less.
F1 = {"01": 0.951925, "02": 0.593721, "03": 0.755615, "04": 0.955106}
LOSS = {"01": 0.214635, "02": 1.112501, "03": 0.619200, "04": 0.321700}


def watch(count: int = 4) -> Federation:
    """Real smartwatch windows of a few people."""
    whole = watch_federation()
    return replace(whole, clients=dict(list(whole.clients.items())[:count]))


def config(capacities: str = "1", size: int = SIZE, **keys: Any) -> RunConfig:
    given: dict[str, Any] = {"method": NAME, "beside": "", "rounds": 3, "device": "cpu"}
    given |= {"threads": 1, "encoder": f"kernels:{size}", "capacities": capacities}
    return RunConfig(**given | keys)


def device(run: RunConfig) -> Cohort:
    """Return the first person's device."""
    settings, federation = run.device_settings(NAME), watch(1)
    parts = split_clients(settings.split, federation, run.capacity_settings)
    return make_cohort(settings, federation.card, parts)


def sent_anew(run: Run, clients: list[str]) -> list[Bundle]:
    """Return what the server sends people after round 3, as if they had been sent nothing."""
    state = dict(run.states[2])
    state["versions"] = state["versions"] + 1
    return run.strategy.half.downloads(state, run.strategy.round(9), clients)


def assert_equal_runs(one: Run, other: Run) -> None:
    """Check that people's models and scores are equal to the bit."""
    for metric in ("macro_f1", "loss"):
        assert one.metric(metric) == other.metric(metric)
    theirs = other.models()
    for client, params in one.models().items():
        assert_equal(params, theirs[client])


def test_with_all_capacities_1_numbers_are_those_of_before(run_method: RunMethod) -> None:
    run = run_method(NAME, watch(), encoder="kernels:12", capacities="1")
    for metric, numbers in (("macro_f1", F1), ("loss", LOSS)):
        found = {c: v for (round, c), v in run.metric(metric).items() if round == 3}
        assert found == pytest.approx(numbers, abs=1e-3)
    assert int(run.states[2]["everybody.gram"].sum()) == 748_133_768
    assert_equal_runs(run, run_method(NAME, watch(), encoder="kernels:12", capacities="1,1,1"))


def test_a_weak_device_is_a_whole_one_without_the_other_features() -> None:
    """What it sends, to the bit; and its head is that of a device in a run of as many kernels."""
    turn, got = Turn(1, 3, 0), [Bundle()]
    whole, weak, small = (device(config(*of)) for of in (("1", 12), ("0.5", 12), ("1", 6)))
    (all_of_it,), (sent,), (alone,) = (d.fit(turn, None, [0], got)[0] for d in (whole, weak, small))
    assert weak.encoder == small.encoder and weak.learner.model == small.learner.model
    assert_equal(weak.client_state(0), small.client_state(0))
    for name, end in (("gram", 31 * 32 // 2), ("cross", 31), ("shifts", 32)):
        part, of = (b.tensors[name].values for b in (sent, all_of_it))
        np.testing.assert_array_equal(part, of[..., :end])
        np.testing.assert_array_equal(part, alone.tensors[name].values)


def test_a_federation_of_weak_devices_is_one_of_fewer_kernels(run_method: RunMethod) -> None:
    weak = run_method(NAME, watch(), encoder="kernels:12", capacities="0.5")
    small = run_method(NAME, watch(), encoder="kernels:6")
    assert_equal_runs(weak, small)
    ours, theirs = weak.states[2], small.states[2]
    for name in ("gram", "cross"):
        assert torch.equal(ours[f"everybody.{name}/30"], theirs[f"everybody.{name}"])
        assert not ours[f"everybody.{name}"].any(), "nobody has all features"


@pytest.mark.parametrize("groups", ["none", "clusters", "class", "nearest"])
def test_everybody_is_sent_sums_over_all_who_have_its_features(
    groups: str, run_method: RunMethod
) -> None:
    own = {"groups": groups, "cluster_count": 1, "near": 6}
    run = run_method(NAME, watch(6), hyper=own, encoder="kernels:12", capacities=OF_SIX)
    state, ids = run.states[2], [f"0{i}" for i in range(1, 7)]
    assert people(state) == ids
    assert not any(
        one.tensors for one in run.strategy.half.downloads(state, run.strategy.round(9), ids)
    )
    for i, bundle in enumerate(sent_anew(run, ids)):
        features = WIDTHS[i % 3]
        able = [c for j, c in enumerate(ids) if WIDTHS[j % 3] >= features]
        counts = {c: int(state[f"facts/{c}"][1]) for c in able}
        each = [held(state, c).counted(int(state[f"facts/{c}"][0]), counts[c]) for c in able]
        expected = total([one.first(features) for one in each])
        sums = [name.removesuffix(".gram") for name in bundle.tensors if name.endswith(".gram")]
        assert len(sums) == {"none": 1, "class": 1 + 7}.get(groups, 2)
        for name in sums:
            scale = 2 ** float(bundle.floats(f"{name}.exponent")[0])
            gram = bundle.floats(f"{name}.gram").astype(np.float64) * scale
            np.testing.assert_allclose(gram, expected.gram, rtol=1e-6, atol=scale * 1e-7)
            assert gram[0] == pytest.approx(sum(counts.values()) * 128**2, rel=2e-2)


def test_people_of_three_capacities_train_predict_export_and_go_on(tmp_path: Path) -> None:
    federation, run = watch(6), config(OF_SIX, rounds=4)
    train_method(run, NAME, federation, tmp_path / "whole", lambda round: None)

    class Killed(Exception): ...

    def kill(round: int) -> None:
        if round == 2:
            raise Killed

    often = replace(run, checkpoint_seconds=0.0)
    with pytest.raises(Killed):
        train_method(often, NAME, federation, tmp_path / "resumed", kill)
    train_method(often, NAME, federation, tmp_path / "resumed", lambda round: None)
    for i, (client, data) in enumerate(federation.clients.items()):
        file = f"models/{client}.safetensors"
        of = [(tmp_path / one / file).read_bytes() for one in ("whole", "resumed")]
        assert of[0] == of[1]
        model = load_model(tmp_path / "whole" / file)
        assert model.encoder is not None and model.encoder.features == WIDTHS[i % 3]
        assert model.params["linear1.weight"].shape == (7, WIDTHS[i % 3])
        found = model.probabilities(data.x)
        assert (found.argmax(1) == data.y).mean() > 0.6
        if i > 0:
            continue
        assert (differs := export(model, "torchscript", tmp_path / f"{client}.pt")) is not None
        assert differs < 1e-5


def test_who_is_forgotten_never_was_whatever_its_capacity(run_method: RunMethod) -> None:
    """Of features that it alone had nothing stays."""
    federation = watch(5)
    rest = replace(federation, clients={c: d for c, d in federation.clients.items() if c != "02"})
    keys: dict[str, Any] = {"encoder": "kernels:12", "standardise": "client"}
    both = run_method(NAME, federation, capacities="02=0.5,03=0.25", **keys)
    never = run_method(NAME, rest, capacities="03=0.25", **keys)
    state = both.strategy.half.without(both.states[2], "02")
    sums = {name: t for name, t in state.items() if name.startswith("everybody.")}
    assert_equal(sums, {n: t for n, t in never.states[2].items() if n.startswith("everybody.")})
    assert sums.keys() == {f"everybody.{n}{of}" for n in ("gram", "cross") for of in ("", "/15")}


def test_devices_of_their_own_give_the_models_of_stacks(tmp_path: Path) -> None:
    """Each says its capacity to a server that writes to it as it can read."""
    federation, run = watch(3), config(MIXED)
    write_federation(tmp_path / "data", federation)
    run = replace(run, data=str(tmp_path / "data"))
    grid, strategy = DeviceGrid(run, 3), build_strategy(run, NAME)
    strategy.start(grid)
    with_stacks = build_grid(run, NAME, federation)
    stacked = build_strategy(run, NAME)
    stacked.start(with_stacks)
    with_stacks.close()
    assert not strategy.transport.refusals
    assert_equal(strategy.lasting_state(), stacked.lasting_state())
    states = with_stacks.state()
    for i, client in enumerate(federation.clients):
        saved = grid.saved(i)
        assert saved.model is not None and saved.model.encoder is not None
        assert saved.model.encoder.size == (3, 6, 12)[i]
        assert_equal(saved.state, states[f"client/{client}"])


def test_a_device_whose_capacity_changes_begins_anew_and_is_understood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = config("1", rounds=6, clients_per_round=0)
    write_federation(tmp_path / "data", watch(3))
    run = replace(run, data=str(tmp_path / "data"))
    grid = DeviceGrid(run, 3)
    first = build_strategy(replace(run, rounds=3), NAME)
    first.start(grid)
    for context in grid.contexts.values():
        context.run_config["capacities"] = "02=0.5"
    second = build_strategy(run, NAME)
    second.resume(3, dict(first.lasting_state()))
    with caplog.at_level(logging.WARNING, "fedsub"):
        second.start(grid)
    assert not second.transport.refusals
    assert "client 02: its state is not of a device of capacity 0.5; it begins anew" in caplog.text
    saved = grid.saved(1).model
    assert saved is not None and saved.params["linear1.weight"].shape == (7, 30)
    assert second.state is not None and "everybody.gram/30" in second.state


def test_noise_on_sums_is_one_release_whatever_the_capacities(run_method: RunMethod) -> None:
    """A sample is in the noisy sums of one capacity alone; those who are sent several add them."""
    keys: dict[str, Any] = {"encoder": "kernels:12", "hyper": {"noise": 2.0}}
    mixed, plain = (run_method(NAME, watch(3), capacities=c, **keys) for c in (MIXED, "1"))
    assert mixed.metric("epsilon") == plain.metric("epsilon")
    grams = []
    for released in sent_anew(mixed, ["01", "02", "03"]):
        scale = 2 ** float(released.floats("everybody.exponent")[0])
        grams.append(released.floats("everybody.gram").astype(np.float64) * scale)
    exact = [mixed.states[2][f"everybody.gram{of}"].numpy() for of in ("/15", "/30", "")]
    assert [len(gram) for gram in grams] == [len(gram) for gram in exact]
    # What is added for those of 15 and of 30 features has noise of its own, and no other.
    for fewer, more, own in ((0, 1, 0), (1, 2, 1)):
        added = grams[fewer] - grams[more][: len(grams[fewer])]
        rows, columns, _ = triangle(WIDTHS[own] + 1)
        deviation = np.std((added - exact[own])[rows != columns])  # a ridge is on the diagonal
        assert 0.8 < deviation / (2.0 * sensitivity(WIDTHS[own]) * 128**2) < 1.2


def test_people_are_compared_by_the_features_that_both_have(run_method: RunMethod) -> None:
    whole = run_method(NAME, watch(3), encoder="kernels:12").states[0]
    mixed = run_method(NAME, watch(3), encoder="kernels:12", capacities=MIXED).states[0]
    few = run_method(NAME, watch(3), encoder="kernels:3").states[0]
    ids = people(whole)
    apart, ours, first = (class_distances(state, ids) for state in (whole, mixed, few))
    np.testing.assert_allclose(ours[:, 0], first[:, 0] * 2, rtol=1e-6)  # 15 of 60 features
    assert not np.allclose(ours[:, 1, 2], apart[:, 1, 2], rtol=1e-3)


def test_a_method_that_narrows_nothing_says_so(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    run = config("01=0.5", method="fedavg", beside=NAME, rounds=1)
    grid, strategy = build_grid(run, "fedavg", watch(2)), build_strategy(run, "fedavg")
    with caplog.at_level(logging.WARNING, "fedsub"):
        strategy.start(grid)
    grid.close()
    assert (
        "fedavg: every device holds the whole model, also those that said they hold less: 01"
        in (caplog.text)
    )


def test_one_stack_has_one_capacity() -> None:
    run = config(MIXED)
    parts = split_clients(run.split_settings, watch(2), run.capacity_settings)
    with refused(ValueError, got="[0.25, 0.5]"):
        make_cohort(run.device_settings(NAME), watch(2).card, parts)
