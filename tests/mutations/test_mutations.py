"""The mutations' command tells what tests find from what they do not, and takes each fault back."""

import subprocess
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused

from .__main__ import ALL, LIST, ROOT, write
from .mutation import CannotRun, Mutation, read
from .trying import (
    KILLED,
    NOT_MADE,
    NOT_RUN,
    SURVIVED,
    Outcome,
    copied,
    demand_imported,
    every,
)

SUMS = "def add(a, b):\n    return a + b\n\n\ndef less(a, b):\n    return a - b\n"
TESTS = "from toy.sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"


def mutation(name: str, old: str, new: str, tests: str = "test_sums.py") -> Mutation:
    return Mutation(name, "toy/sums.py", old, new, (tests,))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with one tested function and one that nothing tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # to load them takes longest
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "sums.py").write_text(SUMS)
    (tmp_path / "test_sums.py").write_text(TESTS)
    (tmp_path / "test_never.py").write_text("def test_never():\n    assert False\n")
    # Settings of its own: pytest looks for some in the folders above.
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def test_what_becomes_of_each_is_told_and_all_is_taken_back(toy: Path) -> None:
    mutations = [
        mutation("sums are right", "a + b", "a - b"),
        mutation("differences are right", "a - b", "b - a"),
        mutation("products are right", "a * b", "a + b"),
        mutation("a file can be read", "def add(a, b):", "def add(a, b:"),
        mutation("one place is meant", "def", "def "),
        mutation("sums are right again", "a + b", "a * b"),
    ]
    outcomes, seconds = every(toy, mutations, jobs=2)
    results = [one.result for one in outcomes]
    assert results == [KILLED, SURVIVED, NOT_MADE, NOT_RUN, NOT_MADE, KILLED]
    assert outcomes[0].by == "test_sums.py::test_add"
    assert "got it 2 times" in outcomes[4].by
    assert seconds > 0 and outcomes[0].seconds > 0
    assert (toy / "toy" / "sums.py").read_text() == SUMS, "faults are made in a copy"


def test_tests_that_fail_without_a_fault_show_nothing(toy: Path) -> None:
    with pytest.raises(CannotRun, match="test_never"):
        every(toy, [mutation("sums are right", "a + b", "a - b", "test_never.py")])


def test_text_that_was_moved_is_named_where_it_stands_now(toy: Path) -> None:
    (toy / "toy" / "sums.py").rename(toy / "toy" / "moved.py")
    with (
        refused(CannotRun, "no such file", "toy/moved.py"),
        mutation("sums are right", "a + b", "a - b").made(toy),
    ):
        pass


def test_a_copy_that_is_not_imported_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sys.py").write_text("")  # Python's own goes before it
    with pytest.raises(CannotRun, match="expected it from the copy"):
        demand_imported(tmp_path, [Mutation("sums", "sys.py", "a", "b", ("test_sums.py",))])


def test_compiled_code_is_copied_though_git_ignores_it(toy: Path) -> None:
    (toy / ".gitignore").write_text("*.so\n*.log\n")
    (toy / "kernels.so").write_bytes(b"code")
    (toy / "a.log").write_text("")
    copied(toy, toy / "copy")
    names = {path.name for path in (toy / "copy").iterdir()}
    assert names >= {"kernels.so", "test_sums.py", "toy"} and "a.log" not in names


def test_a_table_keeps_the_lines_of_those_that_were_not_tried(tmp_path: Path) -> None:
    table, mutations = tmp_path / "mutations.csv", read(LIST)
    write(table, [Outcome(one, SURVIVED, seconds=2.4) for one in mutations], 60.0)
    before = table.read_text().splitlines()
    write(table, [Outcome(mutations[1], KILLED, "tests/test_a.py::test_b", 3.0)], 1.0)
    after = table.read_text().splitlines()
    assert len(before) == len(after) == len(mutations) + 2
    assert [i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]] == [
        2
    ]
    assert ",killed,tests/test_a.py::test_b,3," in after[2]
    assert after[-1].startswith(f'"{ALL}",,passed,,60,')


def test_the_list_is_one_of_faults_that_can_be_made() -> None:
    mutations = read(LIST)
    assert len(mutations) >= 60
    for one in mutations:
        assert one.applied(ROOT)
        assert all((ROOT / test.partition("::")[0]).exists() for test in one.tests), one.name
