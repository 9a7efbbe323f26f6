"""What the environment tells the programs of a deployment, and what they refuse."""

from typing import Any

import pytest

from fedsub.deploy import answering_supernode, warm_superexec
from fedsub.deploy.seconds import LOOK_SECONDS, WARM_SECONDS, read_seconds
from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError


@pytest.mark.parametrize(("said", "seconds"), [(None, 600.0), ("0", 0.0), ("5", 5.0), ("0.5", 0.5)])
def test_seconds_are_those_that_are_said(
    said: str | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(WARM_SECONDS, raising=False)
    if said is not None:
        monkeypatch.setenv(WARM_SECONDS, said)
    assert read_seconds(WARM_SECONDS, 600.0) == seconds


@pytest.mark.parametrize("said", ["", "soon", "-1", "nan", "inf", "0.2"])
def test_what_is_no_time_is_refused(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WARM_SECONDS, said)
    with refused(ConfigError, WARM_SECONDS, got=f"'{said}'", expected=["seconds", 0.3]):
        read_seconds(WARM_SECONDS, 600.0, 0.3)


def test_more_than_can_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOOK_SECONDS, "30")
    with pytest.raises(ConfigError, match=r"got '30', expected seconds, 0\.1 to 3$"):
        read_seconds(LOOK_SECONDS, 3.0, 0.1, 3.0)


@pytest.mark.parametrize(
    ("module", "program", "name", "said", "range_s"),
    [
        (warm_superexec, "fedsub-superexec", WARM_SECONDS, "soon", "0 or more"),
        (answering_supernode, "fedsub-supernode", LOOK_SECONDS, "0", "0.1 to 3"),
    ],
)
def test_a_program_says_so(
    module: Any, program: str, name: str, said: str, range_s: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, said)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == f"{program}: {name}: got {said!r}, expected seconds, {range_s}"
