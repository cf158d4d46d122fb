"""Classifiers on disk: one format and one `load` for all of them; damaged and made-up folders are refused."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.svm import LinearSVC

from tellwhy.bases import KernelBasis
from tellwhy.classifiers import (
    CrammerSingerSVM,
    KernelBasisClassifier,
    LeeLinWahbaSVM,
    OneVsRestSVM,
    WestonWatkinsSVM,
    load,
)
from tellwhy.core.errors import CannotWrite, UnreadableFile

X, Y = load_digits(return_X_y=True)
X, Y = X[:200] / 16, Y[:200]
BASIS = KernelBasis(n_features=40, structure="hadamard", random_state=0)
MODELS = [
    WestonWatkinsSVM(random_state=0),
    CrammerSingerSVM(random_state=0),
    LeeLinWahbaSVM(random_state=0, dtype="float32"),
    OneVsRestSVM(random_state=0),
    WestonWatkinsSVM(random_state=0, warm_start=True),
    KernelBasisClassifier(BASIS, max_epochs=2, random_state=0),
    KernelBasisClassifier(BASIS, WestonWatkinsSVM(random_state=0), random_state=0),
]
LABELS = {"numbers": Y, "text": Y.astype(str), "objects": Y.astype(str).astype(object), "two": Y > 4}


def same(one, other):
    """Whether two values learned are equal, whatever they are made of."""
    if hasattr(one, "get_params"):
        return type(one) is type(other) and same(vars(one), vars(other))
    if sparse.issparse(one):
        return (one != other).nnz == 0 and one.dtype == other.dtype
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and same(vars(one), vars(other))
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    kinds = [np.asarray(value).dtype for value in (one, other)]
    return np.array_equal(one, other) and (kinds[0] == kinds[1] or all(kind.kind == "U" for kind in kinds))


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_loaded_classifiers_are_those_that_were_saved(model, labels, tmp_path):
    fitted = model.fit(X, labels)
    again = load(fitted.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert again.predict(X).dtype.kind == fitted.predict(X).dtype.kind
    assert same(again, fitted)


def test_label_sets_probabilities_and_weights_of_classes_survive(tmp_path):
    sets = np.stack([Y % 2 == 0, Y > 4, Y == 7], axis=1).astype(int)
    model = WestonWatkinsSVM(random_state=0).fit(X, sets)
    np.testing.assert_array_equal(load(model.save(tmp_path / "sets")).predict(X), model.predict(X))
    model = WestonWatkinsSVM(random_state=0, class_weight={3: 2.0, 5: 0.5}).fit(X, Y).calibrate(X, Y)
    again = load(model.save(tmp_path / "probabilities"))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.class_weight == {3: 2.0, 5: 0.5}


def test_sparse_weights_and_names_of_columns_survive(tmp_path):
    frame = pd.DataFrame(X).add_prefix("pixel")
    model = WestonWatkinsSVM(random_state=0).fit(frame, Y).sparsify(0.05)
    assert sparse.issparse(model.coef_)
    again = WestonWatkinsSVM.load(model.save(tmp_path / "model"))
    assert same(again, model)
    np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(UnreadableFile, match="holds a WestonWatkinsSVM, not a CrammerSingerSVM"):
        CrammerSingerSVM.load(tmp_path / "model")


def test_what_cannot_be_brought_back_is_not_written(tmp_path):
    fitted = WestonWatkinsSVM(random_state=0).fit(X, Y)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("keep")
    with pytest.raises(CannotWrite, match="was not written by tellwhy"):
        fitted.save(tmp_path / "other")
    with pytest.raises(CannotWrite, match="LinearSVC, which a saved classifier cannot hold"):
        KernelBasisClassifier(BASIS, LinearSVC(random_state=0)).fit(X, Y).save(tmp_path / "model")
    fitted.classes_ = np.array([(i,) for i in range(10)], dtype="O")
    with pytest.raises(CannotWrite, match="classes_ holds neither numbers nor text"):
        fitted.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def edited(folder, place, value):
    """Change one entry of the head."""
    head = json.loads((folder / "classifier.json").read_text())
    inner = head
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    (folder / "classifier.json").write_text(json.dumps(head))


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("classifier",), "Popen", "no classifier of tellwhy"),
        (("classifier",), "KernelBasisClassifier", "does not hold a working KernelBasisClassifier"),
        (("schema",), 7, "reads schema 1"),
        (("params", "C"), -1.0, "'C' parameter"),
        (("params", "shell"), True, "unexpected keyword"),
        (("learned", "n_features_in_"), 3, "do not fit together"),
        (("learned", "coef_", "is", "shape", "is"), [9, 64], "does not hold a working"),
        (("learned", "coef_", "is", "shape", "is"), [10, 10**18], "does not hold a working"),
        (("learned", "coef_", "is", "indices", "is"), "intercept_", "does not hold a working"),
        (("learned", "coef_", "type"), "Popen", "'Popen', which is nothing that a classifier learns"),
        (("learned", "classes_", "is"), "gone", "does not hold a working"),
        (("learned", "predict"), 3, "nothing that it learns"),
    ],
    ids=str,
)
def test_made_up_heads_are_refused(place, value, told, tmp_path):
    folder = WestonWatkinsSVM(random_state=0).fit(X, Y).sparsify(0.05).save(tmp_path / "model")
    edited(folder, place, value)
    with pytest.raises(UnreadableFile, match=told):
        load(folder)


@pytest.mark.parametrize("name", ["classifier.json", "arrays.npz"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_cut_files_are_refused(name, share, tmp_path):
    folder = KernelBasisClassifier(BASIS, max_epochs=1, random_state=0).fit(X, Y).save(tmp_path / "model")
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UnreadableFile, match=name):
        load(folder)


def test_sparse_weights_that_point_outside_are_refused(tmp_path):
    folder = WestonWatkinsSVM(random_state=0).fit(X, Y).sparsify(0.05).save(tmp_path / "model")
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    arrays["coef_.indices"][5] = 10**6
    np.savez(folder / "arrays.npz", **arrays)
    with pytest.raises(UnreadableFile, match="does not hold a working WestonWatkinsSVM"):
        load(folder)


def test_heads_and_bases_that_do_not_belong_together_are_refused(tmp_path):
    folder = KernelBasisClassifier(BASIS, WestonWatkinsSVM(random_state=0)).fit(X, Y).save(tmp_path / "model")
    edited(folder, ("learned", "head_", "is", "learned", "is", "n_features_in_"), 39)
    with pytest.raises(UnreadableFile, match="do not fit together"):
        load(folder)
    wide, narrow = (
        KernelBasisClassifier(
            KernelBasis(n_features=n, random_state=0), WestonWatkinsSVM(random_state=0)
        ).fit(X, Y)
        for n in (20, 10)
    )
    wide.head_ = narrow.head_
    with pytest.raises(UnreadableFile, match="do not fit together"):
        load(wide.save(tmp_path / "wide"))


def test_folders_that_hold_something_else_are_told(tmp_path):
    with pytest.raises(
        UnreadableFile, match="nowhere is not there; expected the folder of a saved classifier"
    ):
        load(tmp_path / "nowhere")
    (tmp_path / "note.txt").write_text("keep")
    with pytest.raises(UnreadableFile, match=r"note\.txt is a file"):
        load(tmp_path / "note.txt")
    with pytest.raises(
        UnreadableFile, match=r"classifier\.json is missing. It holds arrays\.npz, basis\.json"
    ):
        load(KernelBasis(n_features=4, random_state=0).fit(X).save(tmp_path / "basis"))
