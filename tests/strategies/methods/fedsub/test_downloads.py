"""What FedSub sends back over real rounds: imputed classes, depth, sparse rows, nothing alone."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub_core.methods.fedsub import FUSIONS, READINGS
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedsub import strategy as strategy_module
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.strategy import FUSED_BYTES

from ...finished_run import MakePeople, RunMethod
from ...sent_bundle import Floats, SentBundle
from .by_hand import MODEL, strategy_of, upload_of

ONE_CLUSTER = {"k_selection": "fixed:1"}
ALL_ALONE = {"k_selection": "fixed:99"}
LAYERS = ["linear1", "linear2", "linear3"]


def rows_of(bundle: SentBundle) -> dict[tuple[str, int], Floats]:
    """Return the rows of an upload or download by layer and unit."""
    return {
        (layer, unit): row
        for layer in LAYERS
        if layer in bundle.names
        for unit, row in bundle.rows(layer).items()
    }


def test_imputation_gives_a_cluster_of_a_class_the_client_lacks(
    people: MakePeople, run_method: RunMethod
) -> None:
    federation = people(((0, 1, 2), (0, 1, 2), (0, 1), (0, 1, 2)))
    hyper = ONE_CLUSTER | {"fusion": "overlapping-any"}
    plain = run_method(federation, hyper=hyper, rounds=2)
    imputed = run_method(federation, hyper=hyper | {"impute": True}, rounds=2)
    assert plain.states[0]["clusters"].tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, -1], [0, 0, 0]]
    assert imputed.states[0]["clusters"].tolist() == [[0, 0, 0]] * 4
    # It has none of its own to give: for the others nothing changes, it alone receives more.
    assert imputed.states[0]["holds"].tolist()[2] == [True, True, False]
    for client in ("p1", "p2", "p4"):
        sent = imputed.grid.downloads[2, client].message
        assert sent.tensors and sent == plain.grid.downloads[2, client].message
    before, after = (rows_of(run.grid.downloads[2, "p3"]) for run in (plain, imputed))
    assert before.keys() < after.keys()


def test_a_cluster_of_imputed_members_alone_sends_nothing(
    people: MakePeople, run_method: RunMethod
) -> None:
    federation = people(((0, 1), (0, 1), (0, 1)))
    run = run_method(federation, hyper={"impute": True, "k_selection": "fixed:1"}, rounds=2)
    assert run.states[-1]["clusters"].tolist() == [[0, 0, -1]] * 3


@pytest.mark.parametrize(("depth", "layers"), [(1, 1), (2, 2), (0, 3)])
def test_depth_keeps_the_later_layers_personal(
    people: MakePeople, run_method: RunMethod, depth: int, layers: int
) -> None:
    run = run_method(people(), hyper=ONE_CLUSTER | {"depth": depth, "fusion": "avg"}, rounds=3)
    names = LAYERS[:layers]
    beside = {"classes", "scores", "prototypes"}
    for upload in run.grid.uploads.values():
        expected = [part for name in names for part in (name, f"{name}.masks")]
        assert [name for name in upload.names if name not in beside] == expected
    for (round, _), download in run.grid.downloads.items():
        assert download.names == (names if round > 1 else [])


@pytest.mark.parametrize("fusion", FUSIONS)
def test_downloads_hold_only_rows_that_differ_from_the_clients_own(
    people: MakePeople, run_method: RunMethod, fusion: str
) -> None:
    federation = people(((0, 1, 2), (0, 1), (1, 2), (0, 1, 2)))
    hyper = {"fusion": fusion, "k_selection": "fixed:2", "impute": True}
    run = run_method(federation, hyper=hyper, rounds=4)
    sent = 0
    for (round, client), download in run.grid.downloads.items():
        if round == 1:
            assert not download.names
            continue
        own = rows_of(run.grid.uploads[round - 1, client])
        new = rows_of(download)
        sent += len(new)
        assert all(key not in own or (row != own[key]).any() for key, row in new.items())
        assert all(np.isfinite(row).all() for row in new.values())
    assert sent > 0


def test_one_cluster_of_equals_under_overlapping_is_the_mean_of_rows(
    people: MakePeople, run_method: RunMethod
) -> None:
    """With one class each, a unit that all selected comes back as everybody's mean."""
    federation = people(((0,), (0,), (0,), (1,)))
    run = run_method(federation, hyper=ONE_CLUSTER, rounds=2)
    own = [rows_of(run.grid.uploads[1, c]) for c in ("p1", "p2", "p3")]
    shared = own[0].keys() & own[1].keys() & own[2].keys()
    assert len(shared) > 10
    for client in ("p1", "p2", "p3"):
        received = rows_of(run.grid.downloads[2, client])
        assert received.keys() == shared, client
        for key, row in received.items():
            mean = np.mean([rows[key] for rows in own], axis=0, dtype=np.float64)
            np.testing.assert_allclose(row, mean, rtol=1e-5, atol=1e-6)
    # p4 is alone in its only class and keeps all it has.
    assert not run.grid.downloads[2, "p4"].names


