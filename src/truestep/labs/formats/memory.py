"""Bytes of a parameter, and what mixed precision saves of memory: activations."""

from __future__ import annotations

import truestep
from truestep.footprint.log import Categories
from truestep.labs.asking.ask import Choice, Column, Number, Open, Option, Tempting
from truestep.labs.formats._attempts import BATCH, LAYERS, SMALL, WIDTH, attempt, footprint, only_own_garbage
from truestep.labs.lab import After, Lab
from truestep.labs.shown import Check, Edge, Shown, Table, Wrong

PARAMETERS = LAYERS * (WIDTH * WIDTH + WIDTH)
PARTS = ("weights", "gradients", "accumulators", "masters", "moments")
DERIVED = {
    "fp32": (4, 4, 0, 0, 8),
    "fp16": (4, 4, 0, 0, 8),
    "fp16-master": (2, 2, 0, 4, 8),
    "fp16-master, 4 microbatches": (2, 0, 4, 4, 8),
    "bf16-pure": (2, 2, 0, 0, 4),
}
"""Bytes of a parameter with Adam, by `PARTS`: two moments, and a float32 sum of narrow gradients where there are several."""
PER_PARAMETER = "bytes of a parameter with Adam"
BECAUSE = {
    "fp32": "4 + 4 + 8",
    "fp16": "4 + 4 + 8: autocast casts copies and keeps the float32 weights",
    "fp16-master": "2 + 2 + 4 + 8: what the narrow weights save, their float32 masters take",
    "fp16-master, 4 microbatches": "2 + 4 + 4 + 8: gradients of several backwards are summed in float32",
    "bf16-pure": "2 + 2 + 4: no masters, and narrow moments",
}


def shows() -> Shown:
    """The formula's bytes, and the bytes of a real attempt in float32 and in bfloat16."""
    with only_own_garbage():
        return _shown()


def _shown() -> Shown:
    rows = tuple((name, *_formula(name)) for name in DERIVED)
    checks = [
        Check(what=f"{name}: bytes of a parameter", expected=sum(parts), measured=_formula(name)[-1], because=BECAUSE[name])
        for name, parts in DERIVED.items()
    ]
    checks += _small()
    wide, narrow = footprint("fp32"), footprint("bf16")
    assert wide.measured is not None
    assert narrow.measured is not None
    assert narrow.predicted is not None
    real, half, foreseen = wide.measured.each, narrow.measured.each, narrow.predicted.each
    per = (real.weights + real.gradients + real.moments) / wide.parameters
    checks += [
        Check(
            what="fp32: bytes of a parameter, measured in an attempt",
            expected=(16 * PARAMETERS + 4 * 2 * LAYERS) / PARAMETERS,
            measured=per,
            because="4 + 4 + 8, and Adam's count of steps: 4 bytes for each of the 8 tensors",
        ),
        Check(
            what="fp32: activations saved for backward, and the batch",
            expected=LAYERS * BATCH * WIDTH * 4,
            measured=real.activations + wide.measured.later.account.saved_batch_bytes,
            because="each of 4 layers saves its input, 8 x 256 numbers of 4 bytes; the first one's is the batch",
        ),
        Check(
            what="bf16: activations saved for backward",
            expected=LAYERS * BATCH * WIDTH * 2,
            measured=half.activations,
            because="the same inputs in 2 bytes; the first layer's is a cast of the batch",
        ),
        Check(
            what="bf16: casts of weights saved for backward",
            expected=(LAYERS - 1) * WIDTH * WIDTH * 2,
            measured=narrow.measured.later.account.saved_casts_bytes,
            because="all layers but the first need their weight for the gradient of their input",
        ),
        Check(
            what="bf16: activations as predicted from shapes",
            expected=foreseen.activations,
            measured=half.activations,
            because="an attempt on tensors without content saves what a real one saves",
        ),
    ]
    parts = Table(title=PER_PARAMETER, columns=("policy", *PARTS, "in all"), rows=rows)
    sizes = Table(
        title="bytes of an attempt, 4 x Linear(256), batch 8", columns=("part", "fp32", "bf16"), rows=_sizes(real, half)
    )
    return Shown(checks=tuple(checks), wrong=(_halves(wide, narrow),), edges=(_grows(wide, narrow),), tables=(parts, sizes))


def _formula(name: str) -> tuple[float, ...]:
    """The library's bytes of a parameter, by `PARTS`, and in all."""
    policy, _, more = name.partition(", ")
    each = truestep.memory(params=1e6, optimizer="adam", policy=policy, microbatches=4 if more else 1).stages[0].per_parameter
    return (*(getattr(each, part) for part in PARTS), each.total)


def _small() -> list[Check]:
    """The same of real attempts: what stays, with the gradients or the float32 sum of several; and what comes for a while."""
    tensors, size = 2 * 2, 2 * (SMALL * SMALL + SMALL)
    found = {name: attempt(name) for name in list(DERIVED)[1:]}
    checks = [
        Check(
            what=f"{name}: bytes of a parameter, measured in an attempt",
            expected=sum(DERIVED[name]) + 4 * tensors / size,
            measured=(_kept(each) + each.masters + (each.accumulators - each.gradients if "4 microbatches" in name else 0))
            / size,
            within=1e-12,
            because=f"{BECAUSE[name]}; and Adam's count of steps: 4 bytes for each of the {tensors} tensors",
        )
        for name, each in found.items()
    ]
    once = found["fp16-master"].accumulators / size
    return [
        *checks,
        Check(
            what="fp16: bytes of the cast copy, for a while",
            expected=2.0,
            measured=found["fp16"].low_copies / size,
            because="from the forward to the end of the backward, every weight once in float16",
        ),
        Check(
            what="fp16-master: bytes of a float32 copy of the gradient, for a while",
            expected=4.0,
            measured=once,
            because="the masters step by float32: the finite check and all after it read the narrow gradient in it",
        ),
    ]


