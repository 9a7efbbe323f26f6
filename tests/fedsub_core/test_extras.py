"""The table of extras is that of pyproject.toml."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from fedsub_core.extras import EXTRAS, require

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
#: What is done in a checkout: no package is asked for by a command that runs without.
TOOLS = ("dev", "wheels")
#: Modules that come with what an extra names, and with nothing that a device has.
BROUGHT = {
    "scipy": "scikit-learn",
    "ray": "flwr[simulation]",
    "mlflow": "mlflow-skinny",
    "ot": "POT",
    "mkdocstrings_handlers": "mkdocstrings[python]",
    "pymetis": "pymetis",
}


def test_every_package_of_an_extra_is_named_by_it() -> None:
    declared = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]["optional-dependencies"]
    brings = {
        re.split(r"[<>=]", wanted)[0]: extra
        for extra, packages in declared.items()
        for wanted in packages
        if extra not in TOOLS and not wanted.startswith("fedsub[")
    }
    installed = {
        module: {name.lower().replace("_", "-") for name in names}
        for module, names in packages_distributions().items()
    }
    for module, extra in EXTRAS.items():
        names = {BROUGHT[module]} if module in BROUGHT else installed[module]
        assert {brings.pop(name, extra) for name in names if name in brings} <= {extra}, module
    assert not brings


def test_what_is_missing_is_named_with_its_extra() -> None:
    require("a run", "sklearn", "pandas")
    with refused(ConfigError, "a run", "nothing_of_this_name"):
        EXTRAS_WITH = {**EXTRAS, "nothing_of_this_name": "ray"}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedsub_core.extras.EXTRAS", EXTRAS_WITH)
            require("a run", "sklearn", "nothing_of_this_name")
