"""What a device checks of a sum's plan beside a download."""

import pytest
from flwr.app import ConfigRecord

from fedsub.testing.refusals import refused
from fedsub_client.protections.accepted_sum import accepted, least_of
from fedsub_core.config.settings import NoiseSettings, SecureSettings
from fedsub_core.errors import DataError, MessageRefused
from fedsub_core.secure.messages import SECURE, Name, Plan
from fedsub_core.secure.participant import Participant
from fedsub_core.turn import Turn
from fedsub_core.wire.exchange import Instructions


def test_a_plan_of_another_run_than_the_download_is_refused() -> None:
    """What was opened of a round is remembered by its run."""
    plan = Plan(Name(1, bytes(16), "another", "fedavg"), {}, 1, 1)
    content = {SECURE: ConfigRecord(plan.record())}
    told = Instructions(Turn(1, 2, 0), "fedavg", None, "run")
    with refused(
        MessageRefused,
        "'fedavg'",
        client="p",
        round=1,
        got="'another'",
        expected="'fedavg' of run 'run'",
    ):
        accepted(Participant("p", 3), content, told, SecureSettings(), NoiseSettings())


def test_a_plan_in_which_people_weigh_differently_is_refused_with_noise_on_means() -> None:
    """How much one adds would no longer be bounded by dp-clip."""
    plan = Plan(Name(1, bytes(16), "run", "fedavg"), {}, 2, 1)
    content = {SECURE: ConfigRecord(plan.record())}
    told = Instructions(Turn(1, 2, 0), "fedavg", None, "run")
    with refused(MessageRefused, what="weight", got=2, expected=[1, "dp-noise"]):
        accepted(Participant("p", 3), content, told, SecureSettings(), NoiseSettings(dp_noise=1.0))


@pytest.mark.parametrize("least", ["five", "5", 4.5, True, -1])
def test_an_owners_least_that_is_no_number_is_refused_by_name(least: object) -> None:
    with refused(DataError, "client 'p'", "node config", "secure-least"):
        least_of({"secure-least": least}, "p")
    assert (least_of({"secure-least": 5}, "p"), least_of({}, "p")) == (5, 0)
