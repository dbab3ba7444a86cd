"""Accumulated float16 with a dynamic scale is the float32 full batch, within a criterion that is derived from how it ran."""

from __future__ import annotations

import torch

import truestep
from truestep.labs.accumulation._stepped import EPSILON, LR, Microbatch, Stepped, loss, made, window
from truestep.labs.asking.ask import Buckets, Choice, Number, Open, Option, Tempting
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

UNIT = 2.0**-24
"""Unit roundoff of float32."""
STEP_ROUNDINGS = 16
"""No optimizer here has more operations in a step."""
VERDICTS = "float16, 4 microbatches, beside the float32 full batch"
CRITERION = "the criterion, as verify derives it from this attempt"
AFTER = "the largest way that one weight of each parameter ends from the full batch's, in learning rates"


def shows() -> Shown:
    """One window verified, then stepped beside the full batch under SGD and under Adam."""
    found = truestep.verify(made("SGD", "fp16"), [window()])
    steps = {optimizer: Stepped(optimizer) for optimizer in LR}
    judged = [row for row in found.rows if row.tolerance]
    checks = (
        Check(what="verify passes", expected=True, measured=found.passed, because="no parameter is beyond what float16 explains"),
        Check(
            what="largest error of a gradient, over what is explained",
            expected=0.0,
            measured=max((row.error or 0.0) / (row.tolerance or 1.0) for row in judged),
            within=1.0,
            because="0 but for float16's roundings, at most as many as the criterion below counts",
        ),
        Check(
            what="what verify says of the shift",
            expected="not judged",
            measured=next(row.verdict for row in found.rows if row.name == "shift"),
            because="each example's softmax less its label sums to 0: what is left is rounding, in float32 too",
        ),
        Check(
            what="largest gap of the weights after SGD, over what the gradients explain",
            expected=0.0,
            measured=max(steps["SGD"].gap(row.name) / _explained(steps["SGD"], row.name, row.tolerance or 0.0) for row in judged),
            within=1.0,
            because="SGD is linear: the gap is the gradient's, times the rate; and the step's own float32 roundings",
        ),
        _adam_where_it_is_no_noise(steps, {row.name: row.tolerance or 0.0 for row in judged}),
    )
    cells = tuple((row.name, row.verdict, row.error, row.tolerance) for row in found.rows)
    names = [row.name for row in found.rows]
    tables = (
        Table(title=VERDICTS, columns=("parameter", "verdict", "relative error", "explained"), rows=cells),
        Table(
            title=AFTER,
            columns=("parameter", *LR),
            rows=tuple((name, *(steps[each].ways(name) for each in LR)) for name in names),
        ),
        Table(title=CRITERION, columns=("line",), rows=tuple((line,) for line in found.criterion)),
    )
    return Shown(checks=checks, wrong=(_allclose(steps), _lost()), edges=(_by_its_sign(steps),), tables=tables)


def _explained(sgd: Stepped, name: str, tolerance: float) -> float:
    """How far the weights may lie apart, by plain arithmetic on the full batch's."""
    moved, full = (float(torch.linalg.vector_norm(each)) for each in (sgd.moved(name), sgd.full[name]))
    return tolerance * moved + 2 * STEP_ROUNDINGS * UNIT * full


def _adam_where_it_is_no_noise(steps: dict[str, Stepped], tolerances: dict[str, float]) -> Check:
    """Of each element whose gradient is larger than all that its parameter's may be off: its sign is the full batch's."""
    sgd, adam = steps["SGD"], steps["Adam"]
    gaps, smallest, largest = [0.0], 1.0, 0.0
    for name, tolerance in tolerances.items():
        gradient = (sgd.moved(name) / sgd.lr).abs()
        sure = gradient > 2 * tolerance * gradient.norm()
        gaps.append(((adam.accumulated[name] - adam.full[name])[sure].abs() / adam.lr).max().item())
        smallest = min(smallest, gradient[sure].min().item())
        largest = max(largest, adam.full[name].abs().max().item())
    return Check(
        what="largest gap after Adam, in learning rates, of weights whose gradient is no noise",
        expected=0.0,
        measured=max(gaps),
        within=2 * EPSILON / smallest + STEP_ROUNDINGS * UNIT + 2 * UNIT * largest / adam.lr,
        because="its first step is rate x g / (|g| + 1e-8), the sign: what differs is epsilon over |g|, and a rounding of the "
        "weight",
    )


def _by_its_sign(steps: dict[str, Stepped]) -> Edge:
    """What Adam makes of noise: the noise is what SGD moved by."""
    sgd, adam = steps["SGD"], steps["Adam"]
    noise = abs(sgd.accumulated["shift"].item()) / sgd.lr
    return Edge(
        where="Adam, and a parameter whose true gradient is 0: it moves by the sign of its noise, as far as any other",
        check=Check(
            what="how far the shift moved under Adam, in learning rates",
            expected=noise / (noise + EPSILON),
            measured=abs(adam.accumulated["shift"].item()) / adam.lr,
            within=2 * STEP_ROUNDINGS * UNIT,
            because=f"g / (|g| + 1e-8), and SGD's step shows noise of {noise:.1e}: beside epsilon that passes for a gradient",
        ),
    )


