"""What each part of a run is handed of its configuration: its own settings and no others.

An option is declared here, once, where it is used. The run's configuration inherits these, and the
command line, TOML files and Flower's run config read it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from fedsub_core.config.going_on import GoingOnSettings
from fedsub_core.config.own_training import SGD, OwnTraining
from fedsub_core.config.participation import ParticipationSettings
from fedsub_core.config.schedules import CONSTANT, rate_factor
from fedsub_core.config.tested import SplitSettings as SplitSettings
from fedsub_core.config.tested import TestedSettings, UnseenSettings
from fedsub_core.models.names import HIDDEN
from fedsub_core.options import choice, option, text_option


@dataclass(frozen=True)
class EndSettings:
    """Early stopping on validation parts, and a function of one's own."""

    patience: int = option(
        0,
        "rounds after which a method ends early, if people's best validation macro F1 so far rose "
        "by less than 0.001 on average, or of a target their error fell by less than 0.1 %; needs "
        "best-by = validation; 0: all rounds are run",
        minimum=0,
    )
    on_round: str = option(
        "",
        "my.py:function or package.module:function that the server calls after each round with its "
        "numbers; where it returns True, the method ends; if left out, none",
    )


@dataclass(frozen=True)
class ModelSettings:
    """What is trained, on what: both halves of a method go by it."""

    model: str = text_option(
        "auto",
        "one of `fedsub models`, an installed one, package.module:builder or file.py:builder; "
        "auto: mlp for features, cnn1d for raw windows, cnn2d for images, fasttext for token ids",
    )
    hidden: str = option(
        HIDDEN, "units of each hidden layer of mlp, with commas; '': no hidden layer"
    )
    norm: str = choice(
        "averaged",
        "local",
        "static",
        doc="running statistics of a module's norms; averaged: the mean over people; local: norm "
        "layers stay on the device, as in FedBN; static: the batch's in training, in tests those "
        "of the person's training part",
    )
    encoder: str = text_option(
        "auto",
        "fixed features, the model's input: none, kernels:N of windows, ranks:N or relu:N of "
        "vectors, or a module, file.py:builder, also with @weights.safetensors; auto: as the "
        "method's page says",
    )
    standardise: str = choice(
        "federation-median",
        "federation",
        "client",
        "none",
        doc="whose training parts give mean and standard deviation; "
        "federation-median: everybody's, by medians, which one lying device cannot move; "
        "federation: everybody's, by sums; client: each person's own",
    )


@dataclass(frozen=True)
class TrainingSettings(OwnTraining):
    """How a device trains in a round; a partial last batch is kept."""

    epochs: int = option(1, "passes over a client's data in a round", minimum=1)
    steps: int = option(
        0,
        "number of steps in a round, instead of epochs: the same for everybody, however many "
        "samples they have; a method's own phases do not change; 0: by epochs",
        minimum=0,
        maximum=10**6,
    )
    lr: float = option(0.005, "learning rate", above=0)
    lr_decay: float = option(
        1.0, "factor by which the learning rate changes from round to round", above=0
    )
    momentum: float = option(0.9, "momentum of SGD, reset every round", minimum=0, below=1)
    weight_decay: float = option(0.0, "weight of the L2 penalty in the gradient", minimum=0)
    clip_norm: float = option(
        0.0, "largest L2 norm of a client's gradient; 0 = no limit", minimum=0
    )
    batch_size: int = option(32, "samples in a step", minimum=1, maximum=65536)

    def plain(self) -> TrainingSettings:
        """Return the settings with steps ``p - lr * gradient``, whatever the run's optimiser."""
        return replace(self, optimiser=SGD, momentum=0.0, weight_decay=0.0, clip_norm=0.0)

    def rate(self, round: int) -> float:
        """Return the learning rate of a round, from 1."""
        lr = self.lr if self.lr_decay == 1 else self.lr * self.lr_decay ** (round - 1)
        return lr if self.schedule == CONSTANT else lr * rate_factor(self.schedule, round)


@dataclass(frozen=True)
class RoundSettings(ParticipationSettings, EndSettings, GoingOnSettings, TestedSettings):
    """How many rounds, with whom, and how patiently."""

    rounds: int = option(60, "number of rounds", minimum=1)
    evaluate_every: int = option(
        0,
        "number of rounds from one evaluation to the next; 0: 1, but 5 over a network where the "
        "method tests the common model, as its devices are else asked twice a round",
        minimum=0,
    )
    round_timeout: float = option(600.0, "how many seconds a round waits for its clients", above=0)
    quorum: float = option(
        0.5, "share of a round's clients that must send a usable upload", minimum=0, maximum=1
    )
    min_clients: int = option(
        1, "number of clients that must be connected before a round begins", minimum=1
    )
    join_timeout: float = option(
        0.0,
        "how many seconds without a sign of life to wait for min-clients; 0: for ever, with a line "
        "in the log each minute",
        minimum=0,
    )
    identity: str = choice(
        "keys",
        "open",
        doc="keys: a device acts only for the client id under which its key was registered, or "
        "else for the first that it used; open: keys are not checked",
    )

    @property
    def unseen(self) -> UnseenSettings | None:
        """People held out, None where nobody is."""
        held = UnseenSettings(self.unseen_share, self.unseen_rounds, self.unseen_by, self.kept_out)
        return held if self.split == "unseen" else None

    def evaluated(self, round: int) -> bool:
        """Return whether everybody's model is tested after a round."""
        return round % max(1, self.evaluate_every) == 0 or round == self.rounds


@dataclass(frozen=True)
class NoiseSettings:
    """Noise on the means that leave the server: central differential privacy of people."""

    dp_noise: float = option(
        0.0,
        "deviation of the Gaussian noise on sums over people, over what one person adds at most "
        "(the noise multiplier): the more, the less whoever sees means learns of any person; 0: "
        "none; for methods that average; needs robust = none, standardise = client or none, and "
        "fedsub[privacy] on the server",
        minimum=0,
    )
    dp_clip: float = option(
        1.0,
        "largest L2 norm of a person's change of the model in a round with dp-noise; longer ones "
        "are shortened",
        above=0,
    )
    dp_delta: float = option(
        1e-5, "delta at which the epsilon of dp-noise is reported", above=0, below=1
    )

    @property
    def longest(self) -> float:
        """The largest L2 norm of a person's change; infinite without noise."""
        return self.dp_clip if self.dp_noise else inf


@dataclass(frozen=True)
class SecureSettings:
    """Whether a server learns sums of people's uploads alone, and of how many."""

    secure_aggregation: bool = option(
        False,
        "the server learns sums of people's uploads, but no single upload; for methods that need "
        "no more; needs robust = none and float32 encodings",
    )
    secure_least: int = option(
        3, "smallest number of people in a sum; with fewer no sum is opened", minimum=3
    )
    secure_range: float = option(
        8.0,
        "largest change of a number in a round under secure aggregation; larger ones are clipped",
        above=0,
    )
