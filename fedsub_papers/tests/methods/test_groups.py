"""Groups of people, as CA-AFP makes them."""

from fedsub_papers.tests.again import again
from tests.methods import test_groups as house

test_whoever_comes_later_joins_the_nearest_group = again(
    house.test_whoever_comes_later_joins_the_nearest_group,
    "name, division",
    [("caafp", {"k_selection": "fixed:2", "dense_rounds": 1})],
)
test_the_model_of_a_group_of_one_goes_with_it = again(
    house.test_the_model_of_a_group_of_one_goes_with_it, "name", ["caafp"]
)
test_a_forgotten_member_is_in_no_group = again(
    house.test_a_forgotten_member_is_in_no_group, "name", ["caafp"]
)
test_more_groups_than_clients_are_refused = again(
    house.test_more_groups_than_clients_are_refused, "name", ["caafp"]
)
test_phases_longer_than_the_run_are_refused = again(
    house.test_phases_longer_than_the_run_are_refused,
    "keys, said",
    [
        ({"method": "caafp", "caafp.cluster-round": 9}, "caafp.cluster-round: got a phase"),
        ({"method": "caafp", "caafp.dense-rounds": 8}, "caafp.dense-rounds: got phases of 2 and 8"),
    ],
)
