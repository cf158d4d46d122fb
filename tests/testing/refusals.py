"""What each class refuses: settings by parameter, and calls with the words that answer them."""

from functools import cache

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from tellwhy import Explanation
from tellwhy.classifiers import WestonWatkinsSVM
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.data.graphs import chain, grid
from tellwhy.detectors import (
    LCCAD,
    GaussianMixture,
    KernelDensity,
    NearestNeighbours,
    OneClassSVM,
    PatchModel,
    PCADetector,
)
from tellwhy.evaluation import box_ratios, choose_by_injection, localisation, strategies
from tellwhy.explainers import (
    DMMMEN,
    AnomalyContribution,
    AnomalyShapley,
    Compensation,
    Ensemble,
    IntegratedGradients,
    KernelShap,
    LatentClassDTD,
    LinearRelevance,
    LocalInsight,
    Marginal,
    Occlusion,
    OneClassDTD,
    PatchDTD,
    PatchRelevance,
    Priors,
    Sensitivity,
    SequentialFeature,
    Sobel,
)
from tellwhy.explainers.perturbation.occlusion import windows
from tellwhy.scoring import FunctionScore

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
FEW = X[:3]
FRAME = pd.DataFrame(X, columns=list("abcd"))
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])
GREY = RNG.normal(size=(4, 9, 10))
PICTURES = RNG.normal(size=(2, 3, 7, 9))
SMALL = {"n_components": 4, "n_sweeps": 20, "n_burn": 10}


def squares(rows):
    return (np.asarray(rows) ** 2).sum(axis=1)


def some(value):
    """A score that is no number, or none that is finite, for some rows."""
    return lambda rows: np.where(rows[:, 0] > 0.3, value, 0.3)


def two_columns(score):
    return lambda rows: np.column_stack([score(rows), 1 - score(rows)])


def with_cell(value, row, column):
    changed = X.copy()
    changed[row, column] = value
    return changed


def framed(value):
    """The rows as a frame with one cell changed."""
    frame = FRAME.astype(object)
    frame.iloc[4, 1] = value
    return frame


def of_pictures():
    return FunctionScore(lambda Z: Z.sum(axis=(1, 2, 3)), feature_shape=(3, 7, 9))


def occluded(**settings):
    return Occlusion(of_pictures(), **settings).explain(PICTURES)


def explained(values, **more):
    values = np.asarray(values, dtype=float)
    return Explanation(values=values, scores=np.zeros(len(values)), method="Fixed", **more)


def located(truth, **settings):
    return localisation(explained(np.ones((2, 3))), truth, **settings)


@cache
def fitted(cls):
    return cls().fit(X)


@cache
def linear():
    return WestonWatkinsSVM(random_state=0).fit(X, CLASSES)


@cache
def on_a_chain():
    return LCCAD(2, 0.3, random_state=0, n_init=1).fit(X, chain(60, mask=np.arange(60) != 5))


class Fixed:
    """An explainer of nothing, which always gives the same values."""

    def __init__(self, values, names=None):
        self.values, self.names = values, names

    def explain(self, X):
        return explained(self.values, feature_names=self.names)


