"""The classes that a model file may name, and where each of them is: nothing else is ever made from a file.

A module is imported when a file names a class of it, and not before. What a class is made of, and what must
be true of one that was read, stands at the class (`codec.part_of`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from tellwhy.core.errors import CannotWrite
from tellwhy.core.old_names import update_names
from tellwhy.core.params import validate_parameters
from tellwhy.core.registry import card_of, cards, list_decorated, load_entry_points
from tellwhy.storage import sklearn_models
from tellwhy.storage.codec import Part, check_learned, describe_part
from tellwhy.storage.documents import Misfit

# Explainers' names begin with the package, as others have such classes too. Detectors and explainers of the
# catalogue are found by themselves.
PLACES: Mapping[str, str] = {
    "Scaling": "tellwhy.core.arrays",
    "CentreDistance": "tellwhy.core.score",
    "KernelExpansion": "tellwhy.core.score",
    "NeighbourDistance": "tellwhy.core.score",
    "Exponential": "tellwhy.kernels.radial",
    "StudentT": "tellwhy.kernels.radial",
    "BooleanCode": "tellwhy.data.columns.codes",
    "CategoryCode": "tellwhy.data.columns.codes",
    "DateCode": "tellwhy.data.columns.codes",
    "NumberCode": "tellwhy.data.columns.codes",
    "TableEncoder": "tellwhy.data.columns.encoder",
    "Verdict": "tellwhy.data.columns.kinds",
    "Role": "tellwhy.data.columns.reading",
    "WrittenBooleans": "tellwhy.data.columns.labels",
    "WrittenDates": "tellwhy.data.columns.dates",
    "WrittenNumbers": "tellwhy.data.columns.numbers",
    "Compact": "tellwhy.data.columns.times",
    "Epoch": "tellwhy.data.columns.times",
    "WrittenTimes": "tellwhy.data.columns.times",
    "EdgeGraph": "tellwhy.data.graphs",
    "Grid": "tellwhy.data.graphs",
    "Lens": "tellwhy.detectors.patches.looks",
    "NearestPlaces": "tellwhy.detectors.patches.looks",
    "PlaceGaussians": "tellwhy.detectors.patches.looks",
    "PictureLooks": "tellwhy.kinds.picture_looks",
    "PatchRows": "tellwhy.data.pieces",
    "Windows": "tellwhy.data.pieces",
    "BagOfWords": "tellwhy.data.text",
    "ReferenceRows": "tellwhy.scoring.reference_rows",
    "ScaledMixture": "tellwhy.scoring.mixture_scores",
    "Projection": "tellwhy.scoring.mixture_scores",
    "SoftmaxWeights": "tellwhy.bases.adaptation",
    "FeatureMap": "tellwhy.bases.projections",
    "KernelBasis": "tellwhy.bases.kernel_basis",
    "DenseProjection": "tellwhy.bases.projections",
    "HadamardProjection": "tellwhy.bases.projections",
    "LandmarkProjection": "tellwhy.bases.projections",
    "ColumnLaw": "tellwhy.detectors.committee.column_law",
    "Dependence": "tellwhy.detectors.committee.members",
    "Gaussian": "tellwhy.detectors.committee.members",
    "ColumnScales": "tellwhy.detectors.committee.members",
    "Units": "tellwhy.detectors.committee.members",
    "Neighbours": "tellwhy.detectors.committee.members",
    "RarePairs": "tellwhy.detectors.committee.members",
    "CalibratedCommittee": "tellwhy.detectors.committee.committee",
    "PointMassLaw": "tellwhy.detectors.committee.column_law",
    "TailShortening": "tellwhy.detectors.committee.column_law",
    "Surprise": "tellwhy.scoring.surprise",
    "Tails": "tellwhy.detectors.committee.members",
    "ClassScores": "tellwhy.detectors.lccad.class_scores",
    "LCCAD": "tellwhy.detectors.lccad.lccad",
    "MixedColumns": "tellwhy.detectors.mixed_marginals",
    "GaussianCopula": "tellwhy.detectors.mixed_marginals",
    "KeptNetwork": "tellwhy.detectors.patches.layer_features",
    "PatchModel": "tellwhy.detectors.patches.patch_model",
    "KernelBasisClassifier": "tellwhy.classifiers.kernel_basis_classifier",
    "SoftmaxState": "tellwhy.classifiers.softmax",
    "CrammerSingerSVM": "tellwhy.classifiers.svm.weston_watkins",
    "LabelTreeSVM": "tellwhy.classifiers.label_tree",
    "LeeLinWahbaSVM": "tellwhy.classifiers.svm.lee_lin_wahba",
    "OneVsRestSVM": "tellwhy.classifiers.svm.lee_lin_wahba",
    "WestonWatkinsSVM": "tellwhy.classifiers.svm.weston_watkins",
    "TextClassifier": "tellwhy.classifiers.text_classifier",
    "TrainedOn": "tellwhy.classifiers.text_classifier",
    "tellwhy.ScoredCells": "tellwhy.explainers.corruption.corruption_posterior",
    "tellwhy.TriedValues": "tellwhy.explainers.corruption.corruption_posterior",
    "tellwhy.Neighbours": "tellwhy.explainers.perturbation.anomaly_contribution",
    "tellwhy.Neighbourhood": "tellwhy.explainers.shapley.neighbourhood",
    "tellwhy.Columns": "tellwhy.explainers.surrogate.mixture",
    "tellwhy.Convergence": "tellwhy.explainers.surrogate.chains",
    "tellwhy.Surrogate": "tellwhy.explainers.surrogate.mixture",
    "tellwhy.Priors": "tellwhy.explainers.surrogate.chains",
    "tellwhy.Posterior": "tellwhy.explainers.surrogate.sampler",
    "SeenValues": "tellwhy.verdicts.seen_values",
    "StoredColumn": "tellwhy.storage.rows",
    "StoredRows": "tellwhy.storage.rows",
    "Mark": "tellwhy.kinds.marks",
    "TableModel": "tellwhy.kinds.table_model",
    "Request": "tellwhy.kinds.request",
    "GraphModel": "tellwhy.kinds.graph",
    "NeighbourLaw": "tellwhy.kinds.beside_neighbours",
    "GraphRequest": "tellwhy.kinds.graph_input",
    "InsightModel": "tellwhy.kinds.insight",
    "InsightRequest": "tellwhy.kinds.insight",
    "NetworkModel": "tellwhy.kinds.network",
    "NetworkRequest": "tellwhy.kinds.networks.network",
    "Preparation": "tellwhy.kinds.networks.inputs",
    "NodeCode": "tellwhy.kinds.graph_input",
    "Notice": "tellwhy.results.notice",
    "Typical": "tellwhy.results.result",
    "Ground": "tellwhy.kinds.picture_looks",
    "PictureRequest": "tellwhy.kinds.picture_files",
    "PicturesModel": "tellwhy.kinds.pictures",
    "EventsModel": "tellwhy.kinds.events",
    "EventsRequest": "tellwhy.kinds.events",
    "SeriesModel": "tellwhy.kinds.windows",
    "SeriesRequest": "tellwhy.kinds.windows",
    "TextRequest": "tellwhy.kinds.texts",
    "TextsModel": "tellwhy.kinds.texts",
    "TextModel": "tellwhy.kinds.text_columns",
    "PaperWords": "tellwhy.kinds.text_columns",
    "WordNeighbours": "tellwhy.detectors.texts.word_neighbours",
    "LetterSurprise": "tellwhy.detectors.texts.letter_surprise",
    "SentenceNeighbours": "tellwhy.detectors.texts.sentence_neighbours",
    "StringCounts": "tellwhy.detectors.texts.letter_surprise",
    "Calibration": "tellwhy.verdicts.alarms",
    "Dependency": "tellwhy.checks.dependencies",
    "Keyboard": "tellwhy.checks.keyboard",
    "Order": "tellwhy.checks.orders",
    "Relation": "tellwhy.checks.relation_search",
    "CellLaw": "tellwhy.checks.row_law",
    "ColumnMass": "tellwhy.checks.column_mass",
    "Density": "tellwhy.checks.density",
    "LevelLaw": "tellwhy.checks.level_law",
    "RowLaw": "tellwhy.checks.row_law",
}
RENAMED: Mapping[str, str] = {
    "Observed": "ReferenceRows",
    "Panel": "CalibratedCommittee",
    "SpikedLaw": "PointMassLaw",
    "Straight": "TailShortening",
}
"""Names that classes had in files of earlier versions, and those that they have now."""

GROUP = "tellwhy.kinds"  # of entry points of packages that bring models of their own
_declared: dict[str, type] = {}
C = TypeVar("C", bound=type)


def saved(cls: C) -> C:
    """Declare a dataclass that a model file may hold, under its module and name."""
    _declared[f"{cls.__module__}.{cls.__qualname__}"] = cls
    return cls


ROLES = ("explainer", "graph explainer", "classifier explainer", "patch explainer", "ensemble")
"""Explainers that can be saved: all but those of networks, whose model is code."""

_OURS = "tellwhy."
_FRAME = "pandas.DataFrame"


class SavedClasses:
    """The classes that a file may hold; scikit-learn's only where the file says of which version."""

    def __init__(self, *, with_sklearn: bool = True):
        self.with_sklearn = with_sklearn

    def part(self, name: str) -> Part | None:
        """The class that a file gives this name; None: there is none."""
        name = RENAMED.get(name, name)
        if name.startswith(sklearn_models.PREFIX):
            return sklearn_models.parts().get(name) if self.with_sklearn else None
        if name == _FRAME:
            return _make_frame_part()
        if name in PLACES:
            return describe_part(getattr(import_module(PLACES[name]), name.removeprefix(_OURS)))
        return _find_part_of_others(name) or _find_part_of_catalogue(name)

    def name_of(self, cls: type) -> str | None:
        """The name that a file gives a class; None: it cannot be in one."""
        own = cls.__name__
        package = cls.__module__.partition(".")[0]
        if package == "sklearn":
            return sklearn_models.PREFIX + own
        if f"{package}.{own}" == _FRAME:
            return _FRAME
        if _declared.get(f"{cls.__module__}.{cls.__qualname__}") is cls:
            return f"{cls.__module__}.{cls.__qualname__}"
        for name in (own, _OURS + own):
            if PLACES.get(name) == cls.__module__:
                return name
        card = card_of(cls)
        if card is None or card.role not in ("detector", *ROLES):
            return None
        return own if card.role == "detector" else _OURS + own


