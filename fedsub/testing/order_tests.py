"""A server half keeps nothing: what it answers follows from what it is told, in any order."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.runs import HIDDEN, people
from fedsub_core.config.run_config import RunConfig
from fedsub_core.methods.table import METHODS
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf

ROUNDS = 3
#: What a driver asks a half for.
ASKED = ("participants", "sum_request", "downloads", "tested_with", "check", "placed", "aggregate",
         "aggregate_sum", "without", "of_nobody")  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call of a half: its name, what was given, and a digest of what came."""

    name: str
    given: tuple[Any, ...]
    came: str


@contextmanager
def recorded(half: ServerHalf) -> Iterator[list[Call]]:
    """Yield the calls of a half, as long as a block lasts; calls within calls are none."""
    calls, inside = list[Call](), list[str]()

    def noting(name: str) -> Any:
        function = getattr(half, name)

        def note(*given: Any) -> Any:
            if inside:
                return function(*given)
            kept = tuple(copied(one) for one in given)
            inside.append(name)
            try:
                came = function(*given)
            finally:
                inside.pop()
            calls.append(Call(name, kept, digest(came)))
            return came

        return note

    for name in ASKED:
        setattr(half, name, noting(name))
    try:
        yield calls
    finally:
        for name in ASKED:
            delattr(half, name)


def copied(value: Any) -> Any:
    """Return a copy of an argument, which stays when the half changes the argument in place."""
    if isinstance(value, Round):
        return replace(value, sent=deepcopy(value.sent))
    return deepcopy(value)


def digest(value: Any) -> str:
    """Return a text that is equal for equal answers, bit for bit."""
    found = hashlib.sha256()

    def add(one: Any) -> None:
        if isinstance(one, Tensor):
            one = one.detach().cpu().numpy()
        if isinstance(one, np.ndarray):
            found.update(f"{one.dtype}{one.shape}".encode() + np.ascontiguousarray(one).tobytes())
        elif isinstance(one, Mapping):
            for key in sorted(one, key=repr):
                add((key, one[key]))
        elif is_dataclass(one) and not isinstance(one, type):
            add({each.name: getattr(one, each.name) for each in fields(one)})
        elif isinstance(one, list | tuple | frozenset | set):
            for each in sorted(one, key=repr) if isinstance(one, set | frozenset) else one:
                add(each)
        else:
            found.update(repr(one).encode())
        found.update(b"\x1f")

    add(value)
    return found.hexdigest()


def differing(half: ServerHalf, calls: list[Call]) -> list[str]:
    """Return the calls that a half answers otherwise when they come in the opposite order."""
    return [
        call.name
        for call in reversed(calls)
        if digest(getattr(half, call.name)(*map(copied, call.given))) != call.came
    ]


def calls_of(name: str, half: type[ServerHalf] | None = None, **keys: Any) -> list[Call]:
    """Return the calls of a method's half in a run of three rounds; `half`: of another one."""
    few: dict[str, Any] = dict(rounds=ROUNDS, device="cpu", threads=1, lr=0.05, batch_size=16)
    config = RunConfig(
        method=name, beside="", hyper={name: METHODS[name].agreed()}, hidden=HIDDEN, **few | keys
    )
    grid, strategy = build_grid(config, name, people()), build_strategy(config, name)
    strategy.half = strategy.half if half is None else half(strategy.settings)
    try:
        with recorded(strategy.half) as calls:
            strategy.start(grid)
    finally:
        grid.close()
    return calls


class OrderTests:
    """What holds for every method's server half, whatever it was asked before."""

    @pytest.mark.parametrize("sums", [False, True], ids=["plain", "sums"])
    def test_a_half_answers_alike_in_any_order(self, name: str, sums: bool) -> None:
        card = METHODS[name]
        if sums and not card.sums:
            return
        keys: dict[str, Any] = {"secure_aggregation": sums}
        calls = calls_of(name, **keys)
        assert {"downloads", "participants"} <= {call.name for call in calls}
        config = RunConfig(
            method=name, beside="", rounds=ROUNDS, hyper={name: card.agreed()}, **keys
        )
        assert differing(ServerHalf.of(config.server_settings(name)), calls) == []
