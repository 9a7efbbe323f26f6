"""Whoever sends sums that no samples have is named, and the others go on as without it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.hostile_tests import EVIL, SIX, infect, others_f1
from fedsub.testing.lying_sums import LIES, lied
from fedsub.testing.runs import Run, RunMethod
from fedsub_client.methods import fedsub_ridge
from fedsub_client.parts import solved_sums
from fedsub_core.closed_form.possible import could_be
from fedsub_core.closed_form.sums import Statistics
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedsub_ridge import checks, strategy
from strategies.methods.fedsub_ridge.people import people

NAME = "fedsub-ridge"
KEYS: dict[str, Any] = {"rounds": 5, "encoder": "relu:60", "evaluate_every": 5}
Attack = Callable[[Bundle, Bundle], Bundle]


def telling(name: str) -> Attack:
    return lambda upload, received: lied(upload, LIES[name])


def refused(run: Run) -> set[str]:
    return {client for (_, client), n in run.metric("refused_replies").items() if n}


def left_out(run: Run) -> set[str]:
    return {client for _, client in run.metric("left_out")}


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pass what the check of one person's sums refuses, as an older release did."""
    monkeypatch.setattr(checks, "could_be", lambda sums, fading: True)


@pytest.mark.parametrize("name", ["torn sums", "empty sums", "strong sums"])
def test_sums_that_no_samples_have_are_refused_and_nobody_else_is(
    name: str, run_method: RunMethod
) -> None:
    honest = others_f1(run_method(NAME, SIX, **KEYS))
    run = run_method(NAME, SIX, prepare=infect(telling(name)), **KEYS)
    assert refused(run) == {EVIL} and not left_out(run)
    assert EVIL not in people(run.states[-1])
    assert others_f1(run) > honest - 0.02


@pytest.mark.parametrize("name", [one for one in LIES if one.endswith("edge")])
def test_what_passes_as_rounding_harms_little(name: str, run_method: RunMethod) -> None:
    """As far from the truth as the check lets anybody go."""
    honest = others_f1(run_method(NAME, SIX, **KEYS))
    run = run_method(NAME, SIX, prepare=infect(telling(name)), **KEYS)
    assert not refused(run)
    assert others_f1(run) > honest - 0.02


def quiet(upload: Bundle, received: Bundle) -> Bundle:
    """Send sums that are refused for another reason, as if the person had none."""
    return replace(upload, tensors={n: t for n, t in upload.tensors.items() if n != "shifts"})


@pytest.mark.usefixtures("unchecked")
def test_whose_sums_pass_and_would_lead_all_astray_is_left_out_by_name(
    run_method: RunMethod,
) -> None:
    run = run_method(NAME, SIX, prepare=infect(telling("torn sums")), **KEYS)
    assert left_out(run) == {EVIL} and not refused(run)
    assert others_f1(run) == others_f1(run_method(NAME, SIX, prepare=infect(quiet), **KEYS))


@pytest.fixture
def poisoned(
    unchecked: None, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Run, pytest.MonkeyPatch]]:
    """Return a run whose state an older release let one person poison, before the second round."""
    with monkeypatch.context() as older:
        older.setattr(strategy, "MOST_EXPLAINED", np.inf)
        attack = infect(telling("torn sums"))
        yield run_method(NAME, SIX, prepare=attack, until=1, **KEYS), older


def test_a_round_in_which_most_fail_takes_out_whose_sums_did_it(
    poisoned: tuple[Run, pytest.MonkeyPatch],
    run_method: RunMethod,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run ended here, and ended again whenever it was resumed."""
    begun, _ = poisoned
    assert EVIL in people(begun.states[-1])
    monkeypatch.setattr(solved_sums, "_solved", {})
    monkeypatch.setattr(solved_sums.Known, "sound", True)  # older devices
    run = run_method(NAME, SIX, after=begun, **KEYS, largest_number=500.0)
    assert left_out(run) == {EVIL}
    assert refused(run) >= set(SIX.clients) - {EVIL}, "in the round that told"
    assert others_f1(run) == others_f1(run_method(NAME, SIX, prepare=infect(quiet), **KEYS))


@pytest.mark.parametrize("checked", [True, False], ids=["by its sums", "by heads on all sums"])
def test_resuming_mends_a_state_that_was_poisoned(
    checked: bool,
    poisoned: tuple[Run, pytest.MonkeyPatch],
    run_method: RunMethod,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, older = poisoned
    older.undo()
    if checked:
        monkeypatch.setattr(checks, "could_be", could_be)
    run = run_method(NAME, SIX, after=begun, **KEYS)
    # Whoever sends what samples have is taken in again; whom only all sums told of is left out.
    assert (EVIL in people(run.states[-1])) == checked
    honest = others_f1(run_method(NAME, SIX, **KEYS))
    assert not refused(run) and others_f1(run) > honest - 0.02


def test_a_device_that_is_sent_unsound_sums_goes_by_its_own(
    poisoned: tuple[Run, pytest.MonkeyPatch], run_method: RunMethod
) -> None:
    """Of a server of an older release, which sends them."""
    begun, _ = poisoned
    run = run_method(NAME, SIX, after=begun, **KEYS)
    assert not refused(run) and not left_out(run)
    own = run_method(NAME, SIX, hyper={"heads": "own"}, **KEYS)
    assert others_f1(run) == others_f1(own)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("lies", [False, True], ids=["honest", "one lies"])
def test_devices_of_their_own_go_by_what_they_have_where_one_poisons_all_sums(
    lies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each a ClientApp with a state of its own, behind a server that looks at nobody's sums."""
    monkeypatch.setattr(strategy, "MOST_EXPLAINED", np.inf)
    honest = fedsub_ridge.sums_of
    seen: list[float] = []

    def sums_of(statistics: Statistics) -> Any:
        seen.append(float(statistics.counts.sum()))
        sent = honest(statistics)
        # Its person has the fewest samples.
        if not lies or seen[-1] > seen[0]:
            return sent
        return lied(Bundle(tensors=sent), LIES["torn sums"]).tensors

    monkeypatch.setattr(fedsub_ridge, "sums_of", sums_of)
    write_federation(tmp_path, SIX)
    config = RunConfig(method=NAME, beside="", device="cpu", threads=1, data=str(tmp_path), **KEYS)
    grid, server = DeviceGrid(config, len(SIX.clients)), build_strategy(config, NAME)
    server.start(grid)
    assert server.finished_rounds == KEYS["rounds"] and len(set(seen)) == len(SIX.clients)
    assert server.state is not None and set(people(server.state)) == SIX.clients.keys()
    for place in range(1, len(SIX.clients)):
        kept = grid.saved(place).state
        alone = {name: t for name, t in kept.items() if name.startswith("alone.")}
        assert alone
        for name, tensor in alone.items():
            used = kept["model." + name.removeprefix("alone.")]
            assert torch.allclose(used, tensor, rtol=1e-4, atol=1e-5) == lies, (place, name)
