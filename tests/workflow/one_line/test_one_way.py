"""One way to say things: methods by name, class or instance; batches, threads, seeds and progress alike."""

import inspect
import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import tellwhy
from tellwhy.core import progress
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.registry import list_explainers
from tellwhy.data.graphs import chain
from tellwhy.detectors import LCCAD, Committee, KernelDensity, OneClassSVM, PatchModel
from tellwhy.explainers import KernelShap, Occlusion, RandomAttribution

X = np.random.default_rng(0).normal(size=(90, 4))
ODD = X[:3] + 6 * np.eye(4)[:3]
MODEL = OneClassSVM(nu=0.2).fit(X)
GRADIENTS_IN_BATCHES = ["IntegratedGradients", "Sensitivity", "SimpleTaylor"]
IN_BATCHES = [
    card.name
    for card in list_explainers()
    if getattr(card.cls, "calls_in_batches", False) and card.name not in GRADIENTS_IN_BATCHES
]


def of_pictures(torch):
    layers = torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(108, 2)
    return torch.nn.Sequential(*layers).eval()


def model_and_rows(name):
    """A model that a method of the catalogue can explain, rows, and further arguments."""
    torch = pytest.importorskip("torch")
    role = next(c.role for c in list_explainers() if c.name == name)
    if role == "network explainer":
        if name in ("GradCAM", "GuidedGradCAM"):
            return of_pictures(torch), np.random.default_rng(1).random((3, 1, 8, 8)).astype(np.float32), {}
        network = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).eval()
        if name == "LayerAttribution":
            return network, np.abs(X[:3]).astype(np.float32), {"layer": "0"}
        is_learned = name.startswith("Pattern") or name in ("DeepLiftShap", "GradientShap")
        further = {"background": X.astype(np.float32)} if is_learned else {}
        return network, np.abs(X[:3]).astype(np.float32), further
    if role == "graph explainer":
        return LCCAD(2, 0.5, n_init=1, random_state=0).fit(X, chain(90)), X, {"graph": chain(90)}
    if role == "patch explainer":
        pictures = np.random.default_rng(1).random((3, 8, 8))
        from tellwhy.data.pieces import cut_patches

        detector = KernelDensity().fit(
            np.concatenate([cut_patches(p, (4, 4)) for p in pictures]).reshape(-1, 16)
        )
        return detector, pictures, {"patch_size": (4, 4)}
    special = {
        "CommitteeShares": lambda: (Committee().fit(X), ODD, {}),
        "DMMMEN": lambda: (
            LogisticRegression().fit(X, X[:, 0] > 0),
            X[:5],
            {"background": X, "n_components": 1, "n_elastic_nets": 1, "n_sweeps": 30, "n_burn": 10},
        ),
        "Ensemble": lambda: ([Occlusion(MODEL), RandomAttribution(MODEL)], ODD, {"background": X}),
        "LinearRelevance": lambda: (LogisticRegression().fit(X, X[:, 0] > 0), ODD, {}),
        "LinearShapley": lambda: (LinearRegression().fit(X, X[:, 0]), ODD, {"background": X}),
        "Noise": lambda: (Occlusion(MODEL), ODD, {"background": X, "n_samples": 3}),
        "PatchRelevance": lambda: (PatchModel(KernelDensity(), 3).fit(X), ODD, {}),
        "Sobel": lambda: (PatchModel(KernelDensity(), 3).fit(X), ODD, {}),
        "TreeShapley": lambda: (DecisionTreeRegressor(max_depth=3).fit(X, X[:, 0]), ODD, {}),
    }
    rows = {} if name in COMPARES_WITH_NONE else {"background": X}
    return special.get(name, lambda: (MODEL, ODD, rows))()


