"""All 24 orders of GradScaler's calls and a clip, run: which torch refuses, and which it runs without a word."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch.nn.utils import clip_grad_norm_

from truestep.labs.asking.ask import Choice, Number, Option, Tempting
from truestep.labs.chosen import by_the_engine
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Shown, Table, Wrong

Order = tuple[str, ...]
GRADIENT, LIMIT, SCALE = (3.0, 4.0), 2.0, 1024.0
TORCHS = "24 orders with torch.amp.GradScaler, one window"
SILENT = {
    ("unscale_", "step", "clip", "update"): ("the optimizer has stepped: nothing is clipped", 3.0),
    ("clip", "unscale_", "step", "update"): ("the limit is read in scaled units", 1.2 / 1024),
    ("unscale_", "clip", "update", "step"): ("update forgets that unscale_ was called: step divides again", 1.2 / 2048),
}
"""Orders that run, what they do, and how far the first weight moves by it."""
FIGURES = 1e-3
"""Words hold four figures."""


def shows() -> Shown:
    """Every order, beside the engine's update."""
    torchs = {order: by_torch(order) for order in itertools.permutations(("unscale_", "clip", "step", "update"))}
    kinds = [_kind(words) for words in torchs.values()]
    refused = sum(map(_is_refused, torchs))
    checks = (
        Check(
            what="orders of 24 that are refused, right, silently wrong",
            expected=(refused, 1, len(torchs) - 1 - refused),
            measured=tuple(kinds.count(kind) for kind in ("refused", "right", "wrong")),
            because="it refuses update before any check, and unscale_ between step and update; of the rest only unscale_, clip, "
            "step, update is right",
        ),
        Check(
            what="the right order, as the engine moves",
            expected=f"moved {by_the_engine(GRADIENT, SCALE, LIMIT)[0]:.4g}",
            measured=torchs["unscale_", "clip", "step", "update"],
            because="[3, 4] is cut to length 2: 3 x 2 / 5",
        ),
    )
    wrong = tuple(
        Wrong(
            how=", ".join(order),
            check=Check(
                what=f"{', '.join(order)}: how far",
                expected=moved,
                measured=float(torchs[order].removeprefix("moved ")),
                within=moved * FIGURES,
                because="where 1.2 is right; four figures",
            ),
            damage=words,
        )
        for order, (words, moved) in SILENT.items()
    )
    return Shown(checks=checks, wrong=wrong, tables=(Table(title=TORCHS, columns=("order", "what it did"), rows=_rows(torchs)),))


def by_torch(order: Order) -> str:
    """One window with a GradScaler whose calls stand in that order: how far the first weight moved, or what torch said."""
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=1)
    torch.autograd.backward(scaler.scale((weight * torch.tensor(GRADIENT)).sum()))
    update: Callable[[], object] = scaler.update
    calls: dict[str, Callable[[], object]] = {
        "unscale_": lambda: scaler.unscale_(optimizer),
        "clip": lambda: clip_grad_norm_([weight], LIMIT),
        "step": lambda: scaler.step(optimizer),
        "update": update,
    }
    try:
        for each in order:
            calls[each]()
    except (RuntimeError, AssertionError) as error:
        return f"raises {type(error).__name__}"
    return f"moved {-weight[0].item():.4g}"


def _rows(torchs: dict[Order, str]) -> tuple[tuple[str, str], ...]:
    return tuple((", ".join(order), words) for order, words in torchs.items())


def _is_refused(order: Order) -> bool:
    """By torch's documentation: update wants a check before it, which unscale_ or step make; unscale_ may not follow step."""
    unscale, step, update = map(order.index, ("unscale_", "step", "update"))
    return update < min(unscale, step) or step < unscale < update


def _kind(words: str) -> str:
    return "refused" if words.startswith("raises") else "right" if words == "moved 1.2" else "wrong"


LAB = Lab(
    name="scaler-orders",
    facts=("A6",),
    topic="scaling",
    title="Orders that torch does not refuse",
    claim="GradScaler raises where it is asked for an order that cannot be meant. It does not see a clip, and takes a second "
    "unscaling for a first one after update.",
    source="torch.amp.GradScaler, source: unscale_, step and update",
    shows=shows,
    after=(After(lab="order-of-an-update", why="it shows which orders are right, whoever writes the loop"),),
    asks=(
        Number(
            key="silent",
            prompt="unscale_, clip, step and update can stand in 24 orders. How many run without an error and are wrong?",
            answer=lambda shown: shown.measured("orders of 24 that are refused, right, silently wrong")[2],
            within=0.0,
            why="12 are refused, one is right, and the other 11 run.",
            tempting=(
                Tempting(value=lambda _: 0.0, why="It does check its own states, but it knows nothing of a clip."),
                Tempting(value=lambda _: 23.0, why="About half of the wrong ones are refused."),
            ),
        ),
        Choice(
            key="clip-late",
            prompt="With GradScaler you write unscale_, step, clip, update. What does torch do?",
            answer=lambda shown: dict(shown.table(TORCHS).rows)["unscale_, step, clip, update"],
            options=(
                Option(text="steps by the unclipped gradient, 3", value="moved 3", why="clip runs on gradients already used."),
                Option(text="steps by the clipped gradient, 1.2", value="moved 1.2", why="Tempting: all four calls are there."),
                Option(
                    text="raises an error",
                    value="raises RuntimeError",
                    why="Tempting: it refuses unscale_ between step and update. About a clip it knows nothing.",
                ),
            ),
            eliminate=True,
        ),
    ),
)
