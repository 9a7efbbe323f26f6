"""Where weak devices hold parts, one of three whole ones does not decide what only these hold."""

from fedsub_papers.tests.again import again
from tests.methods import test_hostile_holders as house

#: Averaging alone. What else moves a number, another start than the last mean or a drift, is off.
#: AdaptiveFL draws who trains the whole model: where it is one alone, three times as far.
CASES = [
    *((name, {}, 1.2) for name in ("fedrolex", "feddrop", "fedmp", "fiarse", "scalefl")),
    *((name, {}, 1.2) for name in ("flexfl", "feddse", "flado")),
    ("subflot", {"ota": False, "otp": False}, 1.2),
    ("depthfl", {"feddyn": False}, 1.2),
    ("adaptivefl", {}, 3.0),
]
test_one_of_three_whole_devices_adds_no_more_than_another = again(
    house.test_one_of_three_whole_devices_adds_no_more_than_another, "name, hyper, most", CASES
)
