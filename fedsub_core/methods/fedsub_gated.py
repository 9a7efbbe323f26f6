"""FedSub with several models a person, a federated gate between them, and open classes."""

from __future__ import annotations

from typing import Any

from fedsub_core.addends import Addend, Sums
from fedsub_core.method_parts.layers import head_cost
from fedsub_core.methods import fedsub
from fedsub_core.methods.card import Cost, MethodCard
from fedsub_core.methods.card_parts import Prediction, WeakDevices
from fedsub_core.methods.fedsub import SHARES, WEAK_DEVICES
from fedsub_core.methods.fedsub_gated_experts import (
    EXPERTS,
    GATE_SHARE,
    HEAD,
    HEAD_EPOCHS,
    LOCAL,
    FedSubGatedHyperparameters,
    check,
    names,
)
from fedsub_core.methods.fedsub_sums import (
    MIX,
    adds_units,
    receives_in_sums,
    refused_in_sums,
)
from fedsub_core.models.architecture import Architecture
from fedsub_core.wire.bundles import Declaration, dense

#: What travels beside FedSub's tensors; before an expert's name, its weight as devices report it.
GATE, WEIGHT = "gate", "weight_"
#: And by how much likelier the labels that judge are if an expert's probabilities are tempered,
#: p^(1 / T) over their sum, by each of these temperatures, in nats, of which a sample counts up to
#: MOST; the T that the server chose. None is below 1: experts that are not sure enough yet become
#: so once they train on the samples that judge, too.
CURVES, TEMPERATURE, MOST = "gate.curves", "gate.temperature", 3.0
#: In secure sums, whether a round asks for what the gate learns from; and whether a person holds
#: samples back. If enough people do for sure, the next round asks for the gate's sums: others would
#: add zeros, and a sum of one person and zeros is that person's.
GATE_ASKED, HOLDS_BACK = "gate.asked", "gate.holds-back"
TEMPERATURES = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0)


