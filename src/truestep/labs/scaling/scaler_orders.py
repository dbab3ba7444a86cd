"""All 24 orders of GradScaler's calls and a clip, run: which torch refuses, and which it runs without a word."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch.nn.utils import clip_grad_norm_

from truestep.labs.asking.ask import Choice, Number, Option, Tempting
from truestep.labs.chosen import ROUNDINGS, TORCH_ADDS, by_the_engine
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Shown, Table, Wrong

Order = tuple[str, ...]
GRADIENT, LIMIT, SCALE = (3.0, 4.0), 2.0, 1024.0
TORCHS = "24 orders with torch.amp.GradScaler, one window"
SILENT = {
    ("unscale_", "step", "clip", "update"): "the optimizer has stepped: nothing is clipped",
    ("clip", "unscale_", "step", "update"): "the limit is read in scaled units",
    ("unscale_", "clip", "update", "step"): "update forgets that unscale_ was called: step divides again",
}
"""Orders that run, and what they do."""
WITHIN = ROUNDINGS + TORCH_ADDS / LIMIT
"""Of a distance: its float32 roundings, and what torch's clip adds to a norm that is longer than the limit."""


def shows() -> Shown:
    """Every order, beside the engine's update."""
    torchs = {order: by_torch(order) for order in itertools.permutations(("unscale_", "clip", "step", "update"))}
    kinds = [_kind(did) for did in torchs.values()]
    refused = sum(map(_is_refused, torchs))
    right = by_the_engine(GRADIENT, SCALE, LIMIT)[0]
    checks = (
        Check(
            what="orders of 24 that are refused, right, silently wrong",
            expected=(refused, 1, len(torchs) - 1 - refused),
            measured=tuple(kinds.count(kind) for kind in ("refused", "right", "wrong")),
            because="it refuses update before any check, and unscale_ between step and update; of the rest only unscale_, clip, "
            "step, update is right",
        ),
        Check(
            what="orders that did what arithmetic foresees of each: refused, or moved so far",
            expected=len(torchs),
            measured=sum(_alike(did, foreseen(order)) for order, did in torchs.items()),
            because="a division by the scale wherever unscale_ stands, and at step if none came since update; a cut to 2 "
            "where clip stands; six roundings and torch's 1e-6",
        ),
        Check(
            what="the right order over what the engine moves",
            expected=1.0,
            measured=_number(torchs["unscale_", "clip", "step", "update"]) / right,
            within=WITHIN,
            because="[3, 4] is cut to length 2: 3 x 2 / 5; torch adds 1e-6 to the norm",
        ),
    )
    wrong = tuple(
        Wrong(
            how=", ".join(order),
            check=Check(
                what=f"{', '.join(order)}: how far",
                expected=_number(foreseen(order)),
                measured=_number(torchs[order]),
                within=_number(foreseen(order)) * WITHIN,
                because="where 1.2 is right; six roundings and torch's 1e-6",
            ),
            damage=words,
        )
        for order, words in SILENT.items()
    )
    return Shown(checks=checks, wrong=wrong, tables=(Table(title=TORCHS, columns=("order", "what it did"), rows=_rows(torchs)),))


def by_torch(order: Order) -> float | str:
    """One window with a GradScaler whose calls stand in that order: how far the first weight moved, or the error it raised."""
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
        return type(error).__name__
    return -weight[0].item()


def foreseen(order: Order) -> float | str:
    """The same by plain arithmetic on the documented rules; "refused" for any error."""
    if _is_refused(order):
        return "refused"
    left, scale, is_unscaled, moved = [each * SCALE for each in GRADIENT], SCALE, False, 0.0
    for call in order:
        if call == "clip":
            left = [each * min(1.0, LIMIT / math.hypot(*left)) for each in left]
        elif call == "update":
            scale, is_unscaled = scale * 2, False
        elif call == "unscale_" or not is_unscaled:  # unscale_, or a step that makes up for it
            left, is_unscaled = [each / scale for each in left], True
        if call == "step":
            moved = left[0]
    return moved


def _rows(torchs: dict[Order, float | str]) -> tuple[tuple[str, str], ...]:
    return tuple((", ".join(order), _words(did)) for order, did in torchs.items())


def _words(did: float | str) -> str:
    return f"raises {did}" if isinstance(did, str) else f"moved {did:.4g}"


def _number(did: float | str) -> float:
    assert not isinstance(did, str), did
    return did


def _alike(did: float | str, as_foreseen: float | str) -> bool:
    if isinstance(did, str) or isinstance(as_foreseen, str):
        return isinstance(did, str) and isinstance(as_foreseen, str)
    return abs(did - as_foreseen) <= as_foreseen * WITHIN


def _is_refused(order: Order) -> bool:
    """By torch's documentation: update wants a check before it, which unscale_ or step make; unscale_ may not follow step."""
    unscale, step, update = map(order.index, ("unscale_", "step", "update"))
    return update < min(unscale, step) or step < unscale < update


def _kind(did: float | str) -> str:
    return "refused" if isinstance(did, str) else "right" if _alike(did, GRADIENT[0] * LIMIT / math.hypot(*GRADIENT)) else "wrong"


LAB = Lab(
    name="scaler-orders",
    facts=("A6",),
    topic="scaling",
    title="Orders that torch does not refuse",
    claim="GradScaler raises where it is asked for an order that cannot be meant. It does not see a clip, and takes a second "
    "unscaling for a first one after update.",
    source="torch.amp.GradScaler, the code of unscale_, step and update",
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
