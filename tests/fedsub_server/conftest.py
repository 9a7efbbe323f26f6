"""A small run folder whose numbers can be worked out by hand."""

from pathlib import Path
from typing import Any

import pytest

from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase

FEDSUB = [0.5, 0.6, 0.7, 0.8, 0.9]
LOCAL = [0.6, 0.6, 0.65, 0.7, 0.95]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a run of some rounds; `f1` is macro F1 of every client by evaluated round."""

    def make(
        method: str,
        f1: dict[int, list[float]],
        up: float = 500.0,
        rounds: int = 4,
        config: dict[str, Any] | None = None,
    ) -> Path:
        path = tmp_path / method / "state.db"
        path.parent.mkdir(parents=True)
        told = {"upload-encoding": "float32", "download-encoding": "float32"}
        told |= {f"{method}.tested": "trained"}
        with RunDatabase(path, told if config is None else config) as db:
            for round in range(rounds + 1):
                rows = []
                for client in range(5):
                    name = f"{client:02}"
                    # The handshake is large and must not count as a round.
                    sent = 1e9 if round == 0 else up * (1 + client + 10 * round)
                    values = {
                        "bytes_up_sent": sent,
                        "bytes_up_papers": 4 * sent,
                        "bytes_up_union": 1.5 * sent,
                        "bytes_up_flower": sent + 100,
                        "bytes_down_sent": 2 * sent,
                        "bytes_evaluation_sent": 0.5 * sent,
                        "bytes_full_model": 1000.0,
                    }
                    if round in f1:
                        score = f1[round][client]
                        values |= {"macro_f1": score, "weighted_f1": score / 2, "loss": 2 * score}
                        values |= {"examples": 30.0, "accuracy": 1 - score}
                        rows.append(MetricRow(round, name, 2, "f1", 0.125))
                    rows += [MetricRow(round, name, None, key, v) for key, v in values.items()]
                # Of the run as a whole: no client's number.
                rows.append(MetricRow(round, "", None, "clusters", 3.0))
                db.commit(round, {}, rows)
        return path

    return make


@pytest.fixture
def run(tmp_path: Path, write: Any) -> Path:
    """Return the folder of a run of two methods."""
    write("local", {2: [0.1] * 5, 4: LOCAL}, up=0.0)
    write("fedsub", {2: [0.9] * 5, 4: FEDSUB})
    (tmp_path / "models").mkdir()
    return tmp_path
