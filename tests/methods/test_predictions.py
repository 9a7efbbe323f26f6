"""What a simulated person's file predicts, however features are standardised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsub.engines.simulation import save_models
from fedsub.testing import battery
from fedsub.testing.prediction_tests import (
    FEDERATION,
    PredictionTests,
    assert_predicts_what_was_measured,
)
from fedsub.testing.runs import Run
from fedsub_client.loaded_model import load_model
from fedsub_core.errors import RunError
from fedsub_core.methods.table import METHODS

TestPredictions = battery(*METHODS, parts=(PredictionTests,))


@pytest.mark.parametrize("standardise", ["federation-median", "client", "none"])
def test_however_features_are_standardised(
    standardise: str, run_method: Callable[..., Run], tmp_path: Path
) -> None:
    run = run_method("fedsub", FEDERATION, standardise=standardise)
    assert assert_predicts_what_was_measured(run, tmp_path) > 100


def test_what_was_tested_with_more_than_a_model_is_not_used(
    run_method: Callable[..., Run], tmp_path: Path
) -> None:
    hyper: dict[str, Any] = {"predict": "nearest"}
    run = run_method("fedproto", FEDERATION, hyper=hyper)
    save_models(run.grid, run.strategy, tmp_path)
    with pytest.raises(RunError, match=r"client 'p1': got a model without the prototypes of"):
        load_model(tmp_path / "p1.safetensors")
