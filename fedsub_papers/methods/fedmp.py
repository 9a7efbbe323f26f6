"""FedMP: weak devices hold the units with the largest weights."""

from fedsub_core.method_parts.sub_models import sub_model_card

CARD = sub_model_card(
    name="fedmp",
    idea="a weak device trains the units with the largest L1 norm; in means, numbers that it "
    "did not receive count with their old values",
    paper="Jiang et al., FedMP: Federated Learning through Adaptive Model Pruning in Heterogeneous "
    "Edge Computing, ICDE 2022",
    strategy="fedsub_papers.strategies.methods.fedmp:FedMPServer",
    choose="As heterofl, if weak devices are few and the model has trained for a while: they "
    "get its most important units.",
    decisions=(
        "A unit's score is the sum of the absolute weights into it, in the global model of the "
        "round; of equal ones the first are kept.",
        "A number that a device does not hold counts in the mean with its value from before "
        "the round (the paper's R2SP).",
        "How much is pruned is the device's capacity. The paper's bandit, which finds it from "
        "times, is left out.",
    ),
)
