"""A watch judges what trains inside of it, takes nothing from the process, and leaves nothing behind."""

import pytest
import torch
from torch.nn.modules import module as modules
from torch.optim import Optimizer

import truestep
from truestep.errors import StateError

PATCHED = [
    (torch.amp.GradScaler, ("__init__", "scale", "unscale_", "step", "update", "load_state_dict")),
    (torch.autograd, ("backward", "grad")),
    (torch.optim.Optimizer, ("__init__", "zero_grad", "load_state_dict")),
    (torch.nn.Module, ("zero_grad", "_apply", "register_parameter")),
    (torch, ("save", "load", "compile")),
    (torch.nn.utils, ("clip_grad_value_",)),
    (torch.Tensor, ("register_hook",)),
]


def loop(*, divide=4):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.randn(3, 16, 4):
        for part in x.chunk(4):
            (model(part).pow(2).mean() / divide).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def standing():
    """What the instruments replace or add to, by identity."""
    names = {(owner, name): vars(owner).get(name) for owner, held in PATCHED for name in held}
    counts = len(modules._global_forward_hooks), len(modules._global_forward_pre_hooks), torch._C._len_torch_function_stack()
    return names, counts


def test_what_is_wrong_inside_is_found_when_the_block_is_left():
    with truestep.audit.watch() as findings:
        loop(divide=1)
        assert findings == []
    assert [finding.rule for finding in findings] == ["accumulation-weight"]
    assert findings.faults
    assert "accumulation-weight" in str(findings)


def test_correct_training_is_not_changed_by_a_bit_and_nothing_is_found():
    alone = loop()
    with truestep.audit.watch() as findings:
        watched = loop()
    assert findings.faults == []
    assert all(torch.equal(one, other) for one, other in zip(alone.parameters(), watched.parameters(), strict=True))


def test_models_and_optimizers_that_were_there_before_are_judged_too():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with truestep.audit.watch() as findings:
        for x in torch.randn(3, 8, 4):
            model(x).pow(2).mean().backward()
            optimizer.step()
    assert [finding.rule for finding in findings.faults] == ["zero-grad-placement"]


def test_an_exception_goes_on_and_what_was_seen_is_judged():
    with pytest.raises(ZeroDivisionError), truestep.audit.watch() as findings:
        loop(divide=1)
        raise ZeroDivisionError
    assert [finding.rule for finding in findings] == ["accumulation-weight"]


def test_a_watch_inside_of_another_is_refused_and_the_outer_one_goes_on():
    with truestep.audit.watch() as findings:
        with pytest.raises(StateError, match="inside of another"), truestep.audit.watch():
            pass
        loop(divide=1)
    assert [finding.rule for finding in findings] == ["accumulation-weight"]


def test_nothing_is_left_behind():
    before = standing()
    with truestep.audit.watch():
        assert standing() != before
        loop()
    assert standing() == before
    model = loop()
    assert not model._forward_hooks
    assert not any(parameter._backward_hooks for parameter in model.parameters())
    assert not hasattr(Optimizer, "watched")


def test_a_model_that_raises_in_its_forward_leaves_the_next_watch_whole():
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"), truestep.audit.watch():
        Broken()(torch.ones(1))
    with truestep.audit.watch() as findings:
        loop(divide=1)
    assert [finding.rule for finding in findings] == ["accumulation-weight"]
