"""A row of the table of partitions, whose rows packages may add."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_data.preparing.preparation import Counts

_Make = Callable[[Federation, Any, int, Counts], dict[str, ClientData]]


@dataclass(frozen=True)
class Partition:
    """A row of the table: how clients are made, and what can be chosen."""

    name: str
    doc: str
    options: type[Any]
    make: _Make
