"""The device built from docs/wire-format.md alone shares no code of ours, and writes our bytes."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.wire.bundles import Bundle, Floats, Part, dense, rows
from fedsub_core.wire.codec import Address, encode_upload
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.references import Reference

from .bare_setup import BARE

ROOT = Path(__file__).resolve().parents[2]
OURS = {"fedsub", "fedsub_client", "fedsub_core", "fedsub_data", "fedsub_server", "strategies"}
FORMATS = ("float32", "bfloat16", "int8", "delta", "bfloat16,delta", "int8,delta")


def test_it_imports_nothing_of_ours() -> None:
    files = sorted(BARE.glob("*.py"))
    assert len(files) > 3
    allowed = {"numpy", "google", "flwr", *sys.stdlib_module_names} - {"importlib", "runpy"}
    # Over HTTP it signs its calls itself, and Flower carries nothing.
    calls = (allowed | {"cryptography"}) - {"flwr"}
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Import):
                roots = {alias.name.partition(".")[0] for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                roots = {str(statement.module).partition(".")[0]}
            else:
                continue
            may = calls if file.name == "fleet.py" else allowed
            assert roots <= may, f"{file.name} imports {roots - may}"


def test_no_module_of_ours_is_in_its_process(bare: Any) -> None:
    folder = Path(bare.__file__).parents[1]
    script = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import bare_device.app; "
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert {"bare_device", "flwr", "numpy"} <= loaded, done.stderr
    assert not loaded & {*OURS, "torch"}


def test_it_writes_the_pages_example_to_the_byte(bare: Any) -> None:
    page = (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8")
    values, lines = (
        re.findall(rf"^```{kind} upload\n(.*?)^```", page, re.M | re.S)[0]
        for kind in ("json", "hex")
    )
    stated = json.loads(values)
    parts = {}
    for name, one in stated["tensors"].items():
        mask = np.array(one["units"], bool) if "units" in one else None
        numbers = np.array(one["bits"], bool) if "bits" in one else np.float32(one["values"])
        shape = numbers.shape if mask is None else (len(mask), *numbers.shape[1:])
        parts[name] = bare.wire.Part(shape, numbers, mask, exact=name == "scores")
    header = {"client_id": stated["client"], "round": stated["round"]}
    header |= {"examples": stated["examples"], "version": stated["version"]}
    data = bare.wire.encode(header, parts, ["float32"], {})
    wanted = b"".join(bytes.fromhex(line.split("|")[0]) for line in lines.splitlines())
    assert data.hex(" ") == wanted.hex(" ")


@pytest.mark.parametrize("text", FORMATS)
def test_it_writes_our_bytes_in_every_format(text: str, bare: Any) -> None:
    stream = np.random.default_rng(3)
    declared = {"rows": rows((5, 4)), "bias": dense((6,)), "counts": dense((3,), exact=True)}
    encoding, theirs, ours = parse_encoding(text), dict[str, Any](), Reference.empty(declared)
    for round in (1, 2, 3):
        # Multiples of 2**-9 from 1 to 2 lie midway between numbers of bfloat16, or a quarter off.
        values = (1 + stream.integers(0, 512, (5, 4)) / 512).astype(np.float32)
        bias, counts = (stream.normal(size=n).astype(np.float32) for n in (6, 3))
        units = stream.random(5) < 0.7
        sent: dict[str, Part] = {
            "rows": Floats.rows(units, values[units]),
            "bias": Floats(bias),
            "counts": Floats(counts),
        }
        # Without differences ours also adds what rounding cut off, if it has a reference.
        kept = ours if encoding.delta else None
        wanted = encode_upload(
            Bundle(round, tensors=sent), Address("ann", round), declared, encoding, kept
        )
        parts = {
            "rows": bare.wire.Part((5, 4), values[units], units),
            "bias": bare.wire.Part((6,), bias),
            "counts": bare.wire.Part((3,), counts, exact=True),
        }
        header = {"client_id": "ann", "round": round, "examples": round}
        assert bare.wire.encode(header, parts, text.split(","), theirs).hex() == wanted.hex()
