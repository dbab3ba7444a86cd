"""Makes inspections by hand, for tests of whatever shows them: ordinary ones, and those with nothing to show."""

from __future__ import annotations

import random

from truestep.formats import BLOCKS, FORMATS
from truestep.inspection.numbers import SCALED, Kind, Measured, Numbers
from truestep.inspection.result import Advice, Inspected, Inspection, Movement, Operation
from truestep.inspection.scales import scale_range
from truestep.inspection.spread import Spread

KINDS: tuple[Kind, ...] = ("weights", "activations", "activation gradients", "weight gradients", "gradients at the optimizer")


def normal(sigma: float, *, count: int = 400, zeros: int = 0, seed: int = 0) -> Spread:
    """`count` numbers drawn from N(0, sigma), and zeros."""
    draws = random.Random(seed)
    return Spread.of([draws.gauss(0, sigma) for _ in range(count)] + [0.0] * zeros)


def numbers(layer: str, kind: Kind, spread: Spread, *, module: str = "Linear", format: str = "fp16", scale: int = 16) -> Numbers:
    """The row of a spread, as measured where the prediction is exact."""
    in_use = spread.losses(FORMATS[format], scale=scale if kind in SCALED else 0)
    return Numbers(
        layer=layer,
        module=module,
        kind=kind,
        tensors=4,
        spread=spread,
        format=format,
        at_one=spread.losses(FORMATS[format]),
        in_use=in_use,
        measured=None
        if format == "fp32"
        else Measured(
            dtypes=(format,),
            elements=spread.nonzero,
            flushed=in_use.flushed,
            overflowed=in_use.overflowed,
            infinities=in_use.overflowed,
            nans=0,
            unmatched=0,
        ),
        scales=scale_range(spread, FORMATS[format]) if kind in SCALED else None,
        blocks={name: spread.losses(each.element) for name, each in BLOCKS.items()},
        per_tensor={name: spread.losses(FORMATS[name]) for name in ("e4m3fn", "e5m2")},
        note=None if spread.nonzero else "every number is 0",
    )


def inspection(
    layers: tuple[str, ...] = ("features.0", "head"), *, policy: str = "fp16", format: str = "fp16", scale: int = 16
) -> Inspection:
    """An inspection of a model with these layers, whose gradients get smaller from the first to the last."""
    sigmas = {"weights": 0.05, "activations": 1.0, "activation gradients": 1e-7, "weight gradients": 1e-4}
    rows = [
        numbers(layer, kind, normal(sigmas.get(kind, 1e-4) / 10**at, zeros=7, seed=at), format=format, scale=scale)
        for at, layer in enumerate(layers)
        for kind in KINDS
    ]
    whole = []
    for kind in KINDS:
        spread = Spread(bins={})
        for row in rows:
            spread = spread + row.spread if row.kind == kind else spread
        whole.append(numbers("", kind, spread, module="", format=format, scale=scale))
    return Inspection(
        task="sample",
        policy=policy,
        format=format,
        device="cpu",
        seed=0,
        microbatches=2,
        attempts=(
            Inspected(after=0, scale=2.0**scale, completed=True, reason=None),
            Inspected(after=8, scale=2.0**scale, completed=False, reason="backward overflow"),
        ),
        numbers=tuple(rows),
        whole=tuple(whole),
        movements=tuple(
            Movement(parameter=f"{layer}.weight", layer=layer, elements=400, stuck={"fp32": 0, "bf16": 321, "fp16": 45})
            for layer in layers
        ),
        operations=tuple(
            Operation(layer=layer, name=name, phase=phase, dtype=dtype, result=dtype, cast=cast, calls=2)
            for layer in layers
            for name, phase, dtype, cast in (
                ("aten.addmm", "forward", format, ("fp32",) if format != "fp32" else ()),
                ("aten.mm", "backward", format, ()),
                ("aten._log_softmax", "forward", "fp32", (format,) if format != "fp32" else ()),
            )
        ),
        advice=(
            Advice(layer=None, action="scale", text="take a loss scale of 2^12", reason="2^4 .. 2^20 loses nothing in fp16"),
            *(Advice(layer=layer, action="fits", text="fits fp16", reason="nothing is lost at 2^16") for layer in layers),
        ),
        notes=("Predicted: from a float32 run of the same attempts.", "MX: blocks of 32 along the last dimension."),
    )


def all_zero() -> Inspection:
    """An inspection in which every number is 0."""
    zero = Spread(bins={}, zeros=10)
    rows = tuple(numbers("head", kind, zero) for kind in KINDS)
    whole = tuple(numbers("", kind, zero, module="") for kind in KINDS)
    return Inspection(
        task=None,
        policy="fp16",
        format="fp16",
        device="cpu",
        seed=None,
        microbatches=1,
        attempts=(Inspected(after=0, scale=65536.0, completed=True, reason=None),),
        numbers=rows,
        whole=whole,
        movements=(),
        operations=(),
        advice=(Advice(layer="head", action="look", text="every gradient is 0", reason="10 of 10 elements"),),
        notes=(),
    )
