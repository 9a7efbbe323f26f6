"""What a run names of training: loss, optimiser, schedule, augmentation and precision."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.options import choice, option, text_option

#: The rules that are ours, for whole stacks of clients; and the loss that kernels know.
SGD, ADAM, CROSS_ENTROPY = "sgd", "adam", "cross-entropy"
#: The losses of a target: a run with one of them is a regression.
SQUARED, HUBER = "squared", "huber"


def of_target(loss: str) -> bool:
    """Return whether a loss, however it is written, is one of a target."""
    return loss.partition("(")[0].strip() in (SQUARED, HUBER)


@dataclass(frozen=True)
class OwnTraining:
    """The loss, the optimiser, the schedule of its rate, augmentation and precision."""

    loss: str = text_option(
        CROSS_ENTROPY,
        "loss of local training: cross-entropy(weights=, smoothing=), focal(gamma=, weights=), or "
        "my.py:function or package.module:function of logits [n, classes] and classes [n], which "
        "returns a number or [n]; weights: balanced, or one for each class; of data with a target "
        "(regression) squared, or huber(delta=), a share of half the target's range",
    )
    optimiser: str = text_option(
        SGD,
        "optimiser of local training: sgd, adam, or any of torch.optim with its arguments, such as "
        "AdamW(weight_decay=0.01); its state begins anew in each round",
    )
    schedule: str = text_option(
        "constant",
        "factor of the learning rate over rounds: constant, cosine(rounds=60), linear(rounds=60), "
        "steps(at=(30, 45), factor=0.1), warmup(rounds=5), or several with commas",
    )
    augment: str = option(
        "",
        "random changes of training samples, with commas: jitter(sigma=), scale(sigma=), rotate(), "
        "time-warp(sigma=), channel-drop(share=), or my.py:function of x [n, *features] and a "
        "torch.Generator; of samples as the model sees them; if left out, none",
    )
    precision: str = choice(
        "float32",
        "bfloat16",
        doc="numbers of forward passes in training; bfloat16: mixed precision, on a GPU alone",
    )

    @property
    def regression(self) -> bool:
        """Whether a target is learnt, a number in the place of classes."""
        return of_target(self.loss)

    @property
    def rule(self) -> str:
        """``sgd`` or ``adam`` where the optimiser is ours, however it is written; else its text."""
        plain = self.optimiser.lower()
        return plain if plain in (SGD, ADAM) else self.optimiser
