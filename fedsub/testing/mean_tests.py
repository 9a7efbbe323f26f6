"""Means of models over rounds, which any method may predict with: they change nothing else."""

from __future__ import annotations

import math

import torch

from fedsub.testing.cover import device, of
from fedsub.testing.runs import RunMethod, WholeRuns, assert_equal, assert_equal_models, plain
from fedsub_client.mean_models import KNOWN, MEAN
from fedsub_core.methods.table import METHODS

#: Of a person's past, as much as a run so short takes.
SMOOTH = 0.9


class MeanTests(WholeRuns):
    """Whole runs with ``smooth``."""

    @of(device)
    def test_means_over_rounds_predict_and_change_nothing_that_trains(
        self, name: str, run_method: RunMethod
    ) -> None:
        by_default = METHODS[name].agreed().smooth == 0.0
        usual = plain(name) if by_default else run_method(name, hyper={"smooth": 0.0})
        run = run_method(name, hyper={"smooth": SMOOTH})
        assert_equal(run.lasting, usual.lasting)
        theirs = run.models()
        for client, model in usual.models().items():
            kept = run.client_state(client)
            means = {key for key in kept if key.startswith(MEAN)}
            assert means, "no mean is kept"
            rest = {key: kept[key] for key in kept.keys() - means if key != KNOWN}
            assert_equal(rest, usual.client_state(client))
            assert any(not torch.equal(theirs[client][key], t) for key, t in model.items())
        losses = usual.metric("loss")
        assert all(math.isfinite(run.metric("loss")[key]) for key in losses)
        for key, loss in losses.items():
            same = run.metric("loss")[key] == loss
            assert same == (key[0] == 1), "the mean of one round is its model, of two it is not"

        half = run_method(name, until=2, hyper={"smooth": SMOOTH})
        resumed = run_method(name, after=half, hyper={"smooth": SMOOTH})
        assert_equal_models(resumed, run)
        for client in theirs:
            assert_equal(resumed.client_state(client), run.client_state(client))
