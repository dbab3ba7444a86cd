"""What people do around and inside an update: harmless where it changes nothing, undone or refused where it would."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import truestep
from tests.engine.loops import Batch, batch, by_hand, cross_entropy, everything, mlp, poisoned, same, weights
from truestep.errors import GradientError, LossError, StateError


def normed() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.2), nn.Linear(6, 3))


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def windows() -> list[list[Batch]]:
    return [[batch(4, seed), batch(3, seed + 9)] for seed in range(3)]


def clips_what_is_left(update: truestep.Update) -> None:
    nn.utils.clip_grad_norm_(update.plan.model.parameters(), 1e-3)


def evaluates(update: truestep.Update) -> None:
    model = update.plan.model.eval()
    with torch.inference_mode():
        model(batch(5)[0])
    model.train()


def leaves_gradients(update: truestep.Update) -> None:
    with torch.random.fork_rng():
        cross_entropy(update.plan.model.eval(), batch(5)).backward()
    update.plan.model.train()


BETWEEN: dict[str, Callable[[truestep.Update], object]] = {
    "zero_grad": lambda update: update.plan.model.zero_grad(set_to_none=False),
    "clipping": clips_what_is_left,
    "evaluation": evaluates,
    "a backward": leaves_gradients,
    "a copy": lambda update: copy.deepcopy(update.plan.model),
    "a checkpoint": lambda update: update.plan.model.load_state_dict(copy.deepcopy(update.plan.model.state_dict())),
    "the same place": lambda update: update.plan.model.to("cpu").float(),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_what_is_done_between_attempts_changes_no_bit_of_them(between: str) -> None:
    hand, ours = normed(), normed()
    steps, update = adamw(hand), truestep.Update(ours, adamw(ours), loss=cross_entropy)
    torch.manual_seed(1)
    for window in windows():
        by_hand(hand, steps, window)
    torch.manual_seed(1)
    for window in windows():
        assert update(window).completed
        BETWEEN[between](update)
    assert same(weights(hand), weights(ours))


def test_an_evaluation_inside_the_loss_is_part_of_it() -> None:
    """Half of the forward in evaluation, as a teacher is: statistics move in training alone."""

    def distilled(model: nn.Module, data: Batch) -> Tensor:
        model.eval()
        with torch.no_grad():
            told = model(data[0]).argmax(1)
        model.train()
        return cross_entropy(model, data) + cross_entropy(model, (data[0], told))

    hand, ours = normed(), normed()
    steps, update = adamw(hand), truestep.Update(ours, adamw(ours), loss=distilled)
    torch.manual_seed(1)
    for window in windows():
        by_hand(hand, steps, window, distilled)
    torch.manual_seed(1)
    for window in windows():
        before = everything(update)
        with torch.random.fork_rng():
            assert not update([window[0], poisoned(window[1])]).completed
        assert same(before, everything(update))
        assert update(window).completed
    assert same(weights(hand), weights(ours))
    assert same([b.detach() for b in hand.buffers()], [b.detach() for b in ours.buffers()])


def halving(p: Tensor) -> None:
    p.grad.mul_(0.5)


@pytest.mark.parametrize(
    "hook",
    [
        lambda p: p.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01)),
        lambda p: p.register_post_accumulate_grad_hook(halving),
    ],
)
def test_hooks_on_parameters_see_each_backward_as_by_hand(hook: Callable[[Tensor], object]) -> None:
    hand, ours = mlp(), mlp()
    for p in (*hand.parameters(), *ours.parameters()):
        hook(p)
    steps, update = adamw(hand), truestep.Update(ours, adamw(ours), loss=cross_entropy)
    for window in windows():
        by_hand(hand, steps, window)
        assert update(window).completed
    assert same(weights(hand), weights(ours))


def zeroing(model: nn.Module, data: Batch) -> Tensor:
    model.zero_grad()
    return cross_entropy(model, data)


def stepping_backward(model: nn.Module, data: Batch) -> Tensor:
    cross_entropy(model, data).backward()
    return cross_entropy(model, data)


@pytest.mark.parametrize("loss", [zeroing, stepping_backward])
def test_a_loss_that_moves_the_gradients_itself_is_refused(loss: Callable[[nn.Module, Batch], Tensor]) -> None:
    model = mlp()
    update = truestep.Update(model, adamw(model), loss=loss)
    before = everything(update)
    with pytest.raises(StateError, match="gradient was changed"):
        update(windows()[0])
    assert same(before, everything(update))
    assert all(p.grad is None for p in model.parameters())


def test_hidden_state_that_is_carried_with_its_graph_fails_and_nothing_has_happened() -> None:
    class Carrying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head, self.hidden = nn.RNNCell(4, 4), nn.Linear(4, 3), None

        def forward(self, x: Tensor) -> Tensor:
            self.hidden = self.cell(x, self.hidden)
            return self.head(self.hidden)

    model = Carrying()
    update = truestep.Update(model, adamw(model), loss=cross_entropy)
    before = everything(update)
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        update([batch(4), batch(4)])
    assert same(before, everything(update))


def test_parameters_that_a_checkpoint_replaced_are_not_trained_in_silence() -> None:
    model = mlp()
    update = truestep.Update(model, adamw(model), loss=cross_entropy)
    update([batch(4)])
    model.load_state_dict(mlp(1).state_dict(), assign=True)
    with pytest.raises(GradientError, match="no parameter of the optimizer"):
        update([batch(4)])


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
def test_anomaly_detection_raises_where_it_looks_and_the_attempt_is_undone() -> None:
    model = normed()
    update = truestep.Update(model, adamw(model), loss=cross_entropy)
    with torch.autograd.detect_anomaly():
        assert update([batch(4)]).completed
        before, counts = everything(update), update.counts
        with pytest.raises(RuntimeError, match="returned nan values"):
            update([batch(4), poisoned(batch(4))])
    assert same(before, everything(update))
    assert update.counts == counts
    assert not update([batch(4), poisoned(batch(4))]).completed


def test_tensors_of_inference_mode_are_refused_by_torch_and_a_loop_inside_it_by_us() -> None:
    model = mlp()
    update = truestep.Update(model, adamw(model), loss=cross_entropy)
    before = everything(update)
    with torch.inference_mode():
        data = batch(4)
        with pytest.raises(LossError, match="no graph"):
            update([batch(4)])
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        update([data])
    assert same(before, everything(update))
    assert update([tuple(part.clone() for part in data)]).completed
