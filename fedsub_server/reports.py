"""Reports on a run that Flower has come to the end of, as `fedsub run` ends with one.

What writes them stands above this package and wants packages that not every server has. So it is
looked up: an entry point of the group ``fedsub.reports`` is a function that takes a run's folder
and returns the path of what it wrote there.
"""

from __future__ import annotations

import logging
from importlib.metadata import entry_points
from pathlib import Path

log = logging.getLogger("fedsub")

GROUP = "fedsub.reports"


def write_reports(folder: Path) -> None:
    """Have the reports on the run in `folder` written; log where they lie, or how to make them.

    Whatever goes wrong is logged: the run is complete without.
    """
    later = f"`fedsub report {folder}` writes it where fedsub[run] is installed"
    points = entry_points(group=GROUP)
    if not points:
        log.warning("report: %s", later)
    for point in points:
        try:
            log.warning("%s: %s", point.name, point.load()(folder))
        except Exception as error:  # a package that is missing, or whatever another one raises
            said = f"{type(error).__name__}: {error}"
            log.warning("%s: not written (%s); %s", point.name, said, later)
