"""Rules and kinds of operations that users and other packages add, without writing to a module's global."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from zoo.networks import Function  # noqa: E402

from tellwhy.core.errors import InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.explainers import LRP, DeepTaylor, ExcitationBackprop, Gradient, InputTimesGradient, explain_all  # noqa: E402
from tellwhy.explainers.propagation import (  # noqa: E402
    COMPOSITES,
    KINDS,
    RULES,
    Rule,
    coverage,
    register_operation,
    register_rule,
    temporary_registrations,
)
from tellwhy.explainers.propagation.rules import RESIDUAL_RULES  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")

X = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def _nothing_stays():
    with temporary_registrations():
        yield


def part_of_z(share=0.5):
    def function(layer, x, z, c):
        return share * layer.backward(x, layer.weight, c)

    return Rule("part of z", function, params={"share": share})


def linear():
    torch.manual_seed(0)
    return nn.Linear(4, 2).double().eval()


def test_registered_rules_are_used_by_their_name():
    register_rule("part_of_z", part_of_z)
    whole = LRP(linear(), rule="z").explain(X).values
    np.testing.assert_array_equal(LRP(linear(), rule="part_of_z").explain(X).values, 0.5 * whole)
    quarter = LRP(linear(), rule="part_of_z", rule_params={"share": 0.25})
    np.testing.assert_array_equal(quarter.explain(X).values, 0.25 * whole)
    assert coverage(linear(), X, explainer=quarter)["rule"].tolist() == ["part of z(share=0.25)"]
    with pytest.raises(InvalidParameter, match="rule_params do not fit rule 'part_of_z'"):
        LRP(linear(), rule="part_of_z", rule_params={"epsilon": 1}).explain(X)


def test_the_decorator_gives_the_function_back():
    @register_rule("mine")
    def mine():
        return part_of_z(1.0)

    assert mine().name == "part of z"
    assert RULES["mine"] is mine


def test_what_is_registered_inside_a_block_is_forgotten_after_it():
    with temporary_registrations():
        register_rule("part_of_z", part_of_z)
        register_operation("sinc", "elementwise")
        assert "part_of_z" in RULES
        assert KINDS["sinc"] == "elementwise"
    assert "part_of_z" not in RULES
    assert "sinc" not in KINDS
    with pytest.raises(ZeroDivisionError), temporary_registrations():
        register_operation("sinc", "elementwise")
        _ = 1 / 0
    assert "sinc" not in KINDS


def test_names_are_not_taken_twice():
    for again in (False, True):
        with pytest.raises(InvalidParameter, match="The rule 'z' is built in"):
            register_rule("z", part_of_z, replace=again)
        with pytest.raises(InvalidParameter, match="The operation 'tanh' is built in"):
            register_operation("tanh", "rectifier", replace=again)
    register_rule("mine", part_of_z)
    register_rule("mine", part_of_z)  # the same again: nothing changes
    with pytest.raises(InvalidParameter, match=r"The rule 'mine' is registered already.*replace=True"):
        register_rule("mine", lambda: part_of_z(0.1))
    register_rule("mine", lambda: part_of_z(0.1), replace=True)
    assert RULES["mine"]().params == {"share": 0.1}
    register_operation("sinc", "elementwise")
    with pytest.raises(InvalidParameter, match="The operation 'sinc' is registered already"):
        register_operation("sinc", "mixing")
    register_operation("sinc", "mixing", replace=True)
    assert KINDS["sinc"] == "mixing"


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (Rule("mine", lambda layer, x, z, c: c), "Got a Rule: use it as LRP"),
        (lambda layer, x, z, c: c, "default for each of its settings.*goes into Rule"),
        (lambda share: part_of_z(2 * share), "default for each of its settings.*'share'"),
        (lambda: torch.ones(1), "'mine' must return a Rule"),
        (lambda: Rule("mine", lambda x: x), "'mine' must take four arguments"),
        ("z", "without settings failed: 'str' object is not callable"),
    ],
)
def test_what_is_not_a_maker_of_rules_is_refused(factory, message):
    with pytest.raises(InvalidParameter, match=message):
        register_rule("mine", factory)
    assert "mine" not in RULES


def test_a_factory_that_gives_no_rule_for_some_settings_is_named():
    register_rule("mine", lambda share=0.5: part_of_z(share) if share < 1 else None)
    with pytest.raises(InvalidParameter, match=r"Rule 'mine' with {'share': 2} must be a Rule. Got None"):
        LRP(linear(), rule="mine", rule_params={"share": 2}).explain(X)


def test_unknown_kinds_are_refused_with_the_list_of_kinds():
    for kind in ("element", "layer", "product", None):
        with pytest.raises(
            InvalidParameter, match="must be one of 'elementwise', 'rectifier', 'copying', 'mixing'"
        ):
            register_operation("sinc", kind)
        with pytest.raises(InvalidParameter, match="kind of operation 'sinc' must be one of 'elementwise'"):
            LRP(linear(), operations={"sinc": kind}).explain(X)
    assert "sinc" not in KINDS


@pytest.mark.parametrize("table", [RULES, KINDS, COMPOSITES, RESIDUAL_RULES], ids=["R", "K", "C", "RR"])
def test_tables_are_read_only(table):
    name = next(iter(table))
    before = dict(table)
    for change in ("table[name] = before[name]", "del table[name]", "table.pop(name)", "table.update({})"):
        with pytest.raises((TypeError, AttributeError)):
            exec(change, {"table": table, "name": name, "before": before})
    assert dict(table) == before
    assert len(table) == len(before)


def test_tables_show_their_names():
    assert repr(RULES).startswith("<read-only table of rules: z, epsilon,")


def test_rules_that_do_not_exist_are_answered_by_those_that_do():
    register_rule("part_of_z", part_of_z)
    with pytest.raises(
        InvalidParameter, match=r"'rule' parameter of LRP must be None or one of 'z', .*'part_of_z'"
    ):
        LRP(linear(), rule="zz").explain(X)
    with pytest.raises(
        InvalidParameter, match="'rule' parameter of LRP must be None or a rule's name or a Rule"
    ):
        LRP(linear(), rule=3).explain(X)


class Sinc(nn.Module):
    def forward(self, x):
        return torch.sinc(x)


@pytest.mark.parametrize("method", [LRP, DeepTaylor, ExcitationBackprop])
def test_operations_can_be_named_for_one_explainer(method):
    model = nn.Sequential(linear(), Sinc()).eval()
    with pytest.raises(UnsupportedModel, match=r"no rule for 'sinc'.*operations={'sinc': 'elementwise'}"):
        method(model, target=0).explain(X)
    found = method(model, target=0, operations={"sinc": "elementwise"}).explain(X)
    with pytest.raises(UnsupportedModel, match="no rule for 'sinc'"):
        method(model, target=0).explain(X)
    register_operation(torch.sinc, "elementwise")
    np.testing.assert_array_equal(method(model, target=0).explain(X).values, found.values)
    assert np.abs(found.values).max() > 0.01


def test_the_advice_of_the_error_works():
    model = nn.Sequential(linear(), Sinc()).eval()
    with pytest.raises(UnsupportedModel) as error:
        LRP(model).explain(X)
    start = str(error.value).index("register_operation(")
    call = str(error.value)[start : str(error.value).index(")", start) + 1]
    eval(call, {"register_operation": register_operation})
    assert LRP(model).explain(X).values.shape == X.shape


def test_explainers_that_name_operations_differently_do_not_share_a_pass():
    class Shift(nn.Module):
        """z + 1/2: linear, where the constant absorbs, or a function of single elements, which pass all on."""

        def forward(self, z):
            return torch.addcdiv(z, torch.ones_like(z), 2 * torch.ones_like(z))

    model = nn.Sequential(linear(), Shift()).eval()
    explainers = {
        "elementwise": LRP(model, target=0, operations={"addcdiv": "elementwise"}),
        "mixing": LRP(model, target=0, operations={"addcdiv": "mixing"}),
        "gradient": Gradient(model, target=0),
    }
    together = explain_all(explainers, X)
    for name, explainer in explainers.items():
        np.testing.assert_allclose(together[name].values, explainer.explain(X).values, atol=1e-14)
    assert np.abs(together["mixing"].values - together["elementwise"].values).max() > 1e-3
    np.testing.assert_allclose(
        LRP(model, target=0, rule="z", operations={"addcdiv": "mixing"}).explain(X).values,
        InputTimesGradient(model, target=0).explain(X).values,
        atol=1e-12,
    )


class Padded(nn.Module):
    """Fills in −2, by a function that the table does not know: signs have to be looked at."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(6, 2, bias=False)

    def forward(self, x):
        return self.head(torch.constant_pad_nd(torch.relu(x), (1, 1), -2.0))


