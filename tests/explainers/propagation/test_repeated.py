"""Batches that are recorded once and repeated; a GPU does it by CUDA graphs, here by a stand-in."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.explainers import LRP  # noqa: E402
from tellwhy.explainers.propagation.cuda_graphs import Clock, Repeated, may_repeat  # noqa: E402
from tellwhy.explainers.propagation.results import Collector, Result  # noqa: E402
from tellwhy.scoring.network_inputs import Inputs  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")


class Work:
    """Explains rows by their double; counts its calls."""

    def __init__(self, wrong_after=None):
        self.calls = 0
        self.wrong_after = wrong_after

    def __call__(self, rows, targets):
        self.calls += 1
        x = rows.tensors[0]
        off = 1.0 if self.wrong_after is not None and self.calls > self.wrong_after else 0.0
        return [Result([2 * x + off], x.sum(1), torch.zeros(len(x), dtype=torch.int64))]


class StandIn:
    """A recording that runs the work again, as a graph would repeat its kernels."""

    n_repeats = 0

    def __init__(self, work, rows, targets):
        self.work = work
        self.targets = targets

    def again(self, rows):
        StandIn.n_repeats += 1
        return self.work(rows, self.targets)


def batches(n, size=4):
    generator = torch.Generator().manual_seed(0)
    return [Inputs((torch.randn(size, 3, generator=generator),)) for _ in range(n)]


def values_of(repeated, given):
    return [repeated(rows, ["max"])[0].values[0] for rows in given]


class Slow(Clock):
    """Python is as slow as is said."""

    def __init__(self, is_slow=True):
        super().__init__()
        self.is_slow = is_slow

    def __exit__(self, *_):
        pass

    def python_is_slow(self):
        return self.is_slow


def test_batches_are_repeated_from_the_fourth_on():
    StandIn.n_repeats = 0
    work = Work()
    given = batches(7)
    for rows, found in zip(given, values_of(Repeated(work, 4, StandIn, Slow()), given), strict=True):
        torch.testing.assert_close(found, 2 * rows.tensors[0])
    assert StandIn.n_repeats == 1 + 4  # the third batch once more, to compare


def test_where_the_gpu_has_enough_to_do_nothing_is_recorded():
    work = Work()
    repeated = Repeated(work, 4, StandIn, Slow(is_slow=False))
    values_of(repeated, batches(7))
    assert repeated.recording is None
    assert work.calls == 7


def test_python_is_slow_where_it_takes_as_long_as_the_gpu():
    class End:
        def __init__(self, done, at):
            self.done, self.at = done, at

        def query(self):
            return self.done

        def elapsed_time(self, other):
            return other.at - self.at  # milliseconds

    clock = Clock()
    clock._seconds = [0.5, 0.050]
    for done, end, slow in ((True, 52.0, True), (True, 90.0, False), (False, 52.0, False)):
        clock._ends = [End(True, 0.0), End(done, end)]
        assert clock.python_is_slow() is slow


def test_a_last_batch_that_is_smaller_runs_as_ever():
    repeated = Repeated(Work(), 4, StandIn, Slow())
    values_of(repeated, batches(5))
    StandIn.n_repeats = 0
    (found,) = values_of(repeated, batches(1, size=2))
    assert found.shape == (2, 3)
    assert StandIn.n_repeats == 0


def test_a_recording_that_gives_something_else_is_not_used():
    repeated = Repeated(Work(wrong_after=3), 4, StandIn, Slow())
    values_of(repeated, batches(5))
    assert repeated.recording is None


def test_a_model_that_cannot_be_recorded_runs_as_ever():
    def fails(work, rows, targets):
        raise RuntimeError("operation not permitted when stream is capturing")

    work = Work()
    values_of(Repeated(work, 4, fails, Slow()), batches(6))
    assert work.calls == 6


def test_only_batches_that_are_alike_are_repeated():
    model = nn.Linear(3, 2).eval()

    class OnGpu:
        is_cuda = True

    rows = Inputs((torch.zeros(64, 3),))
    assert not may_repeat(model, rows, ["max"], 8)  # not on a GPU
    object.__setattr__(rows, "tensors", (OnGpu(),))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inputs, "__len__", lambda self: 192)
        assert may_repeat(model, rows, ["max", 1], 8)
        assert not may_repeat(model, rows, ["max"], 16)  # twelve batches
        assert not may_repeat(model, rows, [np.zeros(192, dtype=int)], 8)  # each row has its own target
        handle = model.register_forward_hook(lambda *_: None)
        assert not may_repeat(model, rows, ["max"], 8)  # somebody watches
        handle.remove()


def test_results_that_are_not_finite_are_refused_with_their_rows():
    refused = []

    def refuse(rows):
        refused.append(rows)
        raise InvalidInput("not finite")

    collector = Collector(4, refuse)
    rows = Inputs((torch.zeros(4, 3),))
    with pytest.raises(InvalidInput):
        collector.put(
            rows, slice(0, 4), Result([torch.full((4, 3), torch.nan)], torch.zeros(4), torch.zeros(4))
        )
    assert refused == [rows]


@needs_gpu
@pytest.mark.parametrize("settings", [{}, {"composite": "preset_a"}])
def test_a_gpu_repeats_what_it_recorded(settings):
    torch.manual_seed(0)
    model = (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(288, 4))
        .cuda()
        .eval()
    )
    x = torch.randn(204, 3, 8, 8, device="cuda")
    found = LRP(model, batch_size=8, **settings).explain(x)
    wanted = LRP(model, batch_size=204, **settings).explain(x)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(found.extras["output"], wanted.extras["output"])
