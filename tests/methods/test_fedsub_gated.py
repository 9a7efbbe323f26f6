"""fedsub-gated: experts that equal other methods, judging, who is dropped, open classes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.halves import next_from, next_round
from fedsub.testing.runs import Run, RunMethod, assert_equal, people, running
from fedsub_client.methods.fedsub_gated import experts, learner
from fedsub_client.parts.embeddings import embeddings
from fedsub_client.parts.validation import share_held_back
from fedsub_core.config.run_config import read_config
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.methods.fedsub_gated import CURVES, GATE, TEMPERATURE, TEMPERATURES
from fedsub_core.methods.fedsub_gated_experts import EXPERTS, names
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedsub_gated import fusion

#: So late that what judges has trained in no round.
FOR_EVER = 1.0


def own(run: Run, client: str, expert: str) -> dict[str, torch.Tensor]:
    """Return one of a person's models, as it is tested."""
    model = run.models()[client]
    return {n.removeprefix(f"{expert}."): t for n, t in model.items() if n.startswith(expert)}


def test_with_nothing_held_back_local_is_local(run_method: RunMethod) -> None:
    hyper = {"experts": "local,fused", "gate_until": 1e-9, "smooth": 0.0}
    gated, local = run_method("fedsub-gated", hyper=hyper), run_method("local")
    for client, model in local.models().items():
        assert_equal(own(gated, client, "local"), model)


def test_what_predicts_is_a_mean_of_the_last_rounds(run_method: RunMethod) -> None:
    """In round 2 one eleventh of it is from before, in round 3 two twelfths."""
    plain = [
        run_method("fedsub-gated", rounds=3, until=until, hyper={"smooth": 0.0})
        for until in (1, 2, 3)
    ]
    run = run_method("fedsub-gated", rounds=3, hyper={"smooth": 0.5})
    for client in ("p1", "p2"):
        one, two, three = (own(each, client, "local") for each in plain)
        for name, found in own(run, client, "local").items():
            expected = (one[name] / 11 + two[name] * 10 / 11) / 6 + three[name] * 5 / 6
            torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
            assert torch.equal(run.client_state(client)[f"local.{name}"], three[name])


