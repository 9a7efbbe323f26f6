"""The papers' studies can be read, run, and say how to get their data."""

import re
from pathlib import Path

import pytest

import fedsub_papers
from fedsub.studies.absent_data import absent_data
from fedsub.studies.study_file import read_study
from fedsub_papers.tests.again import again
from tests.docs.test_results import check_results
from tests.fedsub.studies import test_study as house

STUDIES = Path(fedsub_papers.__file__).parent / "studies"
FILES = [pytest.param(file, id=file.stem) for file in sorted(STUDIES.glob("*.toml"))]

test_the_studies_that_come_along_can_be_read = again(
    house.test_the_studies_that_come_along_can_be_read, "file", FILES
)
test_the_studies_that_come_along_run = again(
    house.test_the_studies_that_come_along_run, "file", house.study_files(STUDIES)
)


def test_a_study_of_pictures_says_how_to_get_them() -> None:
    absent = absent_data(read_study(STUDIES / "subflot-ablation.toml"))
    assert absent and all("Get it: " in what or "Make it: " in what for what in absent.values())


def test_the_page_names_every_result_once() -> None:
    named = re.findall(r"^Table: \[[^]]+\]\((results/[\w.-]+)\)$",
                       (STUDIES / "README.md").read_text("utf-8"), re.MULTILINE)  # fmt: skip
    there = {f"results/{path.name}" for path in (STUDIES / "results").iterdir()}
    assert set(named) == there and len(named) == len(there)


def test_every_result_is_written_by_the_command_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    check_results(STUDIES / "README.md", monkeypatch)
