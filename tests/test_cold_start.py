"""What computes nothing loads nothing that computes: the command line answers at once."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fedsub.cli import cli
from fedsub_data.catalogue.catalogue import names

from .nursery import Nursery, nursery

HEAVY = {"torch", "sklearn", "scipy", "flwr", "matplotlib", "pandas", "numpy"}
PROGRAM = """
import sys
from fedsub.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def helps(command: click.Command, *words: str) -> Iterator[tuple[str, ...]]:
    """Yield what asks `command`, and each command in it, for help."""
    yield (*words, "--help")
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from helps(inner, *words, name)


COMMANDS = [
    *helps(cli),
    ("--version",),
    ("methods",),
    ("methods", "fedsub"),
    ("data", "list"),
    *(("data", "show", name) for name in names()),
]


@pytest.fixture(scope="module")
def started() -> Iterator[Nursery]:
    """A process that has loaded what every command loads: a command's own fork loads the rest."""
    with nursery("fedsub.cli") as process:
        yield process


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_it_answers_without_what_computes(
    words: tuple[str, ...], started: Nursery, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = started.run(tmp_path / "program.py", words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert done.stdout.strip() and "fedsub.cli" in loaded
    assert not HEAVY & loaded


def test_a_status_loads_little(tmp_path: Path) -> None:
    """It is asked often, and on servers stays: it reads numbers and text."""
    (tmp_path / "run.toml").write_text('method = "fedsub"\n')
    command = [sys.executable, "-c", PROGRAM, "status", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3 and "not begun" in done.stdout, done.stderr
    assert (HEAVY - {"numpy"}).isdisjoint(done.stderr.split())


MODEL = """
import sys
from fedsub_core.models.kinds import build_model
from fedsub_core.models.units import first_units
model = build_model("lstm", (3, 40), 6)
small, _ = model.narrow(first_units(model, 0.25))
small.forward(small.init(1, seed=0), __import__("torch").zeros(1, 2, 3, 40))
print(*sys.modules)
"""


def test_a_model_is_built_without_pytorchs_compiler() -> None:
    """On a weak device it would take 75 MB and seconds."""
    done = subprocess.run(
        [sys.executable, "-c", MODEL], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "fedsub_core.models.torch_model" in loaded and "torch" in loaded
    assert not {"torch._dynamo", "sympy"} & loaded


LOOK = """
import sys
import fedsub_data.inspection.page
print(*sys.modules)
"""


def test_a_look_at_data_loads_nothing_that_learns() -> None:
    """A page about 10 million rows takes its memory beside: PyTorch would take 200 MB."""
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "fedsub_data.inspection.hopkins" in loaded
    assert not {"torch", "flwr", "sklearn", "pandas"} & loaded


def test_an_import_with_its_page_loads_no_scikit_learn(tmp_path: Path) -> None:
    """It would take 100 MB, with pandas; whether a run would refuse the data needs none of it."""
    rows = [f"{who},{i // 2000},{i / 50},{i * i % 1009}" for who in (1, 2) for i in range(4000)]
    (tmp_path / "walks.csv").write_text("\n".join(["person,activity,time,ax", *rows]))
    words = ["data", "import", "walks.csv", "--out", "walks"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.split())
    assert "fedsub.studies.run" in loaded and "Page: " in done.stdout
    assert not {"sklearn", "pandas"} & loaded
