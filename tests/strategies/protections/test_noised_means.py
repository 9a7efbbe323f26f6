"""Means with noise: of changes no longer than said, in which all count alike, and what it costs."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MessageType
from numpy.typing import NDArray

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.accounting import spent_epsilon
from fedsub_core.addends import MEANS
from fedsub_core.config.run_config import RunConfig
from fedsub_core.config.settings import NoiseSettings
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.methods.table import HOUSE
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire.bundles import Bundle, Floats, dense
from fedsub_server.driver import Checkpoints, drive
from fedsub_server.resuming import SERVER, decisive
from fedsub_server.rundb import RunDatabase
from strategies.protections.noised_means import NoisedMeans
from strategies.rounds.connection import Connection
from strategies.rounds.context import Opened
from strategies.rounds.memory import Memory
from strategies.rounds.noise_ledger import NOISED, NoiseLedger

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..lost_replies import lost
from ..tampered_grid import Reply

PLAIN: dict[str, Any] = dict(
    robust="none", standardise="client", lr=0.05, batch_size=16, hidden="16", rounds=1
)
SUMS = PLAIN | {"secure_aggregation": True}
#: So little that it changes no digit that is looked at.
LITTLE = 1e-9


def means(run: FinishedRun, round: int = 1) -> NDArray[np.float64]:
    """Return all numbers of the global model after a round."""
    own = {n: t for n, t in run.states[round - 1].items() if not n.startswith(NOISED)}
    return np.concatenate([t.numpy().ravel().astype(np.float64) for t in own.values()])


def changes(run: FinishedRun) -> dict[str, NDArray[np.float64]]:
    """Return by how much each person's model moved in the first round."""
    found = {}
    names = [name for name in run.states[0] if not name.startswith(NOISED)]
    for client in ("p1", "p2", "p3", "p4"):
        both = run.grid.downloads[1, client], run.grid.uploads[1, client]
        start, end = (
            np.concatenate([one.whole(name).ravel().astype(np.float64) for name in names])
            for one in both
        )
        found[client] = end - start
    return found


@pytest.mark.parametrize("sums", [False, True], ids=["plain", "of sums"])
def test_a_mean_is_of_shortened_changes_in_which_all_count_alike(
    sums: bool, people: MakePeople, run_method: RunMethod
) -> None:
    """p2 has the longest way by far, the others' are within the bound or a little beyond."""
    clear = run_method(people(), "fedavg", **PLAIN)
    own = changes(clear)
    start = means(clear) - sum(len(c.train_y) * own[c.client] for c in clear.clients) / sum(
        len(c.train_y) for c in clear.clients
    )
    clip = float(np.median([np.linalg.norm(one) for one in own.values()]))
    shortened = [v * min(1.0, clip / float(np.linalg.norm(v))) for v in own.values()]
    expected = np.sum(shortened, axis=0) / 4
    keys = SUMS if sums else PLAIN
    run = run_method(people(), "fedavg", dp_noise=LITTLE, dp_clip=clip, **keys)
    np.testing.assert_allclose(means(run) - start, expected, atol=2e-6)
    assert not run.refusals


@pytest.mark.parametrize("sums", [False, True], ids=["plain", "of sums"])
@pytest.mark.parametrize("silent", [(), ("p2",)], ids=["everybody", "without p2"])
def test_noise_is_as_large_as_said(
    sums: bool, silent: tuple[str, ...], people: MakePeople, run_method: RunMethod
) -> None:
    keys = (SUMS if sums else PLAIN) | {"hidden": "64,64", "dp_clip": 0.5}
    gone = lost(MessageType.TRAIN, *silent) if silent else None
    little, much = (
        run_method(people(), "fedavg", tamper=gone, dp_noise=noise, **keys)
        for noise in (LITTLE, 2.0)
    )
    noise = means(much) - means(little)
    assert noise.size > 4000
    assert np.std(noise) == pytest.approx(2.0 * 0.5 / (4 - len(silent)), rel=0.05)
    assert abs(np.mean(noise)) < 4 * np.std(noise) / np.sqrt(noise.size)


