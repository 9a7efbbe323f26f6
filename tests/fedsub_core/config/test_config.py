"""The run's configuration: defaults, what overrides what, round trips, and every refusal."""

import re
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import (
    RunConfig,
    differences,
    dump_toml,
    from_flat,
    read_config,
    to_flat,
)
from fedsub_core.config.settings import (
    NoiseSettings,
    RoundSettings,
    SecureSettings,
    SplitSettings,
)
from fedsub_core.config.tested import UnseenSettings
from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import Hyperparameters, ReceivedHyperparameters
from fedsub_core.methods.fedsub import FedSubHyperparameters
from fedsub_core.methods.table import METHODS
from fedsub_core.options import Option, describe
from fedsub_core.training import TrainingSettings
from fedsub_data.partitions.partitions import PARTITIONS


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults() -> None:
    config = read_config()
    assert config == RunConfig() == from_flat({})
    assert (config.method, config.split, config.rounds) == ("fedsub", "auto", 60)
    assert (config.lr, config.momentum, config.batch_size) == (0.005, 0.9, 32)
    assert config.methods == ("fedsub", "local", "fedavg")
    assert config.hyper == {
        "fedsub": FedSubHyperparameters(),
        "local": Hyperparameters(),
        "fedavg": ReceivedHyperparameters(),
    }
    with pytest.raises(FrozenInstanceError):
        config.rounds = 1  # type: ignore[misc]


def test_command_line_over_file_over_defaults(tmp_path: Path) -> None:
    path = written(tmp_path, 'rounds = 7\nlr = 1\n[fedsub]\nfusion = "avg"\nimpute = true\n')
    overrides: dict[str, Any] = {
        "rounds": "9",
        "fedsub.impute": "FALSE",
        "momentum": 0,
        "beside": "",
    }
    config = read_config(path, overrides)
    assert (config.rounds, config.lr, config.momentum, config.epochs) == (9, 1.0, 0.0, 1)
    assert (type(config.lr), type(config.momentum)) == (float, float)
    assert config.hyper == {"fedsub": FedSubHyperparameters(fusion="avg", impute=False)}


def test_hyperparameters_of_unused_methods_are_checked_and_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, 'method = "local"\nbeside = ""\n[fedsub]\nfusion = "avg"\n[fedavg]\n')
    assert read_config(path).hyper == {"local": Hyperparameters()}
    assert read_config(path, {"method": "fedsub"}).hyper == {
        "fedsub": FedSubHyperparameters(fusion="avg")
    }
    with pytest.raises(ConfigError, match="fusion: got 'avgg'"):
        read_config(path, {"fedsub.fusion": "avgg"})


def test_all_keys_are_named_only_where_none_is_near(tmp_path: Path) -> None:
    for text, expected in (("round = 3", False), ("qqqqqq = 3", True)):
        with pytest.raises(ConfigError) as caught:
            read_config(written(tmp_path, text))
        said = str(caught.value)
        assert ("Known keys: data, method, beside," in said and "[fedsub]" in said) == expected
        assert ("Did you mean" in said) != expected


def test_methods_are_listed_once_the_main_one_first() -> None:
    assert RunConfig(method="fedavg").methods == ("fedavg", "local")
    assert RunConfig(beside=" local, ,local ").methods == ("fedsub", "local")


