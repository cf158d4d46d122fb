"""Sixty ways to hold it wrong: each is answered in words that say what to do."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import DBSCAN
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import LocalOutlierFactor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

import tellwhy
from tellwhy.core.errors import TellwhyError
from tellwhy.explainers import KernelShap

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).normal(size=(80, 4))
FRAME = pd.DataFrame(X, columns=list("abcd"))
LABEL = np.where(X[:, 0] > 0, "yes", "no")
ODD = X[:2] + 5.0
FOREST = IsolationForest(n_estimators=10, random_state=0).fit(X)
FRAMED = IsolationForest(n_estimators=10, random_state=0).fit(FRAME)
CLASSES = LogisticRegression().fit(X, LABEL)
LINE = LinearRegression().fit(X, X[:, 0])
SVM = OneClassSVM(nu=0.2).fit(X)
NET = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).eval()
TRAINING = torch.nn.Linear(4, 2)
MAPS = torch.nn.Conv2d(1, 2, 3, padding=1).eval()


class Pair(torch.nn.Module):
    def forward(self, x):
        return {"one": x, "two": 2 * x}


class Wild(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=1) / 0.0


def value(rows):
    return np.abs(rows).sum(axis=1)


def explain(*arguments, **named):
    return lambda: tellwhy.explain(*arguments, **named)


MISUSES = {
    # rows
    "one row without its axis": (explain(FOREST, X[0]), r"2D array.*X\.reshape\(1, -1\)"),
    "one row of a frame": (explain(FRAMED, FRAME.iloc[0]), r"2D.*row\.to_frame\(\)\.T"),
    "no rows": (explain(FOREST, X[:0]), "empty"),
    "no columns": (explain(FOREST, X[:, :0]), "empty|columns"),
    "a column too few": (explain(SVM, X[:, :3]), "has 3 columns.*fitted on 4.*Pass the columns"),
    "a column too many": (explain(FRAMED, FRAME.assign(e=1.0)), r"5 columns.*fitted on 4.*\['e'\]"),
    "columns in another order": (
        explain(FRAMED, FRAME[["b", "a", "c", "d"]]),
        "'b'.*fitted with 'a'.*same order",
    ),
    "a missing cell": (explain(SVM, np.where(X[3, 1] == X, np.nan, X)), "NaN in row 3, column 1"),
    "a missing cell for a linear model": (
        explain(LINE, np.where(X[3, 1] == X, np.nan, X)),
        "NaN in row 3, column 1",
    ),
    "a missing cell for a classifier": (
        explain(SVC().fit(X, LABEL), np.where(X[3, 1] == X, np.nan, X)),
        "SVC cannot be applied to these rows: Input X contains NaN",
    ),
    "an infinite cell": (explain(SVM, np.where(X[3, 1] == X, np.inf, X)), "row 3, column 1"),
    "a text among numbers": (explain(SVM, FRAME.assign(a="tall")), "'tall' in row 0, column 'a'"),
    "complex numbers": (explain(SVM, X + 1j), "Complex data"),
    "a sparse matrix": (explain(FOREST, sparse.csr_matrix(X)), r"sparse.*X\.toarray\(\)"),
    "rows of different length": (explain(SVM, [[1.0, 2.0], [1.0]]), "differ in length"),
    "a single text": (explain(CLASSES, "hello"), r"Pass \[text\]"),
    "texts for a model of tables": (explain(FOREST, ["a", "b"]), "cannot be read as numbers.*Encode text"),
    "a file's name": (explain(FOREST, "table.csv"), r"'table.csv'.*pandas\.read_csv"),
    "a frame of texts for a network": (explain(NET, FRAME.astype(str)), "a network takes numbers"),
    "a list of tensors": (explain(NET, [torch.zeros(4), torch.ones(4)]), "stack"),
    "a picture without its rows": (explain(MAPS, torch.zeros(8, 8)), "cannot be applied|rows first"),
    "cells that are lists": (
        explain(value, pd.DataFrame({"a": [[1], [2]]}), task="prediction"),
        "list values.*expected numbers, texts",
    ),
    # models
    "a class in the place of a model": (explain(IsolationForest, X), "is a class; pass a fitted instance"),
    "a model that was not fitted": (explain(IsolationForest(), X), "not fitted"),
    "a classifier that was not fitted": (explain(RandomForestClassifier(), X), "not fitted"),
    "a classifier of several labels": (
        explain(MultiOutputClassifier(CLASSES).fit(X, np.column_stack([LABEL, LABEL])), X),
        r"several labels at once.*estimators_\[0\]",
    ),
    "a scaler": (explain(StandardScaler().fit(X), X), "no anomaly score.*Pass a function"),
    "clusters without new rows": (explain(DBSCAN().fit(X), X), "no anomaly score"),
    "a detector of its training rows only": (explain(LocalOutlierFactor().fit(X), X), "novelty=True"),
    "None": (explain(None, X), "Pass a function"),
    "a name": (explain("IsolationForest", X), "model file 'IsolationForest' cannot be read"),
    "an array": (explain(X, X), "Pass a function"),
    "a detector's own method": (explain(FOREST.decision_function, X), "Pass the detector itself"),
    "a network in training mode": (explain(TRAINING, X), r"model\.eval\(\)"),
    "a network that gives maps": (explain(MAPS, torch.zeros(2, 1, 8, 8)), "target=<function of the outputs"),
    "a network that gives a dict": (explain(Pair().eval(), X), "target='<name>'"),
    "a network that overflows": (explain(Wild().eval(), X), "not finite"),
    "a function that gives one number in all": (explain(lambda r: r.sum(), X), "one number per row"),
    "a function that gives several columns": (
        explain(lambda r: r, X),
        "one number per row.*picks one output",
    ),
    "a function that gives texts": (explain(lambda r: np.full(len(r), "a"), X), "expected real numbers"),
    "a function that gives NaN": (explain(lambda r: np.full(len(r), np.nan), X), "expected a finite number"),
    "several outputs without a choice": (explain(lambda r: r, X, task="prediction"), "target=0, …, target=3"),
    # backgrounds
    "no ordinary rows": (explain(value, ODD), "background=X_train"),
    "one ordinary row": (explain(value, ODD, background=X[:1]), "at least 2, better 100"),
    "the row itself": (explain(value, ODD[:1], "KernelShap", background=ODD[:1]), "the explained row itself"),
    "no row in the background": (explain(value, ODD, background=X[:0]), "no rows"),
    "a background of other columns": (explain(value, ODD, background=X[:, :2]), r"rows like those of X"),
    "a background without its axis": (explain(value, ODD, background=X[0]), r"background=row\[None\]"),
    "a word for a background": (explain(value, ODD, background="train"), "expected ordinary rows"),
    "a sparse background": (explain(value, ODD, background=sparse.csr_matrix(X)), "toarray"),
    "a background that is not used": (explain(NET, X, "LRP", background=X), "Leave it out"),
    "a background of other names": (
        explain(lambda f: f["a"], FRAME[:2], background=FRAME.rename(columns={"a": "z"}), task="prediction"),
        "in the same order",
    ),
    # methods and their parameters
    "a method that does not exist": (explain(SVM, X, "KernelSharp"), "did you mean 'KernelShap'"),
    "a class that is no method": (explain(SVM, X, dict), "is not an explainer"),
    "a number for a method": (explain(SVM, X, 3), "name of an explainer"),
    "an explainer of another model": (explain(FOREST, X, KernelShap(SVM)), "of another model"),
    "parameters for a made explainer": (explain(SVM, X, KernelShap(SVM), n_jobs=2), "Pass its class instead"),
    "a parameter with a slip": (explain(SVM, X, "KernelShap", n_coalition=9), "did you mean 'n_coalitions'"),
    "an argument with a slip": (explain(SVM, X, backgroud=X), "did you mean 'background'"),
    "a parameter out of range": (explain(value, X, "Occlusion", max_background=0), r"must be an int in \[1"),
    "a parameter that is missing": (explain(SVM, X, "PatchDTD"), "needs the parameter 'patch_size'"),
    "a method that needs a gradient": (
        explain(FOREST, X, "IntegratedGradients"),
        "needs a score with a gradient",
    ),
    "a method of kernels for a forest": (explain(FOREST, X, "OneClassDTD"), "OneClassDTD needs"),
    "a method of networks for a forest": (
        explain(FOREST, X, "LRP"),
        r"torch\.nn\.Module.*leave the method out",
    ),
    "a method of anomalies for a prediction": (
        explain(LINE, X, "AnomalyShapley"),
        "is a prediction: use method",
    ),
    "a method of trees for an SVM": (explain(SVM, X, "TreeShapley"), "OneClassSVM is no model of trees"),
    "zero threads": (explain(value, X, "KernelShap", n_jobs=0), "other than 0"),
    # targets, tasks, outputs
    "a class that does not exist": (explain(CLASSES, X, target="yess"), "did you mean 'yes'"),
    "a class of a detector": (
        explain(FOREST, X, "KernelShap", background=X, target="yes"),
        "one anomaly score",
    ),
    "an output out of range": (explain(NET, X, target=9), "outputs 0 to 2"),
    "a part that a network does not return": (explain(Pair().eval(), X, target="on"), "did you mean 'one'"),
    "a task that does not exist": (
        explain(value, X, task="regression"),
        "one of 'auto', 'anomaly', 'prediction'",
    ),
    "an output that does not exist": (explain(CLASSES, X, output="logit"), "one of 'auto', 'margin'"),
    "probabilities that there are none of": (
        explain(SVC().fit(X, LABEL), X, output="probability"),
        "gives no probabilities",
    ),
    "a device that is not there": (explain(NET, X, device="cuda:7"), "device='cuda:7' cannot be used here"),
}


def test_there_are_sixty():
    assert len(MISUSES) >= 60


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_answered_with_what_to_do(name):
    call, words = MISUSES[name]
    with pytest.raises((TellwhyError, NotFittedError)) as told:
        call()
    message = str(told.value)
    assert re.search(words, message, flags=re.DOTALL), message
    assert len(message) < 700
    assert "Traceback" not in message
