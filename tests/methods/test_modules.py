"""Modules of one's own under every method and engine: as good a model as ours."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_strategy, train_method
from fedsub.export.formats import export
from fedsub.testing import battery
from fedsub.testing.cover import LATER, in_turn, turns
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.engine_tests import (
    CLIENTS,
    ROUNDS,
    by_deployment,
    by_ray,
    engine_models,
    two_people,
)
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, WholeRuns, assert_equal, people
from fedsub_client.device import Device
from fedsub_client.loaded_model import load_model
from fedsub_client.model_file import model_bytes
from fedsub_client.personal_model import PersonalModel
from fedsub_core.config.run_config import RunConfig, from_flat
from fedsub_core.data.card import Card
from fedsub_core.data.federation import write_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.methods.table import HOUSE, METHODS
from fedsub_core.models.kinds import build_model
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import first_units
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import DATABASE_FILE, MODELS
from fedsub_server.rundb import RunDatabase

from ..fedsub_core.models.modules import MODULES

FILE = Path(__file__).parents[1] / "fedsub_core/models/modules.py"
#: What they need of a model is found layer by layer.
OF_UNITS = ("fedsub", "fedsub-gated")
STATISTICS = {"1.running_mean", "1.running_var"}
NORM = STATISTICS | {"1.weight", "1.bias"}


def place(name: str) -> str:
    return f"{FILE}:{MODULES[name].__name__}"


class ModuleTests(WholeRuns):
    """What every method makes of a module."""

    @in_turn("module", ["normalised", "convolved"])
    def test_every_method_trains_a_module(
        self, name: str, module: str, run_method: RunMethod
    ) -> None:
        run = run_method(name, rounds=2, model=place(module))
        losses = run.metric("loss")
        assert len(losses) == 2 * 4 and all(map(math.isfinite, losses.values()))
        assert not [row for row in run.rows if row.metric == "refused_replies"]
        if not METHODS[name].training.solves:
            for model in run.models().values():
                assert any(tensor.endswith("running_var") for tensor in model)


TestModules = battery(*HOUSE, parts=(ModuleTests,), cover=True)


@pytest.mark.parametrize(
    ("fusion", "encoding"),
    turns(
        ["overlapping-any", "overlapping-additive", "avg", "leadership"],
        ["float32", "delta,top-k:0.5,int8,zstd"],
    ),
)
def test_units_of_a_module_are_mixed_with_their_norms(
    fusion: str, encoding: str, run_method: RunMethod
) -> None:
    """Whoever gets a row gets its norm's; a variance stays one, however it travels."""
    hyper = {"k_selection": "fixed:1", "fusion": fusion}
    wire = {"upload_encoding": encoding, "download_encoding": encoding.split(",top")[0]}
    robust = "clip" if encoding == "float32" else "none"
    keys = {"model": place("convolved"), "robust": robust, **wire}
    run = run_method("fedsub", hyper=hyper, rounds=2, **keys)
    assert not [row for row in run.rows if row.metric == "refused_replies"]
    strategy, clients = run.strategy, list(run.models())
    assert strategy.state is not None
    downloads = strategy.half.downloads(strategy.state, strategy.round(3), clients)
    some = {name for bundle in downloads for name in bundle.tensors}
    assert some >= {"first.weight", "norm2.weight", "norm2.running_mean", "norm2.running_var"}
    for model in run.models().values():
        assert all(torch.isfinite(tensor).all() for tensor in model.values())
        assert all(t.min() > 0 for name, t in model.items() if name.endswith("running_var"))


def test_units_of_an_lstm_are_mixed(run_method: RunMethod) -> None:
    hyper = {"k_selection": "fixed:1", "fusion": "overlapping-any", "relevance": "naive"}
    run = run_method("fedsub", hyper=hyper, rounds=2, model=place("recurrent"))
    upload = run.uploads[-1]["p1"]
    assert upload.part("lstm.weight_ih_l0").values.shape[1] == 4 * (4 + 10 + 2)
    strategy = run.strategy
    assert strategy.state is not None
    (download,) = strategy.half.downloads(strategy.state, strategy.round(3), ["p1"])
    assert "lstm.weight_ih_l0" in download.tensors


def test_layers_without_a_rule_are_refused_before_the_first_round(run_method: RunMethod) -> None:
    """Not by the naive relevance, which the gate always has."""
    hyper = {"relevance": "lrp-a2b1"}
    with refused(ConfigError, got=["layer_norm", "blocks.0.norm", "LayerNorm"]):
        run_method("fedsub", hyper=hyper, model=place("residual"))
    run_method("fedsub", hyper={"relevance": "naive"}, rounds=1, model=place("residual"))
    run_method("fedsub-gated", rounds=1, model=place("residual"))


