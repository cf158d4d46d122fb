"""What is recorded while a model runs: the module of each operation, and the origin of each activation."""

import threading

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.explainers import coverage  # noqa: E402
from tellwhy.explainers.propagation.engine.calls import Operation  # noqa: E402
from tellwhy.explainers.propagation.engine.origins import Origin, Origins  # noqa: E402

X = torch.rand(2, 3)


class Raises(nn.Module):
    def forward(self, x):
        raise ArithmeticError


class Catches(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Raises()

    def forward(self, x):
        try:
            return self.inner(x)
        except ArithmeticError:
            return x * 2


class GoesOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = Catches()

    def forward(self, x):
        return torch.relu(self.outer(x))


def test_a_module_that_raised_is_not_taken_for_the_running_one():
    listed = coverage(GoesOn().eval(), X).set_index("operation")
    assert listed.loc["relu", "path"] == ""


class WaitsForAnother(nn.Module):
    """Runs an operation in a module that was entered while a module of another thread was running."""

    def __init__(self):
        super().__init__()
        self.inside = nn.ReLU()
        self.started, self.finish = threading.Event(), threading.Event()

    def forward(self, x):
        elsewhere = nn.Identity()
        elsewhere.forward = self.wait
        thread = threading.Thread(target=elsewhere, args=(x.detach(),))
        thread.start()
        assert self.started.wait(10)
        self.inside.register_forward_pre_hook(lambda *_: (self.finish.set(), thread.join())[0])
        return self.inside(x)

    def wait(self, x):
        self.started.set()
        assert self.finish.wait(10)
        return x


def test_modules_of_other_threads_do_not_count():
    listed = coverage(WaitsForAnother().eval(), X).set_index("operation")
    assert listed.loc["relu", "path"] == "inside"


def test_a_new_tensor_in_the_place_of_a_freed_one_is_not_taken_for_it():
    origins = Origins()
    old = torch.zeros(1)
    origins.keep(old, Origin(Operation(0, "relu", "rectifier", "")))
    origins.replace(old, torch.ones(1))
    assert origins.of(old) is not None
    assert float(origins.newest(old)) == 1
    place = id(old)
    del old
    others = []
    while len(others) < 10_000 and (not others or id(others[-1]) != place):
        others.append(torch.zeros(1))
    if id(others[-1]) != place:
        pytest.skip("Python has not used the place again")
    assert origins.of(others[-1]) is None
    assert float(origins.newest(others[-1])) == 0
