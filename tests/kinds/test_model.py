"""Fit, judge and tell, for every kind of data: one way, from memory and from a file."""

import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data.graphs import chain
from tellwhy.data.table import frame_fingerprint
from tellwhy.kinds.model import PLACES, Kind, find_kind
from tellwhy.results.labelled_texts import Labelled, as_result
from tellwhy.results.notice import Notice
from tellwhy.results.schema import to_plain
from tellwhy.workflow import (
    explain_documents,
    explain_events,
    explain_graph,
    explain_pictures,
    explain_series,
    explain_table,
    explain_texts,
)

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "while",
    "rain",
    "fell",
    "and",
    "wind",
    "blew",
    "over",
    "old",
    "stone",
    "walls",
]


def table(seed=0, n=150):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"size": rng.normal(10, 1, n), "kind": rng.choice(["a", "b"], n)})
    frame["weight"] = 2 * frame["size"] + rng.normal(0, 0.1, n)
    frame.loc[7, "weight"] = 3.0
    return frame


def with_texts(seed=0):
    frame = table(seed, n=80)
    rng = np.random.default_rng(seed + 1)
    frame["note"] = [" ".join(rng.choice(WORDS, 6)) for _ in range(len(frame))]
    frame.loc[5, "note"] = "quantum gravity needs strings"
    return frame


def posts(seed=0):
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, 8)) for _ in range(60)]
    texts[7] = "quantum gravity needs strings"
    return pd.DataFrame({"body": texts})


def series(seed=0, n=700):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    frame = pd.DataFrame({"t": t, "a": np.sin(t / 5), "b": np.cos(t / 7)})
    frame[["a", "b"]] += 0.05 * rng.normal(size=(n, 2))
    frame.loc[400:414, "a"] = 0.0
    return frame


def nodes(seed=0):
    rng = np.random.default_rng(seed)
    level = np.repeat([0.0, 3.0, 0.0], 50) + rng.normal(size=150)
    level[20] = 3.5
    return pd.DataFrame({"t": np.arange(150), "level": level, "kind": rng.choice(["a", "b"], 150)})


def mails(seed=0):
    rng = np.random.default_rng(seed)
    topics = np.where(np.arange(60) % 2, "house", "weather")
    own = {"house": WORDS[:6], "weather": WORDS[7:12]}
    texts = [" ".join([*rng.choice(own[topic], 3), *rng.choice(WORDS, 3)]) for topic in topics]
    return pd.DataFrame({"body": texts, "topic": topics})


def pictures(folder, seed=0):
    folder.mkdir()
    rng = np.random.default_rng(seed)
    for k in range(4):
        pixels = 128 + 40 * np.sin(np.arange(36) / 2 + k)[None, :] + rng.normal(0, 3, size=(30, 36))
        if k == 2:
            pixels[10:18, 12:20] = 255
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{k}.png")
    return folder


SERIES = {"time": "t", "window": 15, "n_windows": 150}
PICTURES = {"n_patches": 150}
NODES = {"time": "t", "n_classes": 2}
LABELS = {"text": "body", "label": "topic", "held_out": 0.3}


def labelled(data, reference=None):
    """Texts with their labels explained, those that were not trained on."""
    model = tellwhy.fit(data if reference is None else reference, **LABELS)
    new = data if reference is not None else data.iloc[model.trained_on_.held]
    told = Notice("trained_on", {"n": 42, "n_held": 18})
    notes = () if reference is not None else (told,)
    found = explain_texts(
        model, new["body"].tolist(), new["topic"], rows=new.index, source="pandas.DataFrame", notes=notes
    )
    leads = np.abs(model.decision_function(new["body"]))  # of one class over the other
    fingerprint = frame_fingerprint(data)
    return as_result(Labelled(found, np.asarray(new.index), leads, {}, fingerprint))


def by_one_call(kind, source, **more):
    calls = {
        "table": explain_table,
        "segments": lambda data, **rest: explain_table(data, by=["kind"], **rest),
        "text columns": lambda data, **rest: explain_table(data, text=["note"], **rest),
        "texts": lambda data, **rest: explain_documents(data, text="body", **rest),
        "events": lambda data, **rest: explain_events(data, time="t", **rest),
        "series": lambda data, **rest: explain_series(data, **SERIES, **rest),
        "pictures": lambda data, **rest: explain_pictures(data, **PICTURES, **rest),
        "graph": lambda data, **rest: explain_graph(data, **NODES, **rest).run,
        "labels": labelled,
    }
    return calls[kind](source, **more)


SETTINGS = {
    "table": {},
    "segments": {"by": ["kind"]},
    "text columns": {"text": ["note"]},
    "texts": {"text": "body"},
    "events": {"time": "t"},
    "series": SERIES,
    "pictures": PICTURES,
    "graph": NODES,
    "labels": LABELS,
}


def source_of(kind, tmp_path, seed=0):
    if kind == "pictures":
        return pictures(tmp_path / f"pictures-{seed}", seed)
    own = {
        "events": series,
        "texts": posts,
        "series": series,
        "graph": nodes,
        "text columns": with_texts,
        "labels": mails,
    }
    made = own.get(kind, table)
    return made(seed)