def is_explainer(cls: type) -> bool:
    """Whether a class is an explainer of the catalogue that can be saved."""
    card = card_of(cls)
    return card is not None and card.role in ROLES


def _find_part_of_others(name: str) -> Part | None:
    """A class that was declared by `saved`; what may declare it is loaded only for a name with a module."""
    module = name.rpartition(".")[0]
    if name not in _declared and "." in module and module in _list_declaring():
        import_module(module)
    elif name not in _declared and module and not name.startswith(_OURS):
        load_entry_points(GROUP)
    return describe_part(_declared[name]) if name in _declared else None


@cache
def _list_declaring() -> frozenset[str]:
    """Names of our modules in which a class is declared by `saved`; none is loaded."""
    return frozenset(list_decorated(".", "saved\n"))


def _find_part_of_catalogue(name: str) -> Part | None:
    """A detector or an explainer; all of the catalogue are loaded only for one of another package."""
    own = name.removeprefix(_OURS)
    is_explainer = name != own
    roles: Iterable[str] = ROLES if is_explainer else ("detector",)
    folder = import_module("tellwhy.explainers" if is_explainer else "tellwhy.detectors")
    if own in folder.__all__:
        found = card_of(getattr(folder, own))
    else:
        found = next((card for role in roles for card in cards(role) if card.name == own), None)
    if found is None or found.role not in roles:
        return None
    return _make_explainer_part(found.cls) if is_explainer else describe_part(found.cls)


