"""Images, texts and graphs under every method and engine, from pieces of MNIST, AG News, Cora."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines import stacks
from fedsub.engines.simulation import build_strategy, train_method
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.engine_tests import (
    CLIENTS,
    ROUNDS,
    assert_close,
    by_deployment,
    by_ray,
    engine_models,
)
from fedsub.testing.runs import Run, RunMethod, assert_equal
from fedsub_client.loaded_model import load_model
from fedsub_core.config.run_config import RunConfig, from_flat
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from fedsub_core.models.unbuilt import Unbuilt
from fedsub_papers.tests import shapes
from fedsub_server.run_folder import MODELS

from .test_modules import OF_CHAINS

CUTS = {"digits": shapes.digits, "news": shapes.news, "papers": shapes.papers}
#: How samples are kept, by their kind.
KEPT = {"image": torch.uint8, "tokens": torch.int32, "node": torch.float32}
#: Heads are solved on an encoder's features.
OF_FEATURES = {"fedsub-ridge"}
#: Why methods refuse token ids as they are by default, and with what they take them; {}: never.
MEANS_OF_IDS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedsub": (r"set fedsub\.prototype = embedding", {"prototype": "embedding"}),
    "fedsub-gated": (r"set fedsub-gated\.prototype = embedding", {"prototype": "embedding"}),
    "framp": (r"set framp\.descriptor = drawn", {"descriptor": "drawn"}),
    **dict.fromkeys(OF_CHAINS, ("No chain takes token ids or a graph", {})),
}


#: Methods whose weak devices hold some units of any model.
OF_WEAK_DEVICES = [
    name
    for name, card in METHODS.items()
    if card.weak.narrow == "model" and card.up and name not in {*OF_CHAINS, "local"}
]

#: Why methods refuse nodes of a graph.
REFUSES_NODES = {
    **dict.fromkeys(("fedsub", "fedsub-gated"), "got nodes of a graph, expected samples that"),
    **dict.fromkeys(OF_CHAINS, "No chain takes token ids or a graph"),
}


@pytest.fixture(scope="module", params=CUTS)
def federation(request: pytest.FixtureRequest, real_data: Path) -> Federation:
    return CUTS[request.param](real_data, people=4, each=30)


def last_round(run: Run, metric: str) -> float:
    values = run.metric(metric)
    last = max(round for round, _ in values)
    return mean(value for (round, _), value in values.items() if round == last)


def kept(run: Run) -> set[torch.dtype]:
    """Return in which types the samples lie that were trained on."""
    made = [cohort.data._made for cohort in run.grid.cohorts]
    return {one[1].x.dtype for one in made if one is not None}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_trains_them(name: str, federation: Federation, run_method: RunMethod) -> None:
    kind = federation.card.sample
    assert kind is not None
    if name in OF_FEATURES:
        with pytest.raises(ConfigError, match="expected none: encoders take windows and feature"):
            run_method(name, federation)
        return
    hyper: dict[str, Any] = {}
    if kind == "node" and name in REFUSES_NODES:
        with pytest.raises(ConfigError, match=REFUSES_NODES[name]):
            run_method(name, federation)
        return
    if kind == "tokens" and name in MEANS_OF_IDS:
        why, hyper = MEANS_OF_IDS[name]
        with pytest.raises(ConfigError, match=why):
            run_method(name, federation)
        if not hyper:
            return
    run = run_method(name, federation, hyper=hyper, rounds=2)
    losses = run.metric("loss")
    assert len(losses) == 2 * 4 and all(map(math.isfinite, losses.values()))
    assert not [row for row in run.rows if row.metric == "refused_replies"]
    assert kept(run) == {KEPT[kind]}


@pytest.mark.parametrize("model", ["cnn2d", "mlp"])
@pytest.mark.parametrize("name", ["fedavg", "fedrep", "fedproto", "fedsub"])
def test_bytes_train_as_the_same_floats_do(
    name: str, model: str, real_data: Path, run_method: RunMethod
) -> None:
    """To the bit: only the name of their prototypes goes by how samples are kept."""
    bytes_ = shapes.digits(real_data, people=3, each=40)
    floats = {n: replace(c, x=c.x.astype(np.float32)) for n, c in bytes_.clients.items()}
    runs = [
        run_method(name, one, rounds=2, model=model)
        for one in (bytes_, Federation(bytes_.card, floats))
    ]
    assert [kept(run) for run in runs] == [{torch.uint8}, {torch.float32}]
    ours, theirs = ({k: t for k, t in r.states[-1].items() if k != "versions"} for r in runs)
    for key, tensor in theirs.items():
        # The mean of an image is summed in another order.
        tolerance = {"atol": 1e-5, "rtol": 1e-5} if name == "fedsub" else {"atol": 0, "rtol": 0}
        torch.testing.assert_close(ours[key], tensor, **tolerance)
    for client, model_ in runs[0].models().items():
        assert_equal(model_, runs[1].models()[client])


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedfomo"])
def test_a_stack_trains_as_its_people_alone(
    name: str, federation: Federation, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = run_method(name, federation)
    monkeypatch.setitem(stacks.CHUNK, "cpu", 1)
    alone = run_method(name, federation)
    assert [len(one.grid.cohorts) for one in (together, alone)] == [1, 4]
    assert_equal(together.states[-1], alone.states[-1])
    assert together.metric("loss") == alone.metric("loss")


@pytest.mark.parametrize("standardise", ["federation", "federation-median", "client", "none"])
def test_devices_train_what_one_process_does(
    standardise: str, federation: Federation, run_method: RunMethod, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", federation)
    keys = {"data": str(tmp_path / "data"), "standardise": standardise, "rounds": 2, "lr": 0.05}
    run = run_method("fedavg", federation, **keys)
    config = RunConfig(method="fedavg", beside="", batch_size=16, **keys)  # type: ignore[arg-type]
    strategy, grid = build_strategy(config, "fedavg"), DeviceGrid(config, 4)
    strategy.run_name = "one run"
    strategy.start(grid)
    assert strategy.state is not None
    assert_close(strategy.state, run.states[-1], standardise)
    for i, client in enumerate(federation.clients):
        model = grid.saved(i).model
        assert model is not None
        assert_close(model.params, run.models()[client], client)
        held = federation.clients[client].part(np.arange(5))
        if isinstance(model.architecture, Unbuilt):
            model = replace(model, architecture=model.architecture.build(""))
        probabilities = model.probabilities(held.x, edges=held.edges)
        np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)


def test_a_resumed_run_ends_in_the_same_bits(federation: Federation, run_method: RunMethod) -> None:
    whole, first = (run_method("ditto", federation, until=until) for until in (None, 2))
    rest = run_method("ditto", federation, after=first)
    assert_equal(rest.states[-1], whole.states[-1])


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["averaged", "static"])
def test_a_residual_net_trains_on_photographs(
    norm: str, real_data: Path, run_method: RunMethod
) -> None:
    federation = shapes.photographs(real_data, people=2, each=10)
    run = run_method("fedavg", federation, rounds=1, model="resnet18", norm=norm, batch_size=5)
    assert kept(run) == {torch.uint8}
    assert all(map(math.isfinite, run.metric("loss").values()))


def test_the_best_round_is_chosen_on_a_part_of_them(
    federation: Federation, run_method: RunMethod
) -> None:
    run = run_method("fedavg", federation, best_by="validation")
    chosen = [row.value for row in run.rows if row.metric == "best_round"]
    assert len(chosen) == 3 * 4 and set(chosen) <= {1, 2, 3}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", OF_WEAK_DEVICES)
def test_a_weak_device_sends_a_part_of_their_models(
    name: str, cut: str, real_data: Path, run_method: RunMethod
) -> None:
    if cut == "papers" and name in REFUSES_NODES:
        return
    hyper = MEANS_OF_IDS[name][1] if cut == "news" and name in MEANS_OF_IDS else {}
    people = CUTS[cut](real_data, people=3, each=30)
    run = run_method(name, people, hyper=hyper, rounds=2, capacities="1,0.5,0.25")
    sent: dict[str, float] = defaultdict(float)
    for (_, client), value in run.metric("bytes_up_sent").items():
        sent[client] += value
    least, _, most = sorted(sent.values())
    assert least < 0.7 * most
    assert not [row for row in run.rows if row.metric == "refused_replies"]


def test_a_model_of_ones_own_reads_token_ids(real_data: Path, run_method: RunMethod) -> None:
    federation = shapes.news(real_data, people=3, each=30)
    run = run_method("ditto", federation, rounds=2, model=f"{shapes.__file__}:Reader")
    assert all(map(math.isfinite, run.metric("loss").values()))
    assert run.models()["p00"]["vectors.weight"].shape == (shapes.VOCABULARY, 8)


def test_people_learn_their_topics(real_data: Path, run_method: RunMethod) -> None:
    run = run_method("local", shapes.news(real_data), rounds=20, evaluate_every=20, lr=2.0)
    # Two of four topics are guessed by who holds which; everybody holds three.
    assert last_round(run, "accuracy") > 0.45
    assert len(run.models()) == 10


def test_people_learn_their_digits(real_data: Path, run_method: RunMethod) -> None:
    run = run_method("local", shapes.digits(real_data), rounds=20, evaluate_every=20, lr=0.1)
    assert last_round(run, "macro_f1") > 0.6
    assert len(run.models()) == 10


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize(
    ("engine", "cut"), [(by_ray, "digits"), (by_deployment, "news")], ids=["ray", "deployed"]
)
def test_they_are_equal_in_every_engine(
    engine: Callable[..., Path], cut: str, real_data: Path, tmp_path: Path
) -> None:
    federation = CUTS[cut](real_data, people=CLIENTS, each=30)
    write_federation(tmp_path / "data", federation)
    keys = {
        "data": str(tmp_path / "data"),
        "method": "ditto",
        "beside": "fedavg",
        "rounds": ROUNDS,
        "evaluate-every": ROUNDS,
        "lr": 0.05,
    }
    folder = engine(keys, tmp_path / "engine")
    for name in ("ditto", "fedavg"):
        train_method(from_flat(keys), name, federation, tmp_path / name, lambda round: None)
        found = engine_models(folder, name, "ditto")
        assert len(found) == CLIENTS
        for client, model in found.items():
            expected = load_model(tmp_path / name / MODELS / f"{client}.safetensors")
            assert_close(model, expected.params, f"{name} of {client}")
