"""What a simulated person's file predicts, however features are standardised."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.testing import battery
from fedsub.testing.runs import Run
from fedsub.testing.tested_model_tests import (
    FEDERATION,
    PredictionTests,
    assert_predicts_what_was_measured,
)
from fedsub_core.methods.table import HOUSE

TestPredictions = battery(*HOUSE, parts=(PredictionTests,), cover=True)


@pytest.mark.parametrize("standardise", ["federation-median", "client", "none"])
def test_however_features_are_standardised(
    standardise: str, run_method: Callable[..., Run], tmp_path: Path
) -> None:
    run = run_method("fedsub", FEDERATION, standardise=standardise)
    assert assert_predicts_what_was_measured(run, tmp_path) > 100
