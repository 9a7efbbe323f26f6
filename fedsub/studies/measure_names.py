"""Names of the numbers that a study's tables may show."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_server.method_summary import MethodSummary

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
#: Measures of how long it took until the mean over people first was as much.
TO_TARGET = (
    r"(?P<unit>rounds|seconds)-to-(?P<metric>macro-f1|weighted-f1|accuracy)-(?P<value>0?\.\d+|[01])"
)
#: Of a summary words, and what takes a second method in the same run.
_UNMEASURED = ("method", "tested", "encoding", "twin", "gain-over-twin", "worse-than-twin")
#: The other numbers of a summary, as files spell them.
SUMMARY = {
    key: f.name
    for f in fields(MethodSummary)
    if (key := f.name.replace("_", "-")) not in _UNMEASURED
}


def check_measure(path: Path, name: Any) -> str:
    """Return the name of a number of a summary, or of a metric that methods report."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _UNMEASURED:
        raise ConfigError(
            f"{path}: got the measure {name!r}, expected one of {', '.join(SUMMARY)} or a metric "
            "of a method, such as davies-bouldin"
        )
    if name.startswith(("rounds-to-", "seconds-to-")) and not re.fullmatch(TO_TARGET, name):
        raise ConfigError(
            f"{path}: got the measure {name!r}, expected rounds or seconds to a macro-f1, "
            "weighted-f1 or accuracy from 0 to 1, such as rounds-to-macro-f1-0.8"
        )
    return name
