"""Mistakes that no weight of a microbatch tells: across shards, in the loss, over windows, and loops that raise."""

from __future__ import annotations

import copy

import torch
from torch import nn

from tests.verification.cases.loops import Case, Loop, network, ordinary, pairs, squares
from truestep.engine.clip import ClipNorm


def shards_meet_at_the_wrong_microbatch(faulty):
    """Two shards in one process: a window is what both hold, in turns; their mean is taken where they meet."""
    loop = ordinary(dtype=torch.bfloat16)

    def step(window):
        loop.optimizer.zero_grad()
        other = copy.deepcopy(loop.model)
        shards = [(loop.model, window[0::2]), (other, window[1::2])]
        count = len(window) // 2
        for index in range(count):
            for model, held in shards:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = squares(model, held[index])
                (loss / count).backward()
            if index == (0 if faulty else count - 1):
                for mine, its in zip(loop.model.parameters(), other.parameters(), strict=True):
                    mine.grad = (mine.grad + its.grad) / 2
                    its.grad = mine.grad.clone()
        loop.optimizer.step()

    return Case(step, loop, "not-reduced")


def windows_that_never_step(faulty):
    """Seven microbatches in windows of four: the last three make no step of their own."""
    torch.manual_seed(3)
    whole, short = pairs(count=2), pairs(count=2, rows=(6, 6, 6), seed=2)
    loop = Loop(network(), [whole[0], short[0], whole[1], short[1]], squares)

    def step(window):
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / (4 if faulty else len(window)))
        if len(window) == 4 or not faulty:
            loop.finish()
            loop.optimizer.zero_grad()

    return Case(step, loop, "leftover")


def bad_gradients_zeroed(faulty):
    """The third window holds a number that is not one."""
    loop = ordinary(dtype=torch.bfloat16)
    loop.windows[2][1][0][0, 0] = torch.nan
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    loop.verified["scale"] = loop.scaler

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        for parameter in loop.model.parameters() if faulty else ():
            torch.nan_to_num_(parameter.grad, nan=0.0, posinf=0.0, neginf=0.0)
        loop.finish()

    return Case(step, loop, "made-finite")


def penalised(model, microbatch):
    """A distance between two means, and how far the norm of the gradient between them is from 1."""
    return _penalised(model, microbatch, scale=1.0)


def _penalised(model, microbatch, *, scale):
    real, fake = microbatch
    between = ((real + fake) / 2).requires_grad_()
    distance = model(fake).mean() - model(real).mean()
    (gradient,) = torch.autograd.grad(model(between).sum() * scale, between, create_graph=True)
    return distance + 10 * (gradient.norm(dim=1) - 1).square().mean()


def penalty_on_a_scaled_gradient(faulty, *, factor=None):
    """`factor`: what the gradient carries in place of the loss scale."""
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    windows = [[(torch.randn(8, 4), torch.randn(8, 4) + 2) for _ in range(2)] for _ in range(3)]
    loop = Loop(critic, windows, penalised, dtype=torch.float32)
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    loop.verified["scale"] = loop.scaler

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loss = _penalised(loop.model, microbatch, scale=(factor or loop.scaler.get_scale()) if faulty else 1.0)
            loop.backward(loss / len(window))
        loop.finish()

    return Case(step, loop, "penalty-still-scaled")


WHOLES = [
    shards_meet_at_the_wrong_microbatch,
    windows_that_never_step,
    bad_gradients_zeroed,
    penalty_on_a_scaled_gradient,
]


def unscaled_twice(faulty):
    loop = ordinary()
    loop.verified["clip"] = ClipNorm(1.0)

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        for _ in range(2 if faulty else 1):
            loop.scaler.unscale_(loop.optimizer)
        nn.utils.clip_grad_norm_(loop.model.parameters(), 1.0)
        loop.finish()

    return Case(step, loop, "unscale_() has already been called")


def half_weights(faulty):
    """An adapter on a frozen backbone that is float16; trained in float16 itself where it is wrong."""
    torch.manual_seed(0)
    adapter, backbone = nn.Linear(6, 2), nn.Linear(6, 6).half().requires_grad_(False)

    def loss(model, microbatch):
        x, y = microbatch
        return squares(model, (backbone(x.half()).to(model.weight.dtype), y))

    loop = Loop(adapter.half() if faulty else adapter, pairs(count=2, rows=(4, 4)), loss)

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        loop.finish()

    return Case(step, loop, "Attempting to unscale FP16 gradients" if faulty else None)


def overflow_that_raises(faulty):
    loop = ordinary()
    loop.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    loop.verified |= {"scale": loop.scaler, "clip": ClipNorm(1.0)}
    loop.windows[0] = [(1e3 * x, y) for x, y in loop.windows[0]]

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        loop.scaler.unscale_(loop.optimizer)
        nn.utils.clip_grad_norm_(loop.model.parameters(), 1.0, error_if_nonfinite=faulty)
        loop.finish()

    return Case(step, loop, "non-finite, so it cannot be clipped")


RAISING = [unscaled_twice, half_weights, overflow_that_raises]
