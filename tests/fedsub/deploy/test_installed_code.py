"""A device that runs installed code alone: not what a bundle brings, whatever it calls itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: A bundle's folder with an app of its own, and modules that would stand in for installed ones.
_PROGRAM = """
import sys
from pathlib import Path
from fedsub.deploy.bounded_clientapp import run_installed_code
run_installed_code()
from flwr.clientapp.utils import get_load_client_app_fn
import flwr.clientapp.utils as utils
folder = Path(sys.argv[1])
utils.get_project_dir = lambda *_: folder
app = get_load_client_app_fn("", None, True)("us/app", "1.0", "hash")
import fedsub_client.app
print("installed", app is fedsub_client.app.app, str(folder) in sys.path)
"""


def loaded(folder: Path, component: str, installed: str) -> subprocess.CompletedProcess[str]:
    """Load the ClientApp of a bundle in a process of its own."""
    (folder / "theirs.py").write_text(
        "from flwr.clientapp import ClientApp\nprint('their code runs')\napp = ClientApp()\n"
    )
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "app"\nversion = "1.0"\ndependencies = []\n'
        '[tool.flwr.app]\npublisher = "us"\n[tool.flwr.app.components]\n'
        f'serverapp = "{component}"\nclientapp = "{component}"\n'
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM, str(folder)],
        env=os.environ | {"FEDSUB_INSTALLED_CODE": installed},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("theirs", ["theirs:app", "fedsub_client/../theirs:app"])
def test_a_bundles_code_is_refused_by_name(tmp_path: Path, theirs: str) -> None:
    done = loaded(tmp_path, theirs, "1")
    assert done.returncode != 0 and "their code runs" not in done.stdout + done.stderr
    assert "expected 'fedsub_client.app:app'" in done.stderr and theirs in done.stderr


def test_the_installed_app_is_run_though_the_bundle_has_one_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "fedsub_client").mkdir()
    (tmp_path / "fedsub_client" / "__init__.py").write_text("print('their code runs')\n")
    done = loaded(tmp_path, "fedsub_client.app:app", "1")
    assert done.stdout == "installed True False\n", done.stderr


def test_without_the_variable_a_bundles_code_runs_as_with_flower(tmp_path: Path) -> None:
    assert "their code runs" in loaded(tmp_path, "theirs:app", "0").stdout
