"""What explainers of networks refuse: calls by the words that answer them."""

from copy import deepcopy

import numpy as np
import torch
from torch import nn
from zoo.networks import Function

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.evaluation import compare, parameter_randomisation
from tellwhy.explainers import LRP, DeepTaylor, GradCAM, Gradient, IntegratedGradients, PatternNet
from tellwhy.explainers.propagation import RULES, Handover, register_operation, register_rule
from tellwhy.explainers.propagation.rules import Rule
from tellwhy.scoring import FunctionScore

torch.manual_seed(0)
X = torch.randn(6, 5, dtype=torch.float64)
DENSE = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)).double().eval()
PICTURES = torch.randn(6, 3, 12, 12)
MAPS = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 5)
)
SMALL = torch.randn(3, 2, 4, 4, dtype=torch.float64)
SMOOTH = nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3)).double().eval()
PAIR = [[1.0, 2.0]]
LINEAR = nn.Linear(2, 1).eval()
MAPS.eval()


def changed(change):
    """The dense network with something done to it."""
    model = deepcopy(DENSE)
    with torch.no_grad():
        change(model)
    return model


def huge():
    model = nn.Linear(2, 1).eval()
    nn.init.constant_(model.weight, 3e38)
    return model


def explained(x=X, target="max", model=DENSE):
    return LRP(model, target=target).explain(x)


def smooth(model=SMOOTH, x=SMALL, **settings):
    return IntegratedGradients(model, **settings).explain(x)


