"""The tests that every method of the table passes, for methods of other packages: fedsub[testing].

A package's own test file says which method it is about, and pytest finds the rest::

    from fedsub.testing import battery, engines

    TestMine = battery("mine")
    TestMineInEveryEngine = engines("mine")

:mod:`fedsub.testing.runs` runs rounds of a method for tests of one's own, and
:mod:`fedsub.testing.one_number` makes learners whose numbers can be worked out by hand.
"""

from importlib.resources import files

from fedsub_core.extras import require

require("fedsub.testing", "pytest")

import pytest  # noqa: E402

for _file in files(__name__).iterdir():
    if _file.name.endswith("_tests.py"):
        # What an assertion compared is then shown when it fails.
        pytest.register_assert_rewrite(f"{__name__}.{_file.name.removesuffix('.py')}")

from fedsub.testing.suite import battery, engines  # noqa: E402

__all__ = ["battery", "engines"]
