"""What a method's run begins with is refused where it does not fit."""

from fedsub.testing.cohort_tests import CARD, people
from fedsub.testing.refusals import refused
from fedsub_client.new_cohort import make_cohort
from fedsub_core.config.run_config import read_config
from fedsub_core.errors import ConfigError


def test_hyperparameters_that_do_not_fit_the_model_are_refused() -> None:
    config = read_config(None, {"fedsub.depth": 4})
    with refused(ConfigError, "fedsub.depth", got=4, expected=3):
        make_cohort(config.device_settings("fedsub"), CARD, people())
