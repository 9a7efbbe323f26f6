"""One hostile person: where nothing bounds it, and when the run goes on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.testing import battery
from fedsub.testing.hostile_tests import EVIL, SIX, HostileTests, infect, others_f1, reversed_by
from fedsub.testing.runs import RunMethod
from fedsub_core.data.federation import Federation
from fedsub_core.methods.fedsub import PROTOTYPES
from fedsub_core.methods.table import HOUSE
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedavg import FedAvgServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

from .test_groups import two_types

UNBOUND: dict[str, Any] = {"rounds": 10, "robust": "none", "largest_number": 1e3}
#: Its rounds are single steps.
STEPS = "fedsgd"
TestHostilePeople = battery(
    *(name for name in HOUSE if name != STEPS), parts=(HostileTests,), cover=True
)
TestHostilePeopleInSteps = battery(STEPS, parts=(HostileTests,), cover=True, hostile_rounds=40)

Attack = Callable[[Bundle, Bundle], Bundle]


def later(attack: Attack, rounds: int) -> Attack:
    """Attack after some honest rounds."""
    done = count()
    return lambda upload, received: attack(upload, received) if next(done) >= rounds else upload


def longer_by(factor: float) -> Attack:
    """Send all rows of one's model longer than they are."""

    def attack(upload: Bundle, received: Bundle) -> Bundle:
        longer = {
            name: replace(part, values=part.values * np.float32(factor))
            for name, part in upload.tensors.items()
            if isinstance(part, Floats) and part.at.rows is not None and name != PROTOTYPES
        }
        return replace(upload, tensors={**upload.tensors, **longer})

    return attack


def test_rows_just_below_the_bound_do_not_lengthen_everybodys(run_method: RunMethod) -> None:
    """Each round's fusion lengthens everybody's a little, by which the next one's are bounded."""
    mixing: dict[str, Any] = {"k_selection": "fixed:1", "fusion": "overlapping-any"}
    honest = run_method("fedsub", SIX, mixing, rounds=8)
    run = run_method("fedsub", SIX, mixing, prepare=infect(longer_by(1.9)), rounds=8)
    for layer in (1, 2, 3):
        usual, longest = (
            one.states[-1][f"rows.linear{layer}"].norm(dim=-1).amax(-1)[1:].median()
            for one in (honest, run)
        )
        assert longest < 2 * usual


def test_of_a_group_of_two_one_does_not_drive_the_other_away(run_method: RunMethod) -> None:
    """There is no median between two; their updates are compared with the other group's."""
    six = two_types()
    four = {client: own for client, own in six.clients.items() if client not in ("p3", "p6")}
    keys: dict[str, Any] = {"hyper": {"k_selection": "fixed:2", "cluster_round": 2}, "rounds": 20}
    pair = Federation(six.card, {**four, "p6": six.clients["p6"]})
    greatest = []
    # Whoever is hostile before groups are made is in none with the others.
    for prepare in (None, infect(later(reversed_by(1.0), rounds=2))):
        run = run_method("fedchar", pair, prepare=prepare, **keys)
        last = {c: g for (r, c), g in run.metric("group").items() if r == 20}
        assert {c for c, g in last.items() if g == last[EVIL]} == {EVIL, "p2"}
        models = [t for n, t in run.states[-1].items() if n.startswith("model.")]
        greatest.append(max(float(tensor.abs().max()) for tensor in models))
    assert greatest[1] < 3 * greatest[0]


def test_where_nothing_bounds_it_the_round_is_undone(run_method: RunMethod) -> None:
    """Without a filter one upload leads all astray; then it is found out and left out."""
    run = run_method("fedavg", SIX, prepare=infect(reversed_by(1e4)), **UNBOUND)
    assert run.strategy.memory.left_out == {EVIL}
    left = {client for (_, client) in run.metric("left_out")}
    assert left == {EVIL} and len(run.metric("undone")) == 1
    assert others_f1(run) > others_f1(run_method("fedavg", SIX, **UNBOUND)) - 0.1


def test_a_round_after_which_devices_take_no_model_is_undone(
    run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a method makes of uploads within all bounds may be beyond them."""
    plain = FedAvgServer.aggregate

    def astray(
        self: FedAvgServer, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> Any:
        mean, rows = plain(self, state, round, uploads)
        far = 1e9 if EVIL in uploads else 1.0
        return {name: tensor * far for name, tensor in mean.items()}, rows

    monkeypatch.setattr(FedAvgServer, "aggregate", astray)
    keys: dict[str, Any] = {"rounds": 4, "robust": "none"}
    run = run_method("fedavg", SIX, prepare=infect(reversed_by(1e3)), **keys)
    assert run.strategy.memory.left_out == {EVIL}
    assert run.metric("undone") == {(2, ""): 1}
    refused = {(r, c) for (r, c), n in run.metric("refused_replies").items() if n}
    assert {c for r, c in refused if r == 2} == set(SIX.clients), "no device takes the model"
    assert max(r for r, _ in refused) == 2
    assert others_f1(run) > 0.2


def test_who_was_left_out_stays_so_when_the_run_goes_on(run_method: RunMethod) -> None:
    whole = run_method("fedavg", SIX, prepare=infect(reversed_by(1e4)), **UNBOUND)
    until = max(round for (round, _) in whole.metric("undone")) + 2
    part = run_method("fedavg", SIX, prepare=infect(reversed_by(1e4)), until=until, **UNBOUND)
    again = run_method("fedavg", SIX, after=part, prepare=infect(reversed_by(1e4)), **UNBOUND)
    assert again.strategy.memory.left_out == {EVIL}
    assert others_f1(again) == others_f1(whole)


def test_samples_beyond_those_of_the_handshake_count_as_the_middle(run_method: RunMethod) -> None:
    """p1 has the fewest, the others up to 45 more: what it may add is the median's at most."""
    run = run_method("fedavg", SIX, prepare=infect(reversed_by(1.0)), until=1)
    examples = {client: upload.examples for client, upload in run.uploads[0].items()}
    said = {c: run.strategy.population.facts(c).examples for c in examples}
    assert examples[EVIL] == int(np.median(list(said.values()))) > said[EVIL]
    assert all(examples[c] == said[c] for c in said if c != EVIL)


@pytest.mark.parametrize("name", ["fedavg", "fedsub", "fedsub-gated", "fedsub-ridge"])
def test_what_a_round_may_go_back_to_is_the_state_before_it(
    name: str, run_method: RunMethod
) -> None:
    """FedSub's aggregation changes its cache in place."""
    run = run_method(name)
    for done, before in zip(run.strategy.undoing._done, [None, *run.states[:-1]], strict=True):
        assert before is None or done.state.keys() == before.keys()
        for key, tensor in (before or {}).items():
            assert torch.equal(done.state[key], tensor), key
