"""Six ways to show relevance as a picture, and series with theirs."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.views.plots import series, six_views, visualise
from tellwhy.views.plots.visualisations import VISUALISATIONS

VALUES = np.array([[0.0, 4.0, 0.0], [0.0, 0.0, -2.0]])
PICTURE = np.array([[200.0, 100.0, 50.0], [10.0, 20.0, 30.0]])


def test_the_graymap_shows_absolute_values():
    np.testing.assert_array_equal(visualise(VALUES, how="graymap")[..., 0], [[0, 255, 0], [0, 0, 128]])


def test_the_heatmap_has_orange_for_more_blue_for_less_and_white_for_nothing():
    shown = visualise(VALUES, how="heatmap").astype(int)
    assert shown[0, 1, 0] > shown[0, 1, 2]
    assert shown[1, 2, 2] > shown[1, 2, 0]
    assert shown[0, 0].min() > 240


def test_the_scaled_picture_is_dark_where_nothing_is_relevant():
    shown = visualise(VALUES, PICTURE, "scale")
    assert shown[0, 1, 0] == 100
    assert shown[1, 2, 0] == 15
    assert shown[0, 0, 0] == 0


def test_the_mask_keeps_the_most_relevant_part_as_it_is():
    shown = visualise(VALUES, PICTURE, "mask", keep=1 / 6)
    assert shown[0, 1, 0] == 100
    assert shown[0, 0, 0] == 30
    assert (visualise(np.zeros((2, 3)), PICTURE, "mask", keep=1.0)[0, 0] == 30).all()


def test_the_blend_shows_the_picture_where_nothing_is_relevant():
    values = np.zeros((30, 30))
    values[20, 20] = 1.0
    picture = np.full((30, 30), 90.0)
    shown = visualise(values, picture, "blend").astype(int)
    assert (shown[0, 0] == 90).all()
    assert np.abs(shown[20, 20] - 90).max() > 20


def test_the_projection_puts_zero_in_the_middle():
    values = np.zeros((2, 2, 3))
    values[0, 0] = [1.0, -1.0, 0.5]
    shown = visualise(values, how="projection")
    np.testing.assert_array_equal(shown[0, 0], [255, 0, 191])
    np.testing.assert_array_equal(shown[1, 1], [128, 128, 128])


@pytest.mark.parametrize("how", VISUALISATIONS)
def test_channels_may_come_first_or_last_and_nothing_is_no_obstacle(how):
    values = np.random.default_rng(0).normal(size=(8, 9, 3))
    picture = np.random.default_rng(1).random((8, 9, 3))
    first = visualise(np.moveaxis(values, 2, 0), np.moveaxis(picture, 2, 0), how)
    np.testing.assert_array_equal(first, visualise(values, picture, how))
    assert first.shape == (8, 9, 3)
    assert first.dtype == np.uint8
    assert visualise(np.zeros((4, 4)), np.zeros((4, 4)), how).shape == (4, 4, 3)


def test_the_root_shows_small_values_better():
    plain = visualise(VALUES, how="graymap")[1, 2, 0]
    assert visualise(VALUES, how="graymap", root=True)[1, 2, 0] > plain


def test_what_cannot_be_drawn_is_told():
    with pytest.raises(InvalidParameter, match="'how' parameter"):
        visualise(VALUES, how="jet")
    with pytest.raises(InvalidInput, match="Pass picture="):
        visualise(VALUES, how="blend")
    with pytest.raises(InvalidInput, match="expected \\(2, 3\\)"):
        visualise(VALUES, np.zeros((3, 3)), "scale")
    with pytest.raises(InvalidInput, match="takes values of shape"):
        visualise(np.zeros(4))


def test_six_views_stand_beside_the_picture():
    e = Explanation(values=VALUES[None], scores=[2.0], method="Example", data=PICTURE[None])
    figure = six_views(e)
    assert [note.text for note in figure.layout.annotations] == ["the picture", *VISUALISATIONS]
    with pytest.raises(InvalidInput, match="needs the picture"):
        six_views(Explanation(values=VALUES[None], scores=[2.0], method="Example"))


def test_series_are_drawn_channel_by_channel_with_their_relevance():
    rng = np.random.default_rng(0)
    values = rng.random((2, 50, 3))
    e = Explanation(values=values, scores=[1.0, 2.0], method="Example", data=rng.normal(size=(2, 50, 3)))
    figure = series(e, 1, channels=["x", "y", "<b>"])
    assert len(figure.data) == 6
    np.testing.assert_allclose(figure.data[0].y, values[1, :, 0])
    np.testing.assert_allclose(figure.data[1].y, e.data[1, :, 0])
    assert figure.layout.yaxis5.title.text == "&lt;b&gt;"


def test_of_many_samples_the_peaks_are_drawn():
    values = np.zeros((1, 100_000))
    values[0, 12_345] = 7.0
    e = Explanation(values=values, scores=[7.0], method="Example", data=np.zeros((1, 100_000)))
    assert max(series(e).data[0].y) == 7.0
    with pytest.raises(InvalidInput, match=r"plot\.series draws"):
        series(Explanation(values=values, scores=[7.0], method="Example"))
    with pytest.raises(InvalidInput, match="2 names for 1 channels"):
        series(e, channels=["a", "b"])