# Values that a parameter does not take. A pair has the words of the answer behind its name; a class has the call.
WRONG_SETTINGS = {
    AnomalyContribution: (
        lambda **wrong: AnomalyContribution(squares, **wrong).fit(X),
        {"width": [0.0], "n_samples": [(11, "at least 12 for 4 columns")]},
    ),
    AnomalyShapley: (
        lambda **wrong: AnomalyShapley(squares, **wrong).fit(X).explain(FEW),
        {
            "gamma": [-1.0, "best"],
            "characteristic": ["global"],
            "distance": ["cosine"],
            "n_coalitions": [1],
            "radius": [0],
            "groups": [
                ([[0, 1], [1, 2]], "in groups.0. and in groups.1."),
                ([[0, 9]], "below 4"),
                ([["a"]], "no column names"),
                ([[]], "expected a list of columns"),
                ([0, 1], "expected a list of columns"),
                ("ab", "must be None"),
            ],
        },
    ),
    DMMMEN: (
        lambda **wrong: DMMMEN(squares, **{**SMALL, **wrong}).fit(X),
        {
            "n_components": [0],
            "assignment": ["soft"],
            "gating": [True],
            "priors": [{}],
            "credibility": [1.0],
            "features": [0],
        },
    ),
    GaussianMixture: (
        lambda **wrong: GaussianMixture(**wrong).fit(X),
        {"n_components": [0], "candidates": [(), (2, 0)], "covariance": ["tied"]},
    ),
    IntegratedGradients: (
        lambda **wrong: IntegratedGradients(squares, **wrong).explain(FEW),
        {"baseline": ["median"]},
    ),
    KernelShap: (lambda **wrong: KernelShap(squares, **wrong).fit(X), {"baseline": ["median"]}),
    LatentClassDTD: (
        lambda **wrong: LatentClassDTD(on_a_chain(), **wrong),
        {"neighbour_pull": ["yes"]},
    ),
    LCCAD: (
        lambda **wrong: LCCAD(**{"n_classes": 2, **wrong}).fit(X, chain(60)),
        {
            "n_classes": [0],
            "theta": [1.5],
            "nu": [0.0],
            "loss": ["absolute"],
            "features": ["rbf"],
            "inference": ["magic"],
        },
    ),
    LocalInsight: (
        lambda **wrong: LocalInsight(squares, **wrong).fit(X),
        {"question": ["why"]},
    ),
    OneClassDTD: (
        lambda **wrong: OneClassDTD(fitted(OneClassSVM), **wrong).explain(FEW),
        {"relative": ["yes"]},
    ),
    OneClassSVM: (
        lambda **wrong: OneClassSVM(**wrong).fit(X),
        {
            "nu": [(0, r"of OneClassSVM must be a float in \(0, 1\]. Got 0 instead.")],
            "kernel": [("rbf", "one of 'exponential', 'student_t'")],
            "q": [(0.5, r"'q' parameter .* \[1, inf\)")],
            "bandwidth": [
                (-1.0, "'bandwidth' parameter .* 'auto', 'localisation' or a float"),
                True,
                float("nan"),
                "best",
            ],
            "a": [0],
            "scale": [None],
            "solver": ["gurobi"],
        },
    ),
    PatchDTD: (
        lambda **wrong: PatchDTD(fitted(KernelDensity), **{"patch_size": (2,), **wrong}).explain(
            np.ones((1, 5))
        ),
        {"patch_size": [()], "stride": [0]},
    ),
    PatchModel: (
        lambda **wrong: PatchModel().set_params(**wrong).fit(GREY),
        {"patch_size": [0, (3, 3, 3), 2.5], "stride": [0], "detector": ["svm"]},
    ),
    SequentialFeature: (
        lambda **wrong: SequentialFeature(fitted(GaussianMixture), **wrong).explain(FEW),
        {"n_picked": [0]},
    ),
}