# their values are no shares of the score, so that nothing says what would be normal
COMPARES_WITH_NONE = {
    "ExpectedValue",
    "Marginal",
    "NearestSupport",
    "RandomAttribution",
    "Sensitivity",
    "SequentialFeature",
}


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.TellwhyWarning")
@pytest.mark.parametrize("name", sorted(tellwhy.methods()["name"]))
def test_every_method_of_the_catalogue_can_be_asked_for(name):
    model, rows, further = model_and_rows(name)
    by_name = tellwhy.explain(model, rows, name, **further)
    assert by_name.method == name
    cls = next(c.cls for c in list_explainers() if c.name == name)
    by_class = tellwhy.explain(model, rows, cls, **further)
    np.testing.assert_array_equal(by_class.values, by_name.values)


@pytest.mark.parametrize("name", ["Lime", "Occlusion", "PredictionDifference"])
def test_parts_of_pictures_by_name(name):
    torch = pytest.importorskip("torch")
    pictures = np.random.default_rng(1).random((6, 1, 8, 8)).astype(np.float32)
    settings = {"Lime": {"n_segments": 6, "n_samples": 64}}.get(name, {"patch_size": 4})
    found = tellwhy.explain(of_pictures(torch), pictures[:2], name, background=pictures, target=1, **settings)
    assert found.values.shape == (2, 1, 8, 8)
    if name == "Lime":  # segments are replaced by their own mean: no rows are needed
        alone = tellwhy.explain(of_pictures(torch), pictures[:2], name, target=1, **settings)
        assert alone.values.shape == found.values.shape
    sums = found.base_values + found.values.sum(axis=(1, 2, 3)) + found.residual
    np.testing.assert_allclose(sums, found.scores, atol=1e-6)


def test_patterns_are_learned_from_rows_that_must_be_given():
    network, rows, _ = model_and_rows("PatternNet")
    with pytest.raises(InvalidParameter, match="background=rows"):
        tellwhy.explain(network, rows, "PatternNet")


def test_an_explainer_that_is_made_already():
    explainer = KernelShap(MODEL, n_coalitions="auto")
    found = tellwhy.explain(MODEL, ODD, explainer, background=X)
    np.testing.assert_array_equal(
        found.values, tellwhy.explain(MODEL, ODD, "KernelShap", background=X).values
    )
    assert not hasattr(explainer, "rows_")  # what is the user's stays as it was
    fitted = KernelShap(MODEL).fit(X)
    np.testing.assert_array_equal(tellwhy.explain(MODEL, ODD, fitted).values, found.values)


@pytest.mark.parametrize("name", IN_BATCHES)
def test_batches_and_threads_change_no_value(name):
    sizes = []

    def score(rows):
        sizes.append(len(rows))
        return np.abs(rows).max(axis=1) + 0.1 * rows[:, 0]

    rows = {} if name in COMPARES_WITH_NONE else {"background": X}
    plain = tellwhy.explain(score, ODD, name, **rows)
    sizes.clear()
    small = tellwhy.explain(score, ODD, name, **rows, batch_size=7)
    assert max(sizes) <= 7
    np.testing.assert_allclose(small.values, plain.values, rtol=1e-12, atol=1e-12)
    threads = [tellwhy.explain(score, ODD, name, **rows, n_jobs=n).values for n in (2, 3)]
    np.testing.assert_array_equal(threads[0], threads[1])
    np.testing.assert_allclose(threads[0], plain.values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", GRADIENTS_IN_BATCHES)
def test_gradients_are_called_in_batches_too(name, monkeypatch):
    sizes = []
    kernel_score = type(MODEL.to_score())
    whole = kernel_score.gradient

    def counted(self, rows, *further):
        sizes.append(len(rows))
        return whole(self, rows, *further)

    monkeypatch.setattr(kernel_score, "gradient", counted)
    background = {"background": X} if name == "IntegratedGradients" else {}
    plain = tellwhy.explain(MODEL, ODD, name, **background)
    sizes.clear()
    small = tellwhy.explain(MODEL, ODD, name, batch_size=2, **background)
    assert max(sizes) <= 2
    np.testing.assert_allclose(small.values, plain.values, rtol=1e-12, atol=1e-12)
    threads = tellwhy.explain(MODEL, ODD, name, batch_size=2, n_jobs=3, **background)
    np.testing.assert_array_equal(threads.values, small.values)


def test_networks_are_called_in_threads_where_that_is_asked_for():
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).eval()
    found = [tellwhy.explain(network, ODD, n_jobs=n, batch_size=8).values for n in (1, 2, 3)]
    np.testing.assert_array_equal(found[1], found[2])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    tokens = torch.nn.Sequential(torch.nn.Embedding(9, 3), torch.nn.Flatten(), torch.nn.Linear(12, 2)).eval()
    words = np.arange(12).reshape(3, 4) % 9
    found = [tellwhy.explain(tokens, words, n_jobs=n, batch_size=8).values for n in (1, 2)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)


