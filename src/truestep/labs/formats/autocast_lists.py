"""Which operations autocast computes in float16 and which in float32, seen below it, at the operators themselves."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from truestep.labs.asking.ask import Buckets, Choice, Number, Option, Tempting
from truestep.labs.formats._operators import AS_GIVEN, HIGH, LOW, OPERATIONS, backward, computed
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong
from truestep.probe.operations import operations

WHY = {
    LOW: "it multiplies and adds; hardware sums the products in float32, and most of the time goes there",
    HIGH: "a loss or a reduction: many terms, or squares and logarithms, whose range or small differences float16 has not",
    AS_GIVEN: "on no list of the CPU's: it takes what comes",
}
FOUND = "what each operation computed in, on the CPU"


def shows() -> Shown:
    """Each operation under float16 autocast, with a float32 and a float16 input."""
    found = {name: computed(call) for calls in OPERATIONS.values() for name, call in calls.items()}
    checks = tuple(
        Check(
            what=f"{kind}: operations seen",
            expected=tuple(OPERATIONS[kind]),
            measured=tuple(name for name, pair in found.items() if kind_of(pair) == kind),
            because=WHY[kind],
        )
        for kind in OPERATIONS
    )
    rows = tuple((name, kind_of(pair), *pair) for name, pair in found.items())
    table = Table(title=FOUND, columns=("operation", "computed in", "from float32", "from float16"), rows=rows)
    return Shown(
        checks=checks,
        wrong=(_exponential(), _squares(), _sum()),
        edges=(*_backward(), _softmax(), _cross_entropy()),
        tables=(table,),
    )


def kind_of(pair: tuple[str, str]) -> str:
    """What a list does to either input."""
    return pair[0] if pair[0] == pair[1] else AS_GIVEN


def _exponential() -> Wrong:
    check = Check(
        what="exp(12) in float16",
        expected=math.inf,
        measured=torch.tensor(12.0).half().exp().item(),
        because=f"e^12 = {math.exp(12):.0f}, beyond 65504; logits of 12 are ordinary",
    )
    return Wrong(how="an exponential in float16", check=check, damage="infinite; in float32 there is room up to e^88")


def _squares() -> Wrong:
    check = Check(
        what="300 squared in float16",
        expected=math.inf,
        measured=torch.tensor(300.0).half().square().item(),
        because="90000 is beyond 65504: norms and variances square",
    )
    return Wrong(how="a square in float16", check=check, damage="infinite from 256 on")


def _sum() -> Wrong:
    total = torch.zeros((), dtype=torch.float16)
    for _ in range(2500):
        total += 1
    check = Check(
        what="1 added 2500 times in float16",
        expected=2048.0,
        measured=total.item(),
        because="at 2^11 the step is 2: 2048 + 1 is a tie, and 2048 is even",
    )
    return Wrong(how="a long sum in float16", check=check, damage="the last 452 ones are not counted")


def _backward() -> tuple[Edge, ...]:
    """'Autocast wraps forward and backward': it is the forward alone."""
    layer = torch.nn.Linear(4, 4)
    with operations(layer) as seen:
        with torch.autocast("cpu", dtype=torch.float16):
            total = layer(torch.ones(4, 4)).float().sum()
        torch.autograd.backward(total)
    products = {str(each.inputs[0]).removeprefix("torch.") for each in seen.calls if each.name == "aten.mm"}
    return (
        Edge(
            where="autocast is said to wrap forward and backward: a linear layer whose backward stands outside of it",
            check=Check(
                what="formats of the products in that backward",
                expected=(LOW,),
                measured=tuple(sorted(products)),
                because="torch's page: backward operators run in the type that autocast used for the forward ones. It need not "
                "be wrapped",
            ),
        ),
        Edge(
            where="and a backward that is written by hand, with a float32 product",
            check=Check(
                what="that product with the backward outside of autocast, and inside",
                expected=(HIGH, LOW),
                measured=(backward(inside=False), backward(inside=True)),
                because="wrapped, the backward's own operators are cast once more, which nobody chose: wrap the forward alone",
            ),
        ),
    )


def _softmax() -> Edge:
    return Edge(
        where="the CPU's lists are not CUDA's: there, by torch's header (it was not measured here), softmax, layer_norm, exp, "
        "log, pow, sum and norm are cast to float32",
        check=Check(
            what="softmax of a float16 input on the CPU",
            expected=LOW,
            measured=computed(OPERATIONS[AS_GIVEN]["softmax"])[1],
            because="torch's page has softmax in the float32 list for CUDA and in none for the CPU",
        ),
    )


def _cross_entropy() -> Edge:
    def call(x: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, torch.zeros(4, dtype=torch.long))

    with operations(torch.nn.Identity()) as seen, torch.autocast("cpu", dtype=torch.float16):
        call(torch.full((4, 4), 0.5).half())
    formats = {each.name: str(each.inputs[0]).removeprefix("torch.") for each in seen.calls}
    return Edge(
        where="cross_entropy has a log-softmax inside, and is cast before it",
        check=Check(
            what="the log-softmax inside cross_entropy of float16 logits",
            expected=HIGH,
            measured=formats["aten._log_softmax"],
            because="the list names cross_entropy_loss as a whole: what is inside gets what it was cast to",
        ),
    )


LAB = Lab(
    name="autocast-lists",
    facts=("C5",),
    topic="formats",
    title="What autocast runs low, and why",
    claim="Autocast computes products and convolutions in the low format, and softmax, norms, losses, exponentials, logarithms, "
    "powers and large sums in float32.",
    source="torch's Autocast Op Reference, to which torch.autocast points; the lists are in torch's header ATen/autocast_mode.h",
    condition="that is CUDA's list, which is not measured here. The CPU's has products, convolutions and losses as it says; "
    "softmax, norms, exp, log, pow and sum are on none and take what comes.",
    shows=shows,
    after=(
        After(lab="bits", why="where float16 ends is why sums and exponentials are not computed in it"),
        After(lab="kept", why="which tensors are float16 follows from which operations are"),
    ),
    asks=(
        Buckets(
            key="sort",
            prompt="Under float16 autocast on a CPU, what does each compute in? 'as given': it keeps the format of its input.",
            buckets=(LOW, HIGH, AS_GIVEN),
            answer=lambda shown: dict(
                zip(*(shown.table(FOUND).column(name) for name in ("operation", "computed in")), strict=True)
            ),
            why={name: WHY[kind] for kind, calls in OPERATIONS.items() for name in calls},
        ),
        Number(
            key="sum",
            prompt="A float16 counter starts at 0 and 1 is added to it 2500 times. What does it hold?",
            answer=lambda shown: shown.measured("1 added 2500 times in float16"),
            within=0.0,
            why="From 2048 on the step is 2, and 2048 + 1 rounds back to 2048. So sums are kept in float32.",
            tempting=(
                Tempting(value=lambda _: 2500.0, why="2500 is a float16 number, but one cannot get there in steps of 1."),
                Tempting(value=lambda _: 65504.0, why="That is where float16 ends. Its steps grow too large long before."),
            ),
        ),
        Choice(
            key="softmax",
            prompt="A training script moves from a GPU to a CPU, with float16 autocast. In which format does softmax run there, "
            "after a linear layer?",
            answer=lambda shown: shown.measured("softmax of a float16 input on the CPU"),
            options=(
                Option(text="float16", value=LOW, why="The layer's output is float16, and the CPU's lists do not name softmax."),
                Option(
                    text="float32",
                    value=HIGH,
                    why="Tempting: it is so on CUDA, and most pages tell that list only. Each device has its own.",
                ),
            ),
        ),
    ),
)
