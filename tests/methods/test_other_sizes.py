"""What papers' tables ask of weak devices: other sizes' tests, multiplications, coverage."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub.engines.simulation import train_method
from fedsub.testing.cover import turns
from fedsub.testing.runs import RunMethod, people
from fedsub_core.config.capacities import sizes
from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase
from strategies.parts.coverage import covered, multiplied_share

FEDERATION = people(((0, 1, 2), (0, 1), (2,), (0, 1, 2)))


def measured(name: str, folder: Path, **keys: Any) -> dict[str, dict[str, float]]:
    """Return every metric of a run's last round, by name and client."""
    few: dict[str, Any] = {"rounds": 2, "device": "cpu", "threads": 1, "lr": 0.05} | keys
    config = RunConfig(method=name, beside="", **few)
    train_method(config, name, FEDERATION, folder / name, lambda round: None)
    found: dict[str, dict[str, float]] = {}
    with RunDatabase(folder / name / DATABASE_FILE) as database:
        for row in database.metrics():
            if row.round == config.rounds and row.label is None:
                found.setdefault(row.metric, {})[row.client] = row.value
    return found


@pytest.mark.parametrize("name", ["heterofl"])
def test_ones_own_size_is_tested_as_ever_and_others_beside_it(name: str, tmp_path: Path) -> None:
    found = measured(name, tmp_path, capacities="p2=0.5,p3=0.25", sizes="1,1/2,0.25,3/8")
    for client, own in zip(("p1", "p2", "p3", "p4"), ("1", "0.5", "0.25", "1"), strict=True):
        assert found["macro_f1"][client] == found[f"macro_f1_of_{own}"][client]
        each = [found[f"loss_of_{size}"][client] for size in ("1", "0.5", "0.25", "0.375")]
        assert found["loss_union"][client] == pytest.approx(np.mean(each))
    plain = measured(name, tmp_path / "plain", capacities="p2=0.5,p3=0.25")
    assert plain["loss"] == found["loss"] and "macro_f1_union" not in plain


@pytest.mark.parametrize(
    ("name", "tested"), turns(["local", "fedsub", "fedsub-gated"], ["received", "trained"])
)
def test_who_has_only_models_of_single_people_has_no_other_sizes(
    name: str, tested: str, tmp_path: Path
) -> None:
    """Whichever is tested: what the server sends of a size completes what a device holds."""
    hyper = {name: replace(METHODS[name].agreed(), tested=tested)}
    assert "macro_f1_union" not in measured(
        name, tmp_path, capacities="p2=0.5,p4=0.5", sizes="1,0.5", hyper=hyper
    )


@pytest.mark.parametrize("text", ["0", "1,2", "1/2,0.5", "1,,1/2", "a"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        sizes(text)


def test_a_part_of_a_convolution_is_multiplied_at_each_place() -> None:
    model = mlp(2, 2, (4,))
    assert multiplied_share(model, {"linear1.weight": 4, "linear2.weight": 4}) == 0.5
    whole = cnn1d(9, 128, 6)
    numbers = {f"{layer.name}.weight": int(np.prod(layer.weight_shape)) for layer in whole.affine}
    assert multiplied_share(whole, numbers) == 1.0


def test_how_evenly_a_model_is_covered() -> None:
    """Of four rows the first is held by all of three, two by one, the last by nobody."""
    values = [np.ones((n, 2), np.float32) for n in (1, 1, 3)]
    masks = [np.arange(4) < len(one) for one in values]
    uploads = {
        str(i): Bundle(1, tensors={"w": Floats.rows(mask, one)})
        for i, (mask, one) in enumerate(zip(masks, values, strict=True))
    }
    found = {row.metric: row.value for row in covered({"w": (4, 2)}, uploads, 1)}
    assert found["held_by_none"] == 0.25
    assert found["held_by_median"] == pytest.approx(1 / 3)
    assert found["held_by_p90"] == pytest.approx(1.0)


@pytest.mark.parametrize("name, smaller", [("heterofl", True)])
def test_what_a_device_computes_is_counted_beside_what_it_really_does(
    name: str, smaller: bool, run_method: RunMethod
) -> None:
    run = run_method(name, FEDERATION, capacities="p2=0.5,p3=0.25", rounds=1)
    counted, real = (run.metric(f"multiplications_{what}") for what in ("counted", "real"))
    assert counted[1, "p1"] == pytest.approx(1.0, abs=1e-3)
    assert counted[1, "p3"] < counted[1, "p2"] < 0.5
    assert real == (counted if smaller else dict.fromkeys(counted, 1.0))
    assert run.metric("held_by_p90")[1, ""] <= 1
    assert not run_method(name, FEDERATION, rounds=1).metric("held_by_p90")