def test_methods_that_call_a_score_many_times_take_batches_and_threads():
    # all others read the model itself, and ask it for one score per row
    batched = {*IN_BATCHES, *GRADIENTS_IN_BATCHES}
    assert batched >= {"KernelShap", "Lime", "Occlusion", "AnomalyShapley", "CorruptionPosterior"}
    for each in list_explainers():
        taken = inspect.signature(each.cls.__init__).parameters
        if each.name in batched:
            assert (taken["batch_size"].default, taken["n_jobs"].default) == (None, None)


@pytest.mark.parametrize("card", list_explainers(), ids=lambda c: c.name)
def test_seeds_default_to_zero_and_names_are_the_same(card):
    taken = inspect.signature(card.cls.__init__).parameters
    if "random_state" in taken:
        assert taken["random_state"].default == 0
    assert not {"seed", "njobs", "n_threads", "workers", "verbose", "show_progress"} & set(taken)


def test_networks_take_batches_and_a_device_whatever_the_method():
    torch = pytest.importorskip("torch")
    network = torch.nn.Linear(4, 2).eval()
    for method in ("auto", "KernelShap", "Occlusion", "LRP"):
        given = {} if method in ("auto", "LRP") else {"background": X}
        one = tellwhy.explain(network, ODD, method, batch_size=1, device="cpu", **given)
        np.testing.assert_allclose(
            one.values, tellwhy.explain(network, ODD, method, **given).values, atol=1e-5
        )


class TestProgress:
    def shown(self, monkeypatch, capsys, **given):
        monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
        monkeypatch.setattr(progress, "_REFRESH_SECONDS", -1.0)
        tellwhy.explain(MODEL, ODD, "Occlusion", background=X, **given)
        return capsys.readouterr().err

    def test_on_and_off(self, monkeypatch, capsys):
        assert "explaining by occlusion" in self.shown(monkeypatch, capsys, progress=True)
        assert not self.shown(monkeypatch, capsys, progress=False)
        assert not self.shown(monkeypatch, capsys)  # here is no terminal

    def test_in_notebooks(self, monkeypatch, capsys):
        class Shell:
            @staticmethod
            def get_ipython():
                return None

        monkeypatch.setitem(sys.modules, "ipykernel", object())
        monkeypatch.setitem(sys.modules, "IPython", Shell)
        assert "explaining by occlusion" in self.shown(monkeypatch, capsys)


def test_namespaces_hold_public_names_only():
    for module in (
        tellwhy,
        tellwhy.explainers,
        tellwhy.scoring,
        tellwhy.detectors,
        tellwhy.plot,
        tellwhy.workflow,
    ):
        names = [name for name in dir(module) if name != "__version__"]
        assert names == sorted(set(names), key=names.index)
        assert not [name for name in names if name.startswith("_") or name in ("annotations", "np", "Any")]
        for name in names:
            assert getattr(module, name) is not None
    assert "as_score" in dir(tellwhy.scoring)


def test_a_parameter_without_a_default_is_asked_for():
    with pytest.raises(InvalidParameter, match="PatchDTD needs the parameter 'patch_size'"):
        tellwhy.explain(KernelDensity().fit(X), X, "PatchDTD")
