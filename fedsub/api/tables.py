"""pandas, which tables need and runs do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fedsub_core.extras import require

if TYPE_CHECKING:
    import pandas as pd


def table(rows: Iterable[Mapping[str, Any]], index: str | None = None) -> pd.DataFrame:
    """Return rows as a table; ids and names stay text.

    Raises
    ------
    ConfigError
        Where pandas is not installed.
    """
    require("results as tables", "pandas")
    import pandas as pd

    made = pd.DataFrame.from_records(list(rows))
    return made.set_index(index) if index is not None and len(made) else made
