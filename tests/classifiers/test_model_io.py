"""Classifiers on disk: one `load` for all of them; damaged and made-up files are refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.svm import LinearSVC

from storage.changed_files import array_of, changed, edited, with_arrays
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


def test_a_head_of_scikit_learn_is_saved_with_its_version(tmp_path):
    model = KernelBasisClassifier(BASIS, LinearSVC(random_state=0)).fit(X, Y)
    path = model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))
    changed(path, lambda head: head.pop("scikit-learn"))
    with pytest.raises(UnreadableFile, match=r"names 'sklearn\.LinearSVC', which is nothing"):
        load(path)


def test_what_cannot_be_brought_back_is_not_written(tmp_path):
    fitted = WestonWatkinsSVM(random_state=0).fit(X, Y)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("keep")
    with pytest.raises(CannotWrite, match="it is a folder; expected a file"):
        fitted.save(tmp_path / "other")
    with pytest.raises(CannotWrite, match="holds RidgeClassifierCV, which no saved model can hold"):
        KernelBasisClassifier(BASIS, RidgeClassifierCV()).fit(X, Y).save(tmp_path / "model")
    fitted.classes_ = np.array([(i,) for i in range(10)], dtype="O")
    with pytest.raises(CannotWrite, match="classes_ holds neither numbers nor text"):
        fitted.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("params", "C"), -1.0, "'C' parameter"),
        (("params", "shell"), True, "unexpected keyword"),
        (("learned", "n_features_in_"), 3, "do not fit together"),
        (("learned", "coef_", "is", "shape", "is"), [9, 64], "does not hold a working"),
        (("learned", "coef_", "is", "shape", "is"), [10, 10**18], "does not hold a working"),
        (("learned", "coef_", "is", "indices", "is"), "model.learned.intercept_", "does not hold a working"),
        (("learned", "coef_", "type"), "Popen", "'Popen', which is nothing that a model holds"),
        (("learned", "classes_", "is"), "gone", "does not hold a working"),
        (("learned", "predict"), 3, "nothing that it learns"),
    ],
    ids=str,
)
def test_made_up_heads_are_refused(place, value, told, tmp_path):
    path = WestonWatkinsSVM(random_state=0).fit(X, Y).sparsify(0.05).save(tmp_path / "model")
    edited(path, place, value)
    with pytest.raises(UnreadableFile, match=told):
        load(path)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("is", {"type": "Popen", "is": {}}, "'Popen', which is nothing that a model holds"),
        ("schema", 7, "reads schema 2"),
    ],
)
def test_made_up_files_are_refused(key, value, told, tmp_path):
    path = WestonWatkinsSVM(random_state=0).fit(X, Y).save(tmp_path / "model")
    changed(path, lambda head: head.update({key: value}))
    with pytest.raises(UnreadableFile, match=told):
        load(path)


def test_another_class_is_refused(tmp_path):
    path = WestonWatkinsSVM(random_state=0).fit(X, Y).save(tmp_path / "model")
    changed(path, lambda head: head["is"].update(type="KernelBasisClassifier"))
    with pytest.raises(UnreadableFile, match="does not hold a working KernelBasisClassifier"):
        load(path)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_cut_files_are_refused(share, tmp_path):
    path = KernelBasisClassifier(BASIS, max_epochs=1, random_state=0).fit(X, Y).save(tmp_path / "model")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UnreadableFile, match="model is no model, or a damaged one"):
        load(path)


def test_sparse_weights_that_point_outside_are_refused(tmp_path):
    path = WestonWatkinsSVM(random_state=0).fit(X, Y).sparsify(0.05).save(tmp_path / "model")
    indices = array_of(path, "coef_.indices").copy()
    indices[5] = 10**6
    with_arrays(path, {"coef_.indices": indices})
    with pytest.raises(UnreadableFile, match="does not hold a working WestonWatkinsSVM"):
        load(path)


def test_heads_and_bases_that_do_not_belong_together_are_refused(tmp_path):
    path = KernelBasisClassifier(BASIS, WestonWatkinsSVM(random_state=0)).fit(X, Y).save(tmp_path / "model")
    edited(path, ("learned", "head_", "is", "learned", "is", "n_features_in_"), 39)
    with pytest.raises(UnreadableFile, match="do not fit together"):
        load(path)
    wide, narrow = (
        KernelBasisClassifier(
            KernelBasis(n_features=n, random_state=0), WestonWatkinsSVM(random_state=0)
        ).fit(X, Y)
        for n in (20, 10)
    )
    wide.head_ = narrow.head_
    with pytest.raises(UnreadableFile, match="do not fit together"):
        load(wide.save(tmp_path / "wide"))


def test_what_is_no_classifier_is_told(tmp_path):
    with pytest.raises(UnreadableFile, match=r"There is no file .*nowhere\. Check the name"):
        load(tmp_path / "nowhere")
    (tmp_path / "note.txt").write_text("keep")
    with pytest.raises(UnreadableFile, match=r"note\.txt is no model"):
        load(tmp_path / "note.txt")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnreadableFile, match="folder is a folder, and no model"):
        load(tmp_path / "folder")
    with pytest.raises(UnreadableFile, match="holds a KernelBasis, which is no classifier"):
        load(KernelBasis(n_features=4, random_state=0).fit(X).save(tmp_path / "basis"))
