"""The record of a run's model says what `auto` stood for, layer by layer, with its encoder."""

import pytest

from fedsub_core.config.run_config import read_config
from fedsub_core.errors import RunError
from fedsub_core.models.record import ModelRecord


def record(method: str, shape: tuple[int, ...], **keys: str) -> ModelRecord:
    config = read_config(None, {"method": method, "beside": "", **keys})
    return ModelRecord.of(config.device_settings(method), 0, shape, 6)


def test_auto_is_resolved() -> None:
    found = record("fedavg", (9, 128))
    assert (found.kind, found.encoder, found.features) == ("cnn1d", "none", 0)
    # 32 x (9 x 7 + 1) + 64 x (32 x 5 + 1) + 128 x 257 + 6 x 129.
    assert found.numbers == 2048 + 10304 + 32896 + 774
    assert found.layers[0].startswith("Conv1d(9, 32") and len(found.layers) == 10
    assert record("fedavg", (3,), hidden="5").numbers == 5 * 4 + 6 * 6


def test_a_method_that_solves_has_its_own_model_and_encoder() -> None:
    found = record("fedsub-ridge", (9, 128), model="lstm")
    assert (found.kind, found.encoder, found.features) == ("linear", "kernels:100+statistics", 689)
    assert found.numbers == 6 * 690
    assert found.layers == ("Linear(in_features=689, out_features=6, bias=True)",)


def test_it_comes_back_from_a_file_and_nothing_else_does() -> None:
    found = record("fedavg", (3, 128), model="lstm")
    assert ModelRecord.from_json(found.as_json()) == found
    for text in ("", "[]", "{}", '{"kind": "mlp"}'):
        with pytest.raises(RunError, match="expected the record of a model"):
            ModelRecord.from_json(text)
