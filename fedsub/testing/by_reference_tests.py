"""Within a process messages go by reference, and nobody can tell, for every method and encoding."""

from __future__ import annotations

import pytest

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.testing.runs import RunMethod, WholeRuns, assert_equal, assert_equal_models, people


def written(grid: CohortGrid) -> None:
    """Let all messages be written, sent and read."""
    grid.by_reference = False


class ByReferenceTests(WholeRuns):
    """The numbers of messages that are written, and as many bytes counted as these have."""

    @pytest.mark.parametrize(
        ("up", "down", "rounds"),
        [
            ("float32", "float32", 2),
            ("bfloat16", "int8", 2),
            # Whoever was not asked in the second round has the first one's to add to in the third.
            ("delta,top-k:0.5,int8,zstd", "delta,bfloat16", 3),
        ],
    )
    def test_messages_by_reference_are_as_good_as_written_ones(
        self, name: str, up: str, down: str, rounds: int, run_method: RunMethod
    ) -> None:
        keys = {"upload_encoding": up, "download_encoding": down, "rounds": rounds}
        keys["clients_per_round"] = 3
        handed = run_method(name, **keys)
        sent = run_method(name, prepare=written, **keys)
        assert_equal(handed.lasting, sent.lasting)
        assert_equal_models(handed, sent)
        for client in people().clients:
            assert_equal(handed.client_state(client), sent.client_state(client))
        assert [row for row in handed.rows if row not in sent.rows] == []
        assert len(handed.rows) == len(sent.rows)
        assert any(row.metric == "bytes_up_sent" and row.value for row in handed.rows)
