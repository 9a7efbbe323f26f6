"""FedCLAR and FedCHAR: who is with whom, what each group has, and what they are at the limits."""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub.testing.runs import Run, RunMethod, assert_equal, people
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS
from strategies.parts.grouping import GroupedServer


def two_types(seed: int = 0) -> Federation:
    """Return six people; the first three call the classes of the others by other names."""
    base = people(((0, 1, 2),) * 6, seed=seed)
    clients = {}
    for i, (name, data) in enumerate(base.clients.items()):
        stream = np.random.default_rng(i)
        turned = data.y if i < 3 else (data.y + 1) % 3
        x = 3 * np.eye(3, 4)[turned] + stream.normal(size=data.x.shape)
        clients[name] = ClientData(name, x.astype(np.float32), data.y)
    return Federation(base.card, clients)


def groups(run: Run, round: int) -> list[float]:
    found = run.metric("group")
    return [found[round, client] for client in sorted({c for _, c in found})]


def models_after(run: Run) -> dict[str, torch.Tensor]:
    return {n: t for n, t in run.states[-1].items() if n.startswith("model.")}


@pytest.mark.parametrize(
    ("name", "hyper"),
    [
        ("fedclar", {"threshold": 0.005, "similarity": "model"}),
        ("fedclar", {"threshold": 0.5, "similarity": "update"}),
        ("fedchar", {"k_selection": "fixed:2"}),
        ("fedchar", {"k_selection": "silhouette"}),
    ],
)
def test_people_of_one_type_are_one_group(
    name: str, hyper: dict[str, Any], run_method: RunMethod
) -> None:
    run = run_method(name, two_types(), hyper={"cluster_round": 2} | hyper, rounds=4)
    assert not [key for key in run.metric("groups") if key[0] < 2]
    for round in (2, 3, 4):
        assert run.metric("groups")[round, ""] == 2
        assert groups(run, round) == [0, 0, 0, 1, 1, 1]


def test_a_run_that_goes_on_divides_by_what_it_was_told(run_method: RunMethod) -> None:
    of = {"cluster_round": 2, "threshold": 0.5, "similarity": "update"}
    whole = run_method("fedclar", two_types(), hyper=of, rounds=4)
    half = run_method("fedclar", two_types(), hyper=of, rounds=4, until=1)
    resumed = run_method("fedclar", two_types(), hyper=of, rounds=4, after=half)
    assert groups(resumed, 4) == groups(whole, 4) == [0, 0, 0, 1, 1, 1]
    assert_equal(resumed.lasting, whole.lasting)


def test_until_it_divides_fedclar_is_fedavg_and_then_every_group_is(run_method: RunMethod) -> None:
    everybody = two_types()
    hyper = {"cluster_round": 2, "threshold": 0.005, "finetune_epochs": 0}
    clar, fedavg = (
        # Of few, a filter would shorten updates.
        run_method(name, everybody, hyper=own, rounds=4, robust="none")
        for name, own in (("fedclar", hyper), ("fedavg", {}))
    )
    first = clar.states[0]
    assert_equal({name: first[f"model.{name}"][0] for name in fedavg.states[0]}, fedavg.states[0])
    # A group goes on as FedAvg of its members alone, from the mean of round 2's uploads.
    sizes = {client: upload.examples for client, upload in clar.uploads[1].items()}
    own = [client for client in sizes if client in ("p1", "p2", "p3")]
    whole = sum(sizes[client] for client in own)
    for name in fedavg.states[0]:
        mean = sum(
            sizes[c] / whole * torch.from_numpy(clar.uploads[1][c].floats(name).copy()) for c in own
        )
        torch.testing.assert_close(clar.states[1][f"model.{name}"][0], mean, atol=1e-6, rtol=0)


