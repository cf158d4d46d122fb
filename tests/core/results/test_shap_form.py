"""Explanations to shap and back: the same numbers beside the same cells."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM

from tellwhy import Explanation
from tellwhy.core.errors import InvalidInput

shap = pytest.importorskip("shap")


def example(residual=0.0, **changes):
    values = np.array([[1.0, -2.0], [0.5, 4.0]])
    data = pd.DataFrame({"unused": [0, 0], "b": ["red", "blue"], "a": [7.0, 8.0]})
    given = {
        "values": values,
        "base_values": 1.0,
        "data": data,
        "feature_names": ["a", "b"],
        "method": "Example",
    }
    return Explanation(**{**given, "scores": values.sum(axis=1) + 1.0 + residual, **changes})


def test_values_stand_beside_the_cells_of_their_columns():
    theirs = example().to_shap()
    assert theirs.feature_names == ["a", "b"]
    assert theirs.display_data.tolist() == [[7.0, "red"], [8.0, "blue"]]
    assert theirs.data.tolist() == [[7.0, 1.0], [8.0, 0.0]]  # texts as codes


def test_what_was_not_attributed_is_carried():
    theirs = example(residual=0.25).to_shap()
    assert theirs.feature_names == ["a", "b", "(not attributed)"]
    np.testing.assert_allclose(theirs.values.sum(axis=1) + theirs.base_values, example(residual=0.25).scores)
    image = Explanation(values=np.ones((2, 3, 3)), scores=[10.0, 11.0], method="Image").to_shap()
    np.testing.assert_allclose(image.values.sum(axis=(1, 2)) + image.base_values, [10.0, 11.0])


def test_an_encoded_pipeline_keeps_its_columns():
    import tellwhy

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"town": rng.choice(["x", "y"], 60), "age": rng.normal(size=60), "pay": rng.normal(size=60)}
    )
    encoder = make_column_transformer(
        (StandardScaler(), ["pay", "age"]), (OneHotEncoder(sparse_output=False), ["town"])
    )
    model = make_pipeline(encoder, OneClassSVM(nu=0.2)).fit(frame)
    explanation = tellwhy.explain(model, frame.iloc[:5])
    theirs = explanation.to_shap()
    assert theirs.feature_names[:3] == ["town", "age", "pay"]
    np.testing.assert_array_equal(theirs.values[:, :3], explanation.values)
    np.testing.assert_array_equal(theirs.display_data[:, 1].astype(float), frame.age[:5])
    np.testing.assert_allclose(theirs.values.sum(axis=1) + theirs.base_values, explanation.scores)


def test_shap_draws_what_it_is_given():
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    theirs = example(residual=0.25).to_shap()
    shap.plots.waterfall(theirs[0], show=False)
    texts = " ".join(text.get_text() for text in plt.gca().get_yticklabels())
    assert "red" in texts
    plt.close("all")


@pytest.mark.parametrize("theirs", ["rows", "one row", "one base"])
def test_round_trip(theirs):
    e = example()
    given = {
        "rows": e.to_shap(),
        "one row": e.to_shap()[1],
        "one base": shap.Explanation(e.values, base_values=1.0, feature_names=["a", "b"]),
    }[theirs]
    back = Explanation.from_shap(given)
    expected = e[1] if theirs == "one row" else e
    np.testing.assert_array_equal(back.values, expected.values)
    np.testing.assert_allclose(back.scores, expected.scores)
    np.testing.assert_allclose(back.residual, 0.0, atol=1e-12)
    assert back.feature_names == ["a", "b"]


def test_one_of_several_outputs_is_taken():
    values = np.arange(12.0).reshape(2, 3, 2)
    theirs = shap.Explanation(
        values, np.array([[1.0, 2.0], [1.0, 2.0]]), np.ones((2, 3)), feature_names=list("abc")
    )
    back = Explanation.from_shap(theirs, output=1)
    np.testing.assert_array_equal(back.values, values[:, :, 1])
    np.testing.assert_array_equal(back.base_values, 2.0)
    with pytest.raises(InvalidInput, match=r"values of 2 outputs.*output=0"):
        Explanation.from_shap(theirs)
    single = Explanation.from_shap(theirs[0], output=0)
    np.testing.assert_array_equal(single.values, values[:1, :, 0])
