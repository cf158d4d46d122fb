"""Labels of texts and their reasons: from Python, and from tables."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import tellwhy
from tellwhy.classifiers import LeeLinWahbaSVM, OneVsRestSVM, TextClassifier, WestonWatkinsSVM, load
from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, UnreadableFile, UnsupportedModel
from tellwhy.kinds.labels import read_text_columns
from tellwhy.results.labelled_texts import read_labels
from tellwhy.results.store import load_result, save_result
from tellwhy.views.page.labels import render_texts
from tellwhy.workflow import explain_texts

TOPICS = {
    "autos": ["engine", "brakes", "car", "wheel", "road"],
    "space": ["moon", "rocket", "orbit", "star", "launch"],
    "hockey": ["puck", "goalie", "ice", "team", "score"],
}


def texts(n, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(list(TOPICS))[np.arange(n) % 3]
    filler = ["the", "and", "with", "some", "very"]
    made = [" ".join([*rng.choice(TOPICS[label], 2), *rng.choice(filler, 3)]) for label in labels]
    return made, labels


MODELS = {
    "ours": TextClassifier(LeeLinWahbaSVM(C=10, random_state=0), ngrams=2),
    "pipeline": make_pipeline(TfidfVectorizer(), WestonWatkinsSVM(random_state=0)),
    "scikit-learn": make_pipeline(CountVectorizer(), LogisticRegression()),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_reasons_are_the_lead_over_the_runner_up(model):
    X, y = texts(60)
    model = model.fit(X, y)
    found = explain_texts(model, X[:9], y[:9])
    assert [reasons.row for reasons in found.shown] == list(range(9))
    scores = np.sort(model.decision_function(X[:9]), axis=1)
    for reasons, row in zip(found.shown, scores, strict=True):
        assert reasons.lead == pytest.approx(row[-1] - row[-2])
        marked = sum(piece.relevance for piece in reasons.marked.pieces)
        assert marked + reasons.base + reasons.marked.elsewhere == pytest.approx(reasons.lead)
        assert sum(value for _, value in reasons.words) + reasons.others + reasons.base == pytest.approx(
            reasons.lead
        )
        assert reasons.label != reasons.rival
        assert set(max(reasons.words, key=lambda pair: pair[1])[0].split()) & set(TOPICS[reasons.label])
    assert (found.n_texts, found.n_classes, found.n_wrong) == (9, 3, 0)
    for words in found.classes:
        assert words.words[0][0] in TOPICS[words.name]


def test_two_classes_of_scikit_learn():
    X, y = texts(60)
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(X, y == "space")
    found = explain_texts(model, X[:4], y[:4] == "space")
    assert {reasons.label for reasons in found.shown} == {"True", "False"}
    assert found.n_wrong == 0
    leads = [reasons.lead for reasons in found.shown]
    np.testing.assert_allclose(leads, np.abs(model.decision_function(X[:4])))


def test_wrong_labels_come_first_the_surest_of_them_at_the_top():
    X, y = texts(300)
    model = TextClassifier().fit(X, y)
    truth = y.copy()
    truth[::40] = np.roll(np.array(list(TOPICS)), 1)[np.arange(300) % 3][::40]
    found = explain_texts(model, X, truth, most=12, rows=1_000 + np.arange(300))
    wrong = np.flatnonzero(model.predict(X) != truth)
    assert [reasons.is_wrong for reasons in found.shown] == [True] * len(wrong) + [False] * (12 - len(wrong))
    assert found.n_wrong == len(wrong) == 8
    scores = model.decision_function(X)
    own = scores[np.arange(300), np.searchsorted(model.classes_, truth)]
    behind = scores.max(axis=1) - own
    scores.sort(axis=1)
    leads = scores[:, -1] - scores[:, -2]
    assert [reasons.row - 1_000 for reasons in found.shown[:8]] == wrong[np.argsort(-behind[wrong])].tolist()
    assert [doubt.row - 1_000 for doubt in found.doubts] == wrong[np.argsort(-behind[wrong])].tolist()
    assert all((doubt.given, doubt.own) == (truth[doubt.row - 1_000], None) for doubt in found.doubts)
    assert max(reasons.lead for reasons in found.shown[8:]) <= np.sort(np.delete(leads, wrong))[3] + 1e-12
    assert found.order.startswith("12 of 300 texts: first those with a wrong label")
    closest = explain_texts(model, X, most=10)
    assert closest.order == "10 of 300 texts: those whose label has the smallest lead."
    np.testing.assert_allclose([reasons.lead for reasons in closest.shown], np.sort(leads)[:10])


def test_words_of_a_class_are_above_the_mean_of_all():
    X, y = texts(60)
    model = TextClassifier(OneVsRestSVM(random_state=0)).fit(X, y)
    found = explain_texts(model, X)
    coef = np.asarray(model.classifier_.coef_)
    assert np.abs(coef.mean(axis=0)).max() > 0.05
    for words in found.classes:
        own = coef[list(model.classes_).index(words.name)] - coef.mean(axis=0)
        np.testing.assert_allclose(
            [weight for _, weight in words.words], np.sort(own)[::-1][: len(words.words)]
        )


def test_texts_without_known_words_have_no_reasons():
    X, y = texts(30)
    (reasons,) = explain_texts(TextClassifier().fit(X, y), ["zzz"]).shown
    assert reasons.words == ()
    assert reasons.lead == pytest.approx(reasons.base)


def test_what_cannot_be_explained_is_told():
    X, y = texts(30)
    model = TextClassifier().fit(X, y)
    with pytest.raises(UnsupportedModel, match="begins with a vectorizer"):
        explain_texts(model.classifier_, X)
    with pytest.raises(InvalidInput, match="one label per text, 30 in all"):
        explain_texts(model, X, y[:3])
    with pytest.raises(InvalidInput, match="Row 2 is not a text"):
        explain_texts(model, ["a", "b", None])
    with pytest.raises(InvalidParameter, match="'most'"):
        explain_texts(model, X, most=0)


@pytest.fixture
def table(tmp_path):
    X, y = texts(90)
    path = tmp_path / "mails.csv"
    pd.DataFrame({"body": X, "topic": y, "n": range(90)}).to_csv(path, index=False)
    return path


def train(path, **settings):
    """Train, and label what was held out: the model, and what was found."""
    model = tellwhy.fit(path, text="body", label="topic", out=path.with_name("model"), **settings)
    return model, read_labels(tellwhy.judge(model, path))


@pytest.mark.parametrize("loss", ["ww", "cs", "llw", "ovr"])
def test_training_from_a_table_is_training_in_python(table, loss):
    model, found = train(table, loss=loss, seed=3, held_out=0.2)
    assert len(model.trained_on_.held) == found.n_texts == 18
    shown = {reasons.row for reasons in found.shown}
    assert shown == set(model.trained_on_.held)
    frame = pd.read_csv(table)
    assert all(reasons.truth == frame["topic"][reasons.row] for reasons in found.shown)
    rest = frame.drop(index=sorted(shown))
    alone = TextClassifier(model.classifier).fit(rest["body"], rest["topic"])
    assert alone.words_.tolist() == model.words_.tolist()
    assert model.classifier_.objective_ == pytest.approx(alone.classifier_.objective_, rel=2e-3)
    again = load(table.with_name("model"))
    np.testing.assert_array_equal(
        again.decision_function(frame["body"]), model.decision_function(frame["body"])
    )


def test_every_text_is_judged_by_a_model_that_has_not_seen_it(table):
    frame = pd.read_csv(table)
    planted = [4, 33, 61]
    topics = sorted(set(frame["topic"]))
    for row in planted:
        frame.loc[row, "topic"] = next(name for name in topics if name != frame.loc[row, "topic"])
    frame.loc[90] = ["a lone letter", "letters", 90]
    frame.to_csv(table, index=False)
    model, found = train(table, folds=3)
    kept = model.trained_on_
    assert found.n_texts == 90
    assert found.notes[:2] == (
        "Trained on 91 texts; each is judged here by a model that has not seen it.",
        "Left out 1 text whose label no other text has.",
    )
    assert {doubt.row for doubt in found.doubts} >= set(planted)
    assert set(planted) == {doubt.row for doubt in found.doubts[:3]}
    rows = model.transform(frame["body"])
    for reasons in found.shown:
        judge = kept.folds[kept.fold[reasons.row]]
        assert judge.predict(rows[[reasons.row]])[0] == reasons.label
        scores = np.sort(judge.decision_function(rows[[reasons.row]])[0])
        assert reasons.lead == pytest.approx(scores[-1] - scores[-2])
    for doubt in found.doubts:
        judge = kept.folds[kept.fold[doubt.row]]
        chances = judge.predict_proba(rows[[doubt.row]])[0]
        own = list(judge.classes_).index(doubt.given)
        assert (doubt.own, doubt.told) == (pytest.approx(chances[own]), pytest.approx(chances.max()))
    again = tellwhy.load(table.with_name("model"))
    assert read_labels(tellwhy.judge(again, table)) == found
    assert model.predict_proba(["a puck"]).sum() == pytest.approx(1.0)


def test_c_is_chosen_on_the_rows_that_are_trained_on(table):
    model, _ = train(table, Cs=(1e-6, 1.0), held_out=0.2)
    assert model.classifier_.C == model.classifier.C == 1.0
    assert model.predict_proba(["a puck"]).shape == (1, 3)  # calibrated by what was held out


def test_the_folder_of_the_model_is_written_once_and_whole(table, monkeypatch):
    def full(self, folder):
        raise CannotWrite(f"Cannot write {folder}: the disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(TextClassifier, "save", full)
        with pytest.raises(CannotWrite, match="the disk is full"):
            train(table, tol=1e-9, checkpoint_every=1)
    assert sorted(path.name for path in table.parent.iterdir()) == ["mails.csv", "model-checkpoint"]
    model, _ = train(table, tol=1e-9, resume=True)
    assert model.classifier_.history_[0]["epoch"] < model.classifier_.n_iter_
    assert sorted(path.name for path in table.parent.iterdir()) == ["mails.csv", "model"]
    with monkeypatch.context() as patch:
        patch.setattr(TextClassifier, "save", full)
        with pytest.raises(CannotWrite, match="the disk is full"):
            train(table, C=9.0)
    np.testing.assert_array_equal(load(table.with_name("model")).classifier_.coef_, model.classifier_.coef_)


def test_rows_with_holes_are_left_out_and_told(table):
    frame = pd.read_csv(table)
    frame.loc[4, "body"], frame.loc[7, "topic"] = None, None
    frame.to_csv(table, index=False)
    _, found = train(table, held_out=0)
    assert found.notes[-1] == "Left out 2 rows without a text or a label."
    assert found.n_texts == 88
    assert not {4, 7} & {reasons.row for reasons in found.shown}
    assert "the same texts that are counted and shown here" in found.notes[0]


def test_numbers_as_labels_stay_numbers(table):
    frame = pd.read_csv(table)
    frame["topic"] = frame["n"] % 3
    frame.to_parquet(table.with_suffix(".parquet"))
    model, _ = train(table.with_suffix(".parquet"))
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "label", "told"),
    [
        ("subject", "topic", "--text must name a column .*body, topic, n. Got 'subject'"),
        ("body", None, "--label must name a column .* Got none"),
        ("body", "body", "same column"),
        ("n", "topic", "holds numbers or dates"),
    ],
)
def test_wrong_columns_are_told(table, text, label, told):
    with pytest.raises(InvalidInput, match=told):
        read_text_columns(table, text, label)


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("1\n2\n\n1", [1, 2, 1]),
        ("1.5\n2\n\n1", ["1.5", "2.0", "1.0"]),
        ("x\n2\n\n1", ["x", "2", "1"]),
        ("1e300\n2e300\n\n1", ["1e+300", "2e+300", "1.0"]),  # no whole number of 64 bits
    ],
    ids=["whole", "broken", "mixed", "huge"],
)
def test_labels_beside_gaps_are_what_was_written(tmp_path, column, labels):
    rows = [f"some words,{label}" for label in column.split("\n")]
    (tmp_path / "t.csv").write_text("\n".join(["body,topic", *rows]) + "\n")
    assert read_text_columns(tmp_path / "t.csv", "body", "topic").labels.tolist() == labels


def test_tables_without_rows_to_learn_from_are_told(table):
    frame = pd.read_csv(table)
    frame["topic"] = None
    frame.to_parquet(table.with_suffix(".parquet"))
    with pytest.raises(InvalidInput, match="No row of"):
        read_text_columns(table.with_suffix(".parquet"), "body", "topic")
    with pytest.raises(InvalidParameter, match="'held_out'"):
        train(table, held_out=1.5)


def test_other_texts_are_labelled_with_or_without_labels_of_their_own(table, tmp_path):
    model, _ = train(table)
    X, y = texts(30, seed=1)
    other = pd.DataFrame({"mail": X, "topic": y})
    found = tellwhy.judge(model, other, text="mail")
    expected = explain_texts(model, X, y, source="pandas.DataFrame")
    assert read_labels(found) == expected
    scores = np.sort(model.decision_function(X), axis=1)
    np.testing.assert_allclose(found.scores, scores[:, -1] - scores[:, -2])
    unknown = read_labels(tellwhy.judge(model, other.drop(columns="topic"), text="mail", top=4))
    assert (unknown.n_wrong, unknown.n_texts, len(unknown.shown)) == (None, 30, 4)
    with pytest.raises(InvalidInput, match=r"--text must name a column .*mail, topic\. Got 'body'"):
        tellwhy.judge(model, other)
    with pytest.raises(InvalidParameter, match=r"only text, label, top can be asked\. Got ngrams"):
        tellwhy.judge(model, other, ngrams=2)
    with pytest.raises(InvalidParameter, match="no setting 'depth'"):
        train(table, depth=3)


def test_a_classifier_that_was_fitted_to_lists_judges_too(tmp_path):
    X, y = texts(60)
    model = tellwhy.load(TextClassifier().fit(X, y).save(tmp_path / "m.tellwhy"))
    assert (model.kind, model.source) == ("labels", "texts")
    assert read_labels(tellwhy.judge(model, X[:5])) == explain_texts(model, X[:5])
    found = tellwhy.judge(
        model, pd.DataFrame({"body": X, "topic": np.roll(y, 1)}), text="body", label="topic"
    )
    assert "60 of 60 texts get another label than they came with" in found.headline[0]
    with pytest.raises(InvalidInput, match="--text must name a column"):
        tellwhy.judge(model, pd.DataFrame({"body": X}))


def test_fitted_anew_it_forgets_its_table(table):
    model, _ = train(table)
    X, y = texts(30)
    assert not hasattr(model.fit(X, y), "trained_on_")


def test_what_was_found_is_read_by_every_form_and_comes_back_from_its_folder(table, tmp_path):
    model, found = train(table, held_out=0.3)
    result = tellwhy.judge(model, table, top=5)
    assert result.n_flagged == 0
    assert len(result.scores) == 27
    words = result.anomalies[0].reasons
    assert [r.feature for r in words] == [w for w, v in read_labels(result).shown[0].words if v > 0]
    assert f"“{words[0].feature}”" in tellwhy.tell(result)
    assert f"labelled {found.shown[0].label}" in tellwhy.tell(tellwhy.judge(model, table))
    assert tellwhy.tell(result, "html") == render_texts(read_labels(result))
    again = load_result(save_result(result, tmp_path / "run"))
    assert read_labels(again) == read_labels(result)
    assert tellwhy.tell(again, "json") == tellwhy.tell(result, "json")
    broken = replace(result, own={"labels": {"shown": []}})
    with pytest.raises(UnreadableFile, match=r"The labels of mails\.csv are damaged"):
        read_labels(broken)


@pytest.mark.parametrize("held", [{"held": np.array([0.5])}, {"n_texts": "many"}, {"text": 3}])
def test_a_file_whose_table_cannot_be_is_refused(table, tmp_path, held):
    model, _ = train(table)
    model.trained_on_ = replace(model.trained_on_, **held)
    with pytest.raises(UnreadableFile, match="do not fit together"):
        tellwhy.load(model.save(tmp_path / "m.tellwhy"))
