"""The Flower app of a deployment: a folder that only names our installed packages.

`flwr run` sends an app's files to every node. This one has none but its ``pyproject.toml``, so it
works from an installed wheel, and nodes run the code that was installed on them.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import tomli_w

from fedsub_core.config.run_config import SET, RunConfig, dump_toml
from fedsub_core.errors import RunError
from fedsub_core.version import VERSION

COMPONENTS = {"serverapp": "fedsub_server.app:app", "clientapp": "fedsub_client.app:app"}


def write_app(folder: Path, config: RunConfig) -> None:
    """Write the app into a new `folder`; it runs as `config` says.

    Flower lets only keys that stand in an app's file be given another value for a run, so all do.

    Raises
    ------
    RunError
        If the folder is there already or cannot be made.
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
