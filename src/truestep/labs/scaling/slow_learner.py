"""A run with the wrong order still lowers its loss: it looks like a small learning rate, and audit and verify name it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import torch

import truestep
from truestep.labs.asking.ask import Choice, Find, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.pages.words import percent

SCRIPT = """\
import torch
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_

generator = torch.Generator().manual_seed(1)
x = torch.randn(64, 4, generator=generator)
y = x @ torch.tensor([[1.0], [-2.0], [3.0], [0.5]]) + 1
windows = [[(x[i : i + 16], y[i : i + 16]) for i in first] for first in ((0, 16), (32, 48))]

model = torch.nn.Linear(4, 1)
torch.nn.init.zeros_(model.weight)
torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)


def loss_of(model, microbatch):
    x, y = microbatch
    return mse_loss(model(x).float(), y)


def step(window):
    optimizer.zero_grad()
    for microbatch in window:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_of(model, microbatch) / len(window)
        scaler.scale(loss).backward()
    clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""
CLIP = "    clip_grad_norm_(model.parameters(), 1.0)\n"
TRAINED = """

for _ in range(40):
    for window in windows:
        step(window)
    print(float(loss_of(model, (x, y))))
"""
SCALE, LIMIT, LR, COUNT = 1024.0, 1.0, 0.1, 80
CURVE = "loss of all examples, by windows"


def shows() -> Shown:
    """The loop in both orders: trained, verified, audited."""
    wrong, right = (trained(fixed=fixed) for fixed in (False, True))
    verified, repaired = (verify(fixed=fixed) for fixed in (False, True))
    finding = audited()
    row = verified.rows[0]
    line = SCRIPT.splitlines().index(CLIP.rstrip("\n")) + 1
    assert verified.reading is not None
    checks = (
        Check(
            what="windows of 80 after which the loss was lower, clipped first",
            expected=COUNT,
            measured=falls(wrong),
            because="the direction is right: a short enough step against a gradient goes down",
        ),
        Check(
            what="what verify names",
            expected="clip-before-unscale",
            measured=verified.reading.kind,
            because="what arrives has the length of the limit over the scale",
        ),
        Check(
            what="length that arrived over the right one, by verify",
            expected=1 / SCALE,
            measured=row.ratio or 0.0,
            within=2.0**-9 / SCALE,
            because="the limit over the scale, for one parameter: its share of the norm moves by four float16 roundings of 2^-11",
        ),
        Check(
            what="what audit names, and the line",
            expected=("clip-before-unscale", str(line)),
            measured=(finding.rule, str(finding.line)),
            because="the line of the clip in the script below",
        ),
        Check(
            what="how many times too short audit says the update was",
            expected=SCALE,
            measured=factor(finding),
            within=SCALE * 2.0**-9,
            because="1 / (limit over scale), printed to whole numbers; four float16 roundings of 2^-11",
        ),
        Check(
            what="the repaired loop passes verify",
            expected=True,
            measured=repaired.passed,
            because="unscale_ stands before the clip",
        ),
    )
    rows = tuple((count, right[count], wrong[count]) for count in (0, 1, 2, 4, 10, 20, 40, 80))
    table = Table(title=CURVE, columns=("windows", "unscaled first", "clipped first"), rows=rows)
    return Shown(checks=checks, wrong=(_short(wrong, right),), edges=(_rate(right),), tables=(table,))


def made(*, fixed: bool) -> dict[str, Any]:
    """What the script defines, as it stands or repaired."""
    names: dict[str, Any] = {}
    source = SCRIPT.replace(CLIP, f"    scaler.unscale_(optimizer)\n{CLIP}") if fixed else SCRIPT
    exec(compile(source, "loop.py", "exec"), names)  # our own text, which the exercise shows
    return names


def trained(*, fixed: bool, rate: float = LR) -> list[float]:
    """The loss of all examples before and after each of 80 windows."""
    loop = made(fixed=fixed)
    loop["optimizer"].param_groups[0]["lr"] = rate
    every = loop["x"], loop["y"]
    losses = [loop["loss_of"](loop["model"], every).item()]
    for count in range(COUNT):
        loop["step"](loop["windows"][count % 2])
        losses.append(loop["loss_of"](loop["model"], every).item())
    return losses


def falls(losses: list[float]) -> int:
    """After how many windows the loss was lower than before."""
    return sum(after < before for before, after in itertools.pairwise(losses))


def verify(*, fixed: bool) -> truestep.Verification:
    """The loop's window against the float32 full batch."""
    loop = made(fixed=fixed)
    return truestep.verify(
        loop["step"],
        loop["windows"][:1],
        model=loop["model"],
        optimizer=loop["optimizer"],
        loss=loop["loss_of"],
        scale=loop["scaler"],
        clip=truestep.ClipNorm(LIMIT),
    )


