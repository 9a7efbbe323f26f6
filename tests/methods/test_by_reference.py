"""Every method by references as by messages that are written."""

from __future__ import annotations

from fedsub.testing import battery
from fedsub.testing.cost_tests import ByReferenceTests
from fedsub_core.methods.table import METHODS

TestEveryMethod = battery(*METHODS, parts=(ByReferenceTests,))
