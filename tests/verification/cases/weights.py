"""Mistakes of weight: what counts too much, too little, twice, or not at all."""

from __future__ import annotations

import torch
from torch import nn

from tests.verification.cases.loops import Case, Loop, network, ordinary, pairs, squares


def not_divided(faulty):
    loop = ordinary()

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / (1 if faulty else len(window)))
        loop.finish()

    return Case(step, loop, "not-divided", 4.0)


def divided_twice(faulty):
    loop = ordinary()

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window) ** (2 if faulty else 1))
        loop.finish()

    return Case(step, loop, "divided-twice", 0.25)


def scored(microbatch):
    return int((microbatch[1] != -100).sum())


def token_loss(model, microbatch):
    ids, labels = microbatch
    return nn.functional.cross_entropy(model(ids).float().flatten(0, 1), labels.flatten(), ignore_index=-100)


def mean_of_token_means(faulty):
    torch.manual_seed(0)
    windows = []
    for _ in range(3):
        window = []
        for tokens in (4, 22, 11):
            labels = torch.full((2, 12), -100)
            labels.view(-1)[:tokens] = torch.randint(9, (tokens,))
            window.append((torch.randint(9, (2, 12)), labels))
        windows.append(window)
    loop = Loop(nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9)), windows, token_loss)
    loop.verified["weight"] = scored

    def step(window):
        loop.optimizer.zero_grad()
        total = sum(map(scored, window))
        for microbatch in window:
            share = 1 / len(window) if faulty else scored(microbatch) / total
            loop.backward(loop.forward(microbatch) * share)
        loop.finish()

    return Case(step, loop, "mean-of-means")


def short_window_by_a_full_count(faulty):
    loop = ordinary(rows=(6, 6, 6))

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / (4 if faulty else len(window)))
        loop.finish()

    return Case(step, loop, "other-count", 0.75)


def first_backward_twice(faulty):
    loop = ordinary()

    def step(window):
        loop.optimizer.zero_grad()
        for index, microbatch in enumerate(window):
            loss = loop.forward(microbatch) / len(window)
            if faulty and index == 0:
                loop.scaler.scale(loss).backward(retain_graph=True)
            loop.backward(loss)
        loop.finish()

    return Case(step, loop, "counted-twice")


def clipped_without_a_word(faulty):
    loop = ordinary(dtype=torch.bfloat16)

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        if faulty:
            nn.utils.clip_grad_norm_(loop.model.parameters(), 0.1)
        loop.finish()

    return Case(step, loop, "clip-undeclared")


def too_small_for_float16(faulty):
    """A scaler that is off leaves gradients of 1e-9 to float16."""

    def tiny(model, microbatch):
        return 1e-9 * squares(model, microbatch)

    loop = Loop(network(), pairs(), tiny)
    if faulty:
        loop.scaler = torch.amp.GradScaler("cpu", enabled=False)
    else:
        loop.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=10**6)
    loop.verified["scale"] = loop.scaler

    def step(window):
        loop.optimizer.zero_grad()
        for microbatch in window:
            loop.backward(loop.forward(microbatch) / len(window))
        loop.finish()

    return Case(step, loop, "zero", 0.0)


def body_without_a_graph(faulty):
    loop = ordinary(dtype=torch.bfloat16)

    def step(window):
        loop.optimizer.zero_grad()
        for x, y in window:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                with torch.set_grad_enabled(not faulty):
                    hidden = loop.model[:2](x)
                loss = nn.functional.mse_loss(loop.model[2](hidden).float(), y) / len(window)
            loop.backward(loss)
        loop.finish()

    return Case(step, loop, "no-gradient", 0.0)


WEIGHTS = [
    not_divided,
    divided_twice,
    mean_of_token_means,
    short_window_by_a_full_count,
    first_backward_twice,
    clipped_without_a_word,
    too_small_for_float16,
    body_without_a_graph,
]
