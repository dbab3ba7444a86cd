"""What a smaller loss scale does not repair: inputs, operations, a forward, a learning rate; each is told apart by name."""

from __future__ import annotations

import torch

import truestep
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.clocks._causes import ATTEMPTS, CASES, SCALE, Case, by_the_engine, by_torch, logarithm, made
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

NAMED = "five attempts each, from a scale of 65536"


def shows() -> Shown:
    """Each cause by the engine and by torch's scaler."""
    engine = {name: by_the_engine(case) for name, case in CASES.items()}
    theirs = {name: by_torch(case) for name, case in CASES.items()}
    skips = {name: _first(outcomes) for name, outcomes in engine.items()}
    checks = tuple(
        Check(
            what=name,
            expected=(case.reason.value, "a smaller scale helps" if case.cured else "no scale helps"),
            measured=(skips[name].reason.value, "a smaller scale helps" if skips[name].curable else "no scale helps"),
            because=case.why,
        )
        for name, case in CASES.items()
    )
    named = Check(
        what="the learning rate is asked after, case by case",
        expected=tuple("yes" if case.rate else "no" for case in CASES.values()),
        measured=tuple("yes" if "learning rate" in skip.detail else "no" for skip in skips.values()),
        because="the first update left a weight of 1 - 1e7 / 8, far beyond an ordinary one; no other case has such a weight",
    )
    rows = tuple(
        (
            name,
            skips[name].reason.value,
            sum(outcome.completed for outcome in outcomes),
            outcomes[-1].next_loss_scale,
            theirs[name],
        )
        for name, outcomes in engine.items()
    )
    columns = ("what is wrong", "reason", "completed of 5", "engine's scale", "torch's scale")
    table = Table(title=NAMED, columns=columns, rows=rows)
    return Shown(checks=(*checks, named), wrong=(_halved(theirs),), edges=(_wider(), _completed()), tables=(table,))


def _first(outcomes: list[truestep.Outcome]) -> truestep.Skip:
    return next(outcome.skip for outcome in outcomes if outcome.skip is not None)


def _halved(theirs: dict[str, float]) -> Wrong:
    incurable = [name for name, case in CASES.items() if not case.cured and not case.rate]
    check = Check(
        what="torch's scale after five attempts that no scale can cure, by case",
        expected=(SCALE / 2**ATTEMPTS,) * len(incurable),
        measured=tuple(theirs[name] for name in incurable),
        because="it knows one cause, a scale that is too large: each attempt halves it",
    )
    return Wrong(
        how="let the scaler deal with whatever is not finite",
        check=check,
        damage="nothing is cured, no cause is named, and the scale is 32 times smaller for the sound windows that follow",
    )


def _wider() -> Edge:
    case = CASES["an output beyond 65504 in float16"]
    return Edge(
        where="a forward overflow is cured by a wider format, not by a scale",
        check=Check(
            what="completed of 5 with the same output in bfloat16",
            expected=ATTEMPTS,
            measured=sum(outcome.completed for outcome in by_the_engine(case, policy="bf16")),
            because="bfloat16 has float32's range; 160000 is well within",
        ),
    )


def _completed() -> Edge:
    model, x = made(Case(value=-1.0, loss=logarithm, reason=truestep.Reason.LOSS, why="the logarithm of -1 is NaN"))
    update = truestep.Update(model, torch.optim.SGD(model.parameters(), lr=0.0), loss=logarithm, check_weight=False)
    outcome = update([x])
    assert outcome.loss is not None
    return Edge(
        where="a loss of NaN whose gradient is finite: nothing is skipped, for it is the gradient that is applied",
        check=Check(
            what="log(-1): loss, attempt",
            expected=("nan", "completed"),
            measured=(str(outcome.loss), "completed" if outcome.completed else "skipped"),
            because="the derivative of log x at -1 is -1; the outcome keeps the loss in view",
        ),
    )


LAB = Lab(
    name="told-apart",
    facts=("D7",),
    topic="clocks",
    title="What no scale repairs",
    claim="Loss scaling repairs gradients that leave the range of float16. It does not repair an invalid input, an undefined "
    "operation, a forward that overflows, or a learning rate that is too large.",
    source="Micikevicius et al. 2018, whose scale shifts gradients; IEEE 754-2019 for operations that give NaN at any scale",
    shows=shows,
    after=(
        After(lab="ninety", why="it shows what a skipped attempt is"),
        After(lab="skip-rate", why="it shows that skips are evidence; here is of what"),
        After(lab="exact-scaling", why="it shows what a scale changes, and hence what it can cure"),
    ),
    asks=(
        Buckets(
            key="cure",
            prompt="Each of these skips an attempt. Which does a smaller loss scale cure?",
            buckets=("a smaller scale helps", "no scale helps"),
            answer=lambda shown: {name: shown.measured(name)[1] for name in CASES},
            why={
                "a NaN in the input": "NaN times anything is NaN",
                "the root's gradient at 0": "0 / 0 at every scale: the forward is finite, its derivative is not",
                "the root of -1": "the loss itself is NaN, before anything is scaled",
                "an output beyond 65504 in float16": "the loss scale enters after the forward; a wider format helps",
                "a learning rate of 1e7": "the weight is already beyond float16; scaling gradients leaves it so",
                "a scale that is too large": "halved once, the gradient fits",
            },
        ),
        Number(
            key="torch",
            prompt="A data source gives NaN for five windows. torch's scale was 65536. What is it afterwards?",
            answer=lambda shown: shown.measured("torch's scale after five attempts that no scale can cure, by case")[0],
            within=0.0,
            why="65536 / 2^5 = 2048: it takes every gradient that is not finite for an overflow of its scale.",
            tempting=(
                Tempting(value=lambda _: SCALE, why="So it would be right: no scale cures a NaN. It is what the engine does."),
                Tempting(value=lambda _: SCALE / 2, why="It halves at each of them, not at the first alone."),
            ),
        ),
        Choice(
            key="forward",
            prompt="Attention logits overflow float16 in the forward. The loss scale is 65536. What helps?",
            answer=lambda shown: shown.measured("completed of 5 with the same output in bfloat16"),
            options=(
                Option(text="bfloat16, or float32 for that product", value=ATTEMPTS, why="The range is wide enough there."),
                Option(
                    text="a loss scale of 1",
                    value=0,
                    why="Tempting, for it does cure overflows: of the backward. The forward has not met the scale yet.",
                ),
            ),
        ),
        Open(
            key="backwards",
            prompt="Work backwards: attempt 812 was skipped; the loss was finite, one weight's gradient NaN at every scale. "
            "List what can and what cannot be the cause.",
            rubric=(
                "Not the loss scale: it was tried at smaller ones",
                "Not an overflow of the loss: that was finite",
                "An operation whose derivative is undefined there: a root, a norm or a division at 0",
                "Names the next look: the operation that made the first NaN in the backward",
            ),
            strong="A finite loss with a NaN gradient at every scale is an undefined derivative, such as a norm at 0. I would "
            "ask which operation's backward made it, and add an epsilon inside the root.",
            weak="The scale is too large; wait until it has come down.",
            follow_up="The same, but the gradient is finite at scale 1. What has changed in your answer?",
        ),
    ),
)
