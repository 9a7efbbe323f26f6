"""What went wrong in rounds stands with a method's numbers: true reasons, and rates to lower."""

from pathlib import Path

from fedsub_core.metric_names import ANEW, DIVERGED
from fedsub_core.metrics import MetricRow
from fedsub_server.method_summary import MethodSummary
from fedsub_server.remarks import remarks
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method

PEOPLE = ("p1", "p2", "p3", "p4")


def summarised(
    folder: Path, *more: MetricRow, tested: tuple[str, ...] = PEOPLE, method: str = "fedavg"
) -> MethodSummary:
    """Return the summary of 60 rounds after the last of which `tested` people were tested."""
    rows = [MetricRow(1, person, None, "bytes_up_sent", 8) for person in PEOPLE]
    rows += [
        MetricRow(60, person, None, name, value)
        for person in tested
        for name, value in {"macro_f1": 0.5, "loss": 1.0, "examples": 9}.items()
    ]
    (folder / method).mkdir()
    with RunDatabase(folder / method / "state.db", {}) as database:
        database.commit(60, {}, sorted([*rows, *more], key=lambda row: row.round))
        return summarise_method(database, None)


def counted(round: int, client: str, *metrics: str) -> list[MetricRow]:
    return [MetricRow(round, client, None, metric, 1) for metric in metrics]


def test_who_diverged_in_round_59_is_no_silent_device(tmp_path: Path) -> None:
    wild = counted(59, "p4", "refused_replies", DIVERGED)
    found = summarised(tmp_path, *wild, tested=PEOPLE[:3])
    assert found.left_out == (
        "p4 (never tested: training diverged: what it sent in round 59 held NaN or huge numbers)"
    )
    assert found.in_rounds == (
        "What came of p4 (in round 59) held NaN, infinite or huge numbers, as of training that "
        "diverged, and was not used. Lower lr."
    )
    assert remarks([found])[-1] == f"fedavg: {found.in_rounds}"


def test_each_reason_is_its_own(tmp_path: Path) -> None:
    more = [
        *counted(58, "p1", "refused_replies"),
        *counted(59, "p2", "missing_replies"),
        *counted(3, "p3", "left_out"),
    ]
    found = summarised(tmp_path, *more, tested=("p4",))
    assert found.left_out == (
        "p1 (never tested: what it sent in round 58 could not be used); "
        "p2 (never tested: did not answer in round 59); "
        "p3 (never tested: left out from round 3 on, as the others' training broke)"
    )


def test_what_happened_on_devices_stands_beside_the_table(tmp_path: Path) -> None:
    more = [
        *counted(3, "p1", "missing_replies"),
        *counted(3, "p2", "late_replies"),
        *counted(5, "p2", "late_replies"),
        *counted(7, "p3", ANEW),
    ]
    assert summarised(tmp_path, *more).in_rounds == (
        "No answer: p1 (in round 3). Answered after the deadline, so it was not used: p2 (in 2 of "
        "rounds 3 to 5). Began anew, as the device kept nothing of the run any more: p3 (in round "
        "7)."
    )


def test_rates_of_phases_are_named_and_a_closed_form_has_none(tmp_path: Path) -> None:
    for method, said in (("fedrep", " Lower lr or fedrep.head-lr-factor."), ("fedsub-ridge", "")):
        found = summarised(tmp_path, *counted(2, "p1", DIVERGED), method=method)
        assert found.in_rounds.endswith(f"was not used.{said}")


def test_of_many_ten_are_named(tmp_path: Path) -> None:
    wild = [row for i in range(12) for row in counted(2 + i % 2, f"q{i:02}", DIVERGED)]
    found = summarised(tmp_path, *wild, MetricRow(4, "", None, "undone", 1))
    assert "q09 and 2 more (in 2 of rounds 2 to 3)" in found.in_rounds
    assert found.in_rounds.endswith("The server went back to an earlier state in round 4.")


def test_where_nothing_went_wrong_nothing_is_said(tmp_path: Path) -> None:
    found = summarised(tmp_path)
    assert found.in_rounds == "" and remarks([found]) == []