def test_the_gate_needs_a_bias_of_the_last_layer(tmp_path: Path, run_method: RunMethod) -> None:
    file = tmp_path / "plain.py"
    file.write_text(
        "from torch import nn\n\n\ndef plain(shape, classes):\n"
        "    first = nn.Linear(shape[0], 5)\n"
        "    return nn.Sequential(first, nn.Tanh(), nn.Linear(5, classes, bias=False))\n"
    )
    run_method("fedsub", rounds=1, model=f"{file}:plain")
    with refused(ConfigError, "fedsub-gated", "layer 2", got="no bias"):
        run_method("fedsub-gated", rounds=1, model=f"{file}:plain")


@pytest.mark.parametrize(
    ("name", "norm"), turns(["fedavg", "ditto", "fedrep", "apfl"], ["averaged", "local", "static"])
)
def test_what_stays_at_home(name: str, norm: str, run_method: RunMethod) -> None:
    stay = {"averaged": set[str](), "local": NORM, "static": STATISTICS}[norm]
    run = run_method(name, rounds=2, model=place("normalised"), norm=norm)
    sent = {tensor for upload in run.uploads[-1].values() for tensor in upload.tensors}
    assert sent and not sent & stay
    assert NORM - stay <= sent
    first, *others = run.models().values()
    assert first.keys() >= NORM
    for tensor in stay:
        assert any(not torch.equal(first[tensor], other[tensor]) for other in others)


@pytest.mark.parametrize("name", ["heterofl"])
def test_weak_devices_keep_their_norms_at_home(name: str, run_method: RunMethod) -> None:
    keys = {"model": place("normalised"), "norm": "local", "capacities": "p2=0.5"}
    run = run_method(name, rounds=2, **keys)
    assert len(run.metric("loss")) == 2 * 4
    assert not {tensor for upload in run.uploads[-1].values() for tensor in upload.tensors} & NORM
    first, second, *_ = run.models().values()
    assert not torch.equal(first["1.running_mean"][:4], second["1.running_mean"][:4])


def test_a_resumed_run_ends_in_the_same_bits(run_method: RunMethod) -> None:
    keys = {"model": place("normalised"), "norm": "local", "rounds": 3}
    whole, first = run_method("ditto", **keys), run_method("ditto", until=2, **keys)
    rest = run_method("ditto", after=first, **keys)
    assert_equal(rest.states[-1], whole.states[-1])
    for client in whole.models():
        assert_equal(rest.client_state(client), whole.client_state(client))


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("ditto", "normalised"),
        ("fedsub", "convolved"),
        pytest.param("fedsub-gated", "convolved", marks=LATER),
        *(pytest.param("ditto", module, marks=LATER) for module in MODULES if module[0] != "n"),
    ],
)
def test_devices_train_what_one_process_does(
    name: str, module: str, run_method: RunMethod, tmp_path: Path
) -> None:
    federation = people()
    write_federation(tmp_path / "data", federation)
    keys = {"data": str(tmp_path / "data"), "model": place(module), "lr": 0.05, "rounds": 2}
    run = run_method(name, federation, **keys)
    config = RunConfig(method=name, beside="", batch_size=16, **keys)  # type: ignore[arg-type]
    strategy, grid = build_strategy(config, name), DeviceGrid(config, 4)
    strategy.run_name = "one run"
    strategy.start(grid)
    assert strategy.state is not None
    for key, tensor in strategy.state.items():
        torch.testing.assert_close(tensor, run.states[-1][key], atol=1e-6, rtol=0)
    for i, client in enumerate(federation.clients):
        saved = grid.saved(i)
        assert saved.model is not None
        for key, tensor in run.models()[client].items():
            torch.testing.assert_close(saved.model.params[key], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("name", "module", "formats"),
    [
        ("fedavg", "normalised", ("torchscript", "safetensors")),
        ("fedsub", "convolved", ("torchscript", "safetensors")),
        ("fedavg", "residual", ("safetensors",)),
        # ONNX takes seconds.
        *(pytest.param("fedavg", module, ("onnx",), marks=LATER) for module in MODULES),
        pytest.param("fedsub-gated", "convolved", ("onnx", "torchscript"), marks=LATER),
    ],
)
def test_a_models_file_is_used_with_its_builder(
    name: str, module: str, formats: tuple[str, ...], tmp_path: Path
) -> None:
    federation = people()
    config = RunConfig(method=name, beside="", model=place(module), rounds=1, lr=0.05)
    train_method(config, name, federation, tmp_path, lambda round: None)
    file = tmp_path / MODELS / "p1.safetensors"
    with refused(RunError, got="no --model", expected="--model"):
        load_model(file)
    with refused(RunError, got="--model os:getcwd", expected="--model"):
        load_model(file, "os:getcwd")
    model = load_model(file, place(module))
    x = federation.clients["p1"].x[:9]
    probabilities = model.probabilities(x)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)
    for format in formats:
        found = export(model, format, tmp_path / f"model.{format}")
        assert found is not None and found < 1e-5
    if "safetensors" in formats:
        again = load_model(tmp_path / "model.safetensors", place(module))
        np.testing.assert_array_equal(again.probabilities(x), probabilities)


