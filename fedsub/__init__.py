"""Personalised federated learning from Python: every person ends with a model of their own.

    import fedsub

    people = fedsub.federation("walks.csv")          # or a DataFrame, arrays, a folder
    run = fedsub.run(people, method="ditto", rounds=30)
    run.table                                        # how methods compare, a pandas table
    run.model("01")(x)                               # that person's probabilities of raw samples

Public are the names in ``__all__``; everything else may change. Each is imported when it is first
used, so that the command line answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedsub.api.comparing import Comparison, compare
    from fedsub.api.data import federation, save
    from fedsub.api.estimator import FedSubClassifier
    from fedsub.api.loading import load
    from fedsub.api.models import PersonModel
    from fedsub.api.running import Run, run

_WHERE = {
    "Comparison": "comparing",
    "FedSubClassifier": "estimator",
    "PersonModel": "models",
    "Run": "running",
    "compare": "comparing",
    "federation": "data",
    "load": "loading",
    "run": "running",
    "save": "data",
}

__all__ = [
    "Comparison",
    "FedSubClassifier",
    "PersonModel",
    "Run",
    "compare",
    "federation",
    "load",
    "run",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'fedsub' has no attribute {name!r}")
    return getattr(import_module(f"fedsub.api.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
