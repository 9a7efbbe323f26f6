"""FedMef: one sparse global model, whose mask moves a few times."""

from dataclasses import dataclass

from fedsub_core.method_parts.phases import phase
from fedsub_core.methods.card import Cost, MethodCard, ReceivedHyperparameters
from fedsub_core.options import option
from fedsub_papers.methods.sparse import sparse_model, sparse_model_and_gradients


@dataclass(frozen=True)
class FedMefHyperparameters(ReceivedHyperparameters):
    """Defaults of CA-AFP's comparison: 50 rounds, the mask moved after rounds 10, 20 and 30."""

    sparsity: float = option(0.8, "share of each layer's weights that are zero", minimum=0, below=1)
    adjust_every: int = option(
        0, "rounds between two changes of the mask; 0 = a fifth of the run's rounds", minimum=0
    )
    adjustments: int = option(3, "how often the mask changes", minimum=0)
    rate: float = option(
        0.2, "share of a layer's active weights that a change prunes", minimum=0, below=1
    )
    lam: float = option(
        0.01,
        "weight of the pull to 0 of weights about to be pruned, in the rounds before a change",
        minimum=0,
    )
    grow: bool = option(True, "let a change grow as many weights as it prunes")

    @property
    def sparsity_at_first(self) -> float:
        """The sparsity of the first round's model."""
        return self.sparsity


def adjusts(hyper: FedMefHyperparameters, round: int, rounds: int) -> bool:
    """Return whether the mask moves after a round."""
    number, rest = divmod(round, phase(hyper.adjust_every, rounds, 0.2))
    return not rest and 1 <= number <= hyper.adjustments


def cost(hyper: FedMefHyperparameters, epochs: int) -> Cost:
    """Return FedAvg's: the arithmetic is dense, whatever the mask."""
    return Cost(epochs)


CARD = MethodCard(
    name="fedmef",
    idea="one sparse global model, whose mask is changed to the weights with large gradients",
    paper="Huang et al., FedMef: Towards Memory-efficient Federated Dynamic Pruning, CVPR 2024",
    learner="fedsub_papers.client.methods.fedmef:FedMefLearner",
    strategy="fedsub_papers.strategies.methods.fedmef:FedMefServer",
    hyperparameters=FedMefHyperparameters,
    up="the weights that are not masked out and their mask; before a move also all gradients",
    down="the weights that are not masked out and their mask",
    sends=sparse_model_and_gradients,
    receives=sparse_model,
    cost=cost,
    fixes_rounds=lambda hyper: not hyper.adjust_every,
    choose="Bytes and memory matter more than the last points of F1, and one model serves "
    "all: people who differ much need a personal method.",
    privacy="The server sees each person's sparse model after training, and in a few rounds the "
    "gradient of one batch, from which samples are easier to guess than from a model. Other "
    "devices see only means.",
    decisions=(
        "The paper also prunes activations, which needs its own convolutions: left out.",
        "Every layer has the same sparsity, drawn at random; biases stay dense.",
        "Weights grow only where there was none before the change, and start at 0.",
        "The mask is sent both ways, with one bit for each weight (0.031 of a model), so "
        "device and server need not remember the same one. At the default sparsity, 0.23 of a "
        "model is sent each way, and 1 more is uploaded in each of the three rounds before a "
        "change.",
        "The last batch gradient is that of the trained model, on a batch from a random "
        "stream of its own.",
    ),
    errors=(
        "CA-AFP's comparison never regrew: three prunings of its two dense layers without growth "
        "leave 232 of 2,240 weights, exactly its printed sparsity of 89.64 %; grow = false "
        "reproduces that.",
    ),
)
