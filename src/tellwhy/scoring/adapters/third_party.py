"""The third-party models that `as_score` knows, by public class name.

The nearest base class counts, whatever the order of the table: a class of one's own that extends
`IsolationForest` is an `OutlierMixin`, and what is a plain `BaseEstimator` is refused with advice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring.adapters import pipelines, pyod_models, sklearn_distances, sklearn_models
from tellwhy.scoring.scores.network_output import NetworkOutput

ADAPTERS: dict[str, Callable[[Any], ScoreFunction]] = {
    "sklearn.svm.OneClassSVM": sklearn_distances.one_class_svm,
    "sklearn.neighbors.KernelDensity": sklearn_distances.kernel_density,
    "sklearn.neighbors.NearestNeighbors": sklearn_distances.nearest_neighbours,
    "sklearn.cluster.KMeans": sklearn_distances.nearest_centre,
    "sklearn.cluster.MiniBatchKMeans": sklearn_distances.nearest_centre,
    "sklearn.cluster.BisectingKMeans": sklearn_distances.nearest_centre,
    "sklearn.mixture.BaseMixture": sklearn_models.mixture,
    "sklearn.decomposition.PCA": sklearn_models.reconstruction,
    "sklearn.decomposition.IncrementalPCA": sklearn_models.reconstruction,
    "sklearn.decomposition.TruncatedSVD": sklearn_models.reconstruction,
    "sklearn.covariance.EllipticEnvelope": sklearn_models.mahalanobis,
    "sklearn.covariance.EmpiricalCovariance": sklearn_models.mahalanobis,
    "sklearn.linear_model.SGDOneClassSVM": sklearn_models.linear_one_class,
    "sklearn.neighbors.LocalOutlierFactor": sklearn_models.local_outlier_factor,
    "sklearn.base.OutlierMixin": sklearn_models.outlier_detector,
    "sklearn.pipeline.Pipeline": pipelines.pipeline,
    "sklearn.model_selection.BaseSearchCV": pipelines.best_of_search,
    "sklearn.frozen.FrozenEstimator": pipelines.frozen,
    "torch.nn.modules.module.Module": NetworkOutput,
    "pyod.models.knn.KNN": pyod_models.nearest_neighbours,
    "pyod.models.abod.ABOD": pyod_models.angles,
    "pyod.models.copod.COPOD": pyod_models.tails,
    "pyod.models.ecod.ECOD": pyod_models.tails,
    "pyod.models.base.BaseDetector": pyod_models.detector,
    "sklearn.base.ClassifierMixin": sklearn_models.refuse_classifier,
    "sklearn.base.RegressorMixin": sklearn_models.refuse_regressor,
    "sklearn.base.BaseEstimator": sklearn_models.refuse,
}