def _allclose(steps: dict[str, Stepped]) -> Wrong:
    sgd = steps["SGD"]
    check = Check(
        what="all weights pass torch.allclose after one SGD step",
        expected=False,
        measured=all(torch.allclose(sgd.accumulated[name], sgd.full[name], rtol=1e-5, atol=1e-8) for name in sgd.full),
        because="its tolerance of 1e-5 is float32's; one float16 rounding is 2^-11 = 4.9e-4 of the gradient",
    )
    return Wrong(how="hold it to torch.allclose's defaults", check=check, damage="a right update is called wrong")


def _lost() -> Wrong:
    """The criterion is no blank cheque."""
    update = made("SGD", "fp16")
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    (sgd,) = update.optimizers

    def step(microbatches: list[Microbatch]) -> None:
        sgd.zero_grad()
        for microbatch in microbatches[:-1]:
            with torch.autocast("cpu", dtype=torch.float16):
                value = loss(update.model, microbatch) / len(microbatches)
            torch.autograd.backward(scaler.scale(value))
        scaler.step(sgd)
        scaler.update()

    found = truestep.verify(step, [window()], model=update.model, optimizer=sgd, loss=loss, scale=scaler)
    check = Check(
        what="what verify names, of a loop that drops the last microbatch",
        expected="microbatch-missing",
        measured=found.reading.kind if found.reading else "nothing",
        because="a quarter of the gradient is far more than float16 explains",
    )
    return Wrong(how="lose a microbatch", check=check, damage=f"{len(found.beyond)} of {len(found.rows)} parameters are beyond")


LAB = Lab(
    name="float16-full-batch",
    facts=("B6",),
    topic="accumulation",
    title="Float16 in parts is float32 in one",
    claim="Float16 autocast, a dynamic loss scale and four microbatches give the optimizer the gradient of the plain float32 "
    "full batch, within what roundings explain; and so the weights after an update.",
    source="Micikevicius et al. 2018 for float16 with a loss scale; Kingma & Ba 2015, as torch.optim.Adam writes it, for what "
    "Adam makes of a small gradient",
    condition="after Adam the weights are equal only where the gradient is not noise.",
    shows=shows,
    after=(
        After(lab="printed-digits", why="it says what equal means before a narrow format comes in"),
        After(lab="exact-scaling", why="the scale may then be left out of the error"),
    ),
    asks=(
        Choice(
            key="error",
            prompt="Which relative error of a gradient would you let pass in float16 autocast with a dozen roundings on the way?",
            eliminate=True,
            answer=lambda shown: _decade(max(row[3] for row in shown.table(VERDICTS).rows if row[3])),
            options=(
                Option(
                    text="about 1e-2",
                    value=-2,
                    why="3 x 2^-11 x the root of some 15 roundings, and what each gradient magnifies.",
                ),
                Option(text="about 1e-5", value=-5, why="That is a tolerance for float32: a single float16 rounding is 4.9e-4."),
                Option(text="none: equal to the bit", value=-8, why="Not even float32 in parts is that."),
            ),
        ),
        Buckets(
            key="judged",
            prompt="A shift that all logits share is added before a softmax. Whose gradient can be held against the full "
            "batch's?",
            buckets=("within", "not judged"),
            answer=lambda shown: {row[0]: row[1] for row in shown.table(VERDICTS).rows},
            why={
                "hidden.weight": "its gradient is far larger than its roundings",
                "hidden.bias": "likewise",
                "out.weight": "likewise",
                "out.bias": "each class has its own, and only their sum is 0",
                "shift": "the true gradient is 0: two noises are compared, which says nothing",
            },
        ),
        Number(
            key="shift",
            prompt="That shift's gradient is noise of about 2e-5. How far does Adam's first step move it, in learning rates?",
            answer=lambda shown: shown.measured("how far the shift moved under Adam, in learning rates"),
            why="g / (|g| + 1e-8) is 1 for anything well above 1e-8: Adam cannot tell noise from a gradient.",
            tempting=(
                Tempting(
                    value=lambda _: 0.0, why="So it should be: the true gradient is 0. Adam divides by the size of what came."
                ),
                Tempting(value=lambda _: 2e-5, why="That is SGD's step."),
            ),
        ),
        Open(
            key="weights",
            prompt="Your float16 run's weights differ from float32's by two learning rates in one place after one Adam step. A "
            "bug?",
            rubric=(
                "Look at the gradient there: is it larger than its roundings?",
                "Where the true gradient is 0 Adam moves by the sign of noise, and signs may differ",
                "Compare gradients at the optimizer, or SGD's weights, before Adam's",
            ),
            strong="Not by itself: at an element whose gradient is noise both runs move a full rate, perhaps opposite ways. I "
            "compare the gradients at the optimizer by a derived criterion, and weights only where the gradient is not noise.",
            weak="Yes, weights have to be equal.",
        ),
    ),
)


def _decade(tolerance: float) -> int:
    """The power of ten that a tolerance is nearest to."""
    return round(torch.log10(torch.tensor(tolerance)).item())
