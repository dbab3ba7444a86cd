"""Lightning's Fabric (2.6.6) raises at a float16 overflow that it clips, refuses to clip under fused optimizers, hides skips.

Lightning's Trainer is not installed with these tests. Its division of a short last window by the full one is therefore not
shown: Fabric divides nothing, and the loop that its documentation gives is run instead. The schedule's tick on a skip is
shown for Fabric, where it is the loop's own; the Trainer's automatic one is not.
"""

import math

import pytest
import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins import MixedPrecision
from torch import nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import StepLR

import truestep
from truestep.errors import OptimizerError

BATCH = torch.tensor([[1.0, 2.0]])
# Weights of 1: output 3, loss 9, its gradient 6 by the output and [6, 12] by the weights. In float16, 12 * 4096 = 49152 is
# the largest that fits below 65504: a scale that starts at 65536 overflows four times first. All of it is exact.
OVERFLOWS = 4
GRADIENT = torch.tensor([[6.0, 12.0]])


@pytest.fixture
def fabric():
    """Fabric with float16 on a CPU: its own plugin, since by name it would take bfloat16 instead."""
    return Fabric(accelerator="cpu", devices=1, plugins=MixedPrecision("16-mixed", device="cpu"))


def ones():
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    return model


def square(model, batch):
    return model(batch).float().square().mean()


def test_clipping_raises_on_a_float16_overflow_there_and_is_an_ordinary_skip_here(fabric):
    model = ones()
    model, optimizer = fabric.setup(model, SGD(model.parameters(), lr=1.0))
    fabric.backward(square(model, BATCH))
    with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
        fabric.clip_gradients(model, optimizer, max_norm=1.0)

    ours = ones()
    update = truestep.Update(ours, SGD(ours.parameters(), lr=1.0), loss=square, policy="fp16", clip=truestep.ClipNorm(1.0))
    outcomes = [update([BATCH]) for _ in range(OVERFLOWS + 1)]
    assert [outcome.completed for outcome in outcomes] == [False] * OVERFLOWS + [True]
    assert {outcome.skip.reason for outcome in outcomes[:-1]} == {truestep.Reason.BACKWARD}
    norm = math.hypot(6.0, 12.0)
    assert outcomes[-1].grad_norm == pytest.approx(norm, rel=2.0**-22)  # two squares, a sum, a root: four roundings of 2^-24
    # Clipped, the gradient is off by the norm's error and two roundings more; 1 minus it rounds by 2^-24 of at most 1.
    expected = (1.0 - GRADIENT.double() / norm).flatten().tolist()
    assert ours.weight.flatten().tolist() == pytest.approx(expected, abs=2.0**-21)


def test_clipping_under_a_fused_optimizer_is_refused_there_and_right_here(fabric, line, slope, make_update):
    theirs = line(2)
    model, optimizer = fabric.setup(theirs, SGD(theirs.parameters(), lr=1.0, fused=True))
    with pytest.raises(NotImplementedError, match="not implemented for optimizers handling the unscaling"):
        fabric.clip_gradients(model, optimizer, max_norm=1.0)

    ours = line(2)
    optimizer = SGD(ours.parameters(), lr=1.0, fused=True)
    outcome = make_update(ours, optimizer, clip=truestep.ClipNorm(1.0))([torch.tensor([3.0, 4.0])])
    assert (outcome.grad_norm, outcome.grad_norm_clipped) == (5.0, 1.0)
    # The divisor and the quotient are rounded to float32, by at most 2^-24 each.
    assert ours.reached().tolist() == pytest.approx([0.6, 0.8], rel=2.0**-23)


