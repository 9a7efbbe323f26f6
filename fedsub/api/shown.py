"""What a notebook shows: tables, which need pandas where runs do not, and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

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


def shown_with_place(table: pd.DataFrame, folder: Path) -> str:
    """Return a table as HTML, with where it comes from and how its report is shown.

    A page that is there is a link as well: relative, as notebooks serve what lies below them.
    """
    where = f"<code>{escape(str(folder))}</code>"
    if (page := folder / "report.html").is_file():
        where += f", <a href='{quote(str(page))}'>report</a>"
    return f"{table.to_html()}<p>{where}; <code>.report</code> shows the report here.</p>"


class Report:
    """A page: ``path`` is where it lies; a notebook shows it inline."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _repr_html_(self) -> str:
        page = escape(self.path.read_text("utf-8"), quote=True)
        return f'<iframe srcdoc="{page}" width="100%" height="800" style="border:0"></iframe>'

    def __repr__(self) -> str:
        """Return where the page lies."""
        return f"Report({str(self.path)!r})"
