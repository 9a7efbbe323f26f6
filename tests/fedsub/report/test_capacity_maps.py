"""Boxes and histograms of people by capacity: whom they count, and when there are none."""

from dataclasses import replace
from pathlib import Path

import pytest

from fedsub.report.capacity_maps import capacity_maps, reached
from fedsub.report.frame import Frame, Grid
from fedsub.report.reading import read_run
from fedsub.report.report import write_report
from fedsub_core.metric_names import CAPACITY

from .html_checks import checked
from .made_runs import PEOPLE, make_run, weak


def frame_of(folder: Path, shares: tuple[float, ...], seed: int = 0) -> Frame:
    run = make_run(folder, {"heterofl": lambda r, i: 0.2 * i, "fedavg": lambda r, i: 0.5})
    frame = read_run(run)
    held = {(3, person): share for person, share in zip(PEOPLE, shares, strict=True)}
    traces = [
        replace(trace, seed=seed, people={**trace.people, CAPACITY: Grid.of(held)})
        for trace in frame.traces
    ]
    return Frame(traces)


def test_people_count_with_those_who_hold_as_much(tmp_path: Path) -> None:
    frame = frame_of(tmp_path, (0.25, 1.0, 0.25, 1.0))
    found = reached(frame)
    assert {share: pytest.approx(list(of)) for share, of in found["heterofl"].items()} == {
        1.0: [0.2, 0.6],
        0.25: [0.0, 0.4],
    }
    boxes, counts = capacity_maps(frame)
    assert "heterofl: 1 median 0.400, from 0.200 to 0.600, 0.25 median 0.200" in boxes.words
    assert "heterofl: 1 1 of 2 people below 0.5, 0.25 2 of 2 people below 0.5" in counts.words
    assert (boxes.name, counts.name) == ("capacities", "capacities_people")
    assert counts.svg.count(">fedavg<") == 1 and ">capacity<" in boxes.svg


def test_over_seeds_a_person_is_one_number_for_each_capacity_it_had(tmp_path: Path) -> None:
    first = frame_of(tmp_path / "a", (0.25, 1.0, 0.25, 1.0))
    other = frame_of(tmp_path / "b", (1.0, 1.0, 0.25, 1.0), seed=1)
    found = reached(Frame([*first.traces, *other.traces]))["heterofl"]
    assert (len(found[1.0]), len(found[0.25])) == (3, 2)


@pytest.mark.parametrize("shares", [(1.0,) * 4, (0.5,) * 4])
def test_where_all_hold_alike_there_is_nothing_to_draw(
    shares: tuple[float, ...], tmp_path: Path
) -> None:
    assert list(capacity_maps(frame_of(tmp_path, shares))) == []


def test_they_stand_in_a_runs_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {"heterofl": lambda r, i: 0.2 * i}, also=weak)
    page = checked(write_report(run)[0].read_text("utf-8"))
    assert "People by capacity" in page.texts
    assert (run / "figures" / "capacities.png").is_file()
    assert (run / "figures" / "capacities_people.png").is_file()
