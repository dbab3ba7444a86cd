"""All 720 orders of six operations, run: eleven are right, and what the others do."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

from truestep.labs.asking.ask import Buckets, Build, Choice, Number, Open, Option, Tempting
from truestep.labs.chosen import ROUNDINGS, TORCH_ADDS
from truestep.labs.lab import After, Lab
from truestep.labs.scaling._orders import OPERATIONS, RULES, SCALE, Left, Order, broken, by_hand, by_the_engine, zeroed
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

RIGHT: Left = (1.2 + 0.5 * 0.3, 1.6 + 0.5 * 0.4, SCALE * 2 * 2 / 2, 0.25)
WITHIN = 4 * (ROUNDINGS + TORCH_ADDS)
LEFT = "720 orders, by what they leave after three windows"
WITHOUT = "the right order with one operation left out, after three windows"
UNUSABLE, ELSEWHERE, NEXT = "the weights are no numbers", "they moved another way", "nothing yet: the next windows"
ZEROED = ("before the forward", "between forward and backward", "after the backward", "after the step", "never")


def shows() -> Shown:
    """Every order by hand, beside the engine's one."""
    found = {order: by_hand(order) for order in itertools.permutations(OPERATIONS)}
    engine = by_the_engine()
    without = tuple(_without(operation) for operation in OPERATIONS)
    checks = (
        Check(
            what="the engine: two distances moved, scale, rate",
            expected=RIGHT,
            measured=engine,
            within=WITHIN,
            because="[1.2, 1.6] at rate 1, half of [0.3, 0.4] at rate 1/2, a skip; 1024 x 2 x 2 / 2; two ticks. "
            "Six roundings, and torch's 1e-6",
        ),
        Check(
            what="orders of 720 that leave what the engine leaves",
            expected=sum(not broken(order) for order in found),
            measured=sum(alike(left, engine) for left in found.values()),
            because="those that keep all six rules; order is free elsewhere",
        ),
        Check(
            what="orders that keep the rules and leave something else, or the other way round",
            expected=0,
            measured=sum(bool(broken(order)) == alike(left, engine) for order, left in found.items()),
            because="no rule can be spared, and none is missing",
        ),
        Check(
            what=f"moved with one left out: {', '.join(OPERATIONS)}",
            expected=(1.2 + 0.5 * 1.2, math.inf, 3 + 0.5 * 0.3, 0.0, RIGHT[0], 1.2 + 0.3),
            measured=tuple(row[1] for row in without),
            within=WITHIN,
            because="[300, 400] is cut like [3, 4]; the overflow is stepped by; 3 passes; no step; as it should be; rate 1 twice",
        ),
    )
    wrong = tuple(_wrong(rule, found) for rule in RULES)
    less = Table(title=WITHOUT, columns=("left out", "moved", "scale", "rate"), rows=without)
    return Shown(checks=checks, wrong=wrong, edges=(_zero(),), tables=(_outcomes(found), less))


def _without(operation: str) -> tuple[str, float, float, float]:
    """The right order less one operation: how far the first weight moved, the scale, the rate."""
    left = by_hand(tuple(each for each in OPERATIONS if each != operation))
    return operation, left[0], left[2], left[3]


def _is_for(row: tuple[str, float, float, float]) -> str:
    """What an operation is for, by what goes wrong without it."""
    if math.isinf(row[1]):
        return UNUSABLE
    return ELSEWHERE if abs(row[1] - RIGHT[0]) > WITHIN else NEXT


def alike(one: Left, other: Left) -> bool:
    """Whether two ends are the same but for roundings."""
    return all(a == b or abs(a - b) <= WITHIN for a, b in zip(one, other, strict=True))


def _wrong(rule: tuple[str, str], found: dict[Order, Left]) -> Wrong:
    first, second = rule
    words, expected = RULES[rule]
    orders = [order for order in found if broken(order) == [rule]]
    check = Check(
        what=f"{second} before {first}: two distances moved, scale, rate",
        expected=expected,
        measured=found[orders[0]],
        within=WITHIN * min(1.0, expected[0]),
        because=f"where [{RIGHT[0]:g}, {RIGHT[1]:g}], {RIGHT[2]:g}, {RIGHT[3]:g} is right; in the order {', '.join(orders[0])}",
    )
    return Wrong(how=f"{second} before {first}", check=check, damage=words)


