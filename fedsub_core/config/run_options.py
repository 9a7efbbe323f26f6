"""Options that belong to a run as a whole, to no single part of it."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.config.robust import RobustSettings
from fedsub_core.options import choice, option, text_option
from fedsub_core.wire.encoding import WireSettings


@dataclass(frozen=True)
class RunAsked:
    """What is run."""

    data: str = text_option("watch", "a federation's folder, or 'watch' for the built-in one")
    method: str = text_option("fedsub", "the method to train")
    beside: str = option(
        "local,fedavg",
        "methods to train as well, for comparison, with commas; '': no others",
    )


@dataclass(frozen=True)
class RunOptions:
    """How a run computes, what its messages look like, and what it writes."""

    sizes: str = option(
        "",
        "shares, such as 1,1/2,3/8: at the end of a simulation, everybody is also tested with the "
        "common model of each size, even of sizes that nobody trained; if left out, with no other "
        "size",
    )
    class_counts: bool = option(
        True,
        "devices send a confusion matrix of their test samples for the report, for up to 50 "
        "classes; false: they do not send it",
    )
    device: str = choice(
        "auto", "cpu", "cuda", doc="where to compute; auto: cuda if there is a GPU"
    )
    threads: int = option(0, "number of threads; 0 = all cores", minimum=0)
    checkpoint_seconds: float = option(5.0, "seconds between two saved states", minimum=0)
    whole_rounds: int = option(
        250,
        "number of newest rounds whose metrics are kept whole in a run of more than four times as "
        "many; of older rounds, the fewer the older they are; 0: all rounds of all runs",
        minimum=0,
    )
    upload_encoding: str = option(
        "float32",
        "encodings of uploads, with commas: float32, bfloat16, int8, delta, top-k:SHARE, zstd",
    )
    download_encoding: str = option("float32", "encodings of downloads: the same, without top-k")
    message_limit: int = option(
        WireSettings.limit,
        "largest size of a message in bytes; 0 = computed from the model",
        minimum=0,
    )
    largest_number: float = option(
        WireSettings.largest, "largest absolute value of a number in a message", above=0
    )
    robust: str = option(
        "clip",
        "filters on uploads before the server uses them: none, or, with commas, clip, multi-krum, "
        "and either trimmed-mean or median",
    )
    robust_share: float = option(
        RobustSettings.share,
        "share of clients that multi-krum leaves out, or trimmed-mean at either end",
        minimum=0,
        below=0.5,
    )
    most_examples: float = option(
        RobustSettings.most_examples,
        "how many samples of one client count in a mean at most, as a multiple of the round's "
        "median; 0 = no limit",
        minimum=0,
    )
    out: str = text_option("runs", "folder in which the run's folder is created")
    folder: str = option(
        "",
        "for `flwr run` only: the run's folder; if it has a run already, that run is resumed; if "
        "left out, a new folder in out",
    )