def told(result):
    """All of a result but when it was made, what it was made of, and how that is called."""
    record = to_plain(result)
    for name in ("created", "settings", "summary", "done", "evidence", "notices", "source"):
        record.pop(name)
    record["scores"] = result.scores.tolist()
    record["arrays"] = {name: np.asarray(array).tolist() for name, array in result.arrays.items()}
    return json.loads(json.dumps(record, default=str))


@pytest.mark.parametrize("kind", SETTINGS)
def test_data_are_told_alike_by_one_call_by_their_model_and_from_its_file(kind, tmp_path):
    source = source_of(kind, tmp_path)
    model = tellwhy.fit(source, **SETTINGS[kind])
    assert model.kind == ("table" if kind in ("segments", "text columns") else kind)
    expected = told(by_one_call(kind, source))
    assert told(tellwhy.judge(model, source)) == expected
    again = tellwhy.load(model.save(tmp_path / "m.tellwhy"))
    assert told(tellwhy.judge(again, source)) == expected


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_reference_is_a_model_of_it(kind, tmp_path):
    ordinary = source_of(kind, tmp_path, seed=1)
    source = source_of(kind, tmp_path)
    model = tellwhy.fit(ordinary, clean=True, **SETTINGS[kind])
    expected = told(by_one_call(kind, source, reference=ordinary))
    assert told(tellwhy.judge(model, source)) == expected
    again = tellwhy.load(model.save(tmp_path / "m.tellwhy"))
    assert told(tellwhy.judge(again, source)) == expected


def test_what_was_decided_in_fitting_cannot_be_asked_otherwise():
    model = tellwhy.fit(posts(), text="body")
    assert len(tellwhy.judge(model, posts(), top=3).anomalies) == 3
    assert tellwhy.judge(model, posts(), text="body", likeness="auto").kind == "texts"  # as it was
    with pytest.raises(InvalidParameter, match="stem cannot be changed after fitting"):
        tellwhy.judge(model, posts(), stem=True)


def test_a_model_of_channels_reads_no_others():
    model = tellwhy.fit(series(), **SERIES)
    with pytest.raises(InvalidInput, match="lacks the columns b"):
        tellwhy.judge(model, series(1).drop(columns="b"))


def test_only_models_judge():
    with pytest.raises(InvalidParameter, match="Got dict"):
        tellwhy.judge({}, table())


@pytest.mark.parametrize("name", PLACES)
def test_every_kind_has_the_five_methods(name):
    assert isinstance(find_kind(name), Kind)


def test_an_unknown_kind_is_told_with_those_there_are():
    with pytest.raises(InvalidParameter, match="no kind of data named 'maps'"):
        tellwhy.fit(table(), kind="maps")


def test_other_nodes_are_judged_by_the_classes_of_a_model(tmp_path):
    model = tellwhy.fit(nodes(), **NODES)
    again = tellwhy.load(model.save(tmp_path / "m.tellwhy"))
    found = tellwhy.judge(model, nodes(1), top=3)
    assert told(tellwhy.judge(again, nodes(1), top=3)) == told(found)
    assert found.anomalies[0].row == 20
    assert found.explanation.extras["class"][0] == model.classes.labels_[10]
    # A score is the squared distance to the centre of a class, in the units of the model.
    numbers = model.code.encoder.transform(nodes(1)[model.code.encoder.columns_]) / model.scale
    labels = model.classes.predict(numbers, chain(150))
    np.testing.assert_allclose(found.scores, ((numbers - model.classes.centres_[labels]) ** 2).sum(axis=1))


def test_other_nodes_come_with_their_own_edges_and_the_same_columns(tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("a,b\n" + "".join(f"{i},{i + 1}\n" for i in range(149)))
    model = tellwhy.fit(nodes(), edges=pairs, n_classes=2)
    assert model.kind == "graph"
    with pytest.raises(InvalidParameter, match="Name those of these rows"):
        tellwhy.judge(model, nodes(1))
    assert len(tellwhy.judge(model, nodes(1), edges=pairs).scores) == 150
    with pytest.raises(InvalidInput, match="lacks 1 column"):
        tellwhy.judge(model, nodes(1).drop(columns="level"), edges=pairs)


def test_a_grid_is_judged_by_the_model_of_another(tmp_path):
    rng = np.random.default_rng(0)
    for name, shape in (("a", (8, 9)), ("b", (5, 6))):
        np.savez(tmp_path / f"{name}.npz", x=rng.normal(size=shape), y=rng.normal(size=shape))
    model = tellwhy.fit(tmp_path / "a.npz", n_classes=1)
    found = tellwhy.judge(model, tmp_path / "b.npz")
    with np.load(tmp_path / "b.npz") as arrays:
        rows = np.column_stack([arrays["x"].ravel(), arrays["y"].ravel()])
    scaled = model.code.scaling.apply(rows) / model.scale
    np.testing.assert_allclose(found.scores, ((scaled - model.classes.centres_[0]) ** 2).sum(axis=1))
    assert found.notices[-1].kind == "no_shared_classes"
