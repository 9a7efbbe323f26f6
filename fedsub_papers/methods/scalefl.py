"""ScaleFL: weak devices hold fewer layers, which are narrower too; the deepest exit teaches."""

from dataclasses import dataclass

from fedsub_core.method_parts.sub_models import SEES_SUB_MODELS, ascending_shares
from fedsub_core.methods.card import MethodCard, ReceivedHyperparameters
from fedsub_core.methods.card_parts import Training, WeakDevices
from fedsub_core.options import choice, option


@dataclass(frozen=True)
class ScaleFLHyperparameters(ReceivedHyperparameters):
    """The authors' code's, but for a weight of distillation that is not 0."""

    levels: str = option(
        "0.125,0.25,0.5,1",
        "capacities, ascending: a device with the l-th holds the model up to its l-th exit",
        pattern=r"[0-9.]+(,[0-9.]+)*",
        like="shares above 0, at most 1, with commas",
    )
    kd: float = option(
        0.05, "weight of the loss by which the deepest exit teaches the others", minimum=0
    )
    temperature: float = option(
        3.0, "temperature: logits are divided by it when exits teach", above=0
    )
    weights: str = choice(
        "clients", "examples", doc="weight of an upload in means: 1 for each client, or its samples"
    )

    def shares(self) -> tuple[float, ...]:
        """Return the capacities of the levels.

        Raises ConfigError if they do not ascend, or one is none.
        """
        return ascending_shares("scalefl.levels", self.levels)


def check(hyper: ScaleFLHyperparameters, rounds: int) -> None:
    """Raise a ConfigError where levels are none."""
    hyper.shares()


CARD = MethodCard(
    name="scalefl",
    idea="a weak device holds fewer and narrower layers, with a classifier (exit) at their "
    "end; the deepest exit teaches the earlier ones",
    paper="Ilhan et al., ScaleFL: Resource-Adaptive Federated Learning with Heterogeneous Clients, "
    "CVPR 2023",
    learner="fedsub_papers.client.methods.scalefl:ScaleFLLearner",
    strategy="fedsub_papers.strategies.methods.scalefl:ScaleFLServer",
    hyperparameters=ScaleFLHyperparameters,
    up="the device's part of the model and its exits",
    down="the device's part of the model and its exits",
    training=Training(ignores=("loss",)),
    weak=WeakDevices("model", "fedsub_papers.models.exits:scaled"),
    check=check,
    fixes_rounds=lambda hyper: bool(hyper.kd > 0),
    choose="Some devices cannot hold the model, it has several hidden layers (cnn1d, or an "
    "mlp with more: hidden = 128,128,256,512), and the weakest devices must predict fast.",
    privacy=SEES_SUB_MODELS,
    decisions=(
        "The model is a chain, such as mlp, cnn1d or a Sequential of such layers. Another module "
        "is refused, because where its forward pass could end early is not known.",
        "Each hidden layer but the last has an exit: channels are averaged to four positions, and "
        "one linear layer follows. The model's own output is the last exit.",
        "A device at the l-th of the levels holds the model up to the l-th exit. For this, a "
        "capacity between two levels counts as the lower. The device holds the same share of the "
        "units in each hidden layer: the largest multiple of 1/32 with which its part has at most "
        "c * c of all numbers. A device of capacity 1 holds everything.",
        "The loss is a mean over the exits that the device holds; the i-th exit has the weight i. "
        "The deepest exit teaches the others by a divergence, which is a mean over samples and "
        "classes, and has the weight of the exit that is taught. Teaching begins after the first "
        "quarter of the rounds.",
        "kd is 0 in the code for images and 0.05 for texts. With 0 the paper's second idea has no "
        "effect, so here it is 0.05.",
        "A number is averaged over the devices that hold it, an exit's number over those that "
        "trained it.",
        "The tested and used model ends at the deepest exit that the device holds, without the "
        "other exits.",
    ),
    errors=(
        "In the code, the loss by which the deepest exit teaches also trains the deepest exit. "
        "Here the teacher is a constant.",
    ),
)
