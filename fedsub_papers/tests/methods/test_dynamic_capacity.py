"""Capacities drawn anew in each round, for the papers' methods."""

from fedsub_papers.tests.again import again
from tests.methods import test_dynamic_capacity as house

test_each_round_everybody_sends_what_it_drew_for_it = again(
    house.test_each_round_everybody_sends_what_it_drew_for_it,
    "name",
    ["fedmp", "subflot", "fiarse", "framp"],
)
test_a_device_of_its_own_draws_as_a_stack_does = again(
    house.test_a_device_of_its_own_draws_as_a_stack_does, "name", ["feddrop"]
)
test_a_run_goes_on_to_the_same_numbers = again(
    house.test_a_run_goes_on_to_the_same_numbers, "name", ["fedrolex"]
)
