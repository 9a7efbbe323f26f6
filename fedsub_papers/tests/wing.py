"""The papers' methods: those that this package offers."""

from fedsub_core.methods.table import INSTALLED
from fedsub_core.packages import title_of

WING = [name for name, point in INSTALLED.items() if title_of(point) == "fedsub_papers"]
