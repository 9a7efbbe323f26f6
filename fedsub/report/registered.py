"""The report, as the server looks it up at the end of a run (fedsub_server/app.py)."""

from pathlib import Path

from fedsub.report.report import write_report


def write_registered(folder: Path) -> Path:
    """Write the report into a run's folder; return its path."""
    return write_report(folder)[0]
