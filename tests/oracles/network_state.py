"""Everything about a network, and about PyTorch's random numbers, that reading it must leave as it is."""

import torch


def network_state(model):
    """Modes, weights, buffers, gradients, hooks and random numbers, copied."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return {
        "modes": {name: module.training for name, module in model.named_modules()},
        "weights": {name: weight.detach().clone() for name, weight in model.named_parameters()},
        "flags": {name: weight.requires_grad for name, weight in model.named_parameters()},
        "gradients": {
            name: None if weight.grad is None else weight.grad.clone()
            for name, weight in model.named_parameters()
        },
        "buffers": {name: buffer.clone() for name, buffer in model.named_buffers()},
        "hooks": {
            name: [list(getattr(module, kind).items()) for kind in hooks]
            for name, module in model.named_modules()
        },
        "identities": [id(part) for part in (*model.modules(), *model.parameters(), *model.buffers())],
        "random": torch.get_rng_state(),
    }


def same_state(one, other):
    """Whether two states are the same to the last bit."""
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    return one == other
