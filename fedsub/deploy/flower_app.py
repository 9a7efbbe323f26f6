"""The Flower app of a deployment: a folder that only names our installed packages.

`flwr run` sends an app's files to every node. This one has none but its ``pyproject.toml``, so it
works from an installed wheel, and nodes run the code that was installed on them.
"""

import re
import tomllib
from pathlib import Path

import tomli_w

from fedsub_core.config.run_config import SET, RunConfig, dump_toml, to_flat
from fedsub_core.errors import RunError
from fedsub_core.version import VERSION

TABLE = "[tool.flwr.app.config]"
COMPONENTS = {"serverapp": "fedsub_server.app:app", "clientapp": "fedsub_client.app:app"}


def write_defaults(path: Path) -> None:
    """Put all keys of a run, with their defaults, into the table of an app's ``pyproject.toml``.

    Raises RunError if the file cannot be read or written, or holds no such table.
    """
    keys = {key: value for key, value in to_flat(RunConfig()).items() if "." not in key}
    try:
        text = path.read_text(encoding="utf-8")
        before, table, after = text.partition(f"{TABLE}\n")
        if not table:
            raise RunError(f"{path}: got no table {TABLE}, expected that of a Flower app")
        _, begins, rest = f"\n{after}".partition("\n[")
        lines = f"{before}{table}{tomli_w.dumps({**keys, SET: ''})}"
        path.write_text(f"{lines}\n[{rest}" if begins else lines, encoding="utf-8")
    except OSError as error:
        raise RunError(f"{path}: the app cannot be written ({error.strerror})") from error


def write_app(folder: Path, config: RunConfig) -> None:
    """Write the app into a new `folder`; it runs as `config` says.

    Flower lets only keys that stand in an app's file be given another value for a run, so all do.

    Raises RunError if the folder is there already or cannot be made.
    """
    # Flower reads versions strictly; one of a source tree is no such version.
    release = re.match(r"\d+(\.\d+)*", VERSION)
    project = {
        "name": "fedsub",
        "version": release[0] if release else "0",
        "description": "Names the installed packages of FedSub",
        # Whatever were listed here, Flower would install from the network for each run.
        "dependencies": [],
    }
    settings = {**tomllib.loads(dump_toml(config)), SET: ""}
    app = {"publisher": "fedsub", "components": COMPONENTS, "config": settings}
    text = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    try:
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise RunError(
            f"{folder}: the app cannot be written ({error.strerror}); choose a folder that is not "
            "there yet"
        ) from error