def _outcomes(found: dict[Order, Left]) -> Table:
    groups: dict[Left, list[Order]] = defaultdict(list)
    for order, left in found.items():
        groups[tuple(float(f"{each:.4g}") for each in left)].append(order)
    ranked = sorted(groups.items(), key=lambda group: (bool(broken(group[1][0])), -len(group[1])))
    rows = tuple((", ".join(_nearest(orders)), len(orders), left[0], left[2], left[3]) for left, orders in ranked)
    return Table(title=LEFT, columns=("an order that breaks fewest rules", "orders", "moved", "scale", "rate"), rows=rows)


def _nearest(orders: list[Order]) -> Order:
    """The order that breaks fewest rules."""
    return min(orders, key=lambda order: len(broken(order)))


def _zero() -> Edge:
    return Edge(
        where="zero_grad is said to come first: anywhere outside of the stretch from backward to step will do",
        check=Check(
            what=f"moved by gradients 1 and 10, zeroed {', '.join(ZEROED)}",
            expected=(11.0, 11.0, 0.0, 11.0, 1.0 + 11.0),
            measured=tuple(map(zeroed, ZEROED)),
            because="1 + 10; after the backward nothing is left to step by; never, the second step has 1 + 10",
        ),
    )


LAB = Lab(
    name="order-of-an-update",
    facts=("A6",),
    topic="scaling",
    title="The order of one update",
    claim="One effective update: zero, (autocast forward, scaled backward) for each microbatch, unscale once, check that all is "
    "finite, clip in original units, step or skip, update the scale, tick the scheduler on its declared clock.",
    source="torch.amp.GradScaler and its unscale_, whose examples are in this order",
    condition="of the order only six pairs matter: unscale before clip and before the scale's update, check before step and "
    "before the scale's update, clip before step, step before scheduler. "
    "(Clipping by norm, a scale of 1 or more, a clock of completed windows.)",
    shows=shows,
    after=(After(lab="clip-order", why="it shows one of the six pairs closely"),),
    asks=(
        Number(
            key="how-many",
            prompt="Unscale, check, clip, step, scale update, scheduler: 720 orders. How many give the right update?",
            answer=lambda shown: shown.measured("orders of 720 that leave what the engine leaves"),
            within=0.0,
            why="The check may stand before or after unscaling and clipping by norm, and the scale's update anywhere after both.",
            tempting=(
                Tempting(value=lambda _: 1.0, why="The one in the notes is right. Ten others do the same."),
                Tempting(value=lambda _: 720.0, why="If nothing depended on order. Six pairs do."),
            ),
        ),
        Choice(
            key="late-check",
            prompt="The finite check stands after the step. The third window overflows. What is left of the weights?",
            answer=lambda shown: math.isinf(shown.measured("step before check: two distances moved, scale, rate")[0]),
            options=(
                Option(text="nothing: they are no numbers", value=True, why="The step went by the second window's verdict."),
                Option(
                    text="they are as after the second window",
                    value=False,
                    why="Tempting, since the check does find the overflow. It finds it after the weights were written.",
                ),
            ),
        ),
        Buckets(
            key="left-out",
            prompt="Take one step away, run three windows of which the last overflows: what is wrong afterwards?",
            buckets=(UNUSABLE, ELSEWHERE, NEXT),
            answer=lambda shown: {row[0]: _is_for(row) for row in shown.table(WITHOUT).rows},
            why={
                "unscale": "the limit is held against 300 and 400 too, so that a short gradient moves as far as a long one",
                "check": "the third window's infinity is stepped by",
                "clip": "3 and 4 pass in full, where the limit is 2",
                "step": "nothing moves at all",
                "scale": "the weights are right so far; after the overflow the same scale overflows again",
                "schedule": "the second window is stepped by the first one's rate",
            },
        ),
        Open(
            key="take-away",
            prompt="Take one step of the recipe away: for each of unscale, check and scale update, what was it for?",
            rubric=(
                "unscale: the optimizer and the clip need original units",
                "check: without it an infinity reaches the weights",
                "scale update: without it an overflow repeats, and the scale never grows back",
            ),
            strong="Without unscale SGD steps too far by the scale and a clip cuts nearly all. Without check the first overflow "
            "ends the run. Without the update a scale that is too large skips every window from then on.",
            weak="They make mixed precision work.",
        ),
        Build(
            key="build",
            prompt="Build it: complete the loop that truestep labs --milestone 1 prints. One batch has an infinite input.",
            milestone="1",
            why="Scale the loss, backward, unscale_, clip, scaler.step, scaler.update: step skips the broken batch, update "
            "halves the scale, and the next batch is trained as if nothing had been.",
        ),
    ),
)
