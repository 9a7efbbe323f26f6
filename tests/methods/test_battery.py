"""What holds for every method of the table."""

from fedsub.testing import battery
from fedsub.testing.round_tests import RoundTests
from fedsub_core.methods.table import HOUSE

#: It makes no mean that is everybody's.
PEERS = "fedamp"
TestEveryMethod = battery(
    *(name for name in HOUSE if name != PEERS), parts=(RoundTests,), cover=True
)
TestMethodOfPeers = battery(PEERS, parts=(RoundTests,), cover=True, makes_a_mean=False)
