"""CPU seconds of tests and of all processes that they start: `make cpu` writes them, by file.

Wall time says more of who else computes. A process that a file's tests share counts where it ends.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import pytest

CPU, STARTED = "CPU seconds", pytest.StashKey[float]()
#: How many of the dearest tests are printed.
DEAREST = 10


def spent() -> float:
    """Return CPU seconds of this process and of all that it started and that have ended."""
    used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the file that is written."""
    parser.addoption("--cpu-seconds", type=Path, help="a CSV file of CPU seconds by test file")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Note what was spent before a test."""
    item.stash[STARTED] = spent()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    """Send what a test spent with its last report, from whichever worker."""
    if call.when == "teardown":
        now = spent()
        item.user_properties.append((CPU, now - item.stash.get(STARTED, now)))
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send what a worker spent in all: also on its imports and on finding tests."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output[CPU] = spent()


class Account:
    """What tests spent, by their names; and what workers spent in all."""

    def __init__(self) -> None:
        self.tests: dict[str, float] = {}
        self.workers = 0.0

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Note what a worker spent that ends."""
        self.workers += getattr(node, "workeroutput", {}).get(CPU, 0.0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what a test spent."""
        if report.when == "teardown":
            self.tests[report.nodeid] = dict(report.user_properties)[CPU]  # type: ignore[assignment]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sum and the dearest tests; write the file."""
        by_file: dict[str, list[float]] = defaultdict(list)
        for name, seconds in self.tests.items():
            by_file[name.partition("::")[0]].append(seconds)
        own = getrusage(RUSAGE_SELF)
        # Workers that have ended are children of this process, too: they count once.
        whole = self.workers + own.ru_utime + own.ru_stime if self.workers else spent()
        terminalreporter.section(f"{whole:.0f} CPU seconds")
        for name in sorted(self.tests, key=self.tests.__getitem__)[: -DEAREST - 1 : -1]:
            terminalreporter.write_line(f"{self.tests[name]:7.1f} {name}")
        if path := terminalreporter.config.getoption("--cpu-seconds"):
            rows = sorted((-sum(of), file, len(of)) for file, of in by_file.items())
            with path.open("w", encoding="utf-8", newline="") as opened:
                writer = csv.writer(opened, lineterminator="\n")
                writer.writerow(("tests of", "tests", "CPU seconds"))
                writer.writerow(("all, with what finds them", len(self.tests), f"{whole:.1f}"))
                writer.writerows((file, n, f"{-seconds:.1f}") for seconds, file, n in rows)


def pytest_configure(config: pytest.Config) -> None:
    """Let the process that prints add up."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Account())
