"""libfedsub: what its header promises is in it, and a page can load it."""

import re
import runpy
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from fedsub_core.kernels.library import Kernels

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = runpy.run_path(str(ROOT / ".ci" / "libfedsub.py"))


def test_the_header_offers_the_functions_that_python_calls() -> None:
    called = {f"fedsub_{one.name}" for one in fields(Kernels) if "Callable" in str(one.type)}
    assert set(LIBRARY["functions"]()) == called | {"fedsub_memory", "fedsub_release"}


@pytest.mark.parametrize("language", [("c", "c11"), ("c++", "c++11"), ("c++", "c++20")])
def test_a_compiler_takes_the_header_alone(language: tuple[str, str], tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ here")
    source = tmp_path / "one.c"
    source.write_text('#include "fedsub.h"\nint size(void) { return sizeof(FedsubLayer); }\n')
    kind, standard = language
    how = ["-x", kind, f"-std={standard}", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    include = f"-I{LIBRARY['KERNELS']}"
    subprocess.run(["g++", *how, include, "-c", source, "-o", tmp_path / "one.o"], check=True)


@pytest.mark.slow
def test_the_webassembly_imports_nothing_and_is_small(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here")
    wasm, header = LIBRARY["build"](tmp_path, ["fedsub.wasm"])
    assert header.read_text() == LIBRARY["HEADER"].read_text()
    script = (
        "const m = new WebAssembly.Module(require('fs').readFileSync(process.argv[1]));"
        "console.log(WebAssembly.Module.imports(m).length);"
        "for (const one of WebAssembly.Module.exports(m)) console.log(one.name);"
    )
    done = subprocess.run([node, "-e", script, wasm], capture_output=True, text=True, check=True)
    imports, *exports = done.stdout.split()
    assert imports == "0"
    assert set(exports) == {"memory", "_initialize", *LIBRARY["functions"]()}
    assert LIBRARY["packed"](wasm) <= 80_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LIBRARY["build"].__globals__, "MOST_PACKED", 1000)
        with pytest.raises(SystemExit, match=re.escape("expected 1,000 at most")):
            LIBRARY["build"](tmp_path, ["fedsub.wasm"])
