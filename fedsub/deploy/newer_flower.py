"""Whether there is a newer Flower, and which of its parts that FedSub uses it lacks.

Asks the package index by pip, and reads the newer package without installing it.
"""

import ast
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from fedsub_core.errors import RunError, cut
from fedsub_core.flower.modules import GRPC, HTTP

#: Packages whose code is looked at.
PACKAGES = ("fedsub", "fedsub_server", "strategies", "fedsub_client", "fedsub_core")
#: Seconds for pip: a machine without a network is to say so soon.
SECONDS = 120.0


def newest() -> str:
    """Return the newest release of Flower in the package index.

    Raises RunError if pip finds none, as without a network.
    """
    told = _pip("index", "versions", "flwr")
    if (found := re.search(r"^flwr \((\S+)\)", told, re.MULTILINE)) is None:
        raise RunError(f"flwr: pip names no release: {cut(told)}")
    return found[1]


def lacking_in(release: str) -> Iterator[str]:
    """Yield each part of Flower that FedSub uses and a release lacks: a module, or names of one.

    Raises RunError if the release cannot be fetched.
    """
    with tempfile.TemporaryDirectory() as folder:
        how = "--no-deps", "--only-binary=:all:", "--quiet"  # no code of it runs
        _pip("download", f"flwr=={release}", *how, "--dest", folder)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            modules = [name for name in file.namelist() if name.endswith(".py")]
            sources = {_module(name): file.read(name) for name in modules}
    # Only the older of both releases has that transport, and only there it is used.
    uses = {module: names for module, names in used().items() if "grpc_rere" not in module}
    yield from lacking(uses, sources)


def lacking(uses: Mapping[str, set[str]], sources: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the modules and names in `uses` that modules with these `sources` lack."""
    for module, names in sorted(uses.items()):
        if module not in sources:
            yield f"{module}: no such module"
            continue
        there = set(_names(ast.parse(sources[module])))
        if module.endswith("_pb2"):  # a message's class is made of its description, at import
            there |= {name for name in names if name.encode() in sources[module]}
        if gone := sorted(n for n in names - there if f"{module}.{n}" not in sources):
            yield f"{module}: no {', '.join(gone)}"


def used() -> dict[str, set[str]]:
    """Return the modules of Flower that FedSub's code imports or replaces parts of, with names."""
    found, nodes = defaultdict[str, set[str]](set), list(_code())
    for node in nodes:
        for module, names in _uses(node):
            found[module] |= names
    # A function that gives such a module is told by its callers which names it must have.
    givers = {
        node.name: next((module for each in ast.walk(node) for module, _ in _uses(each)), "")
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.args.vararg is not None
    }
    for node in nodes:
        if isinstance(node, ast.Call) and (module := givers.get(getattr(node.func, "id", ""), "")):
            found[module] |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return dict(found)


def verdict(release: str) -> str:
    """Return whether FedSub's programs stand in for a release's."""
    if any(f"{release}.".startswith(f"{series}.") for series in (GRPC, HTTP)):
        return f"{release} is of a series that FedSub runs on ({GRPC}, {HTTP})"
    return f"{release} is newer than what FedSub runs on ({GRPC}, {HTTP}; here {version('flwr')})"


def _module(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _code() -> Iterator[ast.AST]:
    """Yield all nodes of FedSub's code."""
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).rglob("*.py"):
                yield from ast.walk(ast.parse(path.read_text("utf-8")))


def _uses(node: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Yield what a node of code uses: ``from flwr... import``, and ``flower_module("flwr...")``."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "flwr":
        yield str(node.module), {alias.name for alias in node.names}
    elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "flower_module":
        texts = [a.value for a in node.args if isinstance(a, ast.Constant)]
        if texts:
            yield str(texts[0]), {str(text) for text in texts[1:]}


def _names(module: ast.Module) -> Iterator[str]:
    """Yield the names that a module has: defined, assigned or imported, also under a condition."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _pip(*arguments: str) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RunError(f"flwr: the package index did not answer within {SECONDS:g} s") from error
    if done.returncode:
        why = cut(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no reason")
        raise RunError(f"flwr: pip {arguments[0]}: {why}; expected a network and a package index")
    return done.stdout
