"""Units of the papers' models that stay or go together."""

from fedsub_core.models.coupling.groups import unit_groups
from fedsub_papers.models.images import resnet18
from fedsub_papers.tests.again import again
from tests.fedsub_core.models.coupling import test_groups as house


def test_a_residual_sum_makes_one_group_of_all_that_is_added() -> None:
    groups = unit_groups(resnet18((3, 8, 8), 5), (3, 8, 8))
    stem = next(group for group in groups if group.name == "conv1")
    made = [one.tensor for one in stem.members if one.tensor.endswith("weight") and not one.reads]
    assert made == ["conv1.weight", "bn1.weight"] + [
        f"layer1.{i}.{layer}.weight" for i in (0, 1) for layer in ("conv2", "bn2")
    ]
    read = {one.tensor: one.axis for one in stem.members if one.reads}
    assert read == {
        "layer1.0.conv1.weight": 1,
        "layer1.1.conv1.weight": 1,
        "layer2.0.conv1.weight": 1,
        "layer2.0.shortcut.0.weight": 1,
    }
    assert {"bn1.running_mean", "bn1.running_var"} <= {one.tensor for one in stem.members}


test_a_followed_pass_shows_what_a_chain_says = again(
    house.test_a_followed_pass_shows_what_a_chain_says, ("kind", "shape"), [("cnn2d", (1, 8, 8))]
)
