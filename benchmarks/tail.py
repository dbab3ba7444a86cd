"""The tail of an update, from the last backward to the next zero, above the floor of the optimizer's own pass."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import nn

from benchmarks.fixed import fixed, way
from benchmarks.our_tail import Tail
from benchmarks.rounds import Spread, excesses, seconds_of, taking_turns
from benchmarks.table import Aim, Table, most

BOTH = ("AdamW", "SGD")
SIZES = ((1, 10, BOTH), (1, 100, BOTH[:1]), (1, 500, BOTH), (30, 10, BOTH), (30, 500, BOTH[:1]), (100, 100, BOTH))
QUICK = ((1, 10, BOTH),)
"""Millions of parameters, in how many tensors, and what steps them."""
ROUNDS = {1: 21, 30: 15, 100: 4}
PLACEMENTS = {1: 1, 30: 3, 100: 1}
"""How often both sides are made anew: where arrays of some megabytes come to lie in memory decides about a tenth of a floor."""
ABOVE_FLOOR, OF_SCALERS = 0.35, 0.5
SAME = 0.03
"""The share of the way by which weights may differ: a float32 norm over a whole tensor is off by 1.6 % at 30 million."""

HOW = """
Contenders take turns in one process, in an order drawn anew each round; seconds of the processor, one thread. `floor` is
the optimizer's pass alone; the other columns are what a contender takes above it, in floors, round by round, median [5 %,
95 %]: `floor again` is the noise. The rival under fp16 is `unscale_`, `clip_grad_norm_`, `step` and `update` of
torch.amp.GradScaler (the fixed text of update_tail.py); under bf16, `clip_grad_norm_` and `step`. truestep's is the end of
an attempt block, all of it. Both sides ended with the same weights. From 30 million on, passes over memory decide. Fused AdamW
makes 7 (4 arrays read, 3 written), SGD with momentum 5; the engine reads the gradient once more, for its norm, and torch's
fused kernels write it back unscaled: 2/7 = +0.29 and 2/5 = +0.40, where the rival's under fp16 are 5/7 = +0.71 and 5/5 = +1.00.
Unfused, the engine's are 3, a read and a multiplication, to GradScaler's 5: 0.6 of its excess.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One setting."""

    millions: int
    tensors: int
    policy: str
    optimizer: str
    fused: bool
    floor_ms: float
    again: Spread
    rival: Spread
    ours: Spread
    apart: float
    """How far the weights of both sides are apart, as a share of the way they have gone."""

    @property
    def name(self) -> str:
        """It in short."""
        return f"{self.millions} M in {self.tensors}, {self.policy}, {'fused' if self.fused else 'foreach'} {self.optimizer}"


class Ours:
    """Our side, on the parameters and the optimizer of a rival's."""

    def __init__(self, side: Any, gradients: list[torch.Tensor], scale: float | None) -> None:
        self.tail = Tail(side.params, side.optimizer, gradients, scale=scale)

    def reset(self) -> None:
        """Up to the end of the backward."""
        self.tail.open()

    def run(self) -> None:
        """The tail."""
        self.tail.close()


def side(module: Any, optimizer: str, *, fused: bool) -> Any:
    """A side of the fixed file, with another optimizer where one is asked for."""
    made = module.Side(fused)
    if optimizer == "SGD":
        made.optimizer = torch.optim.SGD(made.params, lr=1e-3, momentum=0.9, fused=fused, foreach=None if fused else True)
    return made


Timer = Callable[[Callable[[], object]], float]


