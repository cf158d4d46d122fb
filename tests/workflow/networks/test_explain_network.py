"""From a network's name and pictures or a text to explanations: what is told must be true of them."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
from torch import nn  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, TellwhyError, UnreadableFile  # noqa: E402
from tellwhy.kinds.networks.inputs import Preparation, read_labels  # noqa: E402
from tellwhy.kinds.networks.loading import load_network  # noqa: E402
from tellwhy.kinds.networks.network import NetworkRequest, explain_network  # noqa: E402
from tellwhy.results.network_run import (  # noqa: E402
    load_network_run,
    read_network,
    run_record,
    save_network_run,
)

NETS = '''
import torch
from torch import nn

class Corner(nn.Module):
    """Class 0 is light in the upper left corner, class 1 in the lower right one."""
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(1, 2, 8, bias=False)
        self.layer.weight.data.zero_()
        self.layer.weight.data[0, 0, :4, :4] = 1.0
        self.layer.weight.data[1, 0, 4:, 4:] = 1.0
    def forward(self, x):
        return self.layer(x).flatten(1)

class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(4, 2)
        self.words.weight.data[:] = torch.tensor([[0., 0.], [0., 0.], [3., 0.], [0., 1.]])
    def forward(self, tokens):
        return self.words(tokens).sum(1)

def corner():
    return Corner()

def reader():
    numbers = {"good": 2, "bad": 3}
    return Counts(), lambda text: torch.tensor([numbers.get(word, 1) for word in text.split()])

def broken():
    raise RuntimeError("no weights here")

number = 3
'''


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module of networks and pictures of light corners."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets_for_tests.py").write_text(NETS)
    for k in range(3):
        pixels = np.zeros((8, 8), dtype=np.uint8)
        pixels[:4, :4] = 255
        (tmp_path / "in").mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / "in" / f"{k}.png")
    yield tmp_path
    sys.modules.pop("nets_for_tests", None)


def test_pictures_are_explained_where_their_light_is(place):
    run = explain_network("nets_for_tests:corner", "in", NetworkRequest(method="lrp,gradient"))
    assert [item.explained for item in run.items] == ["0", "0", "0"]
    first = run.items[0]
    assert first.output == pytest.approx(16.0)
    assert first.values["lrp"][0, :4, :4].sum() == pytest.approx(16.0, abs=1e-3)
    assert np.abs(first.values["lrp"][0, 4:]).sum() == 0
    lrp, gradient = run.methods
    assert lrp.left_over < 1e-4
    assert gradient.left_over is None
    assert lrp.n_better == lrp.n_judged == 3
    assert lrp.area < 0.5 * lrp.random_area
    assert "ran the code of its module" in run.notices[-1]


def test_methods_that_change_parts_of_pictures(place):
    run = explain_network("nets_for_tests:corner", "in", NetworkRequest(method="occlusion,lime", check=False))
    for name in ("occlusion", "lime"):
        values = run.items[0].values[name]
        assert values[0, :4, :4].sum() > 5 * np.abs(values[0, 4:]).sum()
    with pytest.raises(InvalidParameter, match="takes pictures"):
        explain_network("nets_for_tests:reader", "good", NetworkRequest(method="lime"))


def test_another_class_by_number_or_name(place):
    (place / "names.txt").write_text("upper\nlower\n")
    for asked in ("1", "lower"):
        request = NetworkRequest(target=asked, labels=place / "names.txt", check=False)
        run = explain_network("nets_for_tests:corner", "in/0.png", request)
        assert run.items[0].explained == "lower"
        assert run.items[0].output == 0.0
        assert [one.name for one in run.items[0].classes] == ["upper", "lower"]
        assert "says upper" in run.headline
        assert "explained here is lower" in run.headline


def test_words_of_a_text(place):
    run = explain_network("nets_for_tests:reader", "good or bad", NetworkRequest(method="lrp"))
    assert list(run.items[0].words) == ["good", "or", "bad"]
    np.testing.assert_allclose(run.items[0].values["lrp"], [3.0, 0.0, 0.0], atol=1e-5)


def test_a_vocabulary_and_the_check_of_words(place):
    (place / "words.txt").write_text("\n<unknown>\ngood\nbad\n")
    module = place / "nets_for_tests.py"
    module.write_text(module.read_text() + "\ndef counts():\n    return Counts()\n")
    request = NetworkRequest(preparation=Preparation(vocabulary=place / "words.txt"))
    run = explain_network("nets_for_tests:counts", "Good grief bad", request)
    assert list(run.items[0].words) == ["good", "grief", "bad"]
    assert "grief" in run.items[0].notices[0]
    assert run.methods[0].area < run.methods[0].random_area


@pytest.mark.parametrize(
    ("network", "source", "request_", "words"),
    [
        ("nets_for_tests:corner", "in", {"method": "lpr"}, "did you mean 'lrp'"),
        ("nets_for_tests:corner", "in", {"target": "7"}, "numbered from 0 to 1"),
        ("nets_for_tests:corner", "in", {"target": "-1"}, "out of range"),
        ("nets_for_tests:corner", "in", {"target": "cat"}, "no class 'cat'"),
        ("nets_for_tests:corner", "none.png", {}, "does not exist"),
        ("nets_for_tests:corner", "bad.png", {}, "cannot be read as a picture"),
        ("nets_for_tests:corner", "wide.png", {}, "cannot be applied to x of shape"),
        ("nets_for_tests:corner", "some words", {}, "the network takes no words"),
        ("nets_for_tests:reader", "in/0.png", {}, "Pass a text"),
        ("nets_for_tests:broken", "in", {}, "no weights here"),
        ("nets_for_tests:number", "in", {}, "must give a torch.nn.Module"),
        ("nets_for_tests:none", "in", {}, "has no 'none'"),
        ("weights.pth", "in", {}, "which can run code when it is loaded"),
        ("none.pt2", "in", {}, "does not exist"),
    ],
)
def test_wrong_requests_say_what_to_do(place, network, source, request_, words):
    (place / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n cut")
    Image.fromarray(np.zeros((5, 7), dtype=np.uint8)).save(place / "wide.png")
    with pytest.raises(TellwhyError, match=words):
        explain_network(network, source, NetworkRequest(**request_))


def test_labels_must_be_as_many_as_classes(place):
    (place / "names.txt").write_text("one\ntwo\nthree\n")
    with pytest.raises(InvalidInput, match="3 labels; the network has 2 outputs"):
        explain_network("nets_for_tests:corner", "in", NetworkRequest(labels=place / "names.txt"))


def test_labels_in_json(tmp_path):
    path = tmp_path / "names.json"
    path.write_text('{"0": "cat", "1": "dog"}')
    assert read_labels(path) == ["cat", "dog"]
    path.write_text('["cat", "dog"]')
    assert read_labels(path) == ["cat", "dog"]
    path.write_text('{"0": "cat", "2": "dog"}')
    with pytest.raises(UnreadableFile, match="0, 1, 2"):
        read_labels(path)


def test_pictures_are_brought_to_the_size(place):
    Image.fromarray(np.zeros((20, 40), dtype=np.uint8)).save(place / "wide.png")
    request = NetworkRequest(preparation=Preparation(size=(8, 8)), check=False)
    run = explain_network("nets_for_tests:corner", "wide.png", request)
    assert run.items[0].pixels.shape == (8, 8)
    assert "40 × 20 pixels brought to 8 × 8" in run.items[0].notices


def test_means_and_deviations_are_per_channel(place):
    request = NetworkRequest(preparation=Preparation(mean=(0.5,), std=(0.5,)), check=False)
    run = explain_network("nets_for_tests:corner", "in/0.png", request)
    assert run.items[0].output == pytest.approx(16.0)
    assert run.items[0].classes[1].output == pytest.approx(-16.0)
    with pytest.raises(InvalidParameter, match="for each of 1 channels"):
        wrong = NetworkRequest(preparation=Preparation(mean=(0.5, 0.5, 0.5)))
        explain_network("nets_for_tests:corner", "in/0.png", wrong)


def test_a_run_comes_back_from_its_folder(place):
    run = explain_network("nets_for_tests:corner", "in", NetworkRequest(method="lrp,gradient"))
    read = load_network_run(save_network_run(run, place / "run"))
    assert read.headline == run.headline
    assert list(read.methods) == list(run.methods)
    np.testing.assert_allclose(read.items[2].values["gradient"], run.items[2].values["gradient"])
    np.testing.assert_array_equal(read.items[0].pixels, run.items[0].pixels)


def test_a_network_is_fitted_and_judges_pictures(place):
    model = tellwhy.fit("nets_for_tests:corner", kind="network", method="lrp,gradient")
    result = tellwhy.judge(model, "in")
    expected = explain_network("nets_for_tests:corner", "in", NetworkRequest(method="lrp,gradient"))
    assert run_record(read_network(result)) == run_record(expected)
    assert [part.part.name for part in result.anomalies] == [item.name for item in expected.items]
    np.testing.assert_allclose(result.scores, [item.output for item in expected.items])
    np.testing.assert_allclose(result.arrays["lrp.1"], expected.items[1].values["lrp"])
    assert result.n_flagged == 0
    assert expected.headline in tellwhy.tell(result)
    assert "Gradient" in tellwhy.tell(result, "html")
    other = tellwhy.judge(model, "in", method="gradient", target="1")
    np.testing.assert_allclose(other.scores, [item.classes[1].output for item in expected.items])
    with pytest.raises(InvalidParameter, match="preparation cannot be changed"):
        tellwhy.judge(model, "in", preparation=Preparation((4, 4)))
    with pytest.raises(InvalidParameter, match="no setting 'depth'"):
        tellwhy.fit("nets_for_tests:corner", kind="network", depth=3)
    with pytest.raises(CannotWrite, match="is made by code"):
        model.save(place / "m.tellwhy")


def test_an_exported_network_is_kept_in_one_file(place):
    (place / "names.txt").write_text("upper\nlower\n")
    program = torch.export.export(load_network("nets_for_tests:corner").model, (torch.zeros(1, 1, 8, 8),))
    torch.export.save(program, place / "corner.pt2")
    model = tellwhy.fit(place / "corner.pt2", labels=place / "names.txt", check=False)
    assert model.kind == "network"
    told = run_record(read_network(tellwhy.judge(model, "in")))
    assert told["items"][0]["explained"] == "upper"
    kept = model.save(place / "m.tellwhy")
    (place / "corner.pt2").unlink()
    (place / "names.txt").unlink()
    assert run_record(read_network(tellwhy.judge(tellwhy.load(kept), "in"))) == told


def test_the_users_network_stays_as_it_is(place):
    explain_network("nets_for_tests:corner", "in", NetworkRequest(method="lrp"))
    assert not any(
        isinstance(m, nn.Module) and m.training for m in [sys.modules["nets_for_tests"].corner().eval()]
    )


def test_grad_cam_and_patterns_are_methods_of_the_command(place):
    run = explain_network("nets_for_tests:corner", "in", NetworkRequest(method="grad-cam"))
    assert run.items[0].values["grad-cam"].any()
    assert run.methods[0].title == "Grad-CAM"
    with pytest.raises(InvalidParameter, match="at least 20"):
        explain_network("nets_for_tests:corner", "in", NetworkRequest(method="pattern-net"))
    draw = np.random.default_rng(0)
    for k in range(30):
        pixels = np.zeros((8, 8), dtype=np.uint8)
        pixels[:4, :4] = draw.integers(100, 255)
        Image.fromarray(pixels).save(place / "in" / f"more{k}.png")
    asked = NetworkRequest(method="pattern-net,pattern-attribution")
    run = explain_network("nets_for_tests:corner", "in", asked)
    shown = run.items[0].values["pattern-net"][0]
    assert (shown[:4, :4] > 0).all()
    np.testing.assert_array_equal(shown[4:], 0)  # always dark: they tell nothing
    assert run.methods[1].left_over == pytest.approx(0, abs=1e-6)
