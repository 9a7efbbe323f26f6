"""Imports point down only: the device never imports server code, the server no device code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
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
# The device installs these and nothing more.
# Imported where an option wants it, and missed with a clear error.
OPTIONAL = {"noise.py": {"dp_accounting"}, "frame.py": {"zstandard"}}
DEVICE_NEEDS = {"flwr", "google", "numpy", "safetensors", "tomli_w", "torch"}


def imported(path: Path) -> Iterator[str]:
    """Top-level names that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("package", BELOW)
def test_imports_point_down(package: str) -> None:
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        up = set(imported(path)) & BELOW.keys() - BELOW[package] - {package}
        assert not up, f"{path.relative_to(ROOT)} imports {up}"


@pytest.mark.parametrize("package", ["fedsub_core", "fedsub_client"])
def test_device_needs_little(package: str) -> None:
    import sys

    for path in (ROOT / package).rglob("*.py"):
        if path.name == "watch.py":
            continue  # finds a file of an optional package, and imports nothing of it
        foreign = set(imported(path)) - sys.stdlib_module_names - BELOW.keys()
        optional = OPTIONAL.get(path.name, set())
        assert foreign <= DEVICE_NEEDS | optional, f"{path.relative_to(ROOT)} needs {foreign}"


def test_generic_folders_are_no_packages() -> None:
    for name in ("datasets", "proto"):
        assert not (ROOT / name / "__init__.py").exists(), f"{name} would shadow a pip package"
