"""Fused optimizers skip inside their own step: hooks fire, and SGD's momentum starts from whatever was in memory."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

import truestep
from truestep.labs.asking.ask import Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import linear, loss
from truestep.labs.clocks._by_torch import one_attempt
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

SCALE, CLEAN = 2.0**16, 1.0
LARGE = 2.0**120
"""Beyond float32 once scaled."""
WINDOWS = (LARGE, CLEAN, math.inf, CLEAN)
COMPLETED = WINDOWS.count(CLEAN)
MOMENTUM, RUNS = 0.9, 20
COUNTED = "steps of AdamW in four attempts of which two are skipped"


def shows() -> Shown:
    """What hooks count, and what momentum is left, fused and not, by torch's scaler and by the engine."""
    counted = {("torch", fused): _counted(fused=fused, engine=False) for fused in (False, True)} | {
        ("engine", fused): _counted(fused=fused, engine=True) for fused in (False, True)
    }
    momentum = {fused: _momentum(fused=fused, engine=True) for fused in (False, True)}
    checks = (
        *(
            Check(
                what=f"steps that a hook counted, by the engine, {_word(fused)}",
                expected=COMPLETED,
                measured=counted["engine", fused],
                because="the optimizer is called for completed updates alone",
            )
            for fused in (False, True)
        ),
        *(
            Check(
                what=f"weight after a skipped and a completed attempt with momentum, by the engine, {_word(fused)}",
                expected=-CLEAN,
                measured=momentum[fused],
                because="a first step with momentum is the gradient itself: torch's SGD begins its buffer with it",
            )
            for fused in (False, True)
        ),
    )
    rows = tuple((who, _word(fused), number) for (who, fused), number in counted.items())
    table = Table(title=COUNTED, columns=("by", "AdamW", "steps that a hook counted"), rows=rows)
    return Shown(
        checks=checks, wrong=(_moved_counters(counted["torch", True]), _uninitialised()), edges=(_unfused(),), tables=(table,)
    )


def _word(fused: bool) -> str:
    return "fused" if fused else "not fused"


def _counted(*, fused: bool, engine: bool) -> int:
    """How often AdamW's hook fires over the four windows."""
    model, _ = linear((CLEAN,))
    optimizer = AdamW(model.parameters(), fused=fused)
    steps: list[None] = []
    handle = optimizer.register_step_post_hook(lambda *_: steps.append(None))
    (by_the_engine if engine else by_torch)(model, optimizer, WINDOWS)
    handle.remove()
    return len(steps)


def _momentum(*, fused: bool, engine: bool) -> float:
    """The weight after a skipped and a completed attempt, from 0, with learning rate 1 and momentum 0.9."""
    model, _ = linear((CLEAN,))
    optimizer = SGD(model.parameters(), lr=1.0, momentum=MOMENTUM, fused=fused)
    (by_the_engine if engine else by_torch)(model, optimizer, WINDOWS[:2])
    return float(model.weight.item())


def by_the_engine(model: nn.Linear, optimizer: Optimizer, windows: tuple[float, ...]) -> None:
    """An attempt a window."""
    update = truestep.Update(model, optimizer, loss=loss, scale=truestep.LossScale.dynamic(SCALE))
    for value in windows:
        update([torch.tensor([[value]])])


def by_torch(model: nn.Linear, optimizer: Optimizer, windows: tuple[float, ...]) -> None:
    """The usual loop."""
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE)
    for value in windows:
        one_attempt(scaler, optimizer, loss(model, torch.tensor([[value]])))


def _moved_counters(counted: int) -> Wrong:
    check = Check(
        what="steps that a hook counted, by torch, fused",
        expected=len(WINDOWS),
        measured=counted,
        because="the scaler calls a fused optimizer in any case and hands it the finding: it skips inside, after its hooks",
    )
    return Wrong(
        how="count updates by a step hook of a fused optimizer",
        check=check,
        damage=f"{counted} counted, {COMPLETED} made: schedules and averages that hang on the hook move on skips",
    )