def test_in_the_first_rounds_the_fused_model_is_the_mean_of_all(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody holds all classes, so the second round begins from one model but for q."""
    monkeypatch.setattr(fusion, "ANNEALED", 1e9)
    run = run_method("fedsub-gated", rounds=2, hyper={"experts": "fused", "smooth": 0.0})
    models = [own(run, client, "fused") for client in ("p1", "p2", "p3", "p4")]
    sizes = [upload.examples for upload in run.uploads[0].values()]
    for name in ("linear3.weight", "linear3.bias"):
        sent = [upload.floats("linear3") for upload in run.uploads[0].values()]
        mean = torch.from_numpy(np.average(sent, axis=0, weights=sizes)).float()
        mean = mean[:, :-1] if name.endswith("weight") else mean[:, -1]
        for model in models:
            torch.testing.assert_close(model[name], mean, atol=1e-5, rtol=1e-4)


def test_hidden_units_are_sent_whether_or_not_they_matter(run_method: RunMethod) -> None:
    lacking = people(((0, 1), (0, 1, 2), (0, 1, 2), (1, 2)))
    for upload in run_method("fedsub-gated", lacking).uploads[-1].values():
        held = upload.bits("classes")
        for layer in ("linear1", "linear2"):
            masks, shares = upload.bits(f"{layer}.masks"), upload.floats(f"{layer}.shares")
            assert upload.part(layer).at.held(masks.shape[1:]).all()
            np.testing.assert_array_equal(masks, np.broadcast_to(held[:, None], masks.shape))
            np.testing.assert_allclose(shares.sum(0), 1, atol=1e-6)
            assert not shares[~held].any()
        np.testing.assert_array_equal(upload.bits("linear3.masks"), np.diag(held))


def test_a_unit_that_matters_for_no_class_is_all_classes_alike(run_method: RunMethod) -> None:
    half = run_method("fedsub-gated", rounds=1).grid.cohorts[0].learner
    assert isinstance(half, learner.FedSubGatedLearner)
    held = torch.tensor([[True, True, False]])
    masks = half.masks({}, held)
    relevance = {n: torch.zeros(mask.shape) for n, mask in masks.items()}
    relevance["linear1"][0, :, 0] = torch.tensor([3.0, 1.0, 9.0])
    shares = half.further(relevance, masks)["linear1.shares"][0]
    assert shares[:, 0].tolist() == [0.75, 0.25, 0]
    assert shares[:, 1].tolist() == [0.5, 0.5, 0]


def test_what_judges_trains_no_expert(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other labels where the gate's samples are: other weights, and the same experts."""
    monkeypatch.setattr(learner, "ALPHA", 1.0)
    run = run_method("fedsub-gated", rounds=1, hyper={"gate_until": FOR_EVER})
    cohort, turn = run.grid.cohorts[0], run.strategy.turn(1)
    data, _ = cohort.data.at(1, run.strategy.population.agreed.scaling)
    received = [Bundle()] * len(cohort.clients)

    def spoilt(data: Stack, share: float, seed: int) -> tuple[Stack, Stack]:
        trained, judged = share_held_back(data, share, seed)
        return trained, replace(judged, y=(judged.y + 1) % 3)

    start = cohort.learner.init(len(cohort.clients), 0)
    honest, _, _ = cohort.learner.fit(start, received, data, turn)
    monkeypatch.setattr(learner, "share_held_back", spoilt)
    other, _, _ = cohort.learner.fit(start, received, data, turn)
    differ = {name for name, tensor in honest.items() if not torch.equal(tensor, other[name])}
    assert differ == {"gate.weights", "gate.judged", "gate.explained"}


def test_curves_say_how_likely_labels_are_at_each_temperature(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=1, hyper={"gate_until": FOR_EVER})
    cohort, turn = run.grid.cohorts[0], run.strategy.turn(1)
    data, _ = cohort.data.at(1, run.strategy.population.agreed.scaling)
    start = cohort.learner.init(len(cohort.clients), 0)
    after, uploads, _ = cohort.learner.fit(start, [Bundle()] * len(cohort.clients), data, turn)
    _, judged = share_held_back(data, 0.25, turn.seed)
    local = {n.removeprefix("local."): t for n, t in after.items() if n.startswith("local.")}
    logits, label = cohort.learner.model.forward(local, judged.x), judged.y.unsqueeze(2)
    plain = logits.log_softmax(2).gather(2, label)
    for place, temperature in enumerate(TEMPERATURES):
        gains = (logits / temperature).log_softmax(2).gather(2, label) - plain
        expected = (gains.clamp(-3, 3).squeeze(2) * judged.valid).sum(1)
        found = torch.tensor([float(u.floats(CURVES)[0, place]) for u in uploads])
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def test_everybody_has_the_temperatures_that_the_server_chose(run_method: RunMethod) -> None:
    """Experts that train for long on few samples are surer than they are right."""
    few, keys = people(samples=12), {"epochs": 20, "lr": 0.2}
    run = run_method("fedsub-gated", few, rounds=10, hyper={"smooth": 0.0}, **keys)
    assert run.strategy.state is not None
    chosen = run.strategy.state["gate.temperature"]
    assert (chosen != 1).any()
    said = [run.metric(f"temperature_{name}")[10, ""] for name in names(run.strategy.hyper)]
    assert said == pytest.approx(chosen.tolist())
    for model in run.models().values():
        torch.testing.assert_close(model["gate.temperature"], chosen)


def test_temperatures_that_cannot_be_spoil_no_prediction(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=1)
    cohort = run.grid.cohorts[0]
    told = Bundle(tensors={TEMPERATURE: Floats(np.array([0.0, -3.0, 99.0], np.float32))})
    after = cohort.learner.receive(cohort.state, [told] * len(cohort.clients))
    assert after["gate.temperature"].tolist() == [[1.0, 1.0, 8.0]] * len(cohort.clients)
    data, _ = cohort.data.at(1, run.strategy.population.agreed.scaling)
    assert cohort.learner.predict(after, data.x).isfinite().all()


def test_class_means_and_their_spread_by_hand(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=1, hyper={"open_classes": "on", "gate_until": 0.1})
    cohort = run.grid.cohorts[0]
    data, _ = cohort.data.at(1, run.strategy.population.agreed.scaling)
    state, model = cohort.state, cohort.learner.model
    seen = embeddings(
        model,
        {n.removeprefix("fused."): t for n, t in state.items() if n.startswith("fused.")},
        data.x,
    )
    for c in range(len(data.clients)):
        n = data.counts[c]
        at, y = torch.nn.functional.normalize(seen[c, :n], dim=1), data.y[c, :n]
        means = torch.stack([at[y == k].mean(0) for k in range(3)])
        variance = (at - means[y]).square().sum(0) / (n - 3)
        torch.testing.assert_close(state["nearest.means"][c], means, atol=1e-5, rtol=1e-4)
        spread = variance + 0.1 * variance.mean()
        torch.testing.assert_close(state["nearest.spread"][c], spread, atol=1e-6, rtol=1e-3)


def test_class_means_are_those_in_the_body_that_is_tested(run_method: RunMethod) -> None:
    """Not in the one before, where the model as received is tested."""
    hyper = {"open_classes": "on", "tested": "received", "gate_until": FOR_EVER}
    run = run_method("fedsub-gated", rounds=2, hyper=hyper)
    cohort = run.grid.cohorts[0]
    data = cohort.data.at(2, run.strategy.population.agreed.scaling)[0]
    kept, _ = share_held_back(data, 0.25, 0)
    for place, client in enumerate(data.clients):
        body, n = own(run, client, "fused"), kept.counts[place]
        one = {name: t.unsqueeze(0) for name, t in body.items()}
        seen = embeddings(cohort.learner.model, one, kept.x[[place], :n])[0]
        at, y = torch.nn.functional.normalize(seen, dim=1), kept.y[place, :n]
        means = torch.stack([at[y == k].mean(0) for k in range(3)])
        found = run.models()[client]["nearest.means"]
        torch.testing.assert_close(found, means, atol=1e-5, rtol=1e-4)
        before = cohort.state["nearest.means"][place]
        assert not torch.allclose(found, before, atol=1e-3)


def answers(run_method: RunMethod, hyper: dict[str, Any]) -> torch.Tensor:
    """Return what the mixtures of people who lack classes answer after a few rounds."""
    lacking = people(((0, 1), (0, 1, 2), (0, 1, 2), (1, 2)))
    x = torch.randn(1, 50, 4, generator=torch.Generator().manual_seed(0)) * 3
    run = run_method("fedsub-gated", lacking, hyper=hyper)
    return torch.cat(
        [c.learner.predict(c.state, x.expand(len(c.clients), 50, 4)) for c in run.grid.cohorts]
    )


@pytest.fixture(scope="module")
def whole() -> Iterator[torch.Tensor]:
    """Answers with nothing switched."""
    with running() as run_method:
        yield answers(run_method, {})


@pytest.mark.parametrize(
    "switched",
    [
        {"impute": False},
        {"experts": "local,fused"},
        {"gate_until": 1.0},
        {"smooth": 0.0},
        {"open_classes": "on"},
        {"score": "one"},
        {"k_selection": "fixed:1"},
        {"prototype": "embedding"},
        {"prototype_noise": "gaussian", "prototype_clip": 1.0, "prototype_sigma": 9.0},
    ],
    ids=str,
)
def test_every_part_is_a_switch(
    switched: dict[str, Any], whole: torch.Tensor, run_method: RunMethod
) -> None:
    """Each changes what people's mixtures answer."""
    if "prototype_noise" in switched:
        pytest.importorskip("dp_accounting")
    after = answers(run_method, switched)
    assert whole.isfinite().all() and after.isfinite().all()
    assert not torch.equal(whole, after)


def test_what_judges_trains_later(run_method: RunMethod) -> None:
    few = people(samples=20)
    first = run_method(
        "fedsub-gated", few, hyper={"gate_until": FOR_EVER, "experts": "local,fused"}
    )
    later = run_method("fedsub-gated", few, hyper={"gate_until": 0.4, "experts": "local,fused"})
    counts = [[u.floats(GATE)[-1] for u in uploads.values()] for uploads in later.uploads]
    assert all(counts[0]) and not any(counts[1] + counts[2])
    for upload in first.uploads[0].values():
        *sums, count = upload.floats(GATE).tolist()
        assert sum(sums) == pytest.approx(count) == pytest.approx(upload.examples / 4, abs=1)
    trained = own(first, "p1", "local")["linear1.weight"]
    assert not torch.equal(trained, own(later, "p1", "local")["linear1.weight"])


def test_weights_are_reported_and_are_a_person_s_own(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "ALPHA", 5.0)
    run = run_method("fedsub-gated")
    weights = {
        client: [run.metric(f"weight_{name}")[3, client] for name in EXPERTS]
        for client in ("p1", "p2")
    }
    assert weights["p1"] != weights["p2"]
    for client, said in weights.items():
        assert sum(said) == pytest.approx(1, abs=1e-5)
        assert run.models()[client]["gate.weights"].tolist() == pytest.approx(said)
    common = [run.metric(f"gate_{name}")[3, ""] for name in EXPERTS]
    assert sum(common) == pytest.approx(1, abs=1e-5)
    assert run.strategy.state is not None
    assert run.strategy.state["gate.weights"].tolist() == pytest.approx(common)


def test_who_was_dropped_is_trained_no_more(run_method: RunMethod) -> None:
    """A server that says 0 of an expert: its model stays, and nobody believes it."""
    before = run_method("fedsub-gated", hyper={"smooth": 0.0}, rounds=3, until=2)
    assert before.strategy.state is not None
    before.lasting["gate.weights"] = torch.tensor([0.0, 0.5, 0.5])
    after = run_method("fedsub-gated", hyper={"smooth": 0.0}, rounds=3, after=before)
    for client in ("p1", "p2"):
        assert_equal(own(after, client, "local"), own(before, client, "local"))
        assert after.models()[client]["gate.weights"][0] == 0
        name = "linear3.weight"
        assert not torch.equal(own(after, client, "head")[name], own(before, client, "head")[name])
    assert after.strategy.state is not None
    assert after.strategy.state["gate.weights"][0] == 0


def test_those_for_whom_local_was_not_dropped_train_it_as_ever(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=1)
    (cohort, *_) = [one for one in run.grid.cohorts if len(one.clients) > 1]
    data, _ = cohort.data.at(1, run.strategy.population.agreed.scaling)
    turn, name, half = run.strategy.turn(1), "local.linear1.weight", cohort.learner
    assert isinstance(half, learner.FedSubGatedLearner)
    start = half.init(len(cohort.clients), 0)
    dropped = start | {"gate.common": start["gate.common"].clone()}
    dropped["gate.common"][0, 0] = 0
    every, some = (half.train_alone(state, data, turn) for state in (start, dropped))
    assert torch.equal(some[name][0], start[name][0])
    torch.testing.assert_close(some[name][1:], every[name][1:])
    dropped["gate.common"][:, 0] = 0
    assert half.train_alone(dropped, data, turn) == {}


def unrestricted(patch: pytest.MonkeyPatch) -> None:
    """Let experts train on all classes' logits, and let heads keep all of their rows."""

    def train(own: Any, params: Any, held: Any, data: Any, turn: Any, **how: Any) -> Any:
        return own.train(params, data, turn, **how)

    patch.setattr(experts.ExpertsLearner, "train_restricted", train)
    patch.setattr(experts, "_rows", lambda held, like: torch.ones_like(like, dtype=torch.bool))


def test_rows_of_lacking_classes_are_pushed_down_by_nobody(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = people(((0, 1), (0, 1, 2), (0, 1, 2), (1, 2)))
    last, first = "model.linear3.bias", {}
    for restricted in (True, False):
        if not restricted:
            unrestricted(monkeypatch)
        run = run_method("fedsub-gated", lacking, rounds=1, hyper={"impute": False})
        first[restricted] = run.client_state("p1")[last]
    start = run.strategy.model.init(1, 0)
    assert first[True][2] == start["linear3.bias"][0, 2]
    assert first[False][2] < start["linear3.bias"][0, 2]


def test_the_head_has_the_fused_rows_of_lacking_classes_and_does_not_answer_them(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "ALPHA", 0.0)
    lacking = people(((0, 1), (0, 1, 2), (0, 1, 2), (1, 2)))
    model = run_method("fedsub-gated", lacking).models()["p1"]
    for row, same in ((0, False), (2, True)):
        for name in ("linear3.weight", "linear3.bias"):
            assert torch.equal(model[f"head.{name}"][row], model[f"fused.{name}"][row]) is same
    run = run_method("fedsub-gated", lacking, hyper={"experts": "head"})
    (cohort, *_) = run.grid.cohorts
    x = torch.randn(len(cohort.clients), 50, 4)
    place = [one.client for one in cohort.clients].index("p1")
    assert cohort.learner.predict(cohort.state, x)[place].softmax(1)[:, 2].max() < 1e-6


def test_the_head_is_pulled_to_the_fused_one_s(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, name = [], "linear3.weight"
    for pull in (0.0, 0.02, 1.0):
        monkeypatch.setattr(experts, "HEAD_PULL", pull)
        models = run_method("fedsub-gated", rounds=6, hyper={"smooth": 0.0}).models().values()
        away.append(sum((m[f"head.{name}"] - m[f"fused.{name}"]).norm().item() for m in models))
    free, weak, strong = away
    assert free > 1.02 * weak
    assert weak > 1.5 * strong > 0


def test_a_class_that_comes_is_known_from_others(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head begins with the fused model's row, not with one that all rounds pushed down."""
    everybody = people(((0, 1, 2),) * 4)
    late = everybody.clients["p1"]
    few = np.flatnonzero((late.y < 2) | (np.arange(len(late.y)) < 88))  # eight of the last class
    late = ClientData("p1", late.x[few], late.y[few])
    since = np.where(late.y == 2, 31, 0)
    clients = everybody.clients | {"p1": replace(late, since=since)}
    coming = Federation(everybody.card, clients)
    f1 = {}
    # Five epochs would learn the class in a round, wherever they begin.
    monkeypatch.setattr(experts, "HEAD_EPOCHS", 2)
    for restricted in (True, False):
        if not restricted:
            unrestricted(monkeypatch)
        run = run_method("fedsub-gated", coming, rounds=31, hyper={"experts": "head"})
        f1[restricted] = run.metric("f1_new")[31, "p1"]
    assert f1[True] > f1[False] + 0.4


def test_means_of_who_got_a_class_start_anew(run_method: RunMethod) -> None:
    """What was before knows nothing of it."""
    everybody = people(((0, 1, 2),) * 4)
    late = everybody.clients["p1"]
    late = replace(late, since=np.where(late.y == 2, 6, 0))
    coming = Federation(everybody.card, everybody.clients | {"p1": late})
    for rounds, anew in ((5, ()), (6, ("p1",)), (7, ())):
        run = run_method("fedsub-gated", coming, rounds=rounds)
        for client in ("p1", "p2"):
            state = run.client_state(client)
            for name in ("local.linear1.weight", "head.linear3.bias"):
                same = torch.equal(state[f"mean.{name}"], state[name])
                assert same == (client in anew), (rounds, client, name)


def test_how_far_is_far_is_told_by_enough_samples_alone(run_method: RunMethod) -> None:
    """Three of each of two classes are their own means, nearly; seven in all tell of a spread."""
    run = run_method("fedsub-gated", rounds=1, hyper={"open_classes": "on", "gate_until": 1e-9})
    learner, turn = run.grid.cohorts[0].learner, run.strategy.turn(1)
    y = torch.tensor([[0, 0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0, 0]])
    x = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(0))
    data = Stack(("p1", "p2"), x, y, (5, 6))
    opened = learner.fit(learner.init(2, 0), [Bundle()] * 2, data, turn)[0]["gate.open"]
    assert opened.tolist() == [[1, 0], [1, 1]]


def test_who_trained_on_wrong_labels_is_not_believed_for_knowing_them(
    run_method: RunMethod,
) -> None:
    """When samples that judged are trained, `local` learns a third of false labels by heart."""
    right = people(samples=30, seed=1)
    stream = np.random.default_rng(0)
    clients = {}
    for client, one in right.clients.items():
        false = stream.random(len(one.y)) < 0.35
        y = np.where(false, (one.y + stream.integers(1, 3, len(one.y))) % 3, one.y)
        clients[client] = ClientData(client, one.x, y)
    noisy = Federation(right.card, clients)
    hyper = {"experts": "local,fused", "gate_until": 0.25}
    run = run_method("fedsub-gated", noisy, rounds=40, lr=0.2, hyper=hyper, epochs=3)
    weight = run.metric("weight_local")
    assert max(value for (round, _), value in weight.items() if round >= 10) < 0.2


@pytest.mark.parametrize("opened", ["off", "on"])
def test_open_classes_are_answered_if_asked_for(opened: str, run_method: RunMethod) -> None:
    lacking = people(((0, 1), (0, 1, 2), (0, 1, 2), (1, 2)))
    hyper = {"open_classes": opened, "experts": "local,fused"}
    run = run_method("fedsub-gated", lacking, rounds=20, hyper=hyper)
    (cohort,) = [c for c in run.grid.cohorts if "p1" in [one.client for one in c.clients]]
    place = [one.client for one in cohort.clients].index("p1")
    assert run.models()["p1"]["gate.held"].tolist() == [1, 1, 0]
    # Where p2's samples of the class lie, the person who lacks it has learnt from others.
    others = run.grid.cohorts[0].data.at(1, run.strategy.population.agreed.scaling)[0]
    who = others.clients.index("p2") if "p2" in others.clients else 0
    x = others.x[who][others.y[who] == 2]
    found = cohort.learner.predict(cohort.state, x.expand(len(cohort.clients), *x.shape))[place]
    share = (found.argmax(1) == 2).float().mean().item()
    assert share > 0.5 if opened == "on" else share < 0.2


def test_who_joins_late_starts_from_everybodys_mean(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=4, until=2)
    strategy, state = run.strategy, run.strategy.state
    assert state is not None
    known, new = strategy.half.downloads(state, strategy.round(3), ["p1", "zoe"])
    mean = torch.from_numpy(new.floats("linear3").copy())
    rows, weight = state["rows.linear3"], state["omega"]
    torch.testing.assert_close(mean, (rows * weight[:, :, None]).sum(0) / weight.sum(0)[:, None])
    (cohort,) = [c for c in run.grid.cohorts if "p1" in [one.client for one in c.clients]][:1]
    started = cohort.learner.init(1, 0)
    after = cohort.learner.receive(started, [new])
    for expert in ("model", "local", "fused"):
        assert torch.equal(after[f"{expert}.linear3.bias"][0], mean[:, -1]), expert
    assert torch.equal(after["head.linear3.bias"][0], mean[:, -1])
    # Later downloads are for the fused model alone.
    later = cohort.learner.receive(after, [known])
    assert torch.equal(later["local.linear3.bias"], after["local.linear3.bias"])
    assert not torch.equal(later["fused.linear3.bias"], after["fused.linear3.bias"])
    # Whoever was there when nobody had anything to give keeps the common start.
    gate = Bundle(tensors={GATE: new.tensors[GATE]})
    begun = cohort.learner.receive(started, [gate])
    assert torch.equal(cohort.learner.receive(begun, [known])["local.linear3.bias"],
                       started["local.linear3.bias"])  # fmt: skip
    # Until it has judged experts it believes what the people do, however late it comes.
    believed = torch.tensor([0.02, 0.9, 0.08])
    told = Bundle(tensors={**new.tensors, GATE: Floats(believed.numpy())})
    torch.testing.assert_close(cohort.learner.receive(started, [told])["gate.weights"][0], believed)


@pytest.mark.parametrize(
    ("tensor", "values", "what"),
    [
        (GATE, [5.0, -1, 0, 4], "gate"),
        (GATE, [9.0, 9, 9, 4], "gate"),
        (GATE, [1e6, 0, 0, 1e6], "gate"),
        (GATE, [0.0, 0, 1, 1], r"gate: got \[0.0, 0.0, 1.0, 1.0\], expected zeros: no sample is"),
        ("gate.curves", None, "gate.curves: got .* to .*, expected at most 3 for each"),
        ("linear1.shares", None, "shares of layer linear1"),
    ],
)
def test_what_cannot_be_is_refused(
    tensor: str, values: list[float] | None, what: str, run_method: RunMethod
) -> None:
    run = run_method("fedsub-gated", rounds=10, until=2)
    upload, state = run.uploads[0]["p1"], run.strategy.state
    assert state is not None
    run.strategy.half.check(state, next_round(run.strategy), next_from(run.strategy, "p1"), upload)
    # From round 5 on nobody holds samples back.
    run.strategy.finished_rounds = 9 if "zeros" in what else 2
    given = upload.floats(tensor) * 40 if values is None else np.array(values, np.float32)
    spoilt = Bundle(upload.examples, upload.version, {**upload.tensors, tensor: Floats(given)})
    with pytest.raises(MessageRefused, match=rf"client 'p1', round (3|10): {what}"):
        run.strategy.half.check(
            state, next_round(run.strategy), next_from(run.strategy, "p1"), spoilt
        )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("experts", "local,local,fused", "experts: got 'local,local,fused', expected each once"),
        # Of runs of the release before.
        ("pull", 0.1, "unknown key 'fedsub-gated.pull'.* Known keys of .*fedsub-gated.experts"),
        ("experts", "local,nearest", "expected some of local, fused, head"),
    ],
)
def test_experts_and_options_that_there_are_not_are_refused(
    key: str, value: str | float, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        read_config(None, {"method": "fedsub-gated", f"fedsub-gated.{key}": value})


def test_one_whose_training_went_wrong_loses_its_weight_alone(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=3, until=2, hyper={"gate_until": FOR_EVER})
    (cohort,) = [c for c in run.grid.cohorts if "p1" in [one.client for one in c.clients]]
    place = [one.client for one in cohort.clients].index("p1")
    state = {n: t.clone() for n, t in cohort.state.items()}
    for name, tensor in state.items():
        if name.startswith("local."):
            tensor[place] = torch.nan
    data = cohort.data.at(3, run.strategy.population.agreed.scaling)[0]
    received = [Bundle()] * len(cohort.clients)
    after, uploads, _ = cohort.learner.fit(state, received, data, run.strategy.turn(3))
    weights = after["gate.weights"][place]
    assert weights.isfinite().all() and weights[0] < cohort.state["gate.weights"][place, 0]
    assert all(np.isfinite(part).all() for part in [uploads[place].floats(GATE)])
    assert cohort.learner.predict(after, data.x)[place].isfinite().all()


def test_where_all_went_wrong_the_least_wrong_is_believed(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=1)
    cohort = run.grid.cohorts[0]
    state = {n: t.clone() for n, t in cohort.state.items()}
    state["gate.trust"][:] = (torch.tensor([2e-4, 1e-4, 1e-4]) / 0.5) ** 4
    weights = cohort.learner.receive(state, [Bundle()] * len(cohort.clients))["gate.weights"]
    torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)))
    assert (weights[:, 0] > 0.8).all()


def test_who_is_forgotten_leaves_the_cache_and_the_gate_stays(run_method: RunMethod) -> None:
    run = run_method("fedsub-gated", rounds=2)
    assert run.strategy.state is not None
    left = run.strategy.half.without(run.strategy.state, "p2")
    assert left["rows.linear1"].shape[0] == left["shares.linear1"].shape[0] == 3
    assert torch.equal(left["gate.weights"], run.strategy.state["gate.weights"])
