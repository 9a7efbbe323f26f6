"""Which samples and people are tested: a split of everybody's samples, or people held out."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.options import choice, option

#: The number of a fold, from 1, and how many there are.
Fold = tuple[int, int]
#: Of whom people are held out: see :func:`fedsub_core.data.held_out.unseen_clients`.
UNSEEN_BY = ("people", "capacity", "smallest")


def read_people(text: str) -> tuple[str, ...]:
    """Return the ids of a text with commas, each once, ascending."""
    return tuple(sorted({name.strip() for name in text.split(",")} - {""}))


@dataclass(frozen=True)
class TestedSettings:
    """What is tested: samples of everybody, or people who join late; and the run's seed."""

    split: str = choice(
        "auto",
        "stratified",
        "blocked",
        "grouped",
        "given",
        "unseen",
        doc="how test samples are chosen; stratified: at random, as in the paper; blocked: in "
        "time; grouped: whole recordings, days or sessions that files name; given: as files say; "
        "unseen: some people train in the last rounds alone; auto: grouped if files name some, "
        "else blocked if windows may overlap or have an order",
    )
    unseen_share: float = option(0.2, "share of clients that unseen keeps out", above=0, below=1)
    unseen_by: str = choice(
        *UNSEEN_BY,
        doc="whom split=unseen keeps out of training: that share of all people; of each capacity; "
        "or all people of the smallest capacity",
    )
    unseen_people: str = option(
        "", "people whom split=unseen keeps out, by their ids with commas, instead of a share"
    )
    unseen_labels: int = option(
        0, "training samples of each class that unseen-people have; 0 = all", minimum=0
    )
    unseen_rounds: int = option(5, "number of last rounds, in which unseen clients join", minimum=1)
    fold: str = option(
        "",
        "which of how many folds is tested, such as 1/5, instead of test-share; no sample, "
        "recording, day or session is in two, and a class too small to be divided is in none",
        pattern=r"|[1-9]\d{0,5}/[1-9]\d{0,5}",
        like="a fold of several, such as 1/5",
    )
    seed: int = option(0, "seed of all random numbers of the run", minimum=0, maximum=2**63 - 1)

    @property
    def kept_out(self) -> tuple[str, ...]:
        """The people of ``unseen-people``, each once, ascending."""
        return read_people(self.unseen_people)

    @property
    def tested_fold(self) -> Fold | None:
        """The number of the tested fold, from 1, and of all; None without folds."""
        number, slash, of = self.fold.partition("/")
        return (int(number), int(of)) if slash else None


@dataclass(frozen=True)
class SplitSettings(TestedSettings):
    """How each client's samples are split."""

    test_share: float = option(
        0.3, "share of each class's samples that is used for testing", above=0, below=1
    )
    train_share: float = option(
        1.0, "share of each class's training samples that is used", above=0, maximum=1
    )
    unlabelled: float = option(
        0.0, "share of people who lack the labels of some of their classes", minimum=0, maximum=1
    )
    unlabelled_classes: float = option(
        0.8,
        "largest share of their classes without labels; all classes are tested",
        minimum=0,
        below=1,
    )
    best_by: str = choice(
        "last",
        "validation",
        doc="which model of a person is tested, saved and used; last: that of the last round; "
        "validation: the person's best of all evaluated rounds, by macro F1 (of a target the mean "
        "absolute error) on a validation part of the training samples, never on test samples",
    )

    @property
    def validation(self) -> bool:
        """Whether a part of the training part is held back, as large a share as is tested."""
        return self.best_by == "validation"


@dataclass(frozen=True)
class UnseenSettings:
    """People held out until the last rounds: their share, of whom, and how many rounds."""

    share: float
    rounds: int
    by: str = "people"
    people: tuple[str, ...] = ()