REFUSED = {
    (compare, InvalidParameter): {
        "injects no anomalies": lambda: compare([LRP], MAPS, PICTURES.numpy(), n_features=2),
    },
    (DeepTaylor, InvalidParameter): {
        "DeepTaylor": tuple(
            lambda low=low, high=high: DeepTaylor(DENSE, low=low, high=high).explain(X)
            for low, high in ((1, 2), (None, 1), (-1, None))
        ),
    },
    (GradCAM, InvalidInput): {
        "no module 'ten'": lambda: GradCAM(MAPS, layer="ten").explain(PICTURES),
        "not one tensor of maps": lambda: GradCAM(MAPS, layer="4").explain(PICTURES),
        "explains pictures": lambda: GradCAM(nn.Linear(3, 2).eval()).explain(torch.rand(2, 3)),
    },
    (GradCAM, UnsupportedModel): {
        "no 2-D convolution": lambda: GradCAM(nn.Sequential(nn.Flatten(), nn.Linear(432, 2)).eval()).explain(
            PICTURES
        ),
    },
    (Gradient, InvalidInput): {"Gradient has no ledger": lambda: Gradient(DENSE).ledger(X)},
    (Handover, InvalidParameter): {
        "module's name or a function": lambda: Handover(3, lambda inputs, out, R: R),
        r"function \(inputs": lambda: Handover("1", "half"),
    },
    (IntegratedGradients, InvalidInput): {
        "target 3 is out of range": lambda: smooth(target=3),
        "target has 2 entries for 3 rows": lambda: smooth(target=[0, 1]),
        "cannot be applied to rows of shape": lambda: smooth(x=SMALL[:, :1]),
        "rows first": lambda: smooth(x=SMALL[0, 0, 0]),
        "empty": lambda: smooth(x=SMALL[:0]),
        "not finite for row 0": lambda: smooth(
            nn.Sequential(SMOOTH, Function(lambda y: torch.exp(800 * y.abs() + 800))).eval()
        ),
    },
    (IntegratedGradients, InvalidParameter): {
        "device='nowhere' cannot be used": lambda: smooth(device="nowhere"),
        "has one score": lambda: smooth(
            FunctionScore(lambda Z: Z[:, 0], gradient=np.ones_like), x=np.ones((3, 4)), target=1
        ),
    },
    (IntegratedGradients, UnsupportedModel): {
        r"training mode.*model\.eval": lambda: smooth(nn.Sequential(SMOOTH, nn.Dropout()).train()),
        "detaches it": lambda: smooth(nn.Sequential(SMOOTH, Function(lambda y: y.detach())).eval()),
    },
    (LRP, InvalidInput): {
        r"cannot be applied to x of shape \(6, 4\)": lambda: explained(X[:, :4]),
        "rows first": lambda: explained(X[0]),
        "none of them empty": lambda: explained(X[:0]),
        r"x has dtype torch.float32, the model's weights have torch.float64": lambda: explained(X.float()),
        "dtype torch.int64": lambda: explained((X > 0).long()),
        "not finite in row": lambda: explained(torch.where(X > 1, torch.nan, X)),
        "target 3 is out of range: the model has outputs 0 to 2": lambda: explained(target=3),
        "out of range": lambda: explained(target=-1),
        "2 entries for 6 rows": lambda: explained(target=[0, 1]),
        r"must give a tensor of shape \(6,\)": lambda: explained(target=lambda y: y),
        r"output of 'linear' in module '2' \(operation 2\) is not finite": lambda: explained(
            model=changed(lambda m: m[2].bias[0].fill_(torch.inf))
        ),
        "not finite": (
            lambda: LRP(huge()).explain(torch.full((3, 2), 9.0), output="torch"),
            lambda: LRP(huge()).explain(torch.full((3, 2), 9.0), output="torch", differentiable=True),
        ),
    },
    (LRP, InvalidParameter): {
        "'max'": (lambda: explained(target="best"), lambda: explained(target=0.5)),
        "either a rule or a composite": lambda: LRP(LINEAR, rule="z", composite="preset_a").explain(PAIR),
        "'batch_norm' parameter of LRP must be one of 'merged'": lambda: LRP(
            LINEAR, batch_norm="linear"
        ).explain(PAIR),
        "'residual' parameter of LRP must be one of 'z'": lambda: LRP(LINEAR, residual="half").explain(PAIR),
        "'pooling' parameter of LRP must be one of 'z', 'flat'": lambda: LRP(LINEAR, pooling="max").explain(
            PAIR
        ),
        "settings of a rule that is given by its name": lambda: LRP(
            LINEAR, rule=RULES["z"](), rule_params={"epsilon": 1}
        ).explain(PAIR),
        "do not fit rule 'epsilon'": lambda: LRP(LINEAR, rule="epsilon", rule_params={"gamma": 1}).explain(
            PAIR
        ),
        "Operation 'relu' is known already: its kind is 'rectifier'": lambda: LRP(
            LINEAR, operations={"relu": "copying"}
        ).explain(PAIR),
        "'operations' parameter of LRP must be None or a dict": lambda: LRP(
            LINEAR, operations=["sinc"]
        ).explain(PAIR),
        "device='nowhere' cannot be used here": tuple(
            lambda method=method: method(DENSE, device="nowhere").explain(X)
            for method in (Gradient, LRP, IntegratedGradients)
        ),
        "'device' parameter of": tuple(
            lambda method=method: method(DENSE, device=3.5).explain(X)
            for method in (Gradient, LRP, IntegratedGradients)
        ),
    },
    (LRP, UnsupportedModel): {
        r"its module '1' is in training mode.*model.eval\(\)": lambda: explained(
            model=changed(lambda m: m[1].train())
        ),
        r"Expected a torch.nn.Module. Got function": lambda: explained(model=smooth),
        "training mode": lambda: LRP(
            Function(
                lambda x: nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5).mean(1)
            ).eval()
        ).explain(torch.rand(2, 3, 4)),
    },
    (parameter_randomisation, InvalidInput): {
        "one number per row": lambda: parameter_randomisation(
            Gradient(MAPS), PICTURES, n_stages=1, similarity=lambda a, b: 0.0
        ),
        "'ssim' compares images": lambda: parameter_randomisation(
            Gradient(nn.Linear(4, 2).eval()), torch.randn(3, 4), similarity="ssim"
        ),
    },
    (parameter_randomisation, InvalidParameter): {
        "must name modules that have parameters of their own: '0', '4'": lambda: parameter_randomisation(
            Gradient(MAPS), PICTURES, layers=["1"]
        ),
        "'mode' parameter": lambda: parameter_randomisation(Gradient(MAPS), PICTURES, mode="all"),
    },
    (parameter_randomisation, UnsupportedModel): {
        "needs an explainer of a network": lambda: parameter_randomisation(MAPS, PICTURES),
        "no parameters": lambda: parameter_randomisation(Gradient(nn.ReLU().eval()), PICTURES),
    },
    (PatternNet, InvalidInput): {
        "no patterns yet": lambda: PatternNet(nn.Linear(3, 2).eval()).explain(torch.rand(5, 3))
    },
    (PatternNet, UnsupportedModel): {
        f"Patterns say nothing of '{name}'": lambda middle=middle: PatternNet(
            nn.Sequential(nn.Linear(3, 3), middle, nn.Linear(3, 2)).eval()
        ).fit(torch.randn(5, 3))
        for name, middle in (("gelu", nn.GELU()), ("add", Function(lambda x: x + torch.relu(x))))
    },
    (register_operation, InvalidParameter): {
        "name of an operation must be a string": tuple(
            lambda name=name: register_operation(name, "elementwise")
            for name in ("", "_mine", "mine_", " mine", None, 3)
        ),
        "The operation 'div' is built in": lambda: register_operation("true_divide", "elementwise"),
        "The operation 'sigmoid' is built in": lambda: register_operation(torch.special.expit, "elementwise"),
    },
    (register_rule, InvalidParameter): {
        "name of a rule must be a string": tuple(
            lambda name=name: register_rule(name, lambda: None)
            for name in ("", "_mine", "mine_", " mine", None, 3)
        ),
    },
    (Rule, InvalidParameter): {
        "rule 'mine' must take four arguments: the layer's linear map": tuple(
            lambda function=function: Rule("mine", function)
            for function in (lambda x: x, lambda layer, x, z, c, more: c, 3)
        ),
        "alpha - beta = 1 and beta >= 0": (
            lambda: RULES["alpha_beta"](2, 2),
            lambda: RULES["alpha_beta"](0.5, -0.5),
        ),
    },
}
if not torch.cuda.is_available():
    REFUSED[LRP, InvalidParameter]["device='cuda' cannot be used here"] = lambda: LRP(
        DENSE, device="cuda"
    ).explain(X)