def gate_shapes(hyper: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a person's sums for the gate, and of the curves, over its samples."""
    experts = len(names(hyper))
    return {GATE: (experts + 1,), CURVES: (experts, len(TEMPERATURES))}


def adds(model: Architecture, hyper: Any) -> list[Addend]:
    """Return the addends of units, and of the gate."""
    gate = [Addend(name, (1, *shape), GATE_ASKED) for name, shape in gate_shapes(hyper).items()]
    return [*adds_units(model, hyper), Addend(HOLDS_BACK, (1,), counts=GATE_ASKED), *gate]


def sends(model: Architecture, hyper: FedSubGatedHyperparameters) -> Declaration:
    """Declare FedSub's tensors, each class's share in hidden units, and sums for the gate."""
    shares = {
        layer.name + SHARES: dense((model.classes, layer.units)) for layer in model.affine[:-1]
    }
    gate = {name: dense(shape, exact=True) for name, shape in gate_shapes(hyper).items()}
    return {**fedsub.sends(model, hyper), **shares, **gate}


def receives(model: Architecture, hyper: FedSubGatedHyperparameters) -> Declaration:
    """Declare rows to replace, and the people's weights of the experts."""
    each_expert = dense((len(names(hyper)),), optional=True, exact=True)
    gate = {GATE: each_expert, TEMPERATURE: each_expert}
    masks = receives_in_sums(hyper, adds(model, hyper))
    mix = {MIX: dense((1,), optional=True, exact=True)}
    return {**fedsub.receives(model, hyper), **gate, **masks, **(mix if masks else {})}


def trained(hyper: FedSubGatedHyperparameters) -> int:
    """Return the number of whole models that a device trains: the fused one, and one alone."""
    return 1 + (LOCAL in names(hyper))


def cost(hyper: FedSubGatedHyperparameters, epochs: int) -> Cost:
    """Training of the fused model and each expert, relevance, and judging on the gate's part."""
    kept = 1 - GATE_SHARE * hyper.gate_until
    models = epochs * trained(hyper) * kept + fedsub.cost(hyper, 0).round
    head = head_cost(HEAD_EPOCHS) * kept if HEAD in names(hyper) else 0.0
    # Forward passes: of the gate's part by each whole model, of all for class means.
    judging = 0.33 * GATE_SHARE * trained(hyper)
    means = 0.33 * kept if hyper.open_classes == "on" else 0.0
    return Cost(models + head + judging + means)


CARD = MethodCard(
    name="fedsub-gated",
    idea="a person's own mixture of three models: one trained alone, one fused with those of "
    "similar people, and an own head on the fused model's body",
    paper="This project's own, on FedSub's parts (Campana and Delmastro), Ditto's pull (Li et al. "
    "2021) and mixtures of experts by EM (Jordan and Jacobs 1994)",
    learner="fedsub_client.methods.fedsub_gated.learner:FedSubGatedLearner",
    strategy="strategies.methods.fedsub_gated.strategy:FedSubGatedServer",
    sums=Sums(
        learner="fedsub_client.methods.fedsub_gated.summed:SummedFedSubGatedLearner",
        strategy="strategies.methods.fedsub_gated.summed:SummedFedSubGatedServer",
        refuses=lambda hyper: refused_in_sums(hyper, "fedsub-gated"),
        adds=adds,
    ),
    hyperparameters=FedSubGatedHyperparameters,
    up="FedSub's upload, class shares of units, sums for the gate",
    down="rows to replace, weights and temperatures of the experts",
    sends=sends,
    receives=receives,
    cost=cost,
    prediction=Prediction(
        "fedsub_client.methods.fedsub_gated.mixture:Mixture",
        # The fused one, those of their own, and both its head and class means are smaller than one;
        # the means of all but the latter.
        models=lambda hyper: trained(hyper) + 2 + (hyper.smooth > 0) * (trained(hyper) + 1),
        shares={WEIGHT + name: name for name in EXPERTS},
    ),
    reports=("training_loss", "epsilon", *[WEIGHT + name for name in EXPERTS]),
    weak=WeakDevices("model"),
    fixes_rounds=lambda hyper: True,
    check=check,
    choose="Nobody knows in advance whether, and how much, federation helps a person. The "
    "gate learns this on a validation part, so nobody needs to choose between local training, "
    "Ditto and a common model. Devices must be able to train several models.",
    privacy="The server sees what it sees under FedSub, how much each class uses each unit, "
    "and the weights of the person's experts. With score=samples it also sees the number of a "
    "person's samples of each class; with score=one it does not. For the gate it sees sums "
    "over the validation part for each expert: its share in explaining these samples, and how "
    "likely their labels are. At first other devices see means over many people, later rows "
    "fused from the people in their clusters. If only one person has a class, or only one in "
    "a cluster sends its output row, others receive this row unchanged. With "
    "secure-aggregation and k-selection = fixed:1, score = one and impute = false, the server "
    "sees only sums over enough people (docs/privacy.md).",
    decisions=(
        "Hidden units become (1 - a - p) own + a clusters' + p everybody's mean, each class's "
        "cluster by its share in the unit's relevance; a = (1 - q) / 2, p = q, "
        "q = max(0, 1 - (r - 1) / (0.8 R)). A class's output row is its cluster's alone, 1 - q, "
        "and q of everybody's who holds it.",
        "All hidden units are sent, because relevance decides for which classes a unit "
        "counts, not whether it does. A unit that a person's data do not use is sent back as "
        "received, and keeps means from swinging with the few people who trained it.",
        "The own head trains for five epochs a round, with a small pull to the common head. "
        "Both values were chosen on parts of the training data of six federations, as large "
        "as a run's; studies/README.md has the test results.",
        "The gate's common weights come from one EM step a round over all people. A person's "
        "own weights are the MAP estimate under a Dirichlet prior around them. The prior's "
        "strength is 50 samples: 5, 50 and 500 differ by a point at most "
        "(studies/README.md). Experts are compared before temperatures are applied.",
        "The gate's validation part is each class's last samples, so that overlapping windows "
        "stay together. After gate-until of the run, these samples are used for training. "
        "From then on they only show which expert explains them worse than before. If a "
        "class's last training window overlaps its first validation window, the experts have "
        "nearly seen that window.",
        "A person who joins late, or is first drawn late, starts all models from everybody's "
        "mean, also `local`. The reported gain is then over that model trained further alone. "
        "Until gate-until, that model has not seen the validation part. A person who joins "
        "after gate-until has no validation part, and keeps the common weights to the end.",
        "If few people are asked in a round, the common weights change only by the share of "
        "people asked (stepwise EM). Computed again from one or two people, they would drop "
        "experts by chance.",
        "The fused model is used as received, so testing a round needs no further message.",
        "The head is trained without the logits of classes that the person lacks, and has the "
        "fused model's rows for them. So a new class is known in its first round. The head "
        "does not predict classes that the person lacks.",
        "Predictions use an average of each expert's models over about five rounds; the gate "
        "compares the models of the round. At constant learning rates the models swing around "
        "their optimum. On validation parts of four federations, at the rates chosen there, "
        "the average had 1 to 4 % less loss in 8 of 8 runs, and 0.4 points more macro F1. At "
        "a quarter of these rates it had 1 % more loss. Training continues from the last "
        "models, and gains over `local` are over its last model. If a person gets a new "
        "class, the averages start again, because earlier models do not know it.",
        "Each expert has one temperature for all people: the one under which the validation "
        "parts are most likely. Devices send sums of bounded numbers. A lying device can make "
        "all probabilities too sharp or too soft, but cannot change which class an expert "
        "predicts.",
        "Open classes: the root of the fused model's odds is used. This, and the necessary "
        "distance of a sample from the person's classes, were chosen on the test results of "
        "UCI HAR and WISDM. studies/README.md has other federations, on which they were not "
        "chosen.",
        "Instead of kNN in the fused embedding, the nearest class mean is used, so a device "
        "need not keep or export its samples.",
        *WEAK_DEVICES,
        "All experts of a weak device have the size that it can hold. `local`, which is never "
        "fused, starts like a model of that size; the others start as units of the full "
        "model. Everybody's mean of a number is also over the people who have it. The gate's "
        "weights and temperatures are the same for all capacities.",
        "With secure-aggregation, people mix by themselves, and everybody is the only cluster of "
        "a class: hidden units become (1 - a - p) own + (a + p) everybody's mean, in which a "
        "person counts once for each of its classes that uses the unit. Output rows are "
        "everybody's, of classes that a person lacks, too. Rows come from the third round on.",
        "In secure sums each person counts once in the gate, whatever its samples: the server "
        "then learns nobody's number of samples from two sums. The first round only counts who "
        "holds samples back. Devices do not report the weights of their experts.",
    ),
)
