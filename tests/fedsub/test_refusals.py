"""An error is matched by its values: each must be named where it belongs, in whatever words."""

from typing import Any

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, DataError, MessageRefused

ERROR = ConfigError("run.toml: fedsub.depth: got 14, expected at most 3. Lower it")
MESSAGE = MessageRefused("p1", 3, "rows of layer 2", "9 rows", "8 of [0, 7]")


@pytest.mark.parametrize(
    ("error", "where", "fields"),
    [
        (ERROR, ["fedsub.depth", "run.toml"], {"got": 14, "expected": 3}),
        (MESSAGE, ["'p1'"], {"client": "p1", "round": 3, "what": "layer 2", "got": 9}),
        (MESSAGE, [], {"expected": ["[0, 7]", 8]}),
    ],
)
def test_values_that_are_named_pass(error: Exception, where: list[str], fields: Any) -> None:
    with refused(type(error), *where, **fields) as caught:
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "where", "fields"),
    [
        (ERROR, ["fedsub.dept"], {}),
        (ERROR, [], {"got": 4}),
        (ERROR, [], {"got": 3}),
        (ERROR, [], {"expected": 14}),
        (DataError("no such file"), [], {"got": 14}),
        (MESSAGE, [], {"client": "p"}),
        (MESSAGE, [], {"round": 2}),
        (MESSAGE, [], {"got": 8}),
    ],
)
def test_a_value_that_is_not_named_there_fails(
    error: Exception, where: list[str], fields: Any
) -> None:
    with pytest.raises(AssertionError, match="not named in"), refused(Exception, *where, **fields):
        raise error
