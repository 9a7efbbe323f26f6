"""Modules of one's own under the papers' methods."""

import pytest

from fedsub.testing import battery
from fedsub.testing.engine_tests import by_ray
from fedsub.testing.runs import RunMethod
from fedsub_core.errors import ConfigError
from fedsub_papers.tests.again import again
from fedsub_papers.tests.wing import WING
from tests.methods import test_modules as house

#: Their exits stand behind a layer of a chain.
OF_CHAINS = ("depthfl", "scalefl")


@pytest.mark.parametrize("name", OF_CHAINS)
def test_of_a_module_no_exits_are_known(name: str, run_method: RunMethod) -> None:
    why = "expected a chain such as mlp or cnn1d: .*early exits stand behind"
    with pytest.raises(ConfigError, match=why):
        run_method(name, rounds=2, model=house.place("convolved"))


TestModules = battery(
    *(name for name in WING if name not in OF_CHAINS), parts=(house.ModuleTests,), cover=True
)
test_what_stays_at_home = again(
    house.test_what_stays_at_home,
    ("name", "norm"),
    [("fedmef", norm) for norm in ("averaged", "local", "static")],
)
test_weak_devices_keep_their_norms_at_home = again(
    house.test_weak_devices_keep_their_norms_at_home, "name", ["fiarse", "framp"]
)
test_a_module_is_equal_in_every_engine = again(
    house.test_a_module_is_equal_in_every_engine,
    "engine, main, beside, module, norm",
    [(by_ray, "fedmef", ("fedrolex",), "convolved", "averaged")],
)