def test_a_threshold_that_merges_all_is_fedavg_and_says_so(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    hyper = {"cluster_round": 1, "threshold": 2.0, "finetune_epochs": 0}
    with caplog.at_level(logging.WARNING, "fedsub"):
        clar = run_method("fedclar", hyper=hyper)
    assert "dividing 4 clients gave 1 group: from here on it is FedAvg" in caplog.text
    fedavg = run_method("fedavg")
    for client, model in fedavg.models().items():
        assert_equal(clar.models()[client], model)


def test_a_threshold_that_isolates_all_is_local_and_says_so(
    run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    hyper = {"cluster_round": 1, "threshold": -1.0, "finetune_epochs": 0}
    with caplog.at_level(logging.WARNING, "fedsub"):
        clar = run_method("fedclar", hyper=hyper)
    assert "gave 4 groups: from here on it is Local: no two clients share a model" in caplog.text
    # All begin alike, so that being alone from the first round on is training alone.
    local = run_method("local")
    for client, model in local.models().items():
        assert_equal(clar.models()[client], model)


def test_fedclar_tunes_in_the_last_round_alone(run_method: RunMethod) -> None:
    tuned, plain = (run_method("fedclar", hyper={"finetune_epochs": epochs}) for epochs in (1, 0))
    assert_equal(tuned.states[-1], plain.states[-1])
    losses, others = tuned.metric("loss"), plain.metric("loss")
    same = {key for key, loss in losses.items() if loss == others[key]}
    assert same == {key for key in losses if key[0] < 3}


def test_one_group_of_fedchar_is_ditto(run_method: RunMethod) -> None:
    char = run_method("fedchar", hyper={"k_selection": "fixed:1"})
    ditto = run_method("ditto")
    for client, model in ditto.models().items():
        assert_equal(char.models()[client], model)
    assert_equal(
        {n.removeprefix("model."): t[0] for n, t in models_after(char).items()}, ditto.states[-1]
    )


def test_without_a_pull_fedchars_personal_model_is_local(run_method: RunMethod) -> None:
    char, local = run_method("fedchar", hyper={"lam": 0.0}), run_method("local")
    for client, model in local.models().items():
        assert_equal(char.models()[client], model)


def test_fedchars_groups_start_from_the_mean_over_all(run_method: RunMethod) -> None:
    hyper = {"k_selection": "fixed:2", "cluster_round": 2}
    char = run_method("fedchar", two_types(), hyper=hyper)
    ditto = run_method("ditto", two_types())
    for name, mean in ditto.states[1].items():
        for group in (0, 1):
            assert torch.equal(char.states[1][f"model.{name}"][group], mean)
        assert not torch.equal(*char.states[2][f"model.{name}"])


@pytest.mark.parametrize(
    "name, division",
    [
        ("fedclar", {"threshold": 0.5, "similarity": "update"}),
        ("fedchar", {"k_selection": "fixed:2"}),
    ],
)
def test_whoever_comes_later_joins_the_nearest_group(
    name: str, division: dict[str, Any], run_method: RunMethod
) -> None:
    """The held-out person trains from round 3 on: with those of its type, whoever it is."""
    hyper = {"cluster_round": 2} | division
    keys: dict[str, Any] = {
        "split": "unseen",
        "unseen_share": 0.17,
        "unseen_rounds": 2,
        "rounds": 4,
    }
    run = run_method(name, two_types(), hyper=hyper, **keys)
    (late,) = run.strategy.population.agreed.unseen
    assert late not in run.uploads[1] and late in run.uploads[2]
    assert (2, late) not in run.metric("group")
    found = run.metric("group")
    one = {"p1", "p2", "p3"} if late in ("p1", "p2", "p3") else {"p4", "p5", "p6"}
    assert {c for (r, c), g in found.items() if r == 4 and g == found[4, late]} == one


@pytest.mark.parametrize("name", ["fedclar", "fedchar"])
def test_the_model_of_a_group_of_one_goes_with_it(name: str, run_method: RunMethod) -> None:
    run = run_method(name)
    strategy = run.strategy
    strategy.resume(strategy.finished_rounds, dict(run.lasting))
    state = strategy.state
    assert state is not None
    models = {n: t[:1].repeat(3, *[1] * (t.ndim - 1)) for n, t in state.items()
              if n.startswith(("model.", "mask.")) or n == "centres"}  # fmt: skip
    for group in range(3):
        for n, t in models.items():
            t[group] = t[group] if n.startswith("mask.") else group
    groups = torch.tensor([0, 1, 2, 2])
    strategy.state = state | models | {"groups": groups}
    strategy.forget("p2")
    assert strategy.state["groups"].tolist() == [0, 2, 2]
    for n in models.keys() - {n for n in models if n.startswith("mask.")}:
        wanted = torch.tensor([0, 4 / 3, 2]).unsqueeze(1)
        found = strategy.state[n].flatten(1)
        torch.testing.assert_close(found, wanted.to(found.dtype).expand_as(found), msg=n)


@pytest.mark.parametrize("name", ["fedclar", "fedchar"])
def test_a_forgotten_member_is_in_no_group(name: str, run_method: RunMethod) -> None:
    run = run_method(name)
    strategy = run.strategy
    before = dict(run.lasting)
    strategy.resume(strategy.finished_rounds, before)
    strategy.forget("p2")
    half = strategy.half
    assert strategy.state is not None and isinstance(half, GroupedServer)
    assert half.group(strategy.state, "p2") is None
    for client in ("p1", "p3", "p4"):
        kept = run.metric("group")[3, client]
        assert half.group(strategy.state, client) == kept
    rows = {n: t.shape[0] for n, t in strategy.state.items() if n.startswith("last.")}
    assert set(rows.values()) <= {3}
    for client in ("p1", "p3", "p4"):
        strategy.forget(client)
    # Who comes then starts from the groups' models, though they have no members to count.
    (sent,) = strategy.half.downloads(strategy.state, strategy.round(4), ["new"])
    for tensor in METHODS[name].sends(strategy.model, strategy.hyper):
        assert tensor not in sent.tensors or np.isfinite(sent.floats(tensor)).all()


@pytest.mark.parametrize(
    "keys, said",
    [
        ({"method": "fedclar", "fedclar.cluster-round": 9}, "fedclar.cluster-round: got a phase"),
        ({"method": "fedchar", "fedchar.cluster-round": 9}, "fedchar.cluster-round: got a phase"),
    ],
)
def test_phases_longer_than_the_run_are_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_config(None, {"rounds": 8} | keys)


@pytest.mark.parametrize("name", ["fedchar"])
def test_more_groups_than_clients_are_refused(name: str, run_method: RunMethod) -> None:
    with refused(ConfigError, f"{name}.k-selection", got=["'fixed:5'", "4 clients"]):
        run_method(name, hyper={"k_selection": "fixed:5"})


def test_the_order_of_people_does_not_matter(run_method: RunMethod) -> None:
    """Ids say who comes first: with others, groups have other numbers and the same members."""
    federation = two_types()
    names = dict(zip(federation.clients, ("f", "b", "d", "a", "c", "e"), strict=True))
    renamed = {n: replace(federation.clients[o], client=n) for o, n in names.items()}
    other = Federation(federation.card, dict(sorted(renamed.items())))
    hyper = {"cluster_round": 2, "threshold": 0.005}
    run = run_method("fedclar", other, hyper=hyper, rounds=2)
    found = run.metric("group")
    together = {frozenset(c for (r, c), g in found.items() if r == 2 and g == k) for k in (0, 1)}
    assert together == {frozenset("fbd"), frozenset("ace")}
