"""torch's optimizers without its compiler, which they would load for seconds before the first update."""

from __future__ import annotations

from inspect import unwrap

import torch
from torch.optim import Optimizer


class Eager:
    """The methods that torch decorates to keep its compiler out of them, as they are written."""

    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)


class Adam(Eager, torch.optim.Adam):
    """torch's Adam."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


class AdamW(Eager, torch.optim.AdamW):
    """torch's AdamW."""

    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