def test_operations_that_were_named_may_fill_in_negative_numbers():
    model = Padded().double().eval()
    found = LRP(model, target=0, rule="z_plus", operations={"constant_pad_nd": "copying"}).explain(X)
    inputs = torch.nn.functional.pad(torch.relu(X), (1, 1), value=-2.0)
    products = (inputs * model.head.weight[0]).clamp(min=0).detach()
    expected = products[:, 1:5] / products.sum(dim=1, keepdim=True) * model(X)[:, :1].detach()
    assert (products[:, [0, 5]] > 0).any()
    np.testing.assert_allclose(found.values, expected.numpy(), atol=1e-12)


PACKAGE = {
    "third_party_rules.py": """
        from tellwhy.explainers.propagation import Rule, register_operation, register_rule

        @register_rule("third")
        def third(share=1 / 3):
            return Rule("third", lambda layer, x, z, c: share * layer.backward(x, layer.weight, c))

        register_operation("sinc", "elementwise")
        """,
    "third_party_rules-1.0.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: third-party-rules
        Version: 1.0
        """,
    "third_party_rules-1.0.dist-info/entry_points.txt": """
        [tellwhy.rules]
        third = third_party_rules
        broken = third_party_rules:missing
        """,
}
USE = """
    import sys, warnings
    import torch
    from tellwhy.core.errors import TellwhyWarning
    from tellwhy.explainers import LRP

    assert "third_party_rules" not in sys.modules, "loaded before a rule was looked up"
    model = torch.nn.Linear(2, 1, bias=False).eval()
    x = torch.ones(1, 2)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        third = LRP(model, rule="third").explain(x).values
    assert [w.category for w in met] == [TellwhyWarning], met
    assert "The entry point 'broken' of the group 'tellwhy.rules'" in str(met[0].message), met[0].message
    assert abs(3 * third - LRP(model, rule="z").explain(x).values).max() < 1e-6
    from tellwhy.explainers.propagation import KINDS, RULES, temporary_registrations

    with temporary_registrations():
        pass
    assert "third" in RULES and KINDS["sinc"] == "elementwise"
    print("used")
    """
FIRST_IN_A_BLOCK = """
    from tellwhy.explainers.propagation import KINDS, RULES, temporary_registrations
    import warnings

    warnings.simplefilter("ignore")
    with temporary_registrations():
        assert "third" in RULES
    assert "third" in RULES, "the end of the block took a package's rule away"
    print("used")
    """


@pytest.mark.parametrize("script", [USE, FIRST_IN_A_BLOCK], ids=["use", "first in a block"])
def test_rules_of_installed_packages_are_found(script, tmp_path, monkeypatch):
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "used\n", done.stderr


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        (torch.sinc, "mixing"),
        (torch.sinc, "rectifier"),
        (torch.sinc, "copying"),
        (torch.logcumsumexp, "elementwise"),
        (torch.logcumsumexp, "mixing"),
    ],
)
def test_a_kind_that_the_numbers_contradict_is_refused(operation, kind):
    model = nn.Sequential(
        nn.Linear(4, 4),
        Function(lambda x: operation(x, *([1] if operation is torch.logcumsumexp else []))),
        nn.Linear(4, 2),
    ).eval()
    with pytest.raises(UnsupportedModel, match=f"does not fit: '{kind}' means"):
        LRP(model, operations={operation.__name__: kind}).explain(torch.rand(3, 4))