def test_one_that_goes_astray_moves_no_more_than_others(
    people: MakePeople, run_method: RunMethod
) -> None:
    def astray(reply: Reply) -> Message:
        if reply.kind == MessageType.TRAIN and reply.client == "p3":
            bundle = reply.bundle().message
            for tensor in bundle.tensors:
                values = np.frombuffer(tensor.values, "<f4") + np.float32(1e3)
                tensor.values = values.tobytes()
            return reply.with_bundle(bundle)
        return reply.message

    keys = PLAIN | {"dp_noise": LITTLE, "dp_clip": 0.1}
    clear, moved = (run_method(people(), "fedavg", tamper=one, **keys) for one in (None, astray))
    assert np.linalg.norm(means(moved) - means(clear)) <= 2 * 0.1 / 4 + 1e-5


def opened_sum(vectors: list[Words], levels: Levels) -> Opened:
    """Return a sum of people's vectors."""
    summed: Words = np.stack(vectors).sum(axis=0, dtype=np.uint32)
    total = levels.total(summed, len(vectors), noised=True)
    return Opened(total, tuple(f"p{i}" for i in range(len(vectors))), levels)


def test_one_that_sends_a_wrong_vector_sees_no_sum_beside_the_noise() -> None:
    """Sums go from their end to their beginning: half a turn on, each sign would be seen."""
    levels = Levels.of_people(4, 1, 8.0)
    stream, numbers = np.random.default_rng(6), 10_000
    changes = 0.01 * stream.normal(size=(3, numbers))
    vectors = [levels.vector(change, 1) for change in changes]
    half_a_turn = np.append(np.full(numbers, 2**31 - 1), [1, 0]).astype(np.uint32)
    opened = opened_sum([*vectors, half_a_turn], levels)
    assert opened.total is not None
    jumped = opened.total.sum > 0
    assert (jumped == (changes.sum(axis=0) < 0)).mean() > 0.99
    means = NoisedMeans(NoiseSettings(dp_noise=3.0), NoiseLedger(0), {"w": dense((numbers,))})
    noised, _ = means.of_sum(opened, 1)
    assert noised.total is not None
    seen = noised.total.sum > 0
    assert abs((seen == (changes.sum(axis=0) < 0)).mean() - 0.5) < 0.02


def test_a_mean_is_over_all_who_are_in_the_sum_also_those_who_diverged() -> None:
    """A mean over the others alone would tell how many of them there are."""
    levels = Levels.of_people(4, 1, 8.0)
    some = [levels.vector(np.full(50, value), 9) for value in (0.5, 0.25, 0.0, np.nan)]
    means = NoisedMeans(NoiseSettings(dp_noise=LITTLE), NoiseLedger(0), {"w": dense((50,))})
    noised, rows = means.of_sum(opened_sum(some, levels), 1)
    assert noised.total is not None and len(rows) == 1
    np.testing.assert_allclose(noised.total.mean, 0.75 / 4, atol=1e-6)
    assert means.ledger.rounds == dict.fromkeys(("p0", "p1", "p2", "p3"), 1)


def test_no_number_without_noise_decides_whether_a_sum_is_taken() -> None:
    """Who adds to how many people were shortened would see by it whether any others were."""
    levels = Levels.of_people(3, 1, 8.0)
    summed: Words = np.array([5, 4, 9], np.uint32)
    with pytest.raises(ValueError, match="weight and shortened: got 4 and 9, expected"):
        levels.total(summed, 3)
    total = levels.total(summed, 3, noised=True)
    assert (total.weight, total.shortened) == (3, 3)


def test_a_bound_that_rounding_would_fill_is_refused(
    people: MakePeople, run_method: RunMethod
) -> None:
    said = r"dp-clip = 1e-06: got \d+ numbers, moved by .* as they are rounded, expected a tenth"
    with pytest.raises(RunError, match=said):
        run_method(people(), "fedavg", dp_noise=1.0, dp_clip=1e-6, **SUMS)


def test_what_it_costs_is_of_whoever_was_in_most_rounds(
    people: MakePeople, run_method: RunMethod
) -> None:
    keys = PLAIN | {"rounds": 3, "dp_noise": 2.0}
    everybody = run_method(people(), "fedavg", **keys)
    assert everybody.metric("epsilon") == {
        (round, ""): spent_epsilon(2.0, round, 1e-5) for round in (1, 2, 3)
    }
    few = run_method(people(), "fedavg", clients_per_round=2, **keys)
    drawn = Counter(client for _, clients in few.grid.trained for client in clients)
    assert sum(drawn.values()) == 3 * 2 and few.strategy.memory.noise.rounds == drawn
    assert few.metric("epsilon")[3, ""] == spent_epsilon(2.0, max(drawn.values()), 1e-5)


