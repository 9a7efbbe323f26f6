"""Fuzzing devices send mutants through every door of a SuperLink while honest ones train.

``FEDSUB_RAW_MUTANTS=100000 FEDSUB_RAW_ROUNDS=100`` has them send so many each, in so many rounds.
"""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_server.rundb import RunDatabase

from .raw_rehearsal import WithRawDevices
from .test_raw_device import SETTINGS

HONEST = ("p1", "p2")
FUZZERS = [f"fuzzer-{i}" for i in range(4)]
ROUNDS = int(os.environ.get("FEDSUB_RAW_ROUNDS", "2"))
DOORS = ("reply", "object", "confirmation", "call")
#: What is sent within a few rounds on a slow machine.
LEAST_MUTANTS = 500


@pytest.mark.slow
@pytest.mark.release
def test_mutants_end_no_run_and_a_raw_device_takes_part_beside_them(
    town: Callable[..., Federation], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_federation(tmp_path / "data", town(len(HONEST)))
    places = {"data": str(tmp_path / "data"), "out": str(tmp_path / "out")}
    settings: dict[str, Any] = SETTINGS | places | {"rounds": ROUNDS, "evaluate-every": 2}
    config = read_config(None, settings)
    rehearsal = WithRawDevices(config, len(HONEST), ["honest", *FUZZERS])
    with rehearsal.up():
        rehearsal.start_raw(rehearsal.raw)
        for _ in rehearsal.follow(rehearsal.submit()):
            pass
        sent = {e["device"]: e for e in rehearsal.journal if e.get("kind") == "mutants"}
    with RunDatabase(rehearsal.database) as database:
        assert database.last_round() == ROUNDS
        rows = list(database.metrics())
    counts = Counter[str]()
    for entry in sent.values():
        counts.update({key: n for key, n in entry.items() if isinstance(n, int)})
    with capsys.disabled():
        print("\nmutants:", {name: counts[name] for name in ("answers", *DOORS)})
        print({name: n for name, n in counts.items() if name.startswith("outcome")})
    assert all(counts[door] >= LEAST_MUTANTS // len(DOORS) for door in DOORS)
    used = {(row.round, row.client) for row in rows if row.metric == "bytes_up_sent"}
    rounds = range(1, ROUNDS + 1)
    assert used >= {(round, client) for round in rounds for client in HONEST}
    # A raw device that does as it should is heard: the others are refused for what they say.
    assert used >= {(round, "honest") for round in rounds}
    refused = {row.client for row in rows if row.metric == "refused_replies"}
    assert not refused & {*HONEST, "honest"}
    # It reports more than the method's `training_loss`.
    told = {row.metric for row in rows if row.client == "honest"}
    assert told >= {"training_loss", "macro_f1"} and not any("report" in name for name in told)
