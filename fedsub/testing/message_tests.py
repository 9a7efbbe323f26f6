"""What travels, whatever the method: as much as its card says, in every encoding, by reference."""

import math

import pytest

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.testing.cover import in_turn, itself, of, server
from fedsub.testing.runs import (
    RunMethod,
    WholeRuns,
    assert_equal,
    assert_equal_models,
    people,
    plain,
)
from fedsub_core.methods.table import METHODS
from fedsub_core.wire.bundles import Declaration, Kind

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


def largest(declared: Declaration) -> int:
    """Return the most bytes of a message of these tensors, but for their names and shapes."""
    width = {Kind.BITS: 0, Kind.WHOLE: 2}
    numbers = sum(width.get(d.kind, 4) * d.share * math.prod(d.shape) for d in declared.values())
    masks = sum(2 * math.prod(d.shape) for d in declared.values() if d.kind is Kind.BITS)
    masks += sum(math.prod(d.shape) // 8 for d in declared.values() if d.kind is Kind.ELEMENTS)
    return int(numbers) + masks


class MessageTests(WholeRuns):
    """What a message holds, and how many bytes of it are counted."""

    @of(server)
    @in_turn("encoded", list(ENCODINGS))
    def test_messages_by_reference_are_as_good_as_written_ones(
        self, name: str, encoded: str, run_method: RunMethod
    ) -> None:
        up, down, rounds = ENCODINGS[encoded]
        keys = {"upload_encoding": up, "download_encoding": down, "rounds": rounds}
        keys["clients_per_round"] = 3
        referred = run_method(name, **keys)
        written = run_method(name, prepare=write_all, **keys)
        assert_equal(referred.lasting, written.lasting)
        assert_equal_models(referred, written)
        for client in people().clients:
            assert_equal(referred.client_state(client), written.client_state(client))
        assert [row for row in referred.rows if row not in written.rows] == []
        assert len(referred.rows) == len(written.rows)
        assert any(row.metric == "bytes_up_sent" and row.value for row in referred.rows)

    @of(itself)
    def test_what_travels_is_what_the_card_says(self, name: str) -> None:
        run, card = plain(name), METHODS[name]
        model, hyper = run.strategy.model, run.strategy.hyper
        for declared, metrics in (
            (card.sends(model, hyper), ["bytes_up_sent"]),
            (card.receives(model, hyper), ["bytes_down_sent", "bytes_evaluation_sent"]),
        ):
            sent = [value for metric in metrics for value in run.metric(metric).values()]
            most = largest(declared)
            assert sent and max(sent) <= most + 100 * (1 + len(declared))
            # Of what is sliced or optional, as much may travel as a round wants.
            some = (Kind.BITS, Kind.SLICED)
            if declared and not any(one.kind in some or one.optional for one in declared.values()):
                assert max(sent) > 0.95 * most, "much less is sent than the card says"
        for client, upload in run.uploads[-1].items():
            assert upload.examples > 0, client

    @of(server)
    def test_every_encoding_carries_it(self, name: str, run_method: RunMethod) -> None:
        exact = plain(name)
        for up, down in (("int8", "int8"), ("delta,int8,zstd", "delta,bfloat16,zstd")):
            lossy = run_method(name, upload_encoding=up, download_encoding=down)
            assert not [row for row in lossy.rows if row.metric == "refused_replies"]
            for key, loss in lossy.metric("loss").items():
                assert loss == pytest.approx(exact.metric("loss")[key], abs=0.05), key
            sends = lossy.strategy.models.sends(lossy.strategy.model).values()
            shrink = any(one.floats and not one.exact for one in sends)
            if shrink and sum(exact.metric("bytes_up_sent").values()) > 3 * 4 * 200:
                sent, whole = (sum(r.metric("bytes_up_sent").values()) for r in (lossy, exact))
                assert sent < 0.35 * whole