@pytest.mark.parametrize("name", [name for name, card in HOUSE.items() if card.sums == MEANS])
def test_every_method_that_averages_can_have_noise(
    name: str, people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), name, **SUMS | {"rounds": 2, "dp_noise": 0.1, "dp_clip": 0.1})
    assert len(run.metric("macro_f1")) >= 4 and not run.refusals
    assert bool(run.metric("epsilon")) == (name != "local")


def test_a_run_that_goes_on_counts_on_and_ends_with_the_same_numbers(
    tmp_path: Path, people: MakePeople
) -> None:
    found = {}
    for name, parts in (("whole", (3,)), ("parts", (1, 3))):
        for rounds in parts:
            keys = PLAIN | {"rounds": rounds, "dp_noise": 1.0, "device": "cpu", "threads": 1}
            config = RunConfig(method="fedavg", beside="", **keys)
            grid = build_grid(config, "fedavg", people())
            strategy = build_strategy(config, "fedavg")
            with RunDatabase(tmp_path / f"{name}.db", decisive(config, "fedavg")) as database:
                drive(strategy, grid, database, clients=grid, progress=lambda round: None)
                state = database.load()[1][SERVER]
                spent = [row.value for row in database.metrics("epsilon")]
            grid.close()
        found[name] = state, spent
    (one, spent), (other, same) = found.values()
    assert spent == same == [spent_epsilon(1.0, round, 1e-5) for round in (1, 2, 3)]
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    memory, own = Memory.split(one)
    assert memory.noise.rounds == dict.fromkeys(("p1", "p2", "p3", "p4"), 3)
    held = Bundle(examples=1, tensors={"w": Floats(np.zeros(2, np.float32))})
    assert not any(name.startswith(NOISED) for name in own)
    # What was released of somebody who is forgotten was released all the same.
    memory.forget("p2")
    assert memory.noise.rounds == {"p1": 3, "p3": 3, "p4": 3, "": 3}
    # Of a name that comes later it may be the same person.
    means = NoisedMeans(NoiseSettings(dp_noise=1.0), memory.noise, {"w": dense((2,))})
    _, (row,) = means.of_uploads({"p2": held}, {"p2": held}, 4)
    assert row.value == spent_epsilon(1.0, 4, 1e-5) and memory.noise.rounds["p2"] == 4


def test_a_server_that_dies_in_the_first_round_keeps_its_secret(
    tmp_path: Path, people: MakePeople, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another, the same mean would leave twice, with noise of its own each time."""
    monkeypatch.setattr(Connection, "simulated", False)
    keys = PLAIN | {"dp_noise": 1.0, "device": "cpu", "threads": 1}
    config = RunConfig(method="fedavg", beside="", **keys)
    sent = []
    for _ in range(2):
        grid, strategy = build_grid(config, "fedavg", people()), build_strategy(config, "fedavg")
        with RunDatabase(tmp_path / "state.db", decisive(config, "fedavg")) as database:

            def die(*told: object) -> None:
                assert strategy.state is not None  # noqa: B023
                sent.append(strategy.state["linear1.weight"].clone())  # noqa: B023
                raise KeyboardInterrupt

            monkeypatch.setattr(Checkpoints, "__call__", die)
            with pytest.raises(KeyboardInterrupt):
                drive(strategy, grid, database, clients=grid, progress=lambda round: None)
            assert database.last_round() == 0
        grid.close()
    assert torch.equal(*sent) and strategy.memory.noise.secret not in (None, 0)


def test_real_runs_draw_a_secret_and_keep_it() -> None:
    ledger = NoiseLedger()
    ledger.begin(simulated=False, seed=3)
    drawn = ledger.secret
    assert drawn != 3
    again = NoiseLedger.of(ledger.tensors())
    again.begin(simulated=False, seed=3)
    assert again.secret == drawn and not NoiseLedger().tensors()


def test_the_server_alone_needs_an_accountant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedsub_core.extras.find_spec", lambda name: None)
    config = RunConfig(method="fedavg", beside="", dp_noise=1.0, **PLAIN)
    with pytest.raises(ConfigError, match=r"dp-noise needs dp_accounting.*'fedsub\[privacy\]'"):
        build_strategy(config, "fedavg")


def test_running_statistics_get_no_noise() -> None:
    sends = {"0.weight": dense((2, 2)), "1.running_var": dense((2,))}
    with pytest.raises(ConfigError, match=r"dp-noise: got 1 running statistics .* 1\.running_var"):
        NoisedMeans(NoiseSettings(dp_noise=1.0), NoiseLedger(0), sends)
