"""An optimizer that runs the script's closure inside of its step is judged after the closure, and steps as it would have."""

import pytest
import torch

from truestep.audit.events import Backward, Edited, Stepped
from truestep.audit.trace import start

X = torch.linspace(-1, 1, 24).view(8, 3)


def train(kind, *, edit=None, watched=True, by_name=False, **options):
    """The weights after three steps with a closure, and the events."""
    watcher = start() if watched else None
    try:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 1)
        optimizer = kind(model.parameters(), lr=0.1, **options)

        def closure():
            optimizer.zero_grad()
            loss = (model(X) - X[:, :1]).square().mean()
            loss.backward()
            if edit is not None:
                edit(model)
            return loss

        losses = [optimizer.step(closure=closure) if by_name else optimizer.step(closure) for _ in range(3)]
    finally:
        if watcher is not None:
            watcher.stop()
    weights = torch.cat([each.detach().flatten() for each in (*model.parameters(), *losses)])
    return weights, [] if watcher is None else watcher.recorder.events


def steps(events):
    return [event for event in events if isinstance(event, Stepped)]


@pytest.mark.parametrize("by_name", [False, True])
def test_the_window_is_judged_after_a_closure_that_is_called_once(by_name):
    _, events = train(torch.optim.AdamW, by_name=by_name)
    for step, backward in zip(steps(events), [event for event in events if isinstance(event, Backward)], strict=True):
        assert (step.closure, step.backwards) == (False, (backward.number,))
        assert step.judged.agrees(1e-5)


def test_a_gradient_that_the_closure_made_wrong_is_seen_with_its_damage():
    def halve(model):
        model.weight.grad.mul_(0.5)

    _, events = train(torch.optim.SGD, edit=halve)
    assert all(step.judged.ratio < 0.9 for step in steps(events))
    assert steps(events)[0].damage.wrong < steps(events)[0].damage.right


def test_an_optimizer_that_calls_its_closure_several_times_is_told_from_it():
    _, events = train(torch.optim.LBFGS)
    assert [step.closure for step in steps(events)] == [True] * 3


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.LBFGS])
def test_weights_and_losses_are_what_they_are_unwatched(kind):
    assert torch.equal(train(kind)[0], train(kind, watched=False)[0])


def test_after_a_closures_exception_the_audit_sees_what_it_saw_before():
    watcher = start()
    try:
        weight = torch.nn.Parameter(torch.ones(2))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        with pytest.raises(KeyError, match="the script's own"):
            optimizer.step(lambda: {}["the script's own"])
        weight.sum().backward()
        weight.grad.mul_(0.5)
        optimizer.step()
    finally:
        watcher.stop()
    assert [event.operation for event in watcher.recorder.events if isinstance(event, Edited)] == ["mul"]
