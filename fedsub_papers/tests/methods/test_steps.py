"""Local work counted in steps, under a mask."""

from fedsub_papers.tests.again import again
from tests.methods import test_steps as house

test_as_many_steps_as_an_epoch_has_are_an_epoch = again(
    house.test_as_many_steps_as_an_epoch_has_are_an_epoch, "name", ["fiarse"]
)
