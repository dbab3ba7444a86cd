"""Mistakes of order: a clip, a division by the scale, or a zeroing that stands in the wrong place."""

from __future__ import annotations

import torch
from torch import nn

from tests.verification.cases.loops import SCALE, Case, Loop, ordinary, pairs
from truestep.engine.clip import ClipNorm


def clip_while_scaled(faulty):
    loop = ordinary()
    loop.verified["clip"] = ClipNorm(0.05)

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        if not faulty:
            loop.scaler.unscale_(loop.optimizer)
        nn.utils.clip_grad_norm_(loop.model.parameters(), 0.05)
        loop.finish()

    return Case(step, loop, "clip-before-unscale")


def optimizer_stepped_past_the_scaler(faulty):
    loop = ordinary()
    loop.optimizer.param_groups[0]["lr"] = 1e-6  # what still carries the scale would blow the model up

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        if faulty:
            loop.optimizer.step()
        else:
            loop.finish()

    return Case(step, loop, "still-scaled", SCALE)


def unscaled_by_hand_and_again(faulty):
    loop = ordinary()

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        for parameter in loop.model.parameters() if faulty else ():
            parameter.grad /= loop.scaler.get_scale()
        loop.finish()

    return Case(step, loop, "unscale-twice", 1 / SCALE)


def zeroed_inside_the_window(faulty):
    loop = ordinary()

    def step(window):
        for index, microbatch in enumerate(window):
            if faulty or index == 0:
                loop.optimizer.zero_grad()
            loop.backward(loop.forward(microbatch) / len(window))
        loop.finish()

    return Case(step, loop, "last-only")


def unscaled_inside_the_window(faulty):
    loop = ordinary()

    def step(window):
        loop.optimizer.zero_grad()
        for index, microbatch in enumerate(window):
            loop.backward(loop.forward(microbatch) / len(window))
            if faulty:
                loop.scaler.unscale_(loop.optimizer)
            if index + 1 == len(window):
                loop.scaler.step(loop.optimizer)
            if faulty or index + 1 == len(window):
                loop.scaler.update()

    return Case(step, loop, "last-only")  # 1/1024 of the others lies below the rounding of float16, and the words say so


def scale_updated_inside_the_window(faulty):
    """Every `update` doubles the scale here: parts are stored at 1, 2, 4 and 8 times the first, and divided by the last."""
    loop = ordinary()
    scale = [SCALE]
    loop.verified["scale"] = lambda: scale[0]

    def step(window):
        loop.optimizer.zero_grad()
        scale[0] = SCALE
        for microbatch in window:
            (loop.forward(microbatch) * scale[0] / len(window)).backward()
            if faulty and microbatch is not window[-1]:
                scale[0] *= 2
        for parameter in loop.model.parameters():
            parameter.grad /= scale[0]
        loop.optimizer.step()

    return Case(step, loop, "scale-moved")


def clipped_after_every_microbatch(faulty):
    loop = ordinary(dtype=torch.bfloat16)
    loop.verified["clip"] = ClipNorm(0.2)

    def step(window):
        loop.optimizer.zero_grad()
        for index, microbatch in enumerate(window):
            loop.backward(loop.forward(microbatch) / len(window))
            if faulty or index + 1 == len(window):
                nn.utils.clip_grad_norm_(loop.model.parameters(), 0.2)
        loop.finish()

    return Case(step, loop, "clip-inside-window")


def never_zeroed(faulty):
    loop = ordinary(dtype=torch.float32)

    def step(window):
        if not faulty:
            loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        loop.finish()

    return Case(step, loop, "leftover")


class Heads(nn.Module):
    """One body and two heads."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        hidden = torch.tanh(self.body(x))
        return self.first(hidden), self.second(hidden)


def two_losses(model, microbatch):
    x, y = microbatch
    first, second = model(x)
    return nn.functional.mse_loss(first.float(), y[:, :1]), nn.functional.mse_loss(second.float(), y[:, 1:])


def second_loss_not_scaled(faulty):
    loop = Loop(Heads(), pairs(), lambda model, microbatch: sum(two_losses(model, microbatch)))

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            with torch.autocast("cpu", dtype=torch.float16):
                first, second = (each / len(window) for each in two_losses(loop.model, microbatch))
            loop.scaler.scale(first).backward(retain_graph=True)
            (second if faulty else loop.scaler.scale(second)).backward()
        loop.finish()

    return Case(step, loop, "backward-not-scaled", 1 / SCALE)


def scale_updated_between_two_optimizers(faulty):
    loop = Loop(Heads(), pairs(rows=(6, 6, 6)), lambda model, microbatch: sum(two_losses(model, microbatch)), growth=1)
    others = torch.optim.SGD(loop.model.second.parameters(), lr=0.05)
    loop.optimizer = torch.optim.SGD([*loop.model.body.parameters(), *loop.model.first.parameters()], lr=0.05)
    loop.verified["optimizer"] = [loop.optimizer, others]

    def step(window):
        loop.optimizer.zero_grad()
        others.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        loop.scaler.step(loop.optimizer)
        if faulty:
            loop.scaler.update()
        loop.scaler.step(others)
        loop.scaler.update(None if faulty else SCALE)

    return Case(step, loop, "scale-moved", 0.5)


ORDERS = [
    clip_while_scaled,
    optimizer_stepped_past_the_scaler,
    unscaled_by_hand_and_again,
    zeroed_inside_the_window,
    unscaled_inside_the_window,
    scale_updated_inside_the_window,
    clipped_after_every_microbatch,
    never_zeroed,
    second_loss_not_scaled,
    scale_updated_between_two_optimizers,
]
