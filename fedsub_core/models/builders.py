"""Builders of modules by their place: a file's or an installed module's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import blake2b
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType
from typing import Any

from fedsub_core.errors import ConfigError

#: What a model's builder takes, in words.
TAKES = "(input_shape, classes)"


def builder_at(place: str, option: str = "model", takes: str = TAKES) -> Callable[..., Any]:
    """Return the builder at ``package.module:builder`` or ``file.py:builder``; it is imported.

    Parameters
    ----------
    option : that names it.
    takes : what it is called with, in words.

    Raises ConfigError if there is no such file, module or builder, or importing it fails.
    """
    where, _, name = place.rpartition(":")
    try:
        module = _file(Path(where)) if where.endswith(".py") else import_module(where)
    except Exception as error:  # whatever somebody's module raises on import
        raise ConfigError(
            f"{option} {place!r}: {where} cannot be imported ({type(error).__name__}: {error}). "
            "Check the name, and that it is installed or given from this folder"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise ConfigError(
            f"{option} {place!r}: got no {name} that can be called in {where}, expected a function "
            f"or class of {takes}"
        )
    built: Callable[..., Any] = found
    return built


def _file(path: Path) -> Any:
    """Import a file as a module of its own, once as long as its text stays."""
    name = f"fedsub_model_{blake2b(path.read_bytes(), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_loader(name, _AsItStands(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _AsItStands(SourceFileLoader):
    """Compiles a file's text, and neither reads nor leaves compiled code.

    Python takes what it compiled a moment ago for a file of the same second and the same length.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the file's code."""
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code
