"""Imports point down only: the device never imports server code, the server no device code."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BELOW = {
    "fedsub": {"fedsub_server", "fedsub_client", "fedsub_data", "strategies", "fedsub_core"},
    "fedsub_data": {"fedsub_core"},
    "fedsub_server": {"strategies", "fedsub_core"},
    "strategies": {"fedsub_core"},
    "fedsub_client": {"fedsub_core"},
    "fedsub_core": set(),
}
DEVICE = ("fedsub_core", "fedsub_client")
#: Packages of the same wheel that are found by their entry points alone.
WINGS = {"fedsub_papers"}
# Imported where an option wants it, and missed with a clear error.
OPTIONAL = {
    "fedsub_client/methods/fedsub/noise.py": {"dp_accounting"},
    "fedsub_core/accounting.py": {"dp_accounting"},
    "fedsub_core/wire/frame.py": {"zstandard"},
}


def imported(tree: ast.AST, source: Path, on_import: bool = False) -> set[str]:
    """Top-level names that a file imports: anywhere in it, or when it is itself imported."""
    functions = (n for n in ast.walk(tree) if on_import and isinstance(n, ast.FunctionDef))
    later = {id(node) for function in functions for node in ast.walk(function)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in later:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{source}: relative import"
            names.add((node.module or "").partition(".")[0])
    return names


def modules(package: str) -> Iterator[tuple[str, Path, ast.Module]]:
    """Every file of a package: its name from the root, itself, its code."""
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield path.relative_to(ROOT).as_posix(), path, tree


def test_every_package_has_its_place() -> None:
    assert {path.parent.name for path in ROOT.glob("*/__init__.py")} - WINGS == BELOW.keys()


@pytest.mark.parametrize("package", BELOW)
def test_imports_point_down(package: str) -> None:
    for name, path, tree in modules(package):
        up = imported(tree, path) & (BELOW.keys() | WINGS) - BELOW[package] - {package}
        assert not up, f"{name} imports {up}"
        # A card names its halves by their path: that is an import, too.
        assert not [wing for wing in WINGS if wing in path.read_text("utf-8")], name


@pytest.mark.parametrize("package", DEVICE)
def test_a_device_needs_no_more_than_it_installs(package: str) -> None:
    installed = device_modules()
    assert {"torch", "flwr", "google"} <= installed
    for name, path, tree in modules(package):
        foreign = imported(tree, path) - sys.stdlib_module_names - BELOW.keys()
        optional = OPTIONAL.get(name, set())
        assert foreign <= installed | optional, f"{name} needs {foreign - installed}"
        # What may be missing must not stop the import of the file.
        assert optional <= foreign and not optional & imported(tree, path, on_import=True), name


def device_modules() -> set[str]:
    """Names to import of what devices install: requirements.txt, and to train `train`."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = "\n".join([text, *project["optional-dependencies"]["train"]])
    wanted = set(re.findall(r"^[\w-]+", text, re.MULTILINE))
    return {
        module
        for module, packages in packages_distributions().items()
        if wanted & {package.lower().replace("_", "-") for package in packages}
    }


def test_folders_of_scripts_and_data_are_no_packages() -> None:
    for name in ("datasets", "proto", "benchmarks"):
        assert not (ROOT / name / "__init__.py").exists(), f"{name} would shadow a pip package"
