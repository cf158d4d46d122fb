"""Words last: sentences of data are made in words/ and views/; elsewhere stand errors, warnings and help alone."""

import ast
import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "src" / "tellwhy"
SAY = ("words", "views")
# Sentences that errors and warnings are put together from, outside of the call that raises: none may be added.
OF_ERRORS = {
    "classifiers": 5,
    "core": 5,
    "data": 4,
    "detectors": 1,
    "explainers": 12,
    "kinds": 3,
    "one_liner": 3,
    "scoring": 1,
}
ERRORS = ("InvalidInput", "InvalidParameter", "UnsupportedModel", "UnreadableFile", "CannotWrite", "Misfit")
NOT_TOLD = {*ERRORS, "warn", "stage", "_make_card", "register", "lacks", "TellwhyWarning", "require"}


def text_of(node):
    """A literal text, X for what is filled in; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
    return None


def name_of(call):
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def is_no_prose(node):
    """Errors, warnings, cards of the catalogue, documentation: told by themselves, not of data."""
    if isinstance(node, (ast.Raise, ast.Assert)):
        return True
    if isinstance(node, ast.Call):
        return name_of(node) in NOT_TOLD or "refuse" in name_of(node)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.FunctionDef):
        returned = "" if node.returns is None else ast.unparse(node.returns)
        return "refuse" in node.name or returned in ERRORS
    return False


def sentences(tree):
    """Literal texts of four words and more that begin and end like a sentence."""
    left_out = set()
    for node in ast.walk(tree):
        if is_no_prose(node):
            left_out |= {id(inner) for inner in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr):
            left_out |= {id(inner) for part in node.values for inner in ast.walk(part)}
    for node in ast.walk(tree):
        text = (text_of(node) or "").strip()
        is_sentence = re.match(r"""[A-Z'"{]""", text) and re.search(r"[a-zX)][.!?]$", text)
        if id(node) not in left_out and len(text.split()) >= 4 and is_sentence:
            yield text


def test_sentences_are_made_in_words_and_views():
    found = Counter()
    for path in PACKAGE.rglob("*.py"):
        folder = path.relative_to(PACKAGE).parts[0]
        if folder not in SAY:
            found[folder] += sum(1 for _ in sentences(ast.parse(path.read_text(encoding="utf-8"))))
    more = {folder: n for folder, n in found.items() if n > OF_ERRORS.get(folder, 0)}
    assert not more, f"{more} sentences; make them facts, and say them in words/english"


def test_what_is_a_sentence_and_what_is_none():
    told = "def f(n):\n    return [f'{n} rows were left out of it.']"
    assert list(sentences(ast.parse(told))) == ["X rows were left out of it."]
    for none in (
        "raise InvalidInput('A file must be there.')",
        '"""What this is all about."""',
        "x = 'left out'",
    ):
        assert not list(sentences(ast.parse(none)))


def test_nobody_outside_reads_prose():
    """No code searches in what `text`, `headline`, `notes` or `summary` say."""
    told = r"\.(text|headline|notes|summary)\b"
    reads = re.compile(
        rf"""( in \w+{told})|(\bre\.\w+\([^)]*{told})|({told}\.(startswith|endswith|find|split|replace)\()"""
    )
    found = [
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if reads.search(line) and "for " not in line
    ]
    assert not found, found