AVERAGED = 'method = "fedavg"\nbeside = "local"'
SUMS = f"{AVERAGED}\nsecure-aggregation = true"
UNKNOWN_AND_WRONG = [
    ("round = 3", "unknown key 'round'. Did you mean 'rounds'?"),
    ("batch_size = 3", "unknown key 'batch_size'. Did you mean 'batch-size'?"),
    ('fusion = "avg"', "Did you mean 'fedsub.fusion'?"),
    ("[fedsub]\ndepht = 1", "unknown key 'fedsub.depht'. Did you mean 'fedsub.depth'?"),
    ("[local]\nmu = 1.0", "Known keys of method 'local': local.tested, local.smooth."),
    ("[dittoo]\nmu = 1.0", "unknown key 'dittoo.mu'."),
    ("[dittoo]", "unknown key 'dittoo'."),
    ("fedsub = 3", "unknown key 'fedsub'."),
    ("[fedsub.fusion]\nx = 1", "unknown key 'fedsub.fusion.x'."),
    ('method = "fedsubb"', "method: unknown method 'fedsubb'. Did you mean 'fedsub'?"),
    ('method = ""', "method: got ''"),
    ('beside = "local,fedagv"', "beside: unknown method 'fedagv'. Did you mean 'fedavg'?"),
    ('rounds = "60"', "rounds: got '60', expected a whole number of at least 1"),
    ("rounds = 0", "rounds: got 0, expected a whole number of at least 1"),
    ("rounds = -1", "rounds: got -1"),
    ("rounds = 60.0", "rounds: got 60.0"),
    ("rounds = true", "rounds: got True"),
    ("rounds = [1]", "rounds: got [1]"),
    ("rounds = {}", "rounds: got {}"),
    ("rounds = 1979-05-27", "rounds: got datetime.date"),
    (f"rounds = 1{'0' * 400}", "rounds: got 1000"),
    (f"seed = {2**63}", "seed: got 9223372036854775808"),
    ("seed = -1", "seed: got -1"),
    ("lr = 0", "lr: got 0.0, expected a number above 0"),
    ("lr = nan", "lr: got nan"),
    ("lr = inf", "lr: got inf"),
    (f"lr = 1{'0' * 400}", "lr: got 1000"),
    ("lr = true", "lr: got True"),
    ("momentum = 1.0", "expected a number of at least 0 and below 1"),
    ("test-share = 0", "expected a number above 0 and below 1"),
    ("test-share = 1", "test-share: got 1.0"),
    ("unseen-share = 1.5", "unseen-share: got 1.5"),
    ('split = "unseen"\nrounds = 5', "unseen-rounds: got 5 of 5 rounds, expected fewer"),
    (
        'best-by = "validation"\nrounds = 5\nevaluate-every = 5',
        "best-by = validation: got 5 rounds with evaluate-every = 5, expected two or more",
    ),
    ('best-by = "validation"\nsplit = "unseen"', "best-by = validation: got split = unseen"),
    (
        'method = "fedamp"\nsecure-aggregation = true',
        "secure-aggregation = true: got fedamp among the methods, whose server looks at each "
        "person's upload, expected only methods among apfl, ditto, fedavg",
    ),
    (
        'method = "fedavg"\nsecure-aggregation = true',
        "secure-aggregation = true: got robust = clip, whose filters compare single uploads, "
        "expected robust = none",
    ),
    (f'{SUMS}\nrobust = "median"', "got robust = median, whose filters compare single uploads"),
    (
        f'{SUMS}\nrobust = "none"\nupload-encoding = "int8"',
        "got encodings int8 up and float32 down, expected float32 both ways",
    ),
    (f'{SUMS}\nrobust = "none"\ndownload-encoding = "bfloat16"', "float32 up and bfloat16 down"),
    (
        f'{SUMS}\nrobust = "none"',
        "got standardise = federation-median, whose medians are of each person's own numbers, "
        "expected standardise = federation, whose sums are enough, or client or none",
    ),
    (
        f'{SUMS}\nrobust = "none"\nstandardise = "none"\nclients-per-round = 2',
        "got clients-per-round = 2, expected secure-least = 3 at least, or 0",
    ),
    (
        'method = "fedsub-ridge"\nsecure-aggregation = true\nrobust = "none"\n'
        'standardise = "none"\n[fedsub-ridge]\ngroups = "class"',
        "secure-aggregation = true: got fedsub-ridge.groups = class, which compare single people's "
        "sums, expected groups = none",
    ),
    (
        'method = "fedproto"\nsecure-aggregation = true\nrobust = "none"\n'
        'standardise = "client"\n[fedproto]\nweights = "samples"',
        "secure-aggregation = true: got weights = samples, with which people's samples of each "
        "class travel, expected weights = clients",
    ),
    (
        'secure-aggregation = true\nrobust = "none"\nstandardise = "client"\n'
        '[fedsub]\nk-selection = "fixed:2"\nfusion = "avg"',
        "secure-aggregation = true: got fedsub.k-selection = fixed:2, which needs single people's "
        "uploads, expected fixed:1",
    ),
    (
        'secure-aggregation = true\nrobust = "none"\nstandardise = "client"',
        "got fedsub.k-selection = dbi, which needs single people's uploads, expected fixed:1; "
        "fedsub.fusion = overlapping, which needs single people's uploads, expected avg",
    ),
    (
        'method = "fedamp"\ndp-noise = 1.0',
        "dp-noise: got fedamp among the methods, whose devices are sent more than means, expected "
        "only methods among apfl, ditto, fedavg",
    ),
    (
        'method = "fedproto"\nbeside = "protohar,local"\n'
        'dp-noise = 1.0\nsecure-aggregation = true\nrobust = "none"\nstandardise = "client"',
        "dp-noise: got fedproto, protohar among the methods, whose devices are sent more than "
        "means, expected only methods among apfl, ditto, fedavg",
    ),
    (
        'dp-noise = 1.0\nsecure-aggregation = true\nrobust = "none"\nstandardise = "client"\n'
        '[fedsub]\nk-selection = "fixed:1"\nfusion = "avg"',
        "dp-noise: got fedsub among the methods, whose devices are sent more than means",
    ),
    (
        f"{AVERAGED}\ndp-noise = 1.0",
        "dp-noise: got robust = clip, by which one person moves what others count for, expected "
        "robust = none: dp-clip bounds",
    ),
    (
        f'{AVERAGED}\ndp-noise = 1.0\nrobust = "none"\nstandardise = "federation"',
        "dp-noise: got standardise = federation, which all devices learn without noise",
    ),
    (
        f"{AVERAGED}\ndp-clip = 2.0",
        "dp-clip: got 2.0 without noise on means, where it does nothing",
    ),
    (f"{AVERAGED}\ndp-noise = -1.0", "dp-noise: got -1.0, expected"),
    ("secure-least = 2", "secure-least: got 2, expected a whole number of at least 3"),
    (
        "secure-least = 5",
        "secure-least: got 5 without secure aggregation, where it does nothing; expected "
        "secure-aggregation = true beside it",
    ),
    ("secure-range = 2.5", "secure-range: got 2.5 without secure aggregation"),
    ("secure-range = 0", "secure-range: got 0.0, expected a number above 0"),
    ("batch-size = 0", "batch-size: got 0"),
    ("epochs = 0", "epochs: got 0"),
    ("clients-per-round = -1", "clients-per-round: got -1"),
    ("evaluate-every = -1", "evaluate-every: got -1"),
    ("round-timeout = 0", "round-timeout: got 0.0"),
    ("checkpoint-seconds = -0.1", "checkpoint-seconds: got -0.1"),
    (
        'split = "blockd"',
        "one of auto, stratified, blocked, grouped, given, unseen. Did you mean 'blocked'? "
        "The option split means: ",
    ),
    ('model = "cnn1"', "model: unknown model 'cnn1'. Did you mean 'cnn1d'?"),
    ('encoder = "kernel:10"', "encoder: got encoder 'kernel:10', expected auto, none, kernels:N"),
    ('encoder = "kernels:0"', "encoder: got encoder 'kernels:0', expected auto, none, kernels:N"),
    ('encoder = "relu:-1"', "encoder: got encoder 'relu:-1'"),
    ("train-share = 0", "train-share: got 0.0, expected a number of at most 1 and above 0"),
    ("lr-decay = 0", "lr-decay: got 0.0, expected a number above 0"),
    ('schedule = "cosin(3)"', "schedule: unknown 'cosin'. Did you mean 'cosine'?"),
    ('optimiser = "Adam(betas="', "each with its arguments, such as name(key=0.5, other=2)"),
    ('loss = ""', "expected one text, not empty"),
    ('[fedavg]\ntested = "best"', "tested: got 'best', expected one of received, trained"),
    ("device = 0", "device: got 0, expected one of auto, cpu, cuda"),
    ('out = ""', "out: got ''"),
    ("[fedsub]\nimpute = 1", "[fedsub]: impute: got 1, expected true or false"),
    ('[fedsub]\nk-selection = "fixed:0"', "[fedsub]: k-selection: got 'fixed:0'"),
    ('[fedsub]\nrelevance = "lrp"', "[fedsub]: relevance: got 'lrp', expected one of lrp-a2b1"),
    ("[fedsub]\ndepth = -1", "[fedsub]: depth: got -1"),
    ("rounds = 1\nrounds = 2", "cannot be read as TOML"),
    ("rounds == 1", "cannot be read as TOML"),
]


