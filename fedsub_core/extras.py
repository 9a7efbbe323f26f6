"""Packages that come with an extra of fedsub: the one place that says which, and how to get it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from fedsub_core.errors import ConfigError

#: The extra that brings a module, as pyproject.toml has it.
EXTRAS: Mapping[str, str] = {
    "torch": "train",
    "sklearn": "server",
    "scipy": "server",
    "starlette": "server",
    "threadpoolctl": "server",
    "uvicorn": "server",
    "zstandard": "zstd",
    "click": "run",
    "cryptography": "run",
    "matplotlib": "run",
    "packaging": "run",
    "rich": "run",
    "neurokit2": "data",
    "duckdb": "import",
    "pandas": "tables",
    "PIL": "data",
    "pooch": "data",
    "requests": "data",
    "tqdm": "data",
    "onnx": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "ray": "ray",
    "dp_accounting": "privacy",
    "ot": "transport",
    "pymetis": "graphs",
    "networkx": "graphs",
    "segno": "invite",
    "zensical": "site",
    "mkdocstrings_handlers": "site",
    "tensorboard": "tensorboard",
    "pytest": "testing",
    "mlflow": "mlflow",
}


def require(what: str, *modules: str) -> None:
    """Raise ConfigError where `what`, such as an option, needs modules that are not installed."""
    if missing := [name for name in modules if find_spec(name) is None]:
        raise lacking(what, *missing)


def lacking(what: str, *modules: str) -> ConfigError:
    """Return the error that `what` needs `modules`, of one extra, which are not installed."""
    named = " and ".join(modules)
    verb = "are" if len(modules) > 1 else "is"
    return ConfigError(f"{what} needs {named}, which {verb} not installed. Run: {get(modules[0])}")


def get(module: str) -> str:
    """Return the command that installs the extra that brings a module."""
    return f"pip install 'fedsub[{EXTRAS[module]}]'"
