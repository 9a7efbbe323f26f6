"""The digest by which trees of one version differ."""

import shutil
import subprocess
import sys
from pathlib import Path

import fedsub_core
from fedsub_core.version import VERSION, build, code_digest


def digest_of(tree: Path) -> str:
    """Return the digest that a process says whose code lies in `tree`."""
    code = "from fedsub_core.version import code_digest; print(code_digest())"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=True
    )
    return said.stdout.strip()


def test_a_changed_line_is_another_code_and_the_same_tree_elsewhere_is_not(tmp_path: Path) -> None:
    root = Path(fedsub_core.__file__).parents[1]
    for package in ("fedsub", "fedsub_client", "fedsub_core", "fedsub_server", "strategies"):
        shutil.copytree(
            root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    assert digest_of(tmp_path) == code_digest()
    changed = tmp_path / "strategies" / "parts" / "averaging.py"
    assert changed.is_file()
    changed.write_text(changed.read_text("utf-8") + "\n", "utf-8")
    assert digest_of(tmp_path) != code_digest()
    assert build() == f"{VERSION} (code {code_digest()})"
