"""The app of a deployment: what Flower makes of a folder without code."""

import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
from flwr.common.config import flatten_dict, parse_config_args

from fedsub.deploy.flower_app import COMPONENTS, TABLE, write_app, write_defaults
from fedsub.deploy.flower_process import (
    as_setting,
    flower_environment,
    flower_program,
    free_ports,
    run_status,
)
from fedsub_core.config.run_config import from_flat, read_config, to_flat
from fedsub_core.errors import RunError
from fedsub_core.options import Value

ROOT = Path(__file__).resolve().parents[3]
SETTINGS: dict[str, Value] = {
    "rounds": 2,
    "lr": 1.0,
    "fedsub.fusion": "avg",
    "beside": "",
    "data": "/a b/ü",
}


def test_the_app_holds_the_whole_configuration(tmp_path: Path) -> None:
    config = read_config(None, SETTINGS)
    write_app(tmp_path / "app", config)
    app = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text(encoding="utf-8"))
    flat = flatten_dict(app["tool"]["flwr"]["app"]["config"])
    assert flat == to_flat(config) | {"set": ""}
    assert from_flat(flat) == config
    assert app["project"]["dependencies"] == []
    assert app["tool"]["flwr"]["app"]["components"] == COMPONENTS


def test_flower_builds_the_app_of_its_one_file(tmp_path: Path) -> None:
    write_app(tmp_path / "app", read_config(None, SETTINGS))
    env = flower_environment(tmp_path / "home")
    command = [flower_program("flwr"), "build", "--app", str(tmp_path / "app")]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (bundle,) = tmp_path.glob("fedsub.fedsub.*.fab")
    assert bundle.stat().st_size < 10_000
    files = {n for n in zipfile.ZipFile(bundle).namelist() if not n.startswith(".info/")}
    assert files == {"pyproject.toml"}


@pytest.mark.parametrize(
    "value",
    ["p1", "", "/with space/ü", "it's", 'a "b"', "back\\slash", "a=b c=d", 3, 0.5, 1e-5, True],
)
def test_flower_reads_settings_as_they_were(value: str | int | float | bool) -> None:
    text = f"first={as_setting('x')} client-id={as_setting(value)}"
    assert parse_config_args([text]) == {"first": "x", "client-id": value}


@pytest.mark.parametrize("value", ["""'"'""", "a\nb", "it's a \\"])
def test_what_flower_would_misread_is_refused(value: str) -> None:
    with pytest.raises(RunError, match="cannot be given to Flower"):
        as_setting(value)


def test_status_of_what_flower_lists() -> None:
    assert run_status('{"runs": [{"status": "finished:completed"}]}') == "finished:completed"
    for printed in ("", "Error", '{"runs": []}', "[]"):
        assert run_status(printed) == "unknown"


def test_ports_differ_and_programs_are_there() -> None:
    assert len(set(free_ports(20))) == 20
    assert Path(flower_program("flower-superlink")).is_file()
    with pytest.raises(RunError, match="no such program"):
        flower_program("flower-nothing")


def test_fedsubs_own_app_has_what_the_command_writes(tmp_path: Path) -> None:
    """So that an option is declared once: pyproject.toml follows."""
    own, path = (ROOT / "pyproject.toml").read_text(encoding="utf-8"), tmp_path / "pyproject.toml"
    path.write_text(own, encoding="utf-8")
    write_defaults(path)
    assert path.read_text(encoding="utf-8") == own, "run `fedsub deploy defaults pyproject.toml`"
    path.write_text(f"[a]\nb = 1\n\n{TABLE}\nlr = 7.0\nnone = 3\n", encoding="utf-8")
    write_defaults(path)
    found, ours = tomllib.loads(path.read_text(encoding="utf-8")), tomllib.loads(own)
    assert found["a"] == {"b": 1}
    assert found["tool"]["flwr"]["app"]["config"] == ours["tool"]["flwr"]["app"]["config"]
    path.write_text("[a]\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"got no table \[tool.flwr.app.config\]"):
        write_defaults(path)