@pytest.mark.parametrize(
    ("module", "formats"),
    [
        *((module, ("torchscript", "safetensors")) for module in MODULES),
        pytest.param("recurrent", ("onnx",), marks=LATER),
    ],
)
def test_a_narrow_models_file_is_used_with_the_whole_ones_builder(
    module: str, formats: tuple[str, ...], tmp_path: Path
) -> None:
    kind = place(module)
    model = build_model(kind, (3, 20), 4)
    small, _ = model.narrow({n: kept + 2 for n, kept in first_units(model, 0.5).items()})
    params = {name: tensor[0] for name, tensor in small.init(1, 3).items()}
    card = Card("toy", "test", ("a", "b", "c", "d"), ("u", "v", "w"))
    before = PersonalModel("p1", "fedavg", 1, params, small, kind, card, None)
    file = tmp_path / "narrow.safetensors"
    file.write_bytes(model_bytes(before))
    after, x = load_model(file, kind), np.random.default_rng(0).normal(size=(9, 3, 20))
    assert isinstance(after.architecture, TorchModel)
    assert after.architecture.tensor_shapes == small.tensor_shapes
    np.testing.assert_array_equal(after.probabilities(x), before.probabilities(x))
    for format in formats:
        found = export(after, format, tmp_path / f"model.{format}")
        assert found is not None and found < 1e-5


def test_a_device_runs_no_code_that_its_owner_did_not_name(tmp_path: Path) -> None:
    from flwr.app import Context, RecordDict

    from fedsub_core.config.run_config import to_flat

    write_federation(tmp_path / "data", people())
    config = RunConfig(method="fedavg", beside="", model=place("recurrent"))
    node = {"client-id": "p1", "data": str(tmp_path / "data"), "state-dir": str(tmp_path)}
    for own in ({}, {"model": "os:getcwd"}):
        with refused(RunError, "client 'p1'", "model", "code"):
            Device(Context(1, 1, node | own, RecordDict(), to_flat(config)))  # type: ignore[arg-type]
    Device(Context(1, 1, node | {"model": config.model}, RecordDict(), to_flat(config)))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize(
    "engine, main, beside, module, norm",
    [
        (by_deployment, "ditto", ("fedavg",), "normalised", "local"),
        (
            by_ray,
            "fedsub-gated",
            ("fedsub", "fedrep", "fedproto"),  # rows of units, a body, prototypes
            "convolved",
            "averaged",
        ),
    ],
    ids=["deployed", "ray"],
)
def test_a_module_is_equal_in_every_engine(
    engine: Callable[..., Path],
    main: str,
    beside: tuple[str, ...],
    module: str,
    norm: str,
    tmp_path: Path,
) -> None:
    federation = two_people(tmp_path / "data")
    keys = {
        "data": str(tmp_path / "data"),
        "method": main,
        "beside": ",".join(beside),
        "model": place(module),
        "norm": norm,
        "rounds": ROUNDS,
        "evaluate-every": ROUNDS,
        "lr": 0.05,
    }
    folder = engine(keys, tmp_path / "engine")
    for name in (main, *beside):
        train_method(from_flat(keys), name, federation, tmp_path / name, lambda round: None)
        with RunDatabase(folder / name / DATABASE_FILE) as one:
            round, theirs = one.load()
        with RunDatabase(tmp_path / name / DATABASE_FILE) as other:
            _, ours = other.load()
        assert round == ROUNDS
        for key, tensor in ours[SERVER].items():
            torch.testing.assert_close(theirs[SERVER][key], tensor, atol=1e-6, rtol=0)
        found = engine_models(folder, name, main, place(module))
        assert len(found) == CLIENTS
        for client, model in found.items():
            file = tmp_path / name / MODELS / f"{client}.safetensors"
            expected = load_model(file, place(module)).params
            assert [tensor for tensor in expected if tensor.endswith("running_var")]
            for key, tensor in expected.items():
                torch.testing.assert_close(model[key], tensor, atol=1e-6, rtol=0)
