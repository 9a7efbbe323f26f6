"""What can be chosen of each data set's preparer, apart from what prepares."""

from dataclasses import dataclass

from fedsub_core.options import choice, option


@dataclass(frozen=True)
class AGNewsOptions:
    """How AG News' texts become token ids."""

    length: int = option(
        128,
        "number of ids in a text, of words and bigrams; later words are dropped",
        minimum=1,
        maximum=4096,
    )
    words: int = option(8192, "number of ids that words are hashed to", minimum=16, maximum=2**19)
    bigrams: int = option(
        8191,
        "number of ids that bigrams are hashed to; 0: no bigrams",
        minimum=0,
        maximum=2**19 - 1,
    )


@dataclass(frozen=True)
class CIFAR100Options:
    """Which of CIFAR-100's labels are the classes."""

    labels: str = choice(
        "fine", "coarse", doc="the 100 fine classes, or the 20 coarse ones that they belong to"
    )


@dataclass(frozen=True)
class DigitsOptions:
    """How many digits each domain has."""

    samples: int = option(
        1797, "number of digits in each domain; scikit-learn has 1,797", minimum=10, maximum=1797
    )
    seed: int = option(0, "seed of patches, fonts and colours", minimum=0, maximum=2**31 - 1)


@dataclass(frozen=True)
class PACSOptions:
    """How large PACS' pictures are made."""

    size: int = option(
        64, "width and height in pixels; the official ones are 227", minimum=8, maximum=227
    )


@dataclass(frozen=True)
class TinyImageNetOptions:
    """How much of TinyImageNet is taken."""

    per_class: int = option(
        0,
        "number of training images of each class, from the first on; 0: all 500",
        minimum=0,
        maximum=500,
    )


@dataclass(frozen=True)
class GraphOptions:
    """How papers' words become features."""

    words: str = choice(
        "shares",
        "binary",
        doc="each word's share of its paper's words, as in Kipf and Welling, or 0 and 1",
    )

    @property
    def units(self) -> str:
        """What a feature's value is, in words."""
        return "share of words" if self.words == "shares" else "0 or 1"
