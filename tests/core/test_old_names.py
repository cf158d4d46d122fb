"""Words that parameters and calls had before warn, say what to write, and do what the new ones do."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.old_names import GONE_IN, OLD_NAMES, OLD_ORDERS, TakesOldNames, new_names, takes_old_names
from tellwhy.detectors import GaussianMixture, KernelDensity, NearestNeighbours

X = np.random.default_rng(0).normal(size=(60, 3))


def renamed(old, new):
    """Expect the warning of a name that has changed."""
    return pytest.warns(DeprecationWarning, match=rf"(?s){old!r}.*{new!r} now.*tellwhy {re.escape(GONE_IN)}")


def test_an_old_name_warns_at_the_line_that_uses_it_and_does_the_same():
    with renamed("false_alarms", "contamination") as told:
        old = KernelDensity(false_alarms=0.05)
    assert [warning.filename for warning in told] == [__file__]
    assert old.get_params() == KernelDensity(contamination=0.05).get_params()
    assert old.fit(X).threshold_ == KernelDensity(contamination=0.05).fit(X).threshold_


def test_set_params_takes_old_names():
    with renamed("false_alarms", "contamination"):
        detector = NearestNeighbours().set_params(false_alarms=0.2)
    assert detector.get_params() == {"n_neighbors": 10, "contamination": 0.2}
    with pytest.raises(ValueError, match="Invalid parameter 'false_alarm'"):
        detector.set_params(false_alarm=0.2)


def test_estimators_know_nothing_of_old_names():
    assert "false_alarms" not in GaussianMixture().get_params()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(GaussianMixture(contamination=0.2)).contamination == 0.2


def test_both_names_at_once_are_refused():
    with pytest.raises(InvalidParameter, match="the same parameter twice"):
        KernelDensity(false_alarms=0.1, contamination=0.1)


def test_files_are_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert new_names(KernelDensity, {"false_alarms": 0.1, "q": 2}) == {"contamination": 0.1, "q": 2}


class Drawn(TakesOldNames):
    def __init__(self, model, *, size=1, colour="red"):
        self.held = (model, size, colour)


class Child(Drawn):
    def __init__(self, model, *, hue="blue"):
        super().__init__(model, colour=hue)


class Trained(TakesOldNames):
    def __init__(self, size=1):
        self.size = size

    @takes_old_names
    def fit(self, background, *, n_rows=1):
        return background, n_rows


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setitem(OLD_NAMES, "Drawn", {"color": "colour"})
    monkeypatch.setitem(OLD_NAMES, "Trained.fit", {"X": "background"})
    monkeypatch.setitem(OLD_ORDERS, "Drawn", ("model", "size", "colour"))
    monkeypatch.setitem(OLD_ORDERS, "Trained.fit", ("background", "n_rows"))


@pytest.mark.usefixtures("table")
def test_what_went_by_place_is_taken_by_name():
    with pytest.warns(
        DeprecationWarning, match=r"Drawn takes size, colour by name now: write size=…, colour="
    ):
        assert Drawn(1, 2, "green").held == (1, 2, "green")
    with pytest.raises(TypeError, match="multiple values for argument 'size'"):
        Drawn(1, 2, size=3)
    with pytest.raises(TypeError, match="positional arguments"):
        Drawn(1, 2, 3, 4)


@pytest.mark.usefixtures("table")
def test_a_subclass_calls_its_base_class_with_new_names():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Child(1, hue="grey").held == (1, 1, "grey")


@pytest.mark.usefixtures("table")
def test_methods_take_old_names():
    with renamed("X", "background"):
        assert Trained().fit(X=3) == (3, 1)
    with pytest.warns(DeprecationWarning, match="n_rows by name"):
        assert Trained().fit(3, 4) == (3, 4)
    assert Trained().fit(3, n_rows=4) == (3, 4)