def _uninitialised() -> Wrong:
    """torch is told to fill memory that it leaves uninitialised with NaN, so that what is read shows every time."""
    before = torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        (left, weight), *others = [_after_a_skip() for _ in range(RUNS)]
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn)
    check = Check(
        what="weight after a skipped and a completed attempt with momentum, by torch, fused",
        expected=str(-(MOMENTUM * left + CLEAN)),
        measured=str(weight),
        because=f"torch {torch.__version__}'s skipped step left a momentum of {left:g}, and the next takes 0.9 of it; a version "
        "that fills the buffer it makes leaves 0, and moves by 1",
    )
    wrong = sum(weight != -CLEAN for _, weight in ((left, weight), *others))
    return Wrong(
        how="fused SGD with momentum whose first attempt is skipped, as the first often is",
        check=check,
        damage=f"{wrong} of {RUNS} runs wrong in torch {torch.__version__}: the first update moves by 0.9 of whatever was in "
        "that memory (filled with NaN here, so that it shows)",
    )


def _after_a_skip() -> tuple[float, float]:
    """The momentum that torch's fused SGD has after a skipped attempt, 0 for none, and the weight after one more."""
    model, _ = linear((CLEAN,))
    optimizer = SGD(model.parameters(), lr=1.0, momentum=MOMENTUM, fused=True)
    by_torch(model, optimizer, WINDOWS[:1])
    buffer = optimizer.state[model.weight].get("momentum_buffer")
    left = 0.0 if buffer is None else float(buffer.item())
    by_torch(model, optimizer, WINDOWS[1:2])
    return left, float(model.weight.item())


def _unfused() -> Edge:
    return Edge(
        where="not fused: torch's scaler leaves the optimizer uncalled, and neither goes wrong",
        check=Check(
            what="hook's count, then the weight with momentum, by torch, not fused",
            expected=(float(COMPLETED), -CLEAN),
            measured=(float(_counted(fused=False, engine=False)), _momentum(fused=False, engine=False)),
            because="a skip is a call that is not made",
        ),
    )


LAB = Lab(
    name="fused-skips",
    facts=("D8",),
    topic="clocks",
    title="A skip inside the optimizer",
    claim="Where gradients are not finite, optimizer.step() is not called.",
    source="torch.amp.GradScaler.step; its code has the exception, for optimizers that handle the scale themselves; the "
    "momentum as measured here, and wrong in torch 2.14",
    condition="the optimizer is not fused. A fused one is called, and skips inside.",
    shows=shows,
    after=(After(lab="missed-overflows", why="it shows overflows that are not skipped; these are, and still leave a trace"),),
    asks=(
        Number(
            key="hooks",
            prompt="Fused AdamW, GradScaler, four attempts of which two overflow. How often does a step hook fire?",
            answer=lambda shown: shown.measured("steps that a hook counted, by torch, fused"),
            within=0.0,
            why="Four times. The scaler calls a fused optimizer in any case; it skips inside its step.",
            tempting=(
                Tempting(value=lambda _: float(COMPLETED), why="So it is without fused=True, and by the engine with it."),
                Tempting(value=lambda _: 0.0, why="Hooks of a fused optimizer do fire."),
            ),
        ),
        Choice(
            key="momentum",
            prompt="Fused SGD with momentum 0.9. Attempt 1 is skipped, attempt 2 has the gradient 1. How far does it move?",
            answer=lambda shown: shown.measured("weight after a skipped and a completed attempt with momentum, by torch, fused"),
            options=(
                Option(
                    text="by something that depends on the memory",
                    value="nan",
                    why="Its buffer was made in the skipped step and never filled.",
                ),
                Option(text="by 1", value="-1.0", why="Tempting, and right where it is not fused: a first step is the gradient."),
                Option(text="by 1.9", value="-1.9", why="So it were, had the skipped attempt counted with a gradient of 1."),
            ),
        ),
        Open(
            key="test",
            prompt="Which test would show that your optimizer's state survives a skip?",
            rubric=(
                "An attempt that is skipped comes first, when no state has been made yet",
                "Compares state and weights after the next clean attempt with a run that had no skip",
                "Runs with fused as in training: the unfused one is right",
            ),
            strong="Skip the first attempt on purpose, then one clean one, and compare weights and state to the bit with a run "
            "of the clean attempt alone; fused exactly as in training.",
            weak="Train and look whether the loss is NaN.",
        ),
    ),
)
