"""Every file of results stands on a page, behind the command that writes it."""

import csv
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from fedsub.commands.compare import StudyAsked, compare
from fedsub.studies.kept_study import as_asked
from fedsub.studies.results_file import columns
from fedsub.studies.study import Study, shown
from fedsub.studies.study_file import read_study

ROOT = Path(__file__).resolve().parents[2]
#: A file that a page shows, and code before it, in a sentence or apart.
_TABLE = re.compile(r"^Table: \[[^]]+\]\((results/[\w.-]+)\)$", re.MULTILINE)
_CODE = re.compile(r"```\w*\n(.+?)```|`([^`]+)`", re.DOTALL)
#: The day from which on `--csv` writes files of studies, whole.
WHOLE = "2026-12-01"


def tables_of(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield each file of results that a page shows, and the command that writes it.

    That is the study whose command before the table names the file, else the path of the script
    or module that such a command or the section's title names, else "".
    """
    text, before = page.read_text("utf-8"), 0
    for found in _TABLE.finditer(text):
        file = page.parent / found[1]
        option = re.compile(f"--(csv|out) {re.escape(file.relative_to(ROOT).as_posix())}")
        code = [
            " ".join((apart or inside).replace("\\", " ").split())
            for apart, inside in _CODE.findall(text, before, found.start())
        ]
        command = next((one for one in code if option.search(one)), "")
        title = re.findall(r"^## (.+)$", text[: found.start()], re.MULTILINE)[-1]
        before = found.end()
        if command.startswith("fedsub compare"):
            yield file, command
        elif module := re.match(r"python -m ([\w.]+)", command):
            yield file, f"{module[1].replace('.', '/')}/__main__.py"
        else:
            script = re.search(r"\w+\.py", command) or re.search(r"\w+\.py", title)
            yield file, f"benchmarks/{script[0]}" if script else ""


def check_results(
    page: Path, monkeypatch: pytest.MonkeyPatch, older: frozenset[str] = frozenset()
) -> None:
    """Check that all files beside a page, but the older ones, are what their commands write."""
    monkeypatch.chdir(ROOT)
    without = set()
    for file, command in tables_of(page):
        with file.open(newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        assert list(rows[0])[-1] == "written" and all(row["written"] for row in rows), file
        if command.startswith("fedsub compare"):
            check_of_study(asked_study(shlex.split(command)[2:]), rows, file.name)
        elif not command or not is_written_by(ROOT / command, list(rows[0])):
            without.add(file.name)
    assert without == older, "name the command, or take what has one from the older ones"


def asked_study(words: list[str]) -> Study:
    """Return the study that a command's words ask for."""
    given = compare.make_context("compare", words).params
    asked = {one.name: given[one.name] for one in fields(StudyAsked)}
    return as_asked(read_study(given["study"], None), asked)


def check_of_study(study: Study, rows: list[dict[str, str]], name: str) -> None:
    """Check that the columns are the study's, and all rows its rows.

    Of rows from before :data:`WHOLE` some may lack: columns and rows were fewer then.
    """
    head, theirs = list(rows[0]), columns(study)
    assert head == [title for title in theirs if title in head], (name, head, theirs)
    keys = theirs[: theirs.index("method")]
    there = {
        (*(shown(dict(cell).get(key, "-")) for key in keys), entry.label)
        for cell, entry in study.rows()
    }
    found = {tuple(row[key] for key in (*keys, "method")) for row in rows}
    assert found <= there, name
    if min(row["written"] for row in rows) >= WHOLE:
        assert (head, found) == (theirs, there), name


def is_written_by(script: Path, head: list[str]) -> bool:
    """Say whether a script writes such files: it or what it imports has all words of titles."""
    text = script.read_text("utf-8")
    modules = re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)
    beside = [file for one in modules if (file := script.parent / f"{one}.py").is_file()]
    shared = {"script", "simulation"}  # of others they have parts, not the results
    text += "".join(file.read_text("utf-8") for file in beside if file.stem not in shared)
    # Some titles are put together.
    words = {word for title in head for word in re.findall("[A-Za-z]{3,}", title)} - {"written"}
    return bool(re.search(r"\b(put_rows|put_lines|add_rows|writer|DictWriter)\(", text)) and all(
        word in text for word in words
    )


#: Files of scripts that only print, of reports' tables and of `make`. There are no new ones.
OLDER = {
    "studies": """
        gated-dynamic-means gated-dynamic-uci-har gated-dynamic-wesad-wisdm paper-dynamic-wesad
        paper-dynamic-wisdm
    """,
    "benchmarks": """
        bytes deployment encoder-choices giant growth growth-clusterings hard-clusters-shared late
        methods study-engines
    """,
}


@pytest.mark.parametrize("folder", OLDER)
def test_every_result_is_written_by_the_command_before_it(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = frozenset(f"{name}.csv" for name in OLDER[folder].split())
    check_results(ROOT / folder / "README.md", monkeypatch, older)