def _sizes(wide: Categories, narrow: Categories) -> tuple[tuple[str, int, int], ...]:
    kinds = ("weights", "gradients", "moments", "low_copies", "activations")
    return tuple((kind.replace("_", " "), getattr(wide, kind), getattr(narrow, kind)) for kind in kinds)


def _kept(each: Categories) -> int:
    return each.weights + each.gradients + each.moments


def _halves(wide: truestep.Footprint, narrow: truestep.Footprint) -> Wrong:
    assert wide.measured is not None
    assert narrow.measured is not None
    check = Check(
        what="weights, gradients and moments, bf16 over fp32",
        expected=1.0,
        measured=_kept(narrow.measured.each) / _kept(wide.measured.each),
        because="autocast changes none of the three",
    )
    peaks = narrow.peak_bytes / wide.peak_bytes
    return Wrong(how="plan for half the memory", check=check, damage=f"the measured peak is {peaks:.3f} of float32's, not 0.5")


def _grows(wide: truestep.Footprint, narrow: truestep.Footprint) -> Edge:
    assert wide.measured is not None
    assert narrow.measured is not None
    own, other = narrow.measured.later.account, wide.measured.later.account
    kept = own.each.activations + own.saved_casts_bytes, other.each.activations + other.saved_batch_bytes
    return Edge(
        where="a small batch: autocast keeps more for backward than float32 does",
        check=Check(
            what="bytes kept for backward, bf16 less fp32",
            expected=(LAYERS - 1) * WIDTH * WIDTH * 2 - LAYERS * BATCH * WIDTH * 2,
            measured=kept[0] - kept[1],
            because="three casts of 131072 bytes come, half of 32768 bytes goes; above a batch of 192 it pays",
        ),
    )


LAB = Lab(
    name="memory",
    facts=("C6",),
    topic="formats",
    title="What mixed precision saves of memory",
    claim="With Adam a parameter takes 4 + 4 + 8 = 16 bytes in float32, the same 16 under autocast and 2 more for a while, and "
    "2 + 2 + 12 = 16 with low-precision weights, gradients and a float32 master. What shrinks is activations.",
    source="Rajbhandari et al. 2020 (ZeRO); Micikevicius et al. 2018",
    condition="gradients are not summed over microbatches in float32 beside narrow weights: that is 18.",
    shows=shows,
    after=(After(lab="kept", why="bytes follow from which tensor is kept in which format"),),
    asks=(
        Column(
            key="in-all",
            prompt="How many bytes does a parameter take with Adam under each policy?",
            table=lambda shown: shown.table(PER_PARAMETER),
            blank="in all",
            within=0.0,
            why="Two moments of 4 bytes each weigh most, and they stay float32 in all but the pure policy.",
        ),
        Number(
            key="autocast",
            prompt="A model takes 16 bytes a parameter with Adam in float32. How many stay with it under float16 autocast?",
            answer=lambda shown: shown.measured("fp16: bytes of a parameter"),
            within=0.0,
            why="Weights, gradients and moments stay float32. The cast copies come and go.",
            tempting=(
                Tempting(value=lambda _: 8.0, why="Half the bits would be half the bytes, but autocast narrows none of these."),
                Tempting(value=lambda _: 18.0, why="16 and the 2-byte copy, which is there only from a forward to its backward."),
            ),
        ),
        Choice(
            key="batch",
            prompt="Four layers of 256, a batch of 8: what is kept for backward under autocast, beside float32?",
            answer=lambda shown: _beside(shown.measured("bytes kept for backward, bf16 less fp32")),
            options=(
                Option(text="more", value="more", why="Casts of weights are kept too: 3 x 131072 bytes, against 16384 saved."),
                Option(text="half", value="half", why="True of activations alone, which are the larger part at a large batch."),
                Option(text="the same", value="same", why="True of weights, gradients and moments; this is what backward needs."),
            ),
        ),
        Open(
            key="budget",
            prompt="Training does not fit by 20 %. Somebody proposes autocast. What do you ask before you agree?",
            rubric=(
                "What share of the peak is activations, for only those shrink",
                "What the optimizer's state takes: it stays float32",
                "A measurement or a prediction of the peak in place of a rule of thumb",
            ),
            strong="I ask what the peak is made of. If activations are most of it, autocast nearly halves them; if it is moments "
            "and weights, it saves nothing and adds copies. I predict the peak both ways first.",
            weak="Mixed precision halves memory, so it will fit.",
            follow_up="And if it is the optimizer's state that is too large?",
        ),
    ),
)


def _beside(more: float) -> str:
    """What a difference of kept bytes says."""
    return "more" if more > 0 else "same" if more == 0 else "half"
