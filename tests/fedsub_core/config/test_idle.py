"""Options that change nothing for any method of a run are found; refused where they were given."""

import pytest

from fedsub_core.config.idle import check_given, idle, named_idle
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import HOUSE, METHODS
from fedsub_core.options import Value, describe

RIDGE: dict[str, Value] = {"method": "fedsub-ridge", "beside": ""}


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (RIDGE | {"model": "lstm"}, {"model": "the model that is solved for is linear"}),
        (RIDGE | {"hidden": "64"}, {"hidden": "the model that is solved for is linear"}),
        (RIDGE | {"lr": 0.1, "epochs": 3}, dict.fromkeys(["epochs", "lr"], "nothing is trained")),
        (RIDGE | {"robust": "median"}, {"robust": "uploads are checked one by one"}),
        (RIDGE | {"beside": "local", "lr": 0.1, "model": "linear"}, {}),
        (RIDGE | {"encoder": "kernels:50", "capacities": "1/2"}, {}),
        ({"method": "fedsgd", "beside": "", "batch-size": 8}, {"batch-size": "steps have a rule"}),
        ({"method": "fedsgd", "beside": "", "lr": 0.1}, {}),
        ({"method": "pfedme", "beside": "", "momentum": 0.5}, {"momentum": "steps have a rule"}),
        ({"optimiser": "adam", "momentum": 0.5}, {"momentum": "adam has moments of its own"}),
        ({"model": "cnn1d", "hidden": "64"}, {"hidden": "hidden layers are those of mlp"}),
        ({"unseen-share": 0.5}, {"unseen-share": "nobody is held out with split = auto"}),
        ({"unseen-share": 0.5, "split": "unseen"}, {}),
        ({"unlabelled-classes": 0.5}, {"unlabelled-classes": "everybody has all labels"}),
        ({"method": "ditto", "beside": "", "capacities": "1/2"}, {"capacities": "every device"}),
        (
            {"method": "local", "beside": "", "upload-encoding": "int8"},
            {"upload-encoding": "no mo"},
        ),
        ({}, {}),
        (RIDGE, {}),
    ],
)
def test_what_is_idle(keys: dict[str, Value], found: dict[str, str]) -> None:
    said = idle(read_config(None, keys))
    assert said.keys() == found.keys()
    assert all(said[key].startswith(text) for key, text in found.items())


def test_what_was_given_is_refused_and_what_a_file_says_is_named() -> None:
    config = read_config(None, RIDGE | {"model": "lstm"})
    check_given(config, ["rounds"], "command line")
    named = named_idle(config)
    assert named == [
        "model = lstm does nothing for fedsub-ridge: the model that is solved for is linear."
    ]
    expected = "command line: model: got lstm with fedsub-ridge, for which it does nothing"
    with pytest.raises(ConfigError, match=expected):
        check_given(config, ["model"], "command line")


def test_secure_sums_ask_for_robust_none() -> None:
    secure: dict[str, Value] = {
        "secure-aggregation": True,
        "robust": "none",
        "standardise": "federation",
    }
    assert idle(read_config(None, RIDGE | secure)) == {}


@pytest.mark.parametrize("name", HOUSE)
def test_the_rates_of_a_card_are_hyperparameters(name: str) -> None:
    card = METHODS[name]
    own = {one.key for one in describe(card.hyperparameters)}
    assert {rate.replace("_", "-") for rate in card.training.rates} <= own
    assert card.rate_keys[:1] == (("lr",) if card.trains else ())
    assert isinstance(card.training.rule(card.agreed(), 0.1), str)
    assert card.trains or card.training.rule(card.agreed(), 0.1)