# Calls by the words that answer them; several calls may have one answer.
REFUSED = {
    (AnomalyContribution, InvalidInput): {
        "call fit": lambda: AnomalyContribution(squares).explain(FEW),
        "finite": lambda: AnomalyContribution(some(np.nan)).fit(X[X[:, 0] < 0]).explain(3 * X),
    },
    (AnomalyShapley, InvalidInput): {
        r"call fit\(X\)": lambda: AnomalyShapley(squares).explain(FEW),
        "one number per row": lambda: AnomalyShapley(lambda Z: Z).fit(X).explain(FEW),
        "expected a finite number": (
            lambda: AnomalyShapley(some(np.nan)).fit(X).explain(FEW),
            lambda: AnomalyShapley(some(np.inf)).fit(X).explain(FEW),
        ),
    },
    (choose_by_injection, InvalidInput): {"no explainers": lambda: choose_by_injection({}, X)},
    (choose_by_injection, InvalidParameter): {
        "n_rows": lambda: choose_by_injection({"shap": KernelShap(squares).fit(X)}, X, n_rows=1),
    },
    (Compensation, InvalidInput): {r"call fit\(X\)": lambda: Compensation(squares).explain(FEW)},
    (DMMMEN, InvalidInput): {
        "at least 2 rows": lambda: DMMMEN(squares).fit(X[:1]),
        r"row \d+": (
            lambda: DMMMEN(some(np.nan), **SMALL).fit(X),
            lambda: DMMMEN(two_columns(some(np.nan)), **SMALL).fit(X),
            lambda: DMMMEN(two_columns(some(np.inf)), **SMALL).fit(X),
        ),
        r"model's outputs is a number of size .*e\+20\d": lambda: DMMMEN(
            lambda Z: 1e200 * squares(Z), **SMALL
        ).fit(X),
        "the rows is a number of size": lambda: DMMMEN(lambda Z: np.tanh(Z[:, 0]), **SMALL).fit(1e200 * X),
        "not probabilities": lambda: DMMMEN(lambda Z: Z[:, :2]).fit(X),
        "call fit": lambda: DMMMEN(squares).explain(X),
        "columns": lambda: DMMMEN(squares, **SMALL).fit(X).explain(X[:, :3]),
    },
    (DMMMEN, UnsupportedModel): {
        "CalibratedClassifierCV": lambda: DMMMEN(LinearSVC().fit(X, X[:, 0] > 0)).fit(X),
        "is a class": lambda: DMMMEN(LogisticRegression).fit(X),
    },
    (Ensemble, InvalidInput): {
        r"member 0 \(Fixed\) gives values of shape \(2, 3\), member 1": lambda: Ensemble(
            [Fixed(np.zeros((2, 3))), Fixed(np.zeros((2, 4)))]
        ).explain(X[:2]),
        "feature 1 is 'b' for member 0": lambda: Ensemble(
            [Fixed(np.zeros((2, 2)), ["a", "b"]), Fixed(np.zeros((2, 2)), ["a", "c"])]
        ).explain(X[:2]),
        r"member 1 \(Fixed\).*row 0, feature 2": lambda: Ensemble(
            [Fixed(np.zeros((1, 3))), Fixed([[0.0, 1.0, np.nan]])]
        ).explain(X[:1]),
        "Member 1 of Ensemble": lambda: Ensemble(
            [OneClassDTD(OneClassSVM().fit(frame)) for frame in (FRAME, FRAME[list("dcba")])]
        ).explain(FRAME),
    },
    (Ensemble, InvalidParameter): {
        "two explainers or more": tuple(
            lambda members=members: Ensemble(members).explain(FEW)
            for members in ([], [OneClassDTD(squares)], "OneClassDTD", OneClassDTD(squares))
        ),
        "Member 1 of Ensemble must be an explainer of a model": lambda: Ensemble(
            [OneClassDTD(fitted(OneClassSVM)), Sensitivity]
        ).fit(X),
    },
    (Ensemble, UnsupportedModel): {
        r"Member 1 of Ensemble \(OneClassDTD\)": lambda: Ensemble(
            [Sensitivity(fitted(OneClassSVM)), OneClassDTD(squares)]
        ).explain(FEW),
    },
    (IntegratedGradients, InvalidInput): {
        "has no baseline: call fit": lambda: IntegratedGradients(fitted(KernelDensity)).explain(FEW),
        r"baseline must be one row.*3 columns": lambda: IntegratedGradients(
            fitted(KernelDensity), baseline=[0.0, 0.0, 0.0]
        ).explain(FEW),
        r"baseline must be one row.*NaN": lambda: IntegratedGradients(
            fitted(KernelDensity), baseline=[0.0, np.nan, 0.0, 0.0]
        ).explain(FEW),
    },
    (IntegratedGradients, UnsupportedModel): {
        "Occlusion explains any score": lambda: (
            IntegratedGradients(fitted(IsolationForest)).fit(X).explain(FEW)
        ),
    },
    (KernelDensity, InvalidInput): {"value=nan": lambda: KernelDensity().fit(X).set_threshold(value=np.nan)},
    (KernelShap, InvalidInput): {
        r"call fit\(X\)": lambda: KernelShap(squares).explain(FEW),
        "columns": lambda: KernelShap(fitted(KernelDensity), baseline=X[:, :3]).explain(FEW),
    },
    (LatentClassDTD, InvalidInput): {
        "There is no node 300": lambda: LatentClassDTD(on_a_chain()).explain(nodes=[300]),
        "numbers of nodes": lambda: LatentClassDTD(on_a_chain()).explain(nodes=[0.5]),
        "Node 5 is missing": lambda: LatentClassDTD(on_a_chain()).explain(nodes=[5]),
    },
    (LatentClassDTD, NotFittedError): {None: lambda: LatentClassDTD(LCCAD(2))},
    (LatentClassDTD, UnsupportedModel): {"got KMeans": lambda: LatentClassDTD(KMeans(2))},
    (LCCAD, InvalidInput): {
        "49 nodes and X has 60 rows": lambda: LCCAD(2).fit(X, chain(49)),
        "n_classes=61 needs as many nodes": lambda: LCCAD(61).fit(X, chain(60)),
        r"NaN in row 7, column 1 .*mask those nodes": lambda: LCCAD(2).fit(
            with_cell(np.nan, 7, 1), chain(60)
        ),
        "contains": lambda: LCCAD(2).fit(X * np.inf, chain(60)),
        "Scale the columns": lambda: LCCAD(2).fit(X * 1e200, chain(60)),
        "at least one column": lambda: LCCAD(2).fit(X[:, :0], chain(60)),
        "one row per node": lambda: LCCAD(2).fit(X[:, 0], chain(60)),
        "cannot be read as numbers": lambda: LCCAD(2).fit(X.astype(str).astype(object) + "a", chain(60)),
        r"shape \(2, 4\)": lambda: LCCAD(2, init=np.zeros((3, 4))).fit(X, chain(60)),
        "inference='exact'": lambda: LCCAD(3, inference="exact").fit(X, grid((6, 10))),
        "was fitted on 4": lambda: LCCAD(2).fit(X, chain(60)).predict(X[:, :1], chain(60)),
        "Got list": lambda: LCCAD(2).fit(X, [(0, 1)]),
        "never fall": lambda: LCCAD(2, loss=lambda z: -z).fit(X, chain(60)),
    },
    (LinearRelevance, InvalidInput): {
        "3 columns": lambda: LinearRelevance(linear()).explain(X[:, :3]),
        "NaN": lambda: LinearRelevance(linear()).explain(np.full((1, 4), np.nan)),
    },
    (LinearRelevance, InvalidParameter): {"no class 'z'": lambda: linear().explain(X, against="z")},
    (LinearRelevance, UnsupportedModel): {
        "linear classifier": lambda: LinearRelevance(DecisionTreeClassifier().fit(X, CLASSES)).explain(X),
    },
    (LocalInsight, InvalidInput): {"not fitted": lambda: LocalInsight(squares).explain(FEW)},
    (LocalInsight, InvalidParameter): {"baseline": lambda: LocalInsight(squares, background=0.0)},
    (localisation, InvalidInput): {
        "row 1, feature 0": lambda: localisation(explained([[0.0, 1.0], [np.inf, 0.0]]), np.ones((2, 2))),
        r"truth has shape \(2, 4\); .* \(2, 3\)": lambda: located(np.ones((2, 4), dtype=bool)),
        r"truth has shape \(3,\)": lambda: located(np.ones(3, dtype=bool)),
        r"truth has shape \(3, 2\)": lambda: located(np.ones((3, 2), dtype=bool)),
        "marks no feature": lambda: located(np.zeros((2, 3), dtype=bool)),
        "True and False": lambda: located(np.full((2, 3), 0.5)),
    },
    (localisation, InvalidParameter): {
        "'k' parameter of localisation": lambda: located(np.ones((2, 3)), k=0),
    },
    (Marginal, UnsupportedModel): {
        r"Marginal needs .* Occlusion explain any score": tuple(
            lambda model=model: Marginal(model.fit(X)).explain(FEW)
            for model in (
                IsolationForest(n_estimators=5),
                NearestNeighbours(),
                OneClassSVM(q=1),
                OneClassSVM("student_t"),
            )
        ),
    },
    (Occlusion, InvalidInput): {
        "not fitted": lambda: Occlusion(of_pictures(), patch_size=2).explain(PICTURES)
    },
    (Occlusion, InvalidParameter): {
        "one number, or one per axis": lambda: occluded(patch_size=(2, 2, 2), baseline=0.0),
        "like one input": lambda: occluded(patch_size=2, baseline=np.ones((7, 9))),
        "each axis once": lambda: windows((4, 4), 2, axes=(0, 0)),
    },
    (OneClassDTD, UnsupportedModel): {
        "method='auto' picks another": lambda: OneClassDTD(squares).explain(FEW),
    },
    (OneClassSVM, InvalidInput): {
        "'broken' in row 4, column 'b'": lambda: OneClassSVM().fit(framed("broken")),
        r"infinity .* row 4, column 'b'": lambda: OneClassSVM().fit(framed(np.inf)),
    },
    (PatchDTD, InvalidInput): {
        "does not fit": lambda: PatchDTD(fitted(KernelDensity), patch_size=(9,)).explain(np.ones((1, 5))),
        "at least one": lambda: PatchDTD(fitted(KernelDensity), patch_size=(2,)).explain(np.ones(5)),
    },
    (PatchModel, InvalidInput): {
        r"grey images .* or series": lambda: PatchModel().fit(GREY),
        "does not fit": lambda: PatchModel(patch_size=(30, 30)).fit(GREY),
        "expects series": lambda: PatchModel(patch_size=(3,)).fit(np.ones((2, 5, 5, 3))),
        "expects images": lambda: PatchModel(patch_size=(3, 3)).fit(np.ones((2, 5))),
        "NaN": lambda: PatchModel(patch_size=3).fit(np.full((2, 9), np.nan)),
        "empty": lambda: PatchModel(patch_size=3).fit(np.empty((0, 9))),
        "All training patches are equal": lambda: PatchModel(patch_size=3).fit(np.ones((2, 9))),
        "2 inputs or more": lambda: PatchModel(patch_size=3, positions="separate").fit(np.ones((1, 9))),
        "larger stride": lambda: PatchModel(patch_size=3, positions="separate").fit(np.ones((2, 9000))),
        r"the model was fitted on \(9, 10\)": lambda: (
            PatchModel(patch_size=(3, 3), n_train_patches=50).fit(GREY).outlierness(np.ones((2, 9, 10, 3)))
        ),
    },
    (PatchModel, NotFittedError): {None: lambda: PatchModel().outlierness(GREY)},
    (PatchRelevance, UnsupportedModel): {
        "PatchRelevance needs a score with patches": lambda: PatchRelevance(fitted(KernelDensity)).explain(
            FEW
        ),
    },
    (PCADetector, InvalidInput): {"n_components=7 is more than the 4 columns": lambda: PCADetector(7).fit(X)},
    (Priors, InvalidParameter): {"lambda_rate": lambda: Priors(lambda_rate=0.0)},
    (SequentialFeature, UnsupportedModel): {
        "SequentialFeature needs": lambda: SequentialFeature(fitted(IsolationForest)).explain(FEW),
    },
    (Sobel, UnsupportedModel): {"Sobel needs pictures": lambda: Sobel(fitted(KernelDensity)).explain(FEW)},
    (strategies, InvalidInput): {"pictures": lambda: strategies(explained(np.ones((6, 4))))},
    (box_ratios, InvalidInput): {
        "holds none of its 4 × 4 pixels": lambda: box_ratios(explained(np.ones((1, 4, 4))), [[2, 2, 0, 4]]),
        r"shape \(1, 4\)": lambda: box_ratios(explained(np.ones((1, 4, 4))), [[0.0, 2.0, 0.0, 2.0]] * 2),
    },
}
