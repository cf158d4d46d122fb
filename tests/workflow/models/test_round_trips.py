"""Every estimator that can be fitted is saved to one file and read again: the same numbers, the same bytes."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import scale

import tellwhy
from tellwhy import bases, classifiers, detectors
from tellwhy.bases import KernelBasis
from tellwhy.classifiers import (
    CrammerSingerSVM,
    KernelBasisClassifier,
    LeeLinWahbaSVM,
    OneVsRestSVM,
    TextClassifier,
    WestonWatkinsSVM,
)
from tellwhy.core.registry import cards
from tellwhy.data.graphs import chain
from tellwhy.detectors import LCCAD
from tellwhy.storage.model_file import SavedModel
from tellwhy.storage.saved_classes import SavedClasses

CLASSES = SavedClasses()

ROWS = np.random.default_rng(0).normal(size=(80, 4))
NEW = np.random.default_rng(1).normal(size=(15, 4))
IRIS = load_iris()


def twice(model, tmp_path):
    """Save, load and save again; the two files must be the same."""
    first = tellwhy.save(model, tmp_path / "first.tellwhy")
    again = tellwhy.load(first)
    assert type(again) is type(model)
    second = tellwhy.save(again, tmp_path / "second.tellwhy")
    assert first.read_bytes() == second.read_bytes()
    return again


DETECTORS = {card.name: card.cls for card in cards("detector")}


def fast(cls, **wanted):
    names = cls().get_params()
    told = {name: value for name, value in wanted.items() if name in names}
    return cls(**told)


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_every_detector_of_the_catalogue(name, tmp_path):
    detector = fast(DETECTORS[name], random_state=0, n_epochs=3, max_epochs=3, epochs=3).fit(ROWS)
    again = twice(detector, tmp_path)
    assert np.array_equal(again.outlierness(NEW), detector.outlierness(NEW))
    assert np.array_equal(again.predict(NEW), detector.predict(NEW))
    assert again.threshold_ == detector.threshold_


def test_no_model_is_forgotten():
    """Every class that has `save` can be found again by its name."""
    public = [getattr(folder, name) for folder in (bases, classifiers, detectors) for name in folder.__all__]
    models = [each for each in public if isinstance(each, type) and issubclass(each, SavedModel)]
    assert len(models) >= 20
    for cls in [*models, *DETECTORS.values()]:
        assert CLASSES.part(CLASSES.name_of(cls)).cls is cls


@pytest.mark.parametrize("cls", [WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM])
def test_every_classifier(cls, tmp_path):
    X = scale(IRIS.data)
    model = cls(random_state=0).fit(X, IRIS.target)
    assert np.array_equal(twice(model, tmp_path).decision_function(X), model.decision_function(X))


def test_classifiers_on_bases_and_of_texts(tmp_path):
    X = scale(IRIS.data)
    model = KernelBasisClassifier(random_state=0).fit(X, IRIS.target)
    assert np.array_equal(twice(model, tmp_path).predict(X), model.predict(X))
    texts = ["red apple", "green apple", "blue sky", "grey sky"] * 5
    words = TextClassifier().fit(texts, ["fruit", "fruit", "air", "air"] * 5)
    again = twice(words, tmp_path)
    assert np.array_equal(again.decision_function(texts), words.decision_function(texts))


def test_bases(tmp_path):
    basis = KernelBasis(n_features=32, random_state=0).fit(ROWS)
    assert np.array_equal(twice(basis, tmp_path).transform(NEW), basis.transform(NEW))


def test_latent_classes(tmp_path):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 0.3, (20, 2)), rng.normal(3, 0.3, (20, 2))])
    model = LCCAD(2, random_state=0).fit(X, chain(40))
    again = twice(model, tmp_path)
    assert np.array_equal(again.outlierness(), model.outlierness())