def placed(
    module: Any, policy: str, optimizer: str, *, fused: bool, rounds: int, most_seconds: float, timer: Timer
) -> tuple[dict[str, list[float]], float]:
    """The seconds of each contender in some rounds, and how far apart the weights have ended."""
    scaled = policy == "fp16"
    bare, rival, own = (side(module, optimizer, fused=fused) for _ in range(3))
    begun = [p.detach().clone() for p in own.params]
    ours = Ours(own, module.GRADS, module.SCALE if scaled else None)

    def by_hand() -> None:
        nn.utils.clip_grad_norm_(rival.params, 1.0)
        rival.optimizer.step()

    def timed(reset: Callable[[], None], run: Callable[[], None]) -> float:
        reset()
        return timer(run)

    contenders = {
        "floor": lambda: timed(bare.reset, bare.bare),
        "again": lambda: timed(bare.reset, bare.bare),
        "rival": lambda: timed(rival.reset, rival.scaler_tail if scaled else by_hand),
        "ours": lambda: timed(ours.reset, ours.run),
    }
    spent = taking_turns(contenders, rounds=rounds, warm=1, most_seconds=most_seconds)
    apart = way(own.params, rival.params, begun)
    assert apart <= SAME, f"the weights differ by {apart:.3f} of their way"
    return spent, apart


def row(
    module: Any,
    policy: str,
    optimizer: str,
    *,
    fused: bool,
    rounds: int,
    most_seconds: float,
    placements: int = 1,
    timer: Timer = seconds_of,
) -> Row:
    """Measure one setting of the fixed file, or of what is like it, in `placements` times `rounds`."""
    found = []
    for _ in range(placements):
        found.append(placed(module, policy, optimizer, fused=fused, rounds=rounds, most_seconds=most_seconds, timer=timer))
        gc.collect()
    spent = {name: [each for one, _ in found for each in one[name]] for name in found[0][0]}
    floor = spent["floor"]
    return Row(
        millions=module.COUNT // 10**6,
        tensors=module.TENSORS,
        policy=policy,
        optimizer=optimizer,
        fused=fused,
        floor_ms=Spread.of(floor).median * 1e3,
        again=excesses(spent["again"], floor),
        rival=excesses(spent["rival"], floor),
        ours=excesses(spent["ours"], floor),
        apart=max(apart for _, apart in found),
    )


def measure(*, quick: bool) -> list[Row]:
    """All settings, each at most a few seconds."""
    rows = []
    for millions, tensors, optimizers in QUICK if quick else SIZES:
        module = fixed("update_tail", millions * 10**6, tensors)
        placements = PLACEMENTS[millions]
        rounds, most_seconds = (5, 1.0) if quick else (ROUNDS[millions] // placements, 4.0 / placements)
        for policy, optimizer, fused in product(("fp16", "bf16"), optimizers, (True, False)):
            asked = {"rounds": rounds, "most_seconds": most_seconds, "placements": placements}
            rows.append(row(module, policy, optimizer, fused=fused, **asked))
    return rows


def aims(rows: list[Row]) -> tuple[Aim, ...]:
    """Whether the tail is as short as it should be."""
    large = [(each.name, each.ours.median) for each in rows if each.fused and each.millions >= 30]
    unfused = [(each.name, each) for each in rows if not each.fused and each.policy == "fp16"]
    shares = [(name, each.ours.median / each.rival.median) for name, each in unfused if each.rival.median > each.again.high]
    hidden = len(unfused) - len(shares)
    return (
        most(f"at most +{ABOVE_FLOOR} above the floor, fused, at 30 million parameters and more", ABOVE_FLOOR, large),
        most(
            f"at most {OF_SCALERS} of GradScaler's excess, unfused"
            + (f" ({hidden} of {len(unfused)} rows left out, where GradScaler's own is within the noise)" if hidden else ""),
            OF_SCALERS,
            shares,
        ),
    )


def table_of(rows: list[Row]) -> Table:
    """The table of what was measured."""
    return Table(
        title="The tail of an update",
        how=HOW,
        columns=("million", "tensors", "policy", "optimizer", "floor, ms", "floor again", "rival", "truestep", "weights apart"),
        rows=tuple(
            (
                str(each.millions),
                str(each.tensors),
                each.policy,
                f"{each.optimizer}, {'fused' if each.fused else 'foreach'}",
                f"{each.floor_ms:.2f}",
                each.again.text(2, signed=True),
                each.rival.text(2, signed=True),
                each.ours.text(2, signed=True),
                f"{each.apart:.1e}",
            )
            for each in rows
        ),
        aims=aims(rows),
    )


def tables(*, quick: bool) -> list[Table]:
    """Measure, and say."""
    return [table_of(measure(quick=quick))]
