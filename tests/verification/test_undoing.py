"""An update that was verified goes on as if nobody had: also one that is torn, one whose schedule was moved, and a fresh one."""

import copy

import pytest
import torch
from torch import nn

from truestep.engine.undo import undone
from truestep.engine.update import Update
from truestep.errors import ClockError, StateError
from truestep.verification.verify import verify


def window(*, seed=0):
    return [torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)) for _ in range(2)]


def update_of(optimizer=torch.optim.AdamW, **options):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    return Update(model, optimizer(model.parameters()), loss=lambda model, x: model(x).square().mean(), **options)


def decaying(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)


class Fragile(torch.optim.SGD):
    """Writes the first parameter, then raises, where it is told to."""

    breaks = False

    def step(self, closure=None):
        if self.breaks:
            with torch.no_grad():
                self.param_groups[0]["params"][0].add_(1.0)
            raise ArithmeticError("halfway")
        return super().step(closure)


def test_a_schedule_that_was_moved_by_hand_is_refused_after_a_verification_too():
    update = update_of(scheduler=decaying)
    update(window())
    update.schedulers[0].step()
    for _ in range(2):
        with pytest.raises(ClockError, match="somebody else moves it"):
            verify(update, [window()])
        with pytest.raises(ClockError, match="somebody else moves it"):
            update(window())


def test_an_update_that_was_torn_stays_torn():
    update = update_of(Fragile)
    update(window())
    update.optimizers[0].breaks = True
    with pytest.raises(ArithmeticError):
        update(window())
    update.optimizers[0].breaks = False
    with pytest.raises(StateError, match="halfway"):
        verify(update, [window()])
    with pytest.raises(StateError, match="halfway"):
        update(window())


def test_a_fresh_updates_first_step_still_has_its_copy_to_go_back_to():
    update = update_of(Fragile)
    before = copy.deepcopy(update.model.state_dict())
    assert verify(update, [window(), window(seed=1)]).passed
    update.optimizers[0].breaks = True
    with pytest.raises(ArithmeticError):
        update(window())
    assert all(torch.equal(value, before[name]) for name, value in update.model.state_dict().items())
    update.optimizers[0].breaks = False
    assert update(window()).completed


def test_a_fresh_updates_weight_is_checked_by_its_own_first_attempt():
    update = update_of()
    verify(update, [window()])
    said = update(window()).weight_check
    assert said == update_of()(window()).weight_check
    assert "earlier" not in said


def test_a_learning_rate_that_a_schedule_writes_in_place_comes_back_and_so_does_the_mode():
    update = update_of(lambda params: torch.optim.AdamW(params, lr=torch.tensor(0.5)), scheduler=decaying)
    with undone(update):
        update.model.eval()
        assert update(window()).completed
        assert update.optimizers[0].param_groups[0]["lr"].item() == 0.25
    assert update.optimizers[0].param_groups[0]["lr"].item() == 0.5
    assert update.schedulers[0].last_epoch == 0
    assert update.model.training