@pytest.mark.parametrize(
    ("clients", "hyper"),
    [(2, {"k_selection": "dbi"}), (5, ALL_ALONE), (5, ALL_ALONE | {"fusion": "overlapping-any"})],
)
def test_clients_all_alone_train_as_if_there_were_no_server(
    people: MakePeople, run_method: RunMethod, clients: int, hyper: dict[str, Any]
) -> None:
    federation = people(((0, 1, 2),) * clients)
    fedsub = run_method(federation, hyper=hyper, rounds=3)
    local = run_method(federation, "local", rounds=3)
    assert all(len(set(column)) == clients for column in fedsub.states[-1]["clusters"].T.tolist())
    assert not any(download.names for download in fedsub.grid.downloads.values())
    mine, theirs = fedsub.client_states(), local.client_states()
    for client, tensors in theirs.items():
        for name, tensor in tensors.items():
            torch.testing.assert_close(mine[client][name], tensor, rtol=0, atol=1e-6)
    for name in ("macro_f1", "loss"):
        ours, alone = fedsub.metric(name), local.metric(name)
        assert ours.keys() == alone.keys()
        assert all(ours[key] == pytest.approx(alone[key], abs=1e-6) for key in ours)


@pytest.mark.parametrize("at_once", [0, 700, FUSED_BYTES])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("fusion", FUSIONS)
def test_some_clients_get_what_they_get_among_all(
    fusion: str, reading: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fused for whoever shares a cluster with them alone, and not at all for who shares none."""
    stream = np.random.default_rng(5)
    strategy = strategy_of(fusion=fusion, fusion_reading=reading)
    names = [f"c{i:02d}" for i in range(14)]
    uploads = {}
    for name in names:
        labels = sorted(stream.choice(3, stream.integers(1, 4), replace=False).tolist())
        selected = {
            layer.name: {y: stream.choice(layer.units, 2, replace=False).tolist() for y in labels}
            for layer in MODEL.affine
        }
        uploads[name] = upload_of(labels, float(stream.uniform(0.1, 1)), 7, selected)
    assert strategy.state is not None
    state, _ = strategy.half.aggregate(strategy.state, strategy.round(Turn(1, 2, 0)), uploads)
    # Clusters of one to three members, numbered as in a round.
    apart = torch.from_numpy(stream.integers(0, 7, state["clusters"].shape))
    for y, column in enumerate(apart.unbind(1)):
        held = state["holds"][:, y]
        column[held] = torch.unique(column[held], return_inverse=True)[1]
    state["clusters"] = torch.where(state["holds"], apart, -1)
    cache = Cache.of(
        {k: t for k, t in state.items() if k not in ("clusters", "clustered", "longest")}
    )
    among_all = strategy.half._fused(cache, state["clusters"], strategy.round(), names)
    monkeypatch.setattr(strategy_module, "FUSED_BYTES", at_once)
    sent = 0
    for some in ([*names, "new"], names[3:6], ["c01"], ["new"]):
        for client, got in zip(
            some, strategy.half.downloads(state, strategy.round(Turn(2, 2, 0)), some), strict=True
        ):
            assert got.version == (7 if client in names else 0)
            expected = among_all.get(client, {})
            assert got.tensors.keys() == expected.keys()
            for name in expected:
                theirs, ours = Bundle(tensors=expected).part(name), got.part(name)
                assert theirs.at == ours.at and (theirs.values == ours.values).all()
                sent += 1
    assert sent
