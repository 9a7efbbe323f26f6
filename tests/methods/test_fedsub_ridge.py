"""fedsub-ridge: three rounds, then silence; exact forgetting; everybody's samples once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines import stacks
from fedsub.testing.halves import HalfAlone
from fedsub.testing.hostile_tests import SIX, infect, others_f1
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_client.methods.fedsub_ridge import FedSubRidgeLearner
from fedsub_client.parts import solved_sums
from fedsub_client.parts.own_sums import Own, There
from fedsub_core.accounting import spent_epsilon
from fedsub_core.closed_form.candidates import Span
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import build_model
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Whole
from strategies.methods.fedsub_ridge.pooling import counts_as, sum_over
from strategies.methods.fedsub_ridge.strategy import FedSubRidgeServer
from strategies.rounds.context import Sender

NAME, CLASSES, FEATURES = "fedsub-ridge", 3, 12
#: Few features: what is to be shown does not depend on how many there are.
SMALL = {"encoder": "relu:8"}


def samples(seed: int, n: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Return a person's features, whole levels, and labels; people are alike by half."""
    stream = np.random.default_rng(seed)
    y = np.arange(n) % CLASSES
    common = np.random.default_rng(99).normal(0, 30, (CLASSES, FEATURES))
    own = 0.5 * common + 0.5 * stream.normal(0, 30, (CLASSES, FEATURES))
    x = np.rint(own[y] + stream.normal(0, 25, (n, FEATURES)))
    return (np.clip(x, -128, 127) / 128).astype(np.float32), y.astype(np.int64)