# torch warns where a schedule moves before its optimizer; an optimizer whose first attempts were skipped is just that.
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize("fused", [False, True])
def test_the_schedule_advances_on_a_skip_that_nothing_tells_there(fabric, fused):
    model = ones()
    optimizer = AdamW(model.parameters(), lr=0.1, fused=fused)
    wrapped, optimizer, scheduler = fabric.setup(model, optimizer, scheduler=StepLR(optimizer, step_size=1, gamma=0.5))
    returned = []
    for _ in range(OVERFLOWS + 1):
        optimizer.zero_grad()
        fabric.backward(square(wrapped, BATCH))
        returned.append(optimizer.step())
        scheduler.step()
    assert returned == [None] * 5
    assert [state["step"].item() for state in optimizer.state.values()] == [1.0]  # one update, five ticks
    assert scheduler.get_last_lr() == [0.1 * 0.5**5]
    # The first update was made at a sixteenth of its rate. AdamW's first step moves by the rate, less 1e-8 / 6 of it, and
    # decays by 1e-2 of it; a weight near 1 rounds by 2^-24.
    rate = 0.1 * 0.5**OVERFLOWS
    assert model.weight.flatten().tolist() == pytest.approx([1.0 - 1.01 * rate] * 2, abs=2.0**-23)


@pytest.mark.parametrize("fused", [False, True])
def test_the_schedule_stands_until_an_update_is_completed_here(fused):
    model = ones()
    optimizer = AdamW(model.parameters(), lr=0.1, fused=fused)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    update = truestep.Update(model, optimizer, loss=square, policy="fp16", scheduler=scheduler)
    rates = [update([BATCH]).lr for _ in range(OVERFLOWS + 1)]
    assert rates == [(0.1,)] * 5
    assert scheduler.get_last_lr() == [0.05]
    assert model.weight.flatten().tolist() == pytest.approx([1.0 - 1.01 * 0.1] * 2, abs=2.0**-23)


def test_the_documented_accumulation_sums_and_never_applies_the_last_window_there(line, slope, make_update):
    fabric = Fabric(accelerator="cpu", devices=1)
    theirs = line(1)
    model, optimizer = fabric.setup(theirs, SGD(theirs.parameters(), lr=1.0))
    examples = [torch.tensor([value]) for value in (2.0, 4.0, 6.0, 8.0)]
    steps = []
    for index, batch in enumerate(examples):  # the loop of Fabric.no_backward_sync's docstring, with 2 for its 8
        with fabric.no_backward_sync(model, enabled=index % 2 != 0):
            fabric.backward(slope(model, batch))
        if index % 2 == 0:
            before = theirs.reached()
            optimizer.step()
            optimizer.zero_grad()
            steps.append((theirs.reached() - before).item())
    assert steps == [2.0, 10.0]  # a window of one, then a sum where the mean is 5
    assert theirs.weight.grad.item() == 8.0  # and the last is left over

    ours = line(1)
    update = make_update(ours, loss_is="mean", policy="fp32")
    steps = []
    for window in truestep.windows(examples[:3], 2):
        before = ours.reached()
        update(window)
        steps.append((ours.reached() - before).item())
    assert steps == [3.0, 6.0]


def test_float16_on_a_cpu_becomes_bfloat16_there_and_stays_float16_here(line, make_update):
    with pytest.warns(UserWarning, match="Using `precision='bf16-mixed'` instead"):
        fabric = Fabric(accelerator="cpu", devices=1, precision="16-mixed")
    with fabric.autocast():
        assert nn.Linear(2, 1)(BATCH).dtype is torch.bfloat16

    model = line(2)
    with make_update(model).attempt() as attempt:
        with attempt.autocast():
            assert nn.Linear(2, 1)(BATCH).dtype is torch.float16
        attempt.backward(model.weight.sum(), share=1.0)
    assert attempt.outcome.policy == "fp16"


def test_its_wrapped_optimizer_is_refused_here_with_the_one_to_pass(fabric, line, make_update):
    model = line(2)
    _, wrapped = fabric.setup(model, SGD(model.parameters(), lr=1.0))
    with pytest.raises(OptimizerError, match="FabricSGD wraps another optimizer") as raised:
        make_update(model, wrapped)
    assert "optimizer.optimizer" in raised.value.hint
    assert make_update(model, wrapped.optimizer)([torch.ones(2)]).completed
