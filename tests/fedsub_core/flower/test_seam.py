"""Flower's private parts stand behind one seam, which fits the Flower that is installed."""

import ast
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from fedsub.deploy import answering_supernode, guarded_superlink, warm_superexec
from fedsub.testing.refusals import refused
from fedsub_core import flower
from fedsub_core.errors import RunError
from fedsub_core.flower import modules

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp", "flwr.serverapp.strategy", "flwr.client"}
ROOMS = ("fedsub", "fedsub_data", "fedsub_server", "strategies", "fedsub_client", "fedsub_core")
#: What Flower keeps for itself of messages.
STAMPS = re.compile(r"_message_id|_reply_to_message_id|_run_id|_task_id|_node_id")


def private(tree: ast.AST) -> Iterator[str]:
    """Yield what a file imports, or names as a text, of Flower's private parts."""
    for node in ast.walk(tree):
        names = list[str]()
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value] if re.fullmatch(r"flwr(\.\w+)+", node.value) else []
            if STAMPS.fullmatch(node.value):
                yield node.value
        yield from (n for n in names if n.partition(".")[0] == "flwr" and n not in PUBLIC)


def test_no_other_file_knows_flowers_private_parts() -> None:
    """Tests of the seam itself look into Flower; what runs a federation does not."""
    seam, found = ROOT / "fedsub_core/flower", dict[str, list[str]]()
    for room in (*ROOMS, "benchmarks"):
        for path in (ROOT / room).rglob("*.py"):
            if seam not in path.parents:
                found[str(path)] = list(private(ast.parse(path.read_text("utf-8"))))
    assert len(found) > 200 and {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import flwr.supercore.run",
        "from flwr.supercore.run import Run",
        "def f():\n    from flwr.common import constant",
        "import_module('flwr.supercore.run')",
        "message.metadata.__dict__['_message_id'] = '1'",
        "import flwr",
    ],
)
def test_such_a_line_is_found(line: str) -> None:
    assert list(private(ast.parse(line)))


def test_all_of_the_seam_fits_the_flower_that_is_installed() -> None:
    for module in pkgutil.iter_modules(flower.__path__):
        import_module(f"{flower.__name__}.{module.name}")


@pytest.mark.parametrize("got", ["1.43.0", "1.40", "1.390", "2"])
@pytest.mark.parametrize(
    ("module", "program"),
    [
        (guarded_superlink, "fedsub-superlink"),
        (answering_supernode, "fedsub-supernode"),
        (warm_superexec, "fedsub-superexec"),
    ],
)
def test_a_flower_that_would_not_ask_the_guard_is_refused(
    module: Any, program: str, got: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules, "version", lambda name: got)
    monkeypatch.setattr("os.umask", lambda mask: 0)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert str(ended.value.code).startswith(
        f"{program}: flwr: got {got}, expected 1.39 or 1.42: this "
    )


@pytest.mark.parametrize(
    ("got", "series"),
    [("1.39.0", modules.GRPC), ("1.39", modules.GRPC), ("1.42.7", modules.HTTP)],
)
def test_a_flower_of_these_series_is_taken(
    got: str, series: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modules, "version", lambda name: got)
    assert modules.demand_deployable() == series


def test_what_is_no_longer_there_is_named() -> None:
    with refused(RunError, "flwr", "flwr.app", "Nothing"):
        modules.flower_module("flwr.app", "Message", "Nothing")


@pytest.mark.parametrize(
    "program",
    ["superexec import superexec_program", "clientapp import clientapp_program"],
)
def test_a_program_of_flowers_does_not_bring_all_others(program: str) -> None:
    """They import SQLAlchemy, which takes a small board more memory than our own code."""
    name = program.rpartition(" ")[2]
    code = f"import sys\nfrom fedsub_core.flower.{program}\n{name}()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = {module.partition(".")[0] for module in done.stdout.split()}
    assert "flwr" in found and not found & {"sqlalchemy", "alembic", "uvicorn"}


def test_a_package_that_flower_lacks_is_named() -> None:
    with refused(RunError, "flwr.supercore.nothing", expected=[modules.GRPC, modules.HTTP]):
        modules.enter_bare("flwr.supercore.nothing")