def data(persons: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Stack:
    xs, ys = zip(*persons.values(), strict=True)
    return stack(list(persons), xs, ys)


class Federated:
    """Both halves without a wire between them, of people who may come, go and change."""

    def __init__(self, most_examples: float = 3.0, **hyper: Any) -> None:
        own = METHODS[NAME].hyperparameters(**hyper)
        config = RunConfig(
            method=NAME, beside="", hyper={NAME: own}, most_examples=most_examples, seed=0
        )
        self.model = build_model("linear", (FEATURES,), CLASSES)
        self.server = HalfAlone(FedSubRidgeServer(config.server_settings(NAME)), self.model)
        self.server.state = self.server.half.init(self.server.start())
        sends = METHODS[NAME].sends(self.model, own)
        self.learner = FedSubRidgeLearner(self.model, TrainingSettings(), own, sends)
        self.devices: dict[str, dict[str, torch.Tensor]] = {}
        self.round = 0

    @property
    def state(self) -> dict[str, torch.Tensor]:
        return self.server.state

    def run(
        self, persons: Mapping[str, tuple[np.ndarray, np.ndarray]], rounds: int
    ) -> list[dict[str, Bundle]]:
        """Run rounds in which these people take part; return what they sent."""
        said = []
        for _ in range(rounds):
            self.round += 1
            turn, ids = Turn(self.round, 99, 0), list(persons)
            received = self.server.half.downloads(self.state, self.server.round(turn), ids)
            start = self.learner.init(1, 0)
            own = [self.devices.get(client, start) for client in ids]
            state = {name: torch.cat([one[name] for one in own]) for name in start}
            state, uploads, _ = self.learner.fit(state, received, data(persons), turn)
            for i, client in enumerate(ids):
                self.devices[client] = {name: t[i : i + 1].clone() for name, t in state.items()}
            sent = dict(sorted(zip(ids, uploads, strict=True)))
            for client, upload in sent.items():
                self.server.half.check(
                    self.state, self.server.round(turn), Sender(client, turn), upload
                )
            self.server.state, _ = self.server.half.aggregate(
                self.state, self.server.round(turn), sent
            )
            said.append(sent)
        return said

    def head(self, client: str) -> torch.Tensor:
        return self.devices[client]["model.linear1.weight"][0]


FOUR = {f"p{i}": samples(i) for i in range(4)}


@pytest.fixture(scope="module")
def settled() -> Federated:
    """Return four people after three rounds."""
    federated = Federated()
    federated.run(FOUR, 3)
    return federated


def test_after_three_rounds_nothing_but_envelopes_travels(run_method: RunMethod) -> None:
    run = run_method(NAME, rounds=6, **SMALL)
    for round in (4, 5, 6):
        assert not any(upload.tensors for upload in run.uploads[round - 1].values())
        for metric in ("bytes_up_sent", "bytes_down_sent"):
            sent = {c: n for (r, c), n in run.metric(metric).items() if r == round}
            assert len(sent) == 4 and max(sent.values()) < 40
    assert_equal(run.states[5], run.states[3])
    losses = run.metric("loss")
    assert all(losses[6, client] == losses[3, client] for client in people().clients)


def test_people_hear_what_they_gain_over_own_samples_alone(run_method: RunMethod) -> None:
    """The gain is over the head of the first round, before any sums came."""
    run = run_method(NAME, rounds=3, **SMALL)
    gains, f1 = run.metric("gain_over_own"), run.metric("macro_f1")
    clients = people().clients
    for client in clients:
        alone = f1[1, client]
        assert gains[1, client] == 0
        assert gains[3, client] == pytest.approx(f1[3, client] - alone, abs=1e-9)
    assert any(gains[3, client] for client in clients)


@pytest.mark.parametrize("groups", ["none", "clusters", "class", "nearest"])
def test_a_person_who_is_forgotten_never_was(groups: str) -> None:
    """At once in all sums, and two rounds later in everybody's equations and heads."""
    with_it, without = Federated(groups=groups, near=2), Federated(groups=groups, near=2)
    rest = {client: own for client, own in FOUR.items() if client != "p1"}
    with_it.run(FOUR, 4)
    without.run(rest, 4)
    with_it.server.state = with_it.server.half.without(with_it.state, "p1")
    for name in ("everybody.gram", "everybody.cross"):
        assert torch.equal(with_it.state[name], without.state[name])
    assert not any("p1" in key for key in with_it.state)
    with_it.run(rest, 2)
    assert_equal(with_it.state, without.state)
    for client in rest:
        assert torch.equal(with_it.head(client), without.head(client))


def test_nobody_is_left_of_the_only_one() -> None:
    federated = Federated()
    federated.run({"p1": FOUR["p1"]}, 2)
    assert_equal(federated.server.half.without(federated.state, "p1"), Federated().state)


@pytest.mark.parametrize("parts", [2, 8])
def test_samples_that_come_in_parts_give_what_they_give_at_once(
    parts: int, settled: Federated
) -> None:
    federated = Federated()
    x, y = FOUR["p2"]
    for part in range(1, parts + 1):
        held = len(y) * part // parts
        federated.run(FOUR | {"p2": (x[:held], y[:held])}, 1)
    federated.run(FOUR, 2)
    assert_equal(federated.state, settled.state)
    for client in FOUR:
        assert torch.equal(federated.head(client), settled.head(client))


def test_whose_samples_change_sends_again_and_everybody_hears(settled: Federated) -> None:
    federated, changed = Federated(), FOUR | {"p3": samples(33)}
    federated.run(FOUR, 4)
    (first, second, third, fourth) = federated.run(changed, 4)
    assert [client for client, one in first.items() if one.tensors] == ["p3"]
    assert all(one.tensors.keys() == {"equations"} for one in second.values())
    assert third and not any(one.tensors for one in fourth.values())
    fresh = Federated()
    fresh.run(changed, 3)
    assert_equal(federated.state, fresh.state)
    assert not torch.equal(federated.head("p0"), settled.head("p0"))


@pytest.mark.parametrize("most", [0.0, 1.0])
def test_sums_kept_up_to_date_are_sums_anew(most: float) -> None:
    """Whoever comes, changes or leaves moves the median, and with it what others count."""
    federated = Federated(most)
    for n in (8, 40, 90):
        federated.run({"p0": samples(0, n), "p1": samples(1, 20 + n), f"q{n}": samples(n, n)}, 1)
        federated.server.state = federated.server.half.without(federated.state, "q40")
        counted = counts_as(federated.state, most)
        everybody = Statistics(
            *(federated.state[f"everybody.{name}"].numpy() for name in ("gram", "cross"))
        )
        anew = sum_over(federated.state, counted, counted, everybody)
        np.testing.assert_array_equal(everybody.gram, anew.gram)
        np.testing.assert_array_equal(everybody.cross, anew.cross)


def test_an_upload_that_was_lost_is_sent_again() -> None:
    federated = Federated()
    before = federated.state
    federated.run(FOUR, 1)
    federated.server.state = before  # nothing arrived
    (again,) = federated.run(FOUR, 1)
    assert all("gram" in one.tensors for one in again.values())


def test_who_lost_its_state_is_sent_all_sums_again(settled: Federated) -> None:
    federated = Federated()
    federated.run(FOUR, 4)
    del federated.devices["p1"]
    said = federated.run(FOUR, 4)
    assert torch.equal(federated.head("p1"), settled.head("p1"))
    assert "gram" in said[0]["p1"].tensors
    assert not any(one.tensors for one in said[3].values())
    assert_equal(
        {k: v for k, v in federated.state.items() if "facts" not in k},
        {k: v for k, v in settled.state.items() if "facts" not in k},
    )


def test_who_comes_late_or_never_took_part_is_given_all_sums() -> None:
    """Sums lack its samples: it adds them, and what it solves is what it solves inside."""
    federated, settled = Federated(prior=0.0), Federated(prior=0.0)
    settled.run(FOUR, 3)
    late = samples(7)
    federated.run(FOUR, 3)
    federated.run(FOUR | {"late": late}, 1)
    outside = federated.head("late")
    federated.run(FOUR | {"late": late}, 1)
    torch.testing.assert_close(outside, federated.head("late"), atol=2e-3, rtol=0)
    stranger = settled.learner.init(1, 0)
    received = settled.server.half.downloads(
        settled.state, settled.server.round(Turn(9, 9, 0)), ["late"]
    )
    tested = settled.learner.personalise(stranger, received, data({"late": late}), Turn(9, 9, 0))
    torch.testing.assert_close(tested["model.linear1.weight"][0], outside, atol=2e-3, rtol=0)


def test_who_has_most_samples_counts_for_few_and_has_all_of_its_own() -> None:
    bounded, free = (Federated(most_examples=most, prior=0.0) for most in (1.0, 0.0))
    persons = FOUR | {"p0": samples(0, 240)}
    for federated in (bounded, free):
        federated.run(persons, 3)
    assert bounded.state["everybody.gram"][0] == pytest.approx(4 * 24 * 128**2, rel=1e-3)
    assert free.state["everybody.gram"][0] == (240 + 3 * 24) * 128**2
    # All of its own samples decide either way; of others' they are the greatest part but once.
    torch.testing.assert_close(bounded.head("p0"), free.head("p0"), atol=1e-4, rtol=0)
    assert (bounded.head("p1") - free.head("p1")).abs().max() > 1e-3


@pytest.mark.parametrize(
    "own",
    [
        (samples(0)[0][:1], np.array([2])),
        (samples(0)[0][:9], np.full(9, 1)),
    ],
    ids=["one sample", "one class"],
)
def test_a_person_of_one_sample_or_class_gets_a_whole_head(
    own: tuple[np.ndarray, np.ndarray],
) -> None:
    federated = Federated()
    federated.run(FOUR | {"few": own}, 4)
    assert federated.head("few").isfinite().all()
    x, y = samples(1, 300)
    right = (torch.from_numpy(x) @ federated.head("few").T).argmax(1).numpy() == y
    assert right.mean() > 0.5, "the others know the other classes"


def test_data_that_grow_during_a_run_are_sent_when_they_come(run_method: RunMethod) -> None:
    federation = people()
    own = federation.clients["p2"]
    since = np.where(np.arange(len(own.y)) % 3 == 0, 4, 0)
    grown = Federation(
        federation.card,
        federation.clients | {"p2": ClientData("p2", own.x, own.y, since=since)},
    )
    run = run_method(NAME, grown, rounds=6, **SMALL)
    sent = [{c for c, one in uploads.items() if "gram" in one.tensors} for uploads in run.uploads]
    assert sent == [set(federation.clients), set(), set(), {"p2"}, set(), set()]
    assert run.states[5]["everybody.gram"][0] > run.states[2]["everybody.gram"][0]


@pytest.mark.parametrize("groups", ["none", "nearest"])
def test_whose_sums_lie_about_labels_harms_the_others_little(
    groups: str, run_method: RunMethod
) -> None:
    """Sums of other labels could be somebody's: they pass every check."""

    def swapped(upload: Bundle, received: Bundle) -> Bundle:
        tensors = dict(upload.tensors)
        if "cross" in tensors:
            cross = upload.whole("cross")
            tensors["cross"] = Whole(np.roll(cross, 1, axis=0))
        return replace(upload, tensors=tensors)

    keys: dict[str, Any] = {"hyper": {"groups": groups}, "rounds": 3, "encoder": "relu:60"}
    honest = others_f1(run_method(NAME, SIX, **keys))
    run = run_method(NAME, SIX, prepare=infect(swapped), **keys)
    assert not run.metric("refused_replies")
    assert others_f1(run) > honest - 0.05


def test_the_same_sums_are_solved_once_whatever_stack_is_sent_them(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stacks.CHUNK, "cpu", 1)
    solved: list[int] = []

    def moments(scale: Scale, sums: Statistics) -> Any:
        solved.append(sums.features)
        return of_sums(scale, sums)

    of_sums = Scale.moments
    monkeypatch.setattr(Scale, "moments", moments)
    monkeypatch.setattr(solved_sums, "_solved", {})
    run = run_method(NAME, rounds=5, threads=2, **SMALL)
    assert len(run.grid.cohorts) == 4 and solved == [FEATURES]


@pytest.mark.parametrize("groups", ["none", "class"])
def test_new_equations_solve_nothing_anew(groups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solved_sums, "_solved", {})
    monkeypatch.setattr(solved_sums, "ALONE", solved_sums.Alone())
    spans: list[int] = []

    def span(x: Any, *rest: Any) -> Span:
        spans.append(len(x.x))
        return of(x, *rest)

    of = Span.of
    monkeypatch.setattr(Span, "of", span)
    kept = Federated(groups=groups, cluster_count=1)
    kept.run(FOUR, 2)
    before = len(spans)
    kept.run(FOUR, 1)
    assert before > 0 and len(spans) == before

    monkeypatch.setattr(solved_sums, "KEPT_BYTES", 0)
    monkeypatch.setattr(solved_sums, "ALONE_BYTES", 0)
    monkeypatch.setattr(solved_sums, "_solved", {})
    monkeypatch.setattr(solved_sums, "ALONE", solved_sums.Alone())
    anew = Federated(groups=groups, cluster_count=1)
    anew.run(FOUR, 3)
    assert len(spans) > 2 * before
    for client in FOUR:
        assert torch.equal(kept.head(client), anew.head(client))


def test_whose_samples_changed_is_judged_by_the_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums may be the same: what is kept beside them is of the samples that it was solved of."""
    monkeypatch.setattr(solved_sums, "_solved", {})
    federated = Federated()
    federated.run(FOUR, 3)
    x, y = FOUR["p0"]
    order = np.argsort(y, kind="stable")
    turned = FOUR | {"p0": (x[order], y[order])}
    federated.run(turned, 3)
    monkeypatch.setattr(solved_sums, "_solved", {})
    alone = Federated()
    alone.run(turned, 3)
    assert torch.equal(federated.head("p0"), alone.head("p0"))


def test_sums_that_are_kept_solved_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[bytes, Any] = {}
    monkeypatch.setattr(solved_sums, "_solved", kept)
    monkeypatch.setattr(solved_sums, "KEPT_BYTES", 2 * 26 * (FEATURES + 1) ** 2)
    Federated(groups="nearest", near=2).run(FOUR, 3)
    assert len(kept) == 2


def test_it_is_better_than_alone_and_than_one_model_for_all(run_method: RunMethod) -> None:
    runs = {"local": 40, "fedavg": 40, NAME: 3}
    federation = people(samples=16)
    f1 = {}
    for name, rounds in runs.items():
        run = run_method(name, federation, rounds=rounds)
        last = [f for (r, _), f in run.metric("macro_f1").items() if r == rounds]
        f1[name] = float(np.mean(last))
    assert f1[NAME] >= max(f1["local"], f1["fedavg"])


def test_no_encoder_is_refused_by_name() -> None:
    with refused(ConfigError, "encoder", "'fedsub-ridge'", got="'none'"):
        RunConfig(method="fedavg", beside=NAME, encoder="none")


def test_more_features_than_fit_are_refused_before_a_round(run_method: RunMethod) -> None:
    why = r"got 9,004 features, whose products take 0\.6 GiB to solve .* expected 8,192 at most"
    with pytest.raises(ConfigError, match=why):
        run_method(NAME, rounds=1, encoder="relu:9000")


def test_the_model_is_linear_whatever_the_run_says(run_method: RunMethod) -> None:
    run = run_method(NAME, rounds=1, model="mlp", **SMALL)
    shapes = {"linear1.weight": (3, 12), "linear1.bias": (3,)}
    assert run.strategy.model.parameter_shapes == shapes
    (cohort,) = run.grid.cohorts if len(run.grid.cohorts) == 1 else run.grid.cohorts[:1]
    assert cohort.learner.model.parameter_shapes == shapes


def test_noise_hides_sums_once_and_its_price_is_said(run_method: RunMethod) -> None:
    keys: dict[str, Any] = {"rounds": 4, **SMALL}
    run = run_method(NAME, hyper={"noise": 2.0}, **keys)
    spent = [value for _, value in sorted(run.metric("epsilon").items())]
    assert spent == [spent_epsilon(2.0, 1, 1e-5)] * 4, "the same sums are the same release"
    strategy, state = run.strategy, run.states[3]
    assert strategy.state is not None
    first, again = (
        strategy.half.downloads(strategy.state, strategy.round(5), ["new"])[0] for _ in range(2)
    )
    assert "pooled" not in first.tensors
    for name in first.tensors:
        np.testing.assert_array_equal(first.floats(name), again.floats(name))
    plain = run_method(NAME, **keys)
    torch.testing.assert_close(state["everybody.gram"], plain.states[3]["everybody.gram"])
    sent = plain.strategy.half.downloads(
        plain.strategy.lasting_state(), plain.strategy.round(5), ["new"]
    )[0]
    assert (sent.floats("everybody.gram") != first.floats("everybody.gram")).mean() > 0.9
    left = strategy.half.without(strategy.state, "p1")
    assert int(left["noise.releases"]) == 2, "sums without a person are another release"


def test_a_simulations_noise_follows_from_its_seed(run_method: RunMethod) -> None:
    keys: dict[str, Any] = {"rounds": 2, **SMALL}
    one, again, other = (
        run_method(NAME, hyper={"noise": 2.0}, **keys | {"seed": seed}) for seed in (0, 0, 1)
    )
    assert one.metric("macro_f1") == again.metric("macro_f1")
    assert int(one.states[1]["noise.secret"]) == 0 != int(other.states[1]["noise.secret"])


def test_what_was_released_before_an_undone_round_stays_counted(run_method: RunMethod) -> None:
    run = run_method(NAME, hyper={"noise": 2.0}, rounds=2, **SMALL)
    strategy, left = run.strategy, run.states[1]
    assert int(left["noise.releases"]) == 1
    # What is gone back to where those who led the others astray are not among the last rounds'.
    strategy.undoing.undo = lambda left_out, begin: (begin(), [])  # type: ignore[method-assign]
    assert strategy._recover(3, "")
    assert strategy.state is not None and not strategy.state["everybody.gram"].any()
    for name in ("noise.releases", "noise.secret"):
        assert torch.equal(strategy.state[name], left[name])


def test_with_noise_no_median_of_others_bounds_anybody(run_method: RunMethod) -> None:
    federation = people()
    large = federation.clients["p2"]
    many = ClientData("p2", np.tile(large.x, (9, 1)), np.tile(large.y, 9))
    federation = Federation(federation.card, federation.clients | {"p2": many})
    keys: dict[str, Any] = {"rounds": 1, "most_examples": 1.0, **SMALL}
    noise, plain = (run_method(NAME, federation, hyper={"noise": n}, **keys) for n in (1.0, 0.0))
    whole = sum(float(one.examples) for one in noise.uploads[0].values())
    assert float(noise.states[0]["everybody.cross"][:, 0].sum()) == whole * 128
    assert float(plain.states[0]["everybody.cross"][:, 0].sum()) < whole * 128 * 0.6


def test_noise_on_groups_sums_is_refused() -> None:
    hyper = METHODS[NAME].hyperparameters(noise=1.0, groups="nearest")
    with refused(ConfigError, got=[1, "groups = nearest"], expected="groups = none"):
        METHODS[NAME].check(hyper, 3)


def drifting(place: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a person whose classes trade places half-way through."""
    (x, y), (later, labels) = samples(place, 60), samples(place, 60)
    both = np.concatenate([x, later]), np.concatenate([(y + 1) % CLASSES, labels])
    return both


def test_where_classes_drift_old_samples_can_be_left_behind() -> None:
    persons = {f"p{i}": drifting(i) for i in range(4)}

    def right(**hyper: Any) -> float:
        federated = Federated(**hyper)
        federated.run(persons, 3)
        found = []
        for i, client in enumerate(persons):
            x, y = samples(i)
            own = federated.devices[client]
            logits = x @ own["model.linear1.weight"][0].numpy().T
            logits += own["model.linear1.bias"][0].numpy()
            found.append((logits.argmax(1) == y).mean())
        return float(np.mean(found))

    assert right(forgetting=0.8) > right() + 0.2


def test_what_fades_is_forgotten_exactly_too_and_grows_as_it_would_at_once() -> None:
    whole = Federated(forgetting=0.9)
    whole.run(FOUR, 3)
    without = Federated(forgetting=0.9)
    without.run({c: own for c, own in FOUR.items() if c != "p0"}, 3)
    left = whole.server.half.without(whole.state, "p0")
    for name in ("everybody.gram", "everybody.cross"):
        assert torch.equal(left[name], without.state[name])
    grown = Federated(forgetting=0.9)
    grown.run(FOUR | {"p1": (FOUR["p1"][0][:15], FOUR["p1"][1][:15])}, 3)
    grown.run(FOUR, 3)
    for client in FOUR:
        assert torch.equal(grown.head(client), whole.head(client))


def test_a_device_knows_its_first_samples_though_they_count_as_fewer() -> None:
    x, y = samples(1, 40)
    some, whole = (Own(data({"p": (x[:n], y[:n])}), 0, CLASSES, 0.8) for n in (25, 40))
    assert 0 < some.counted < 25
    lacks = whole.lacks(There(some.version, some.counted, some.counted))
    assert lacks is not None
    before = Rounded.of(some.statistics).statistics()
    assert np.array_equal((lacks + before).cross, whole.statistics.cross)


def test_noise_on_sums_that_fade_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"noise: got 1 with forgetting = 0\.9"):
        METHODS[NAME].check(METHODS[NAME].hyperparameters(noise=1.0, forgetting=0.9), 3)


def test_how_much_is_left_out_at_once_is_a_switch() -> None:
    heads = []
    for stretches in (0, 3):
        federated = Federated(stretches=stretches)
        federated.run(FOUR, 3)
        heads.append(federated.head("p0"))
    assert not torch.equal(*heads)
