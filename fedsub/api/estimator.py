"""``fedsub.FedSubClassifier``: a federation's methods as an estimator of scikit-learn."""

import tempfile
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsub.api.models import PersonModel
from fedsub.api.running import run
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import PARTS, ClientData
from fedsub_core.data.copies import different, first_copies
from fedsub_core.data.federation import Federation
from fedsub_core.errors import FedSubError

#: Rounds of a method in closed form are few; those that train want more.
ROUNDS = 4


class FedSubClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method of `fedsub.run` that gives each person, a group of scikit-learn, an own model.

    Parameters
    ----------
    method
        A name of ``fedsub methods``.
    rounds
        Of the run.
    random_state
        Seed of the run, 0 or more; None is 0.
    **options
        Other arguments of `fedsub.run`, such as ``lr=0.05`` or ``ditto={"lam": 0.5}``. They are
        parameters of the estimator, too, for ``get_params``, ``clone`` and a search.

    Attributes
    ----------
    classes_
        Labels, ascending, in the order of the probabilities.
    persons_
        Ids of people who have a model, ascending.
    models_
        Their :class:`~fedsub.PersonModel`, by id.

    Notes
    -----
    A run always tests something, so of each person one sample is not trained on.
    """

    def __init__(
        self,
        method: str = "fedsub-ridge",
        rounds: int = ROUNDS,
        random_state: int | None = None,
        **options: Any,
    ) -> None:
        self.method, self.rounds, self.random_state = method, rounds, random_state
        self.options = options

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, those of the run among them."""
        return {**super().get_params(deep), **self.options}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of the run among them."""
        own = self._get_param_names()
        self.options = self.options | {k: v for k, v in params.items() if k not in own}
        super().set_params(**{k: v for k, v in params.items() if k in own})
        return self

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train a model for each person.

        Parameters
        ----------
        X : [n, features], or windows [n, channels, time].
        y : labels [n].
        groups : whose each sample is [n], any values; None: all samples are one person's.

        Raises
        ------
        ValueError
            If shapes, values or labels are not as expected, or the run refuses them; it says why.
        """
        X, y = validate_data(self, X, y, allow_nd=True, dtype=np.float32)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y: got samples of one class, {self.classes_[0]!r}, expected two classes at least"
            )
        whose = _people(groups, len(X))
        card = Card(
            "data",
            "recognition",
            tuple(f"{place} {name}" for place, name in enumerate(self.classes_)),
            tuple(f"x{i}" for i in range(X.shape[1])),
        )
        if own := sorted({"split", "out", "seed"} & self.options.keys()):
            raise ValueError(
                f"{type(self).__name__}: got {', '.join(own)}, expected random_state for seed; "
                "split and out are the estimator's own"
            )
        self.persons_ = np.unique(whose)
        ids = {person: f"p{place}" for place, person in enumerate(self.persons_)}
        clients = {
            ids[person]: _client(ids[person], X[whose == person], labels[whose == person])
            for person in self.persons_
        }
        try:
            with tempfile.TemporaryDirectory(prefix="fedsub-estimator-") as out:
                keys: dict[str, Any] = {
                    "beside": "",
                    "progress": False,
                    "standardise": "federation",
                }
                keys |= self.options | {"split": "given", "out": out}
                keys |= {"seed": self.random_state or 0, "rounds": self.rounds}
                found = run(Federation(card, clients), self.method, **keys)
                self.models_ = {one: found.model(ids[one]) for one in self.persons_}
        except FedSubError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from error
        return self

    def predict_proba(self, X: Any, groups: Any = None) -> NDArray[np.float64]:
        """Return the probability of every class, [n, classes]; each row sums to 1.

        Parameters
        ----------
        X : as in `fit`.
        groups : whose each sample is [n]. Who has no model, and all samples where it is None, gets
            the mean of everybody's probabilities.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, allow_nd=True, dtype=np.float32)
        if groups is None:
            return self._of_everybody(X)
        whose = _people(groups, len(X))
        found = np.empty((len(X), len(self.classes_)))
        for person in np.unique(whose):
            rows = whose == person
            model = self.models_.get(person)
            found[rows] = self._of_everybody(X[rows]) if model is None else _said(model, X[rows])
        return found

    def predict(self, X: Any, groups: Any = None) -> NDArray[Any]:
        """Return the most probable label of each sample [n]; `groups` as in `predict_proba`."""
        likeliest = self.predict_proba(X, groups).argmax(1)
        labels: NDArray[Any] = self.classes_[likeliest]
        return labels

    def score(
        self,
        X: Any,
        y: Any,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the share of samples whose label is predicted, by the models of `groups`."""
        return float(accuracy_score(y, self.predict(X, groups), sample_weight=sample_weight))

    def _of_everybody(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        found: NDArray[np.float64]
        found = np.mean([_said(model, x) for model in self.models_.values()], axis=0)
        return found


def _said(model: PersonModel, x: NDArray[np.float32]) -> NDArray[np.float64]:
    try:
        return model(x).astype(np.float64)
    except FedSubError as error:
        raise ValueError(str(error)) from error


def _people(groups: Any, n: int) -> NDArray[Any]:
    whose = np.zeros(n, np.int64) if groups is None else np.asarray(groups)
    if whose.shape != (n,):
        raise ValueError(f"groups: got shape {whose.shape}, expected ({n},), one of each sample")
    return whose


def _client(name: str, x: NDArray[np.float32], y: NDArray[np.int64]) -> ClientData:
    """Return a person's samples, of which one is tested: the last of the largest class."""
    if len(y) < 2:
        raise ValueError(f"groups: got {len(y)} sample of person {name}, expected n_samples >= 2")
    copies = first_copies(x)
    alone = different(copies, len(y))
    if copies is not None:
        alone &= np.bincount(copies, minlength=len(y)) == 1
    rows = np.flatnonzero(alone)
    if not len(rows):
        raise ValueError(f"X: got samples of person {name} that all repeat, expected others")
    label = np.bincount(y[rows]).argmax()
    parts = np.full(len(y), PARTS.index("training"))
    parts[rows[y[rows] == label][-1]] = PARTS.index("test")
    return ClientData(name, x, y.astype(np.int64), parts=parts)
