"""What must be the same for a run to go on, and what may change."""

from typing import Any

import pytest

from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_server.resuming import MAY_CHANGE, decisive, may_change


def config(**keys: Any) -> RunConfig:
    return read_config(None, {"beside": "fedavg-finetune,fedavg,ditto"} | keys)


def test_what_may_change_are_keys_of_the_configuration() -> None:
    assert to_flat(config()).keys() > MAY_CHANGE


def test_all_else_decides_but_the_hyperparameters_of_other_methods() -> None:
    flat = to_flat(config())
    assert {key.partition(".")[0] for key in flat if "." in key} == {
        "fedsub",
        "fedavg-finetune",
        "fedavg",
        "ditto",
    }
    for method in config().methods:
        kept = decisive(config(), method)
        assert kept.items() <= flat.items()
        left = flat.keys() - kept.keys() - MAY_CHANGE
        assert left == {k for k in flat if "." in k and not k.startswith(f"{method}.")}
        assert kept[f"{method}.tested"] in ("received", "trained")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 1),
        ("optimiser", "adam"),
        ("train-share", 0.5),
        ("upload-encoding", "int8"),
        ("standardise", "client"),
        ("fedavg.tested", "trained"),
    ],
)
def test_a_key_that_decides_what_is_computed_is_kept(key: str, value: Any) -> None:
    before, after = decisive(config(), "fedavg"), decisive(config(**{key: value}), "fedavg")
    assert {k for k in after if after[k] != before[k]} == {key}
    assert before.keys() == after.keys()


def test_one_methods_hyperparameters_are_not_anothers() -> None:
    """Names of methods begin alike: fedavg and fedavg-finetune."""
    other = config(**{"fedavg-finetune.finetune": "head", "ditto.lam": 0.5})
    assert decisive(other, "fedavg") == decisive(config(), "fedavg")
    assert decisive(other, "fedavg-finetune") != decisive(config(), "fedavg-finetune")


def test_held_out_people_would_be_tested_as_seen_if_rounds_were_added() -> None:
    unseen = config(split="unseen", rounds=4, **{"unseen-rounds": 2})
    assert may_change(unseen) == MAY_CHANGE - {"rounds"}
    assert decisive(unseen, "fedsub")["rounds"] == 4
    assert may_change(config()) == MAY_CHANGE and "rounds" not in decisive(config(), "fedsub")
