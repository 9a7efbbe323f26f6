"""What holds for every method holds for the papers'."""

from fedsub.testing import battery, engines
from fedsub_core.methods.table import METHODS
from fedsub_papers.tests.wing import WING
from tests.methods.test_engines import unlike

TestEveryMethod = battery(*WING, cover=True)
TestEveryEngine = engines(*(name for name in unlike(METHODS) if name in WING))
