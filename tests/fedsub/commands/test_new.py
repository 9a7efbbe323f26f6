"""`fedsub new method`: what it writes, and which names it refuses."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedsub.new_method import write_package

from .calls import Call, assert_refused

ROOT = Path(__file__).resolve().parents[3]
FILES = {
    "README.md",
    "pyproject.toml",
    "fedsub_my_own/__init__.py",
    "fedsub_my_own/card.py",
    "fedsub_my_own/learner.py",
    "fedsub_my_own/strategy.py",
    "tests/test_my_own.py",
}


def test_it_writes_a_package_that_offers_the_method(fedsub: Call) -> None:
    code, out, err = fedsub("new", "method", "my_own")
    assert (code, err) == (0, "") and "pip install -e fedsub-my_own" in out
    folder = Path("fedsub-my_own")
    assert {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} == FILES
    assert not [p for p in folder.rglob("*") if p.is_file() and "$" in p.read_text("utf-8")]
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["fedsub.methods"] == {"my_own": "fedsub_my_own.card:CARD"}


def test_its_files_pass_our_lint(tmp_path: Path) -> None:
    folder = write_package("mine", tmp_path / "mine")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    own = folder / "pyproject.toml"
    own.unlink()  # the rules of ours count
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    assert ruff is not None
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run([ruff, *check, "mine"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("My-Own", "got 'My-Own', expected a name of small letters, digits and _"),
        ("2nd", "got '2nd', expected a name"),
        ("../x", "got '../x', expected a name"),
        ("class", "got 'class', expected a name"),
        ("ditto", "got 'ditto', which is the name of another method"),
        ("fedbn", "got 'fedbn', which is the name of another method"),
    ],
)
def test_a_name_that_can_be_none_is_refused(name: str, words: str, fedsub: Call) -> None:
    assert_refused(fedsub("new", "method", name), words)
    assert not list(Path().iterdir())


def test_a_folder_that_is_there_stays_as_it_is(fedsub: Call) -> None:
    Path("here").mkdir()
    assert_refused(fedsub("new", "method", "mine", "--out", "here"), "here: is there already")
    assert not list(Path("here").iterdir())
