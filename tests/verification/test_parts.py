"""What was looked up of a model is looked up again as soon as anything of it is another, and no sooner."""

import pytest
import torch
from torch import nn

from truestep.verification.parts import Parts
from truestep.verification.subject_update import subject_of_step


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Sequential(nn.Linear(2, 1)))


def attempted(model, optimizer):
    model(torch.randn(4, 2)).sum().backward()
    optimizer.step()


def renamed(model):
    model[0].other = model[0].bias
    del model[0].bias


CHANGES = {
    "a parameter frozen": lambda model, optimizer: model[0].bias.requires_grad_(False),
    "a parameter replaced": lambda model, optimizer: setattr(model[0], "bias", nn.Parameter(torch.zeros(2))),
    "a parameter gone": lambda model, optimizer: setattr(model[0], "bias", None),
    "a parameter under another name": lambda model, optimizer: renamed(model),
    "a buffer replaced": lambda model, optimizer: setattr(model[1], "running_mean", torch.zeros(2)),
    "a buffer more": lambda model, optimizer: model[0].register_buffer("count", torch.zeros(())),
    "a module replaced by its like": lambda model, optimizer: model[2].__setitem__(0, nn.Linear(2, 1)),
    "a module more": lambda model, optimizer: model.append(nn.Linear(1, 1)),
    "a module within another more": lambda model, optimizer: model[2].append(nn.Linear(1, 1)),
    "a group more": lambda model, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]}),
    "another in a group": lambda model, optimizer: optimizer.param_groups[0]["params"].__setitem__(
        0, nn.Parameter(torch.ones(1))
    ),
    "one parameter less": lambda model, optimizer: optimizer.param_groups[0]["params"].pop(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    parts = Parts(model, [optimizer])
    attempted(model, optimizer)
    assert parts.same
    CHANGES[name](model, optimizer)
    assert not parts.same


def test_parameters_are_named_anew_after_a_change_alone():
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    subject = subject_of_step(lambda window: None, model=model, optimizer=optimizer, loss=lambda model, x: model(x).sum())
    first = subject.named()
    attempted(model, optimizer)
    assert subject.named(first) is first
    model[0].bias.requires_grad_(False)
    second = subject.named(first)
    assert first.trained.keys() - second.trained.keys() == {"0.bias"}


def test_buffers_are_found_anew_where_a_module_may_tell_of_what_it_keeps():
    for model, again in ((model_of(), True), (Own(), False), (nn.Sequential(Own()), False)):
        parts = Parts(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
        assert (parts.buffers is parts.buffers) == again
