"""Maps of prototypes in a run's report: which rounds, what they say, and when there are none."""

from collections.abc import Iterator
from pathlib import Path

from fedsub.report.group_maps import prototype_maps
from fedsub.report.reading import read_run
from fedsub.report.report import write_report
from fedsub_core.metrics import MetricRow

from .html_checks import checked
from .made_runs import make_run


def lying(round: int, people: tuple[str, ...]) -> Iterator[MetricRow]:
    """Prototypes of two classes, which come nearer to each other's with time."""
    for place, person in enumerate(("", *people)):
        for label in range(2):
            yield MetricRow(round, person, label, "prototype_x", label + place / 10 / round)
            yield MetricRow(round, person, label, "prototype_y", place / 10 / round)
    yield MetricRow(round, "", None, "prototype_ratio", 0.5 / round)


def test_the_first_and_the_last_round_are_drawn_beside_each_other(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"fedproto": lambda r, i: 0.5, "fedavg": lambda r, i: 0.5}, also=lying)
    frame = read_run(run)
    assert list(frame.of("fedproto")[0].prototypes) == [1, 3]
    one, *_ = drawn = list(prototype_maps(frame))
    assert one.name == "prototypes_1" and one.title == "fedproto: prototypes, early and late"
    assert one.words == (
        "round 1: 8 prototypes of 2 classes, ratio 0.50; "
        "round 3: 8 prototypes of 2 classes, ratio 0.17."
    )
    assert one.svg.count(">round 1<") == one.svg.count(">round 3<") == 1
    assert len(drawn) == 2  # made_runs gives both methods these rows


def test_it_stands_in_the_report_and_names_nobody(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"fedproto": lambda r, i: 0.5}, rounds=1, also=lying)
    page = checked(write_report(run)[0].read_text("utf-8"))
    assert "Where prototypes lie" in page.texts
    (one,) = prototype_maps(read_run(run))
    assert "ratio 0.50" in one.words and "eve" not in one.words + one.svg
    assert (run / "figures" / "prototypes_1.png").is_file()


def test_methods_without_prototypes_have_none(tmp_path: Path) -> None:
    run = make_run(tmp_path, {"fedavg": lambda r, i: 0.5})
    assert list(prototype_maps(read_run(run))) == []
    page = checked(write_report(run)[0].read_text("utf-8"))
    assert "Where prototypes lie" not in page.texts
