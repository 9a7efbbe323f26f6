"""What holds for whole runs of every method, in one process."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.cohort_answers import replaced_next
from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_strategy
from fedsub.testing.cover import device, in_turn, itself, of, server
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.runs import (
    HIDDEN,
    Run,
    RunMethod,
    WholeRuns,
    assert_equal,
    assert_equal_models,
    people,
    plain,
)
from fedsub_client.new_cohort import make_learner
from fedsub_client.split_client import SplitClient
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_core.metrics import MetricRow
from fedsub_core.models.kinds import mlp
from fedsub_core.training import TrainingSettings
from fedsub_core.wire.bundles import Bundle, Floats

#: The second person of few samples has one batch, the third one training sample of each class.
UNEQUAL = {
    "few classes": people(((0, 1, 2), (0, 1), (2,), (0, 1, 2))),
    "few samples": Federation(
        people().card,
        people().clients
        | {
            client: replace(people(samples=samples).clients["p1"], client=client)
            for client, samples in (("p2", 4), ("p3", 2))
        },
    ),
}


def values(run: Run, *but: str) -> dict[tuple[object, ...], float]:
    """Return all metrics by what they are about, without some kinds."""
    return {tuple(row[:4]): row.value for row in run.rows if row.metric not in but}


class RoundTests(WholeRuns):
    """Whole runs of a few rounds, and what must not change them."""

    #: Whether the method makes a mean that is everybody's, on which filters work.
    makes_a_mean = True

    @of(itself)
    def test_a_run_trains_everybody_and_reports_what_the_card_says(
        self, name: str, run_method: RunMethod
    ) -> None:
        run, start = plain(name), run_method(name, until=1)
        for client, model in run.models().items():
            before = start.client_state(client)
            assert all(tensor.isfinite().all() for tensor in model.values())
            assert any(
                not torch.equal(t, before[key]) for key, t in run.client_state(client).items()
            )
            # What a server that collects it expects at most.
            models = METHODS[name].prediction.models(METHODS[name].agreed())
            size = models * run.strategy.model.full_bytes // 4
            assert sum(tensor.numel() for tensor in model.values()) <= size
        losses = run.metric("loss")
        assert len(losses) == 3 * 4 and all(map(math.isfinite, losses.values()))
        for report in METHODS[name].reports:
            found = run.metric(report)
            assert not found or (len(found) == 3 * 4 and all(map(math.isfinite, found.values())))
        assert any(run.metric(report) for report in METHODS[name].reports)
        assert not [row for row in run.rows if row.metric == "refused_replies"]

    @of(device)
    def test_whoever_comes_late_starts_from_the_servers_model(self, name: str) -> None:
        """Its first download goes into all models that it keeps, later ones into the first."""
        card = METHODS[name]
        hyper, model = card.agreed(), mlp(4, 3)
        learner = make_learner(card, model, TrainingSettings(lr=0.001), hyper)
        whole = {n: d.shape for n, d in card.receives(model, hyper).items() if not d.optional}

        def download(value: float) -> Bundle:
            return Bundle(
                tensors={n: Floats(np.full(shape, value, np.float32)) for n, shape in whole.items()}
            )

        state = learner.receive(learner.init(2, 0), [download(7.0), Bundle()])
        state = learner.receive(state, [download(8.0), Bundle()])
        first, *others = learner.models
        untouched = learner.init(2, 0)
        for key in whole:
            assert (state[f"{first}.{key}"][0] == 8.0).all()
            for other in others:
                assert (state[f"{other}.{key}"][0] == 7.0).all()
                assert torch.equal(state[f"{other}.{key}"][1], untouched[f"{other}.{key}"][1])

    def test_a_device_is_a_cohort_of_one(self, name: str, tmp_path: Path) -> None:
        """Devices of their own, by messages and saved state, give what one stack gives."""
        federation, run = people(), plain(name)
        write_federation(tmp_path / "data", federation)
        keys: dict[str, Any] = dict(data=str(tmp_path / "data"), lr=0.05, batch_size=16, rounds=3)
        keys["hidden"] = HIDDEN
        config = RunConfig(method=name, beside="", hyper={name: METHODS[name].agreed()}, **keys)
        strategy, grid = build_strategy(config, name), DeviceGrid(config, len(federation.clients))
        rows: list[MetricRow] = []
        strategy.on_round = lambda round, state, more: rows.extend(more)
        strategy.run_name = "one run"
        strategy.start(grid)
        assert strategy.state is not None
        for key, tensor in strategy.state.items():
            torch.testing.assert_close(tensor, run.states[-1][key], atol=1e-6, rtol=0)
        models = run.models()
        for i, client in enumerate(federation.clients):
            saved = grid.saved(i)
            assert saved.client == client and saved.model is not None
            for key, tensor in models[client].items():
                torch.testing.assert_close(saved.model.params[key], tensor, atol=1e-6, rtol=0)
            replaced = replaced_next(run.grid.cohorts[0].learner)
            own = {k: t for k, t in run.client_state(client).items() if k not in replaced}
            for key, tensor in own.items():
                torch.testing.assert_close(saved.state[key], tensor, atol=1e-6, rtol=1e-6)
        theirs: dict[tuple[object, ...], float] = {tuple(row[:4]): row.value for row in rows}
        for what, value in values(run).items():
            if not str(what[3]).endswith("_flower"):
                assert theirs[what] == pytest.approx(value, abs=1e-5, nan_ok=True), what

    def test_a_run_that_goes_on_equals_one_that_never_stopped(
        self, name: str, run_method: RunMethod
    ) -> None:
        whole, half = plain(name), run_method(name, until=2)
        resumed = run_method(name, after=half)
        assert_equal(resumed.lasting, whole.lasting)
        assert_equal_models(resumed, whole)
        for client in people().clients:
            assert_equal(resumed.client_state(client), whole.client_state(client))
        late = {key: value for key, value in values(whole).items() if int(str(key[0])) > 2}
        assert values(resumed) == pytest.approx(late, abs=0, nan_ok=True)

    @of(server)
    def test_the_order_of_clients_does_not_matter(self, name: str, run_method: RunMethod) -> None:
        federation = people()
        backwards = Federation(federation.card, {})
        backwards.clients.update(reversed(federation.clients.items()))
        run, other = plain(name), run_method(name, backwards, threads=3)
        for key, tensor in run.states[-1].items():
            torch.testing.assert_close(other.states[-1][key], tensor, atol=1e-6, rtol=0)
        models = other.models()
        for client, model in run.models().items():
            for key, tensor in model.items():
                torch.testing.assert_close(models[client][key], tensor, atol=1e-6, rtol=0)

    @in_turn("people_of", ["few classes", "few samples"])
    def test_people_of_few_classes_or_samples(
        self, name: str, people_of: str, run_method: RunMethod
    ) -> None:
        federation = UNEQUAL[people_of]
        # A batch larger than what most people have: they train on one batch, or on one sample.
        run = run_method(name, federation, batch_size=64)
        assert run.metric("loss").keys() == {(r, c) for r in (1, 2, 3) for c in federation.clients}
        for model in run.models().values():
            assert all(tensor.isfinite().all() for tensor in model.values())
        assert all(len(uploads) == len(federation.clients) for uploads in run.uploads)

    @of(device)
    def test_no_tested_sample_reaches_the_learner(self, name: str, run_method: RunMethod) -> None:
        """Other tested samples, features and labels: other metrics, and the very same models."""

        def spoilt_client(client: SplitClient) -> SplitClient:
            x = client.x.copy()
            x[client.test] = 9 - client.test_x
            return replace(client, x=x, test_y=2 - client.test_y)

        def spoil(grid: CohortGrid) -> None:
            for cohort in grid.cohorts:
                cohort.hold([spoilt_client(client) for client in cohort.clients])

        run, spoilt = plain(name), run_method(name, prepare=spoil)
        assert_equal_models(spoilt, run)
        assert_equal(spoilt.lasting, run.lasting)
        assert spoilt.metric("loss") != run.metric("loss")

    @of(server)
    @in_turn("robust", ["clip,multi-krum", "clip,trimmed-mean", "median"])
    def test_every_filter_works_or_is_refused(
        self, name: str, robust: str, run_method: RunMethod
    ) -> None:
        if not self.makes_a_mean:
            with pytest.raises(ConfigError, match="robust: got"):
                run_method(name, robust=robust, rounds=1)
            return
        run = run_method(name, robust=robust, rounds=2)
        assert len(run.metric("loss")) == 2 * 4
        assert all(math.isfinite(loss) for loss in run.metric("loss").values())

    @of(server)
    def test_only_some_take_part_in_a_round(self, name: str, run_method: RunMethod) -> None:
        first = run_method(name, rounds=4, clients_per_round=2, until=1)
        run = run_method(name, rounds=4, clients_per_round=2)
        strategy = run.strategy
        expected = [
            4 if strategy.half.wants_all(strategy.turn(round)) else 2 for round in range(1, 5)
        ]
        assert [len(uploads) for uploads in run.uploads] == expected
        assert len({client for uploads in run.uploads for client in uploads}) > 2
        assert len(run.metric("loss")) == 4 * 4, "everybody is tested in every round"
        for client in set(people().clients) - set(run.uploads[0]):
            start = run.strategy.model.init(1, seed=0)
            for key, tensor in first.client_state(client).items():
                if (parameter := key.partition(".")[2]) in start and tensor.is_floating_point():
                    assert torch.equal(tensor, start[parameter][0]), (
                        "it trained without being asked"
                    )

    @of(server)
    def test_people_who_join_late_are_tested(self, name: str, run_method: RunMethod) -> None:
        keys = {"split": "unseen", "unseen_share": 0.25, "unseen_rounds": 1}
        run = run_method(name, **keys)
        (late,) = run.strategy.population.agreed.unseen
        assert {client for round, client in run.metric("loss") if round == 3} == {late}
        assert [late in uploads for uploads in run.uploads] == [False, False, True]