def _make_explainer_part(cls: Any) -> Part:
    return Part(cls, take_explainer, partial(make_explainer, cls))


def _list_params(cls: Any) -> list[str]:
    """Names of the parameters of an explainer but for what it explains."""
    return [name for name in inspect.signature(cls).parameters if name != "model"]


def take_explainer(explainer: Any) -> dict[str, Any]:
    """What a file holds of an explainer: its parameters, the model that it explains, and what it learned."""
    params = {name: getattr(explainer, name) for name in _list_params(type(explainer))}
    learned = {
        name: None if isinstance(value, Path) else value
        for name, value in vars(explainer).items()
        if name.endswith("_") and not name.startswith("_") and name not in params
    }
    model = vars(explainer).get("model")
    if callable(model) and not hasattr(model, "fit"):
        raise CannotWrite(
            f"This {type(explainer).__name__} explains a function, which no file can hold. Save one that "
            "explains a fitted model of tellwhy or scikit-learn."
        )
    return {"model": model, "params": params, "learned": learned}


# parameters that files of older versions do not hold, and what these versions did
_NEWER: dict[str, dict[str, Any]] = {
    "KernelShap": {"interactions": False, "link": "identity"},
    "Occlusion": {"groups": None},
    "LinearRelevance": {"target": None, "against": "runner_up"},
}


def make_explainer(cls: Any, fields: Mapping[str, Any]) -> Any:
    """The explainer that `take_explainer` was given."""
    params = {**_NEWER.get(cls.__name__, {}), **update_names(cls, fields["params"])}
    if sorted(params) != sorted(_list_params(cls)):
        raise Misfit(f"its parameters are {sorted(params)}, expected {sorted(_list_params(cls))}", "params")
    explainer = cls(**params) if fields["model"] is None else cls(fields["model"], **params)
    validate_parameters(explainer)
    for name, value in fields["learned"].items():
        check_learned(cls, name)
        setattr(explainer, name, value)
    # From now on the model must stay as it is (see `explainers.model_state`).
    explainer._has_learned = bool(fields["learned"])
    return explainer


def _make_frame_part() -> Part:
    """A table of pandas, as arrays and names."""
    from pandas import DataFrame

    from tellwhy.storage.rows import StoredRows

    def taken(frame: DataFrame) -> dict[str, Any]:
        if not all(isinstance(name, str) for name in frame.columns):
            raise CannotWrite("Rows whose columns are not named by text cannot be saved: rename them.")
        return {"rows": StoredRows.of(frame.reset_index(drop=True))}

    return Part(DataFrame, taken, lambda fields: fields["rows"].frame())
