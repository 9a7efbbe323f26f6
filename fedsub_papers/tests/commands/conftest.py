"""The command line, as a shell calls it, and a small federation on disk."""

from tests.fedsub.commands.conftest import fedsub
from tests.fedsub.conftest import town, town_folder

__all__ = ["fedsub", "town", "town_folder"]