@pytest.mark.parametrize(("text", "expected"), UNKNOWN_AND_WRONG)
def test_refused_in_a_file(tmp_path: Path, text: str, expected: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=re.escape(expected)) as error:
        read_config(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("rounds", "0", "command line: rounds: got 0"),
        ("rounds", "six", "command line: rounds: got 'six', expected a whole number"),
        ("rounds", "6.0", "rounds: got '6.0'"),
        ("lr", "fast", "lr: got 'fast', expected a number above 0"),
        ("lr", "nan", "lr: got nan"),
        ("lr", "1e999", "lr: got inf"),
        ("lr", "1e300", "lr: got 1e+300, expected a number above 0 and of a size below 2**63"),
        ("batch-size", str(2**62), f"batch-size: got {2**62}, expected a whole number of at least"),
        ("seed", "9" * 5000, "seed: got '999"),
        ("fedsub.impute", "yes", "command line: [fedsub]: impute: got 'yes'"),
        ("method", "fedsbu", "command line: method: unknown method 'fedsbu'"),
        ("no-such", "1", "command line: unknown key 'no-such'"),
    ],
)
def test_refused_on_the_command_line(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        read_config(None, {key: value})


def test_a_flat_config_is_typed() -> None:
    with pytest.raises(ConfigError, match="run config: rounds: got '3'"):
        from_flat({"rounds": "3"})
    assert from_flat({"rounds": 3, "fedsub.depth": 1}).rounds == 3


def test_hyperparameters_of_any_method_as_text() -> None:
    config = from_flat(
        {"method": "ditto", "beside": "", "set": "ditto.lam=0.5 fedavg.tested=trained"}
    )
    assert config.hyper["ditto"].lam == 0.5
    assert from_flat({"set": ""}) == RunConfig()
    with refused(ConfigError, "run config", "set", "'ditto.la'"):
        from_flat({"set": "ditto.la=1"})
    with pytest.raises(ConfigError, match="run config ditto: expected KEY=VALUE"):
        from_flat({"set": "ditto"})


def test_every_room_gets_its_own_settings() -> None:
    keys: dict[str, Any] = {
        "split": "unseen",
        "rounds": 9,
        "lr": 0.1,
        "seed": 4,
        "method": "ditto",
        "beside": "",
    }
    config = read_config(None, keys | {"train-share": 0.2, "lr-decay": 0.5, "ditto.lam": 0.3})
    device, server = config.device_settings("ditto"), config.server_settings("ditto")
    assert (device.training.lr, device.training.lr_decay) == (0.1, 0.5)
    assert device.split == SplitSettings("unseen", train_share=0.2, seed=4)
    assert device.hyper.lam == server.hyper.lam == 0.3
    assert (server.rounds.rounds, server.rounds.seed, device.seed) == (9, 4, 4)
    assert server.rounds.unseen == UnseenSettings(0.2, 5)
    assert read_config().server_settings("fedsub").rounds.unseen is None
    rooms = [
        {f.name for f in fields(of)} for of in (TrainingSettings, RoundSettings, SplitSettings)
    ]
    assert not (rooms[0] & rooms[1]) and not (rooms[0] & rooms[2]), "a room holds another's keys"


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: cannot be read"):
        read_config(tmp_path / "absent.toml")
    (tmp_path / "run.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        read_config(tmp_path / "run.toml")


def values_of(o: Option) -> st.SearchStrategy[Any]:
    if o.key == "method":
        return st.sampled_from(list(METHODS))
    if o.key == "beside":
        return st.lists(st.sampled_from(list(METHODS))).map(",".join)
    if o.key == "model":
        return st.sampled_from(["auto", "mlp", "cnn1d"])
    if o.key == "encoder":
        return st.sampled_from(["auto", "none", "kernels:20", "relu:0"])
    if o.key == "capacities":
        return st.sampled_from(["1", "1,1", "p1=1.0"])
    if o.key == "fold":
        return st.sampled_from(["", "1/5", "3/3"])
    if o.key == "k-selection":
        return st.sampled_from(["dbi", "dbi-capped", "silhouette", "fixed:12"])
    if o.key in ("loss", "optimiser", "augment"):  # others than depthfl's and scalefl's are refused
        named = ["cross-entropy", "SGD(nesterov=True)", "my.py:f(a=(1, 2))"]
        return st.sampled_from(named[o.key == "optimiser" : 1 + 2 * (o.key != "loss")])
    if o.key == "on-round":
        return st.sampled_from(["", "my.py:f"])
    if o.key == "schedule":
        return st.sampled_from(["constant", "cosine(30),warmup(rounds=5)"])
    if o.choices:
        return st.sampled_from(o.choices)
    if o.type is str:
        return st.from_regex(o.pattern or "", fullmatch=True).filter(
            lambda s: not any("\ud800" <= c <= "\udfff" for c in s)
        )
    if o.type is int:
        return st.integers(int(o.minimum or 0), int(o.maximum or 2**63 - 1))
    if o.type is float:
        low = o.minimum if o.minimum is not None else o.above
        high = o.maximum if o.maximum is not None else o.below
        outside = {"exclude_min": o.above is not None, "exclude_max": o.below is not None}
        return st.floats(low, high if high is not None else 1e18, **outside)  # type: ignore[arg-type]
    return st.booleans()


#: Without those of protections and late uploads, which need each other: refused by name.
PROTECTIONS = {o.key for settings in (NoiseSettings, SecureSettings) for o in describe(settings)}
PROTECTIONS |= {"ask", "draw", "asynchronous", "late-hours"}
KEYS = {o.key: values_of(o) for o in describe(RunConfig) if o.key not in PROTECTIONS} | {
    f"fedsub.{o.key}": values_of(o) for o in describe(FedSubHyperparameters)
}


@given(flat=st.fixed_dictionaries({}, optional=KEYS))
def test_round_trips(tmp_path_factory: pytest.TempPathFactory, flat: dict[str, Any]) -> None:
    held_out = flat.get("split") == "unseen"
    assume(not held_out or not flat.get("from-run"))
    assume(not 0 < flat.get("whole-rounds", 0) < 64)
    pooled = str(flat.get("standardise", "federation")).startswith("federation")
    assume(pooled or not flat.get("standardise-anew"))
    assume(not held_out or flat.get("unseen-rounds", 5) < flat.get("rounds", 60))
    assume(not flat.get("fold") or flat.get("split") not in ("given", "unseen"))
    assume(
        not held_out or not flat.get("unseen-labels") or flat.get("unseen-people", "").strip(" ,")
    )
    several = max(1, flat.get("evaluate-every", 0)) < flat.get("rounds", 60)
    assume(flat.get("best-by") != "validation" or (several and not held_out))
    assume(not flat.get("patience") or flat.get("best-by") == "validation")
    methods = f"{flat.get('method', '')},{flat.get('beside', '')}"
    assume(not flat.get("steps") or flat.get("epochs", 1) == 1)
    if flat.get("capacity-mode") == "dynamic":
        assume("=" not in flat.get("capacities", "") and flat.get("norm") != "local")
        assume(flat.get("best-by") != "validation")
    assume("fedfomo" not in methods)  # refused without consent
    assume("fedsub-ridge" not in methods or flat.get("encoder") != "none")
    config = from_flat(flat)
    assert from_flat(to_flat(config)) == config
    path = tmp_path_factory.getbasetemp() / "round_trip.toml"
    path.write_text(dump_toml(config), encoding="utf-8")
    assert read_config(path) == config
    assert differences(config, read_config(path)) == {}
    text = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in flat.items()}
    assert read_config(None, text) == config


def test_a_run_of_sums_is_one_of_methods_that_average() -> None:
    keys: dict[str, Any] = {"method": "ditto", "beside": "fedavg,local", "robust": "none"}
    keys["standardise"] = "client"
    config = read_config(None, keys | {"secure-aggregation": True, "secure-least": 5})
    for half in (config.server_settings("ditto"), config.device_settings("fedavg")):
        assert half.secure == SecureSettings(True, 5, 8.0)
    assert from_flat(to_flat(config)) == config


def test_differences() -> None:
    a, b = read_config(), read_config(None, {"rounds": 61, "fedsub.fusion": "avg"})
    assert differences(a, b) == {
        "rounds": "rounds: 60 -> 61",
        "fedsub.fusion": "fedsub.fusion: 'overlapping' -> 'avg'",
    }
    assert differences(a, a) == {}
    alone = read_config(None, {"method": "local", "beside": ""})
    assert differences(a, alone)["fedsub.depth"] == "fedsub.depth: 0 -> '(none)'"


def test_a_class_is_described_once() -> None:
    """Types are told in text: to read that anew took four seconds of the largest study's start."""
    assert describe(RunConfig) is describe(RunConfig)


def test_describe() -> None:
    options = {o.key: o for o in describe(RunConfig)}
    assert list(options)[:4] == ["data", "method", "beside", "model"]
    assert options["test-share"].type is float
    assert options["split"].choices == (
        "auto",
        "stratified",
        "blocked",
        "grouped",
        "given",
        "unseen",
    )
    assert options["split"].default == "auto"
    assert "hyper" not in options
    classes: list[type[Any]] = [RunConfig, *(m.hyperparameters for m in METHODS.values())]
    for listed in classes:
        for o in describe(listed):
            assert o.doc and o.check(o.default, "default") == o.default


def test_what_a_text_must_be_is_said_in_words() -> None:
    """No regular expression is shown to anybody."""
    classes: list[type[Any]] = [RunConfig, *(m.hyperparameters for m in METHODS.values())]
    classes += [row.options for row in PARTITIONS.values()]
    patterns = {o.pattern: o for listed in classes for o in describe(listed) if o.pattern}
    assert len(patterns) >= 4
    for o in patterns.values():
        assert o.expected and not set(o.expected) & set("\\[](){}*+?|^$"), o
        with pytest.raises(ConfigError, match=re.escape(f"expected {o.expected}.")):
            o.check(" no such text ", "run.toml")
    with refused(ConfigError, "data", got="['a', 'b']", expected="one text"):
        from_flat({"data": ["a", "b"]})
