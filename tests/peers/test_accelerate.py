"""Accelerate unscales twice, misses a fused optimizer's skip, and divides a short window by the full one (1.15.0).

On a CPU, Accelerate makes no scaler for float16. The tests of scaled gradients put in the one that it makes itself on a GPU,
torch.amp.GradScaler; all else is Accelerate's own code.
"""

import math
import os
from unittest.mock import patch

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from torch import nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader

import truestep
from truestep.errors import OptimizerError

CLEAN, INFINITE = torch.tensor([3.0, 4.0]), torch.tensor([math.inf, 1.0])
SCALE = 2.0**16


@pytest.fixture
def accelerator():
    """Builds an Accelerator on the CPU; its process-wide state and environment are gone after the test."""

    def build(**options):
        return Accelerator(cpu=True, **options)

    with patch.dict(os.environ):
        reset()
        yield build
        reset()


@pytest.fixture
def scaling(accelerator):
    """An Accelerator that scales, as on a GPU under mixed_precision="fp16"."""
    built = accelerator(mixed_precision="fp16")
    built.native_amp, built.scaler = True, torch.amp.GradScaler("cpu")
    return built


def reset():
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def test_the_second_of_two_optimizers_is_unscaled_twice_there_and_once_here(line, slope, make_update, scaling):
    one, two = line(2), line(2)
    optimizers = scaling.prepare(*(SGD(model.parameters(), lr=1.0) for model in (one, two)))
    scaling.backward(slope(one, CLEAN) + slope(two, CLEAN))
    assert scaling.clip_grad_norm_(one.parameters(), 100.0).item() == 5.0  # unscales both
    for optimizer in optimizers:
        optimizer.step()  # each ends with scaler.update(), which forgets that the other was unscaled
    assert torch.equal(one.reached(), CLEAN)
    assert torch.equal(two.reached(), CLEAN / SCALE)

    both = nn.ModuleList([line(2), line(2)])
    for model in both:
        update = make_update(
            both,
            SGD(model.parameters(), lr=1.0),
            loss=lambda models, batch: slope(models[0], batch) + slope(models[1], batch),
            clip=truestep.ClipNorm(100.0),
        )
        assert update([CLEAN]).grad_norm == 5.0
    assert [torch.equal(model.reached(), CLEAN) for model in both] == [True, True]


@pytest.mark.parametrize("fused", [False, True])
def test_a_fused_adamws_skip_is_not_seen_there_and_the_schedule_advances(line, slope, scaling, fused):
    model = line(2)
    optimizer = AdamW(model.parameters(), lr=0.1, fused=fused)
    optimizer, scheduler = scaling.prepare(optimizer, StepLR(optimizer, step_size=1, gamma=0.5))
    for batch in (CLEAN, INFINITE):
        optimizer.zero_grad()
        scaling.backward(slope(model, batch))
        before = model.reached()
        optimizer.step()
        scheduler.step()
    assert torch.equal(model.reached(), before)  # skipped, fused or not
    assert optimizer.step_was_skipped is not fused
    assert scheduler.get_last_lr() == [0.025 if fused else 0.05]  # two ticks or one, for one update


@pytest.mark.parametrize("fused", [False, True])
def test_a_fused_adamws_skip_is_seen_here_and_the_schedule_stands(line, make_update, fused):
    model = line(2)
    optimizer = AdamW(model.parameters(), lr=0.1, fused=fused)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.5)
    update = make_update(model, optimizer, scheduler=scheduler)
    assert [update([batch]).completed for batch in (CLEAN, INFINITE)] == [True, False]
    assert scheduler.get_last_lr() == [0.05]
    assert update.counts.ticks == 1


def test_a_short_last_window_is_divided_by_the_full_one_there_and_by_its_own_here(line, slope, make_update, accelerator):
    examples = torch.tensor([[2.0], [4.0], [6.0]])
    built = accelerator(gradient_accumulation_steps=2)
    theirs = line(1)
    model, optimizer, loader = built.prepare(theirs, SGD(theirs.parameters(), lr=1.0), DataLoader(examples))
    steps = []
    for batch in loader:
        with built.accumulate(model):
            built.backward(slope(model, batch[0]))
            before = theirs.reached()
            optimizer.step()
            optimizer.zero_grad()
        if built.sync_gradients:
            steps.append((theirs.reached() - before).item())
    assert steps == [3.0, 3.0]  # the third example is the whole window, and half of it arrives

    ours = line(1)
    update = make_update(ours, loss_is="mean", policy="fp32")
    steps = []
    for window in truestep.windows(DataLoader(examples), 2):
        before = ours.reached()
        update([batch[0] for batch in window])
        steps.append((ours.reached() - before).item())
    assert steps == [3.0, 6.0]


def test_float16_on_a_cpu_is_float32_without_a_word_there_and_float16_here(accelerator):
    built = accelerator(mixed_precision="fp16")
    model = built.prepare(nn.Linear(2, 2))
    with built.autocast():
        assert model(torch.ones(1, 2)).dtype is torch.float32
    assert built.mixed_precision == "fp16"
    assert built.scaler is None

    computed = []

    def loss(model, batch):
        computed.append(model(batch).dtype)
        return model(batch).float().square().mean()

    model = nn.Linear(2, 2)
    outcome = truestep.Update(model, SGD(model.parameters(), lr=0.1), loss=loss, policy="fp16")([torch.ones(1, 2)])
    assert set(computed) == {torch.float16}
    assert outcome.loss_scale == SCALE


def test_its_wrapped_optimizer_is_refused_here_with_the_one_to_pass(line, make_update, scaling):
    model = line(2)
    wrapped = scaling.prepare(SGD(model.parameters(), lr=1.0))
    with pytest.raises(OptimizerError, match="AcceleratedOptimizer wraps another optimizer") as raised:
        make_update(model, wrapped)
    assert "optimizer.optimizer" in raised.value.hint
    assert make_update(model, wrapped.optimizer)([CLEAN]).completed
