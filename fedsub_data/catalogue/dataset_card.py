"""A data set's card: source, licence, files, what a sample is and the classes."""

from dataclasses import dataclass

#: What a set that is no recording of people may hold, and the word for many of them.
MANY = {"image": "images", "tokens": "texts", "node": "nodes"}


@dataclass(frozen=True)
class Source:
    """Where a data set comes from, and on which terms.

    Parameters
    ----------
    page, licence, terms, citation : str
        The official page; the licence's name; what one agrees to, in words; what to cite.
    access : ``open`` (can be fetched), ``by-hand`` (a person downloads it from the page),
        ``credentialed`` (its owner grants access) or ``installed`` (comes with FedSub).
    apply : where to ask for access; credentialed only.
    file, sha256, bytes : the file beside the card; installed only.
    """

    page: str
    licence: str
    terms: str
    citation: str
    access: str
    apply: str | None = None
    file: str | None = None
    sha256: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class OfficialFile:
    """A file that can be fetched; size and sha256 are None where they are not known."""

    name: str
    url: str
    bytes: int | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class Signals:
    """Channels recorded together; the rate is None where every device has its own."""

    channels: tuple[str, ...]
    units: str
    place: str
    sampling_rate_hz: float | None = None


@dataclass(frozen=True)
class Labels:
    """The classes, label 0 first."""

    classes: tuple[str, ...]


@dataclass(frozen=True)
class Windowing:
    """How the recordings are cut by default, and what is computed of a window.

    `features` is None where a window stays as it is: channels first, ``x [n, channels, time]``.
    """

    window_s: float
    overlap: float
    time_ordered: bool
    features: str | None = None


@dataclass(frozen=True)
class Collection:
    """A set of images, texts or nodes of a graph, of which nobody knows the people.

    Parameters
    ----------
    kind : ``image``, ``tokens`` or ``node``, as in a federation's card.
    shape : of a sample, in words.
    count, classes : how many samples and classes the official files have. Cards whose classes are
        many leave their names to the files.
    parts : the clients of the federation that is prepared: official parts, or domains.
    """

    kind: str
    shape: str
    count: int
    classes: int
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Paper:
    """How the papers on FedSub used the data set."""

    use: str


@dataclass(frozen=True)
class Preparation:
    """The ``--source`` that ``fedsub data prepare`` needs, in words."""

    source: str


@dataclass(frozen=True)
class DatasetCard:
    """A data set's card: of recordings of people, or of a collection of images, texts or nodes.

    Parameters
    ----------
    name, task : its folder's name, and what is recognised.
    files : what ``fedsub data fetch`` downloads; empty unless access is open.
    people : how many people were recorded; of recordings, as the next three.
    signals, other_signals : what preparation reads by default, and what else was recorded.
    windowing : Windowing or None
    labels : None where a collection's own files name its classes.
    samples : of a collection; None of recordings.
    prepare : None where there is nothing to prepare.
    """

    name: str
    task: str
    source: Source
    paper: Paper
    people: int | None = None
    signals: Signals | None = None
    labels: Labels | None = None
    windowing: Windowing | None = None
    samples: Collection | None = None
    files: tuple[OfficialFile, ...] = ()
    other_signals: tuple[Signals, ...] = ()
    prepare: Preparation | None = None

    @property
    def holds(self) -> str:
        """How much there is, such as ``30 people`` or ``70,000 images``."""
        if self.samples is not None:
            return f"{self.samples.count:,} {MANY[self.samples.kind]}"
        return f"{self.people} people"

    @property
    def class_count(self) -> int:
        """Number of classes."""
        if self.labels is not None:
            return len(self.labels.classes)
        assert self.samples is not None  # one of both has them
        return self.samples.classes
