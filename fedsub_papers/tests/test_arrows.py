"""Imports of the papers' package: what runs on devices imports no server code, nor the opposite."""

import sys

import pytest

from tests.test_arrows import BELOW, device_modules, imported, modules

#: Rooms by the side on which they run, and what of the house they import.
BELOW_ROOMS = {
    "methods": {"fedsub_core"},
    "models": {"fedsub_core"},
    "client": {"fedsub_core", "fedsub_client"},
    "strategies": {"fedsub_core", "strategies"},
}
#: What of the package itself they import: cards and models are on both sides.
INSIDE = {"client": {"client"}, "strategies": {"strategies"}}
BOTH = {"methods", "models", "masks"}


@pytest.mark.parametrize("room", BELOW_ROOMS)
def test_each_side_imports_its_own(room: str) -> None:
    for name, path, tree in modules(f"fedsub_papers/{room}"):
        house = imported(tree, path) & BELOW.keys()
        assert house <= BELOW_ROOMS[room], f"{name} imports {house - BELOW_ROOMS[room]}"
        parts = {line.split()[1].split(".")[1] for line in path.read_text("utf-8").splitlines()
                 if line.strip().startswith("from fedsub_papers.")}  # fmt: skip
        assert parts <= BOTH | INSIDE.get(room, set()), f"{name} imports {parts}"


@pytest.mark.parametrize("room", ["methods", "models", "client"])
def test_a_device_needs_no_more_than_it_installs(room: str) -> None:
    known = device_modules() | BELOW.keys() | {"fedsub_papers"} | sys.stdlib_module_names
    for name, path, tree in modules(f"fedsub_papers/{room}"):
        assert imported(tree, path) <= known, name
