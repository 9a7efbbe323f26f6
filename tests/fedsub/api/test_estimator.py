"""The estimator of scikit-learn: its own checks, and what groups change."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fedsub import FedSubClassifier
from fedsub.testing.refusals import refused

#: Of scikit-learn's checks those that fail, and why.
FAILS = {
    "check_no_attributes_set_in_init": "options of the run are keyword arguments, kept as a mapping"
}
OPTIONS: dict[str, Any] = {"rounds": 2, "encoder": "relu:20"}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [FedSubClassifier(**OPTIONS)],
    expected_failed_checks=lambda estimator: FAILS,
    xfail_strict=True,
)
def test_it_does_as_estimators_do(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def town() -> tuple[NDArray[np.float64], NDArray[np.str_], NDArray[np.str_]]:
    """Three people; the third calls each class by the other's name."""
    rng = np.random.default_rng(5)
    x, groups = rng.normal(size=(180, 3)), np.repeat(["anna", "ben", "carl"], 60)
    right = (x[:, 0] > 0) ^ (groups == "carl")
    return x, np.where(right, "walk", "sit"), groups


@pytest.fixture(scope="module")
def fitted(town: Any) -> FedSubClassifier:
    x, y, groups = town
    return FedSubClassifier(**OPTIONS).fit(x, y, groups=groups)


def test_each_person_has_a_model_of_their_own(town: Any, fitted: FedSubClassifier) -> None:
    x, y, groups = town
    assert fitted.persons_.tolist() == ["anna", "ben", "carl"]
    assert fitted.classes_.tolist() == ["sit", "walk"]
    assert fitted.score(x, y, groups) > 0.9 > fitted.score(x, y)
    for person in fitted.persons_:
        rows = groups == person
        own = fitted.models_[person](x[rows].astype(np.float32))
        np.testing.assert_allclose(fitted.predict_proba(x, groups)[rows], own, rtol=1e-6)
    everybody = np.mean([m(x.astype(np.float32)) for m in fitted.models_.values()], axis=0)
    np.testing.assert_allclose(fitted.predict_proba(x), everybody, rtol=1e-6)
    strangers = np.full(len(x), "dora")
    np.testing.assert_array_equal(fitted.predict_proba(x, strangers), fitted.predict_proba(x))


def test_options_are_parameters(town: Any) -> None:
    x, y, groups = town
    made = FedSubClassifier("ditto", 1, lr=0.1, ditto={"lam": 0.5})
    assert made.get_params() == {
        "method": "ditto", "rounds": 1, "random_state": None, "lr": 0.1, "ditto": {"lam": 0.5}
    }  # fmt: skip
    again = clone(made).set_params(lr=0.2, rounds=2, hidden="4")
    assert again.get_params()["lr"] == 0.2 and made.get_params()["lr"] == 0.1
    assert again.fit(x, y, groups=groups).models_["anna"].method == "ditto"
    with refused(ValueError, "learning-rate"):
        FedSubClassifier(learning_rate=0.1).fit(x, y, groups=groups)


def test_it_goes_into_a_pipeline_a_search_and_a_file(town: Any, fitted: FedSubClassifier) -> None:
    x, y, groups = town
    with config_context(enable_metadata_routing=True):
        asked = FedSubClassifier(**OPTIONS)
        asked.set_fit_request(groups=True).set_score_request(groups=True)
        pipe = make_pipeline(StandardScaler(), asked).fit(x, y, groups=groups)
        assert pipe.score(x, y, groups=groups) > 0.9
    grid = {"encoder": ["relu:5", "relu:20"]}
    search = GridSearchCV(FedSubClassifier(**OPTIONS), grid, cv=2).fit(x, y, groups=groups)
    assert search.best_params_["encoder"] in grid["encoder"]
    assert cross_val_score(FedSubClassifier(**OPTIONS), x, y, cv=2).shape == (2,)
    kept = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(kept.predict(x, groups), fitted.predict(x, groups))


def test_windows_are_samples_too() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(40, 2, 32)), np.arange(40) % 2
    x[y == 1] *= 3
    made = FedSubClassifier(rounds=2, encoder="kernels:84").fit(x, y, groups=np.arange(40) // 20)
    assert made.predict_proba(x, np.arange(40) // 20).shape == (40, 2)


def test_what_groups_cannot_be_is_refused(town: Any) -> None:
    x, y, groups = town
    made = FedSubClassifier(**OPTIONS)
    with refused(ValueError, "groups", got=3, expected=180):
        made.fit(x, y, groups=groups[:3])
    with refused(ValueError, "groups", "n_samples", got=1):
        made.fit(x, y, groups=["zoe", *groups[1:]])
    with refused(ValueError, "repeat"):
        made.fit(np.ones((6, 2)), [0, 1] * 3)