def audited() -> truestep.audit.Finding:
    """The one fault of two windows that were watched."""
    loop = made(fixed=False)
    with truestep.audit.watch() as findings:
        for window in loop["windows"]:
            loop["step"](window)
    (finding,) = findings.faults
    return finding


def factor(finding: truestep.audit.Finding) -> float:
    """The number in the sentence on the damage."""
    found = re.search(r"([\d,.]+) times too small", finding.damage or "")
    return float(found[1].replace(",", "")) if found else 0.0


def _short(wrong: list[float], right: list[float]) -> Wrong:
    loop = made(fixed=False)
    loop["step"](loop["windows"][0])
    moved = torch.cat([each.detach().flatten() for each in loop["model"].parameters()]).norm().item()
    check = Check(
        what="distance of the first window's update, clipped first",
        expected=LR * LIMIT / SCALE,
        measured=moved,
        within=LR * LIMIT / SCALE * 2.0**-20,
        because="learning rate x limit / scale, from weights of 0; sixteen float32 roundings of 2^-24",
    )
    done = (wrong[0] - wrong[-1]) / (right[0] - right[-1])
    damage = (
        f"after {COUNT} windows it has come {percent(done)} of the way: {wrong[0]:.3f} to {wrong[-1]:.3f}, not {right[-1]:.3f}"
    )
    return Wrong(how="clip, then unscale, and watch the loss", check=check, damage=damage)


def _rate(right: list[float]) -> Edge:
    """Where the tempting repair leads: a learning rate that makes up for it, while every step is cut to the limit."""
    tuned = trained(fixed=False, rate=LR * SCALE)
    return Edge(
        where="a learning rate 1024 times larger hides it while every window is longer than the limit, and no further",
        check=Check(
            what="loss after 80 windows at 1024 times the rate is worse than unscaled first at the right one",
            expected=True,
            measured=tuned[-1] > right[-1],
            because="every gradient is now cut to the same length, small ones too: the steps do not shrink near the goal",
        ),
    )


LAB = Lab(
    name="slow-learner",
    facts=("A5",),
    topic="scaling",
    title="Wrong, and learning",
    claim="A run that clips before it unscales still lowers its loss, slowly: it looks like a learning-rate problem. The "
    "gradient at the optimizer, held against the full batch's, names the order, the line and the factor.",
    source="torch.amp.GradScaler.unscale_, whose example unscales before it clips; what follows where a loop does not is "
    "arithmetic",
    shows=shows,
    after=(After(lab="clip-order", why="it shows what the order does to one gradient"),),
    asks=(
        Choice(
            key="falls",
            prompt="Clipped before unscaling, scale 1024: after how many of 80 windows has the loss fallen?",
            answer=lambda shown: shown.measured("windows of 80 after which the loss was lower, clipped first"),
            options=(
                Option(text="all 80", value=COUNT, why="The direction is right. Only the length is wrong, by 1024."),
                Option(text="none", value=0, why="Tempting: a wrong update should show. A short one still goes down."),
                Option(text="about half", value=COUNT // 2, why="So it would be with a random direction."),
            ),
        ),
        Number(
            key="distance",
            prompt="Learning rate 0.1, limit 1, scale 1024, a gradient longer than the limit. How far does the first update go?",
            answer=lambda shown: shown.measured("distance of the first window's update, clipped first"),
            why="0.1 x 1 / 1024 = 9.8e-5.",
            tempting=(
                Tempting(value=lambda _: LR * LIMIT, why="So far it should go: the limit in original units."),
                Tempting(value=lambda _: LIMIT / SCALE, why="That is the gradient; the step is the learning rate times it."),
            ),
        ),
        Find(
            key="line",
            prompt="This loop's loss falls, slowly. Which line is wrong?",
            script=SCRIPT + TRAINED,
            why="The clip reads gradients that still carry the scale of 1024. scaler.unscale_(optimizer) belongs before it.",
        ),
        Open(
            key="test",
            prompt="Which test would have found this on the day it was written, before any long run?",
            rubric=(
                "A known gradient, or the float32 full batch's, beside what reaches the optimizer",
                "A gradient longer than the limit, for a shorter one may hide it",
                "Not the loss curve: it falls",
            ),
            strong="One window with a gradient longer than the limit, and an assertion that what reaches the optimizer has the "
            "limit's length: truestep.verify(step, windows, ...).passed.",
            weak="Train longer and compare the curves.",
            follow_up="Why does a larger learning rate not repair it?",
        ),
    ),
)
