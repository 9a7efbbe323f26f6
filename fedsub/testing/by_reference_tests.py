"""Within a process messages go by reference, and nobody can tell, for every method and encoding."""

from __future__ import annotations

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.testing.cover import in_turn, of, server
from fedsub.testing.runs import RunMethod, WholeRuns, assert_equal, assert_equal_models, people

#: Of uploads and downloads, and for how many rounds.
ENCODINGS = {
    "plain": ("float32", "float32", 2),
    "narrow": ("bfloat16", "int8", 2),
    # Whoever was not asked in the second round has the first one's to add to in the third.
    "differences": ("delta,top-k:0.5,int8,zstd", "delta,bfloat16", 3),
}


def write_all(grid: CohortGrid) -> None:
    """Let all messages be written, sent and read."""
    grid.by_reference = False


class ByReferenceTests(WholeRuns):
    """The numbers of messages that are written, and as many bytes counted as these have."""

    @of(server)
    @in_turn("encoded", list(ENCODINGS))
    def test_messages_by_reference_are_as_good_as_written_ones(
        self, name: str, encoded: str, run_method: RunMethod
    ) -> None:
        up, down, rounds = ENCODINGS[encoded]
        keys = {"upload_encoding": up, "download_encoding": down, "rounds": rounds}
        keys["clients_per_round"] = 3
        handed = run_method(name, **keys)
        written = run_method(name, prepare=write_all, **keys)
        assert_equal(handed.lasting, written.lasting)
        assert_equal_models(handed, written)
        for client in people().clients:
            assert_equal(handed.client_state(client), written.client_state(client))
        assert [row for row in handed.rows if row not in written.rows] == []
        assert len(handed.rows) == len(written.rows)
        assert any(row.metric == "bytes_up_sent" and row.value for row in handed.rows)
