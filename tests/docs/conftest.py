"""The device that was built from docs/wire-format.md alone, imported from a folder of its own."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .bare_setup import install


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Import the bare device, and forget it again."""
    folder = tmp_path_factory.mktemp("bare")
    install(folder, "bare_device")
    sys.path.insert(0, str(folder))
    yield importlib.import_module("bare_device.app")
    sys.path.remove(str(folder))
    for name in [n for n in sys.modules if n.partition(".")[0] == "bare_device"]:
        del sys.modules[name]
