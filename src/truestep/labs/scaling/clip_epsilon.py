"""torch's clip adds 1e-6 to the norm: how near two right clips come to each other."""

from __future__ import annotations

import math

import torch
from torch.nn.utils import clip_grad_norm_

from truestep.labs.asking.ask import Choice, Column, Number, Option, Tempting
from truestep.labs.chosen import ROUNDINGS, TORCH_ADDS, by_the_engine, linear, loss
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

LIMIT = 1.0
CASES = ((2.0, 1.0), (1e-2, 1e-3), (1e-4, 1e-5), (1e-5, 1e-6))
"""A norm, and a limit below it."""
LENGTHS = "length that is left, by norm and limit"


def shows() -> Shown:
    """One gradient clipped by the engine and by torch, at several sizes."""
    found = [clipped(norm, limit) for norm, limit in CASES]
    limits = [limit for _, limit in CASES]
    sizes = f"norms {', '.join(f'{norm:g}' for norm, _ in CASES)}"
    checks = (
        Check(
            what=f"the engine's length over the limit, {sizes}",
            expected=(1.0,) * len(CASES),
            measured=tuple(engine / limit for (engine, _), limit in zip(found, limits, strict=True)),
            within=ROUNDINGS,
            because="limit / norm times norm; six float32 roundings",
        ),
        Check(
            what=f"torch's length over the limit, {sizes}",
            expected=tuple(norm / (norm + TORCH_ADDS) for norm, _ in CASES),
            measured=tuple(torchs / limit for (_, torchs), limit in zip(found, limits, strict=True)),
            within=2 * ROUNDINGS,
            because="norm / (norm + 1e-6): short by 1e-6 / norm at most, which is the tolerance to compare the two within",
        ),
    )
    rows = tuple((*case, *both, 1 - both[1] / case[1]) for case, both in zip(CASES, found, strict=True))
    table = Table(title=LENGTHS, columns=("norm", "limit", "engine", "torch", "torch is short by"), rows=rows)
    return Shown(checks=checks, wrong=(_equal(), _scaled()), edges=(_at_the_limit(),), tables=(table,))


def clipped(norm: float, limit: float) -> tuple[float, float]:
    """The length that the engine leaves, and torch's."""
    direction = (0.6 * norm, 0.8 * norm)
    return math.hypot(*by_the_engine(direction, 1024.0, limit)), math.hypot(*by_torch(direction, limit))


def by_torch(gradient: tuple[float, ...], limit: float, *, scale: float = 1.0) -> tuple[float, ...]:
    """Clipped by torch to `limit` times the scale while scaled, then unscaled."""
    model, x = linear(gradient)
    torch.autograd.backward(loss(model, x) * scale)
    clip_grad_norm_(model.parameters(), limit * scale)
    assert model.weight.grad is not None
    return tuple((model.weight.grad[0] / scale).tolist())


def _equal() -> Wrong:
    engine, torchs = clipped(1e-5, 1e-6)
    check = Check(
        what="norm 1e-5, limit 1e-6: torch's length over the limit",
        expected=1e-5 / (1e-5 + TORCH_ADDS),
        measured=torchs / 1e-6,
        within=2 * ROUNDINGS,
        because="1e-6 is a tenth of this norm: 10 / 11",
    )
    damage = f"clipped to {torchs / engine:.4f} of what was asked: a comparison within a relative 1e-6 fails"
    return Wrong(how="take the 1e-6 for negligible at any size", check=check, damage=damage)


def _scaled() -> Wrong:
    """The same clip in scaled units: the 1e-6 is then added to a norm 1024 times as large."""
    scale = 1024.0
    there = math.hypot(*by_torch((0.6e-5, 0.8e-5), 1e-6, scale=scale))
    check = Check(
        what="norm 1e-5, limit 1e-6, clipped at scale 1024 with the limit times 1024: length over the limit",
        expected=1e-5 * scale / (1e-5 * scale + TORCH_ADDS),
        measured=there / 1e-6,
        within=2 * ROUNDINGS,
        because="the norm is 0.01024 there, and 1e-6 little beside it",
    )
    plain = math.hypot(*by_torch((0.6e-5, 0.8e-5), 1e-6))
    return Wrong(
        how="expect torch's clip to be the same in scaled and in original units",
        check=check,
        damage=f"{there / plain:.4f} times as long as the same clip after unscaling",
    )


def _at_the_limit() -> Edge:
    reached = by_torch((LIMIT,), LIMIT)[0]
    return Edge(
        where="a norm equal to the limit is permitted, and torch shortens it all the same",
        check=Check(
            what="gradient 1, limit 1, clipped by torch: what is missing",
            expected=1 - 1 / (1 + TORCH_ADDS),
            measured=1 - reached,
            within=ROUNDINGS,
            because="1 / (1 + 1e-6) is below 1, so it multiplies; the engine leaves a norm up to the limit alone",
        ),
    )


LAB = Lab(
    name="clip-epsilon",
    facts=("A4",),
    topic="scaling",
    title="A clip's own epsilon",
    claim="Real clip functions add an epsilon to the norm before they divide by it, so two right clips are compared within a "
    "tolerance derived from it: limit x 1e-6 / norm for torch, and the roundings.",
    source="torch.nn.utils.clip_grads_with_norm_, source: clip_coef = max_norm / (total_norm + 1e-6)",
    shows=shows,
    after=(After(lab="clip-order", why="first the units, then the last digits"),),
    asks=(
        Column(
            key="short",
            prompt="torch multiplies by limit / (norm + 1e-6). What length is left in each row?",
            table=lambda shown: shown.table(LENGTHS),
            blank="torch",
            within=0.01,
            why="limit x norm / (norm + 1e-6): nothing to see at a norm of 2, a hundredth at 1e-4, a tenth at 1e-5.",
        ),
        Number(
            key="tenth",
            prompt="The norm is 1e-5, the limit 1e-6. Which share of the limit does torch's clip leave?",
            answer=lambda shown: shown.measured("norm 1e-5, limit 1e-6: torch's length over the limit"),
            why="1e-5 / (1e-5 + 1e-6) = 10/11 = 0.909.",
            tempting=(
                Tempting(value=lambda _: 1.0, why="So it is in the formula of the paper. The epsilon is in the code."),
                Tempting(value=lambda _: 0.1, why="That is the limit over the norm: the factor, not what is left of the limit."),
            ),
        ),
        Choice(
            key="tolerance",
            prompt="A test compares your clip with torch's: norm 1e-2, limit 1e-3. Which absolute tolerance is derived?",
            answer=lambda shown: _size(shown.table(LENGTHS).rows[1]),
            options=(
                Option(text="about 1e-7", value=-7, why="1e-3 x 1e-6 / 1e-2 = 1e-7: the epsilon over the norm, of the limit."),
                Option(text="1e-6", value=-6, why="Tempting, as it is the epsilon. It is added to the norm, not to the result."),
                Option(
                    text="0", value=-99, why="Tempting: both follow one formula on paper. In code one of them has an epsilon."
                ),
                Option(text="1e-3", value=-3, why="That is the limit itself: a test that lets any gradient pass."),
            ),
        ),
    ),
)


def _size(row: tuple[float, ...]) -> int:
    """The power of ten of the engine's length less torch's; -99 for none."""
    difference = abs(row[2] - row[3])
    return -99 if difference == 0 else round(math.log10(difference))
