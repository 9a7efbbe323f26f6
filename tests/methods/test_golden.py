"""Numbers of real runs that no refactoring may change: WISDM, 5 rounds, each of FedSub's fusions.

Recorded from the code before messages became bundles, with which the states were equal bit for bit
on one machine. Others round otherwise, and select a few units more or less: hence tolerances.
"""

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.fedsub import FUSIONS
from fedsub_server.resuming import SERVER
from fedsub_server.rundb import RunDatabase

ROUNDS = 5
#: Method, fusion (with K by dbi-capped), and its reading where it has several: macro F1 and loss
#: after the last round, norm of the server's rows or parameters, and per client and round the bytes
#: up of the papers' encoding, the bytes up of each selected row once.
GOLDEN = {
    "fedsub overlapping": (0.598009, 0.612376, 80.275509, 584_845.6, 193_329.6),
    "fedsub overlapping-any": (0.558610, 0.679689, 80.453312, 603_778.2, 192_011.8),
    "fedsub overlapping-additive": (0.578381, 0.645993, 80.414083, 596_314.1, 192_361.3),
    "fedsub leadership own": (0.538906, 0.700636, 80.275271, 606_293.7, 192_810.0),
    "fedsub avg own": (0.548529, 0.695124, 80.539967, 605_663.6, 192_317.8),
    "fedavg": (0.324034, 1.300706, 15.380485, None, None),
    "local": (0.601773, 0.605150, None, None, None),
}


def test_every_fusion_has_its_numbers() -> None:
    assert {name.split()[1] for name in GOLDEN if " " in name} == set(FUSIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_numbers_stay(name: str, real_data: Path, tmp_path: Path) -> None:
    method, fusion, reading = [*name.split(), "", ""][:3]
    keys: dict[str, Any] = {
        "data": str(real_data / "wisdm"),
        "rounds": ROUNDS,
        "method": method,
        "device": "cpu",
        "standardise": "federation",  # what they were recorded with
    }
    if fusion:
        keys |= {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": fusion}
        keys["fedsub.relevance-samples"] = 0  # as they were recorded, and as in the papers
    if reading:
        keys["fedsub.fusion-reading"] = reading
    config = read_config(None, keys | {"beside": ""})
    train_method(config, method, load_federation(config.data), tmp_path, lambda round: None)
    with RunDatabase(tmp_path / "state.db") as database:
        server, rows = database.load()[1][SERVER], list(database.metrics())

    def mean(metric: str, *rounds: int) -> float:
        return fmean(r.value for r in rows if r.metric == metric and r.round in rounds)

    macro_f1, loss, norm, papers, union = GOLDEN[name]
    assert mean("macro_f1", ROUNDS) == pytest.approx(macro_f1, abs=2e-3)
    assert mean("loss", ROUNDS) == pytest.approx(loss, rel=2e-3)
    if norm is not None:
        kept = [t for key, t in server.items() if key.startswith(("rows.", "linear"))]
        squares = torch.stack([t.double().square().sum() for t in kept])
        assert float(squares.sum().sqrt()) == pytest.approx(norm, rel=2e-3)
    if papers is not None and union is not None:
        every = range(1, ROUNDS + 1)
        assert mean("bytes_up_papers", *every) == pytest.approx(papers, rel=5e-3)
        assert mean("bytes_up_union", *every) == pytest.approx(union, rel=5e-3)
