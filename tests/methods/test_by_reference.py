"""Every method by references as by messages that are written."""

from fedsub.testing import battery
from fedsub.testing.message_tests import MessageTests
from fedsub_core.methods.table import HOUSE

TestEveryMethod = battery(*HOUSE, parts=(MessageTests,), cover=True)
