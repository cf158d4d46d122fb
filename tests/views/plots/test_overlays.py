"""Words and pictures carry the colours of their own contributions."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.views import plots


def words(**changes: object) -> Explanation:
    settings = {
        "values": [[0.0, 2.0, -2.0]],
        "scores": [0.0],
        "method": "LRP",
        "feature_names": ["plain", "good", "bad"],
    }
    return Explanation(**(settings | changes))  # type: ignore[arg-type]


def test_words_have_the_colours_of_their_signs() -> None:
    notes = {note.text: note.bgcolor for note in plots.text(words()).layout.annotations}
    assert list(notes) == ["plain", "good", "bad"]
    assert notes["good"] == "rgb(163, 63, 0)"
    assert notes["bad"] == "rgb(31, 78, 121)"
    assert notes["plain"] == "rgb(247, 247, 245)"


def test_words_come_from_the_text_that_was_explained() -> None:
    said = [note.text for note in plots.text(words(data=np.array(["not so good"]))).layout.annotations]
    assert said == ["not", "so", "good"]
    said = [note.text for note in plots.text(words(data=np.array([["a", "b", "c"]]))).layout.annotations]
    assert said == ["a", "b", "c"]
    given = plots.text(words(), words=["x", "<b>", "z"]).layout.annotations
    assert [note.text for note in given] == ["x", "&lt;b&gt;", "z"]
    with pytest.raises(InvalidInput, match=r"3 features and 2 words.*`words=`"):
        plots.text(words(), words=["x", "y"])


def test_embedded_tokens_are_summed() -> None:
    e = Explanation(values=np.array([[[1.0, 1.0], [0.0, -4.0]]]), scores=[0.0], method="LRP")
    notes = plots.text(e, words=["up", "down"]).layout.annotations
    assert notes[1].bgcolor == "rgb(31, 78, 121)"
    assert notes[0].bgcolor != notes[1].bgcolor


def test_long_texts_are_set_in_lines_that_do_not_overlap() -> None:
    n = 120
    e = Explanation(
        values=np.ones((1, n)), scores=[1.0], method="m", feature_names=[f"word{i}" for i in range(n)]
    )
    notes = plots.text(e).layout.annotations
    lines = {note.y for note in notes}
    assert len(lines) > 5
    for line in lines:
        starts = [note.x for note in notes if note.y == line]
        ends = [note.x + len(note.text) for note in notes if note.y == line]
        assert all(start >= end for start, end in zip(starts[1:], ends[:-1], strict=True))
        assert max(ends) <= 92


def pictures(shape: tuple[int, ...] = (4, 6)) -> Explanation:
    values = np.arange(2.0 * np.prod(shape)).reshape(2, *shape)
    return Explanation(
        values=values, scores=values.reshape(2, -1).sum(axis=1), method="m", data=np.sqrt(values)
    )


@pytest.mark.parametrize("shape", [(4, 6), (4, 6, 3), (3, 8, 9)])
def test_contributions_lie_on_the_picture(shape: tuple[int, ...]) -> None:
    e = pictures(shape)
    alone, below, above = plots.overlay(e, row=1).data
    axis = {2: None, 3: 0 if shape[0] == 3 else 2}[len(shape)]
    np.testing.assert_allclose(above.z, e.values[1] if axis is None else e.values[1].sum(axis=axis))
    np.testing.assert_allclose(below.z, e.data[1] if axis is None else e.data[1].mean(axis=axis))
    np.testing.assert_array_equal(alone.z, below.z)


def test_no_contribution_hides_nothing() -> None:
    scale = plots.overlay(pictures()).layout.coloraxis.colorscale
    assert scale[2][0] == 0.5
    assert scale[2][1].endswith(",0.000)")
    assert plots.overlay(pictures()).layout.coloraxis.cmid == 0


def test_missing_and_wrong_pictures_are_answered() -> None:
    blind = Explanation(values=np.ones((1, 4, 4)), scores=[1.0], method="m")
    with pytest.raises(InvalidInput, match="`picture=`"):
        plots.overlay(blind)
    assert len(plots.overlay(blind, picture=np.zeros((4, 4))).data) == 3
    with pytest.raises(InvalidInput, match=r"\(5, 5\); expected \(4, 4\)"):
        plots.overlay(blind, picture=np.zeros((5, 5)))
    with pytest.raises(InvalidInput, match="draws pictures"):
        plots.overlay(words())
