"""What to do with each layer, from its numbers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from truestep.formats import FORMATS
from truestep.inspection.numbers import SCALED, Numbers
from truestep.inspection.result import Advice, Movement
from truestep.inspection.scales import scale_range
from truestep.inspection.spread import Losses, Spread
from truestep.pages.words import percent

NEGLIGIBLE = 0.001
"""A share of gradients below which flushing to zero is not held against a format; overflows always are."""
MANY = 0.01
"""A share of updates from which on losing them calls for wider weights."""


def advise(numbers: Sequence[Numbers], whole: Sequence[Numbers], movements: Sequence[Movement]) -> tuple[Advice, ...]:
    """One sentence on the loss scale for the whole model, then what each layer's numbers say."""
    layers: dict[str, dict[str, Numbers]] = {}
    for each in numbers:
        layers.setdefault(each.layer, {})[each.kind] = each
    found = list(_on_scale(whole))
    for layer, kinds in layers.items():
        own = [each for each in movements if each.layer == layer]
        found += [*_on_values(layer, kinds), *_on_fp16(layer, kinds), *_on_weights(layer, own), *_on_fp8(layer, kinds)]
    return tuple(found)


def _on_scale(whole: Sequence[Numbers]) -> Iterator[Advice]:
    gradients = [each for each in whole if each.kind in SCALED and each.spread.nonzero]
    if not gradients:
        return
    overflowed = min((each.overflowed_at for each in gradients if each.overflowed_at is not None), default=None)
    scales = scale_range(Spread.total([each.seen for each in gradients]), FORMATS["fp16"], overflowed_at=overflowed)
    assert scales.advised is not None
    yield Advice(layer=None, action="scale", text=f"for fp16, take a loss scale of 2^{scales.advised}", reason=str(scales))


def _on_values(layer: str, kinds: Mapping[str, Numbers]) -> Iterator[Advice]:
    for kind, each in kinds.items():
        bad = each.spread.infinities + each.spread.nans
        if bad:
            reason = f"{bad} of {each.spread.elements} are infinite or NaN"
            yield Advice(layer=layer, action="look", text=f"no format helps its {kind}", reason=reason)
        elif kind == "gradients at the optimizer" and not each.spread.nonzero:
            yield Advice(layer=layer, action="look", text="it learns nothing", reason="every gradient at the optimizer is 0")


def _on_fp16(layer: str, kinds: Mapping[str, Numbers]) -> Iterator[Advice]:
    """Whether forward and gradients fit float16, gradients at some loss scale."""
    fp16 = FORMATS["fp16"]
    overflowing = {
        kind: losses
        for kind in ("weights", "activations")
        if kind in kinds and (losses := kinds[kind].spread.losses(fp16)).overflowed
    }
    if overflowing:
        text = "keep it in float32 or bfloat16"
        reason = "; ".join(
            f"{percent(each.share('overflowed'))} of its {kind} overflow fp16" for kind, each in overflowing.items()
        )
        yield Advice(layer=layer, action="keep wide", text=text, reason=reason)
        return
    gradients = [each for kind, each in kinds.items() if kind in SCALED]
    ranges = [
        (each.kind, scale_range(each.seen, fp16, overflowed_at=each.overflowed_at)) for each in gradients if each.spread.nonzero
    ]
    lossy = [(kind, each) for kind, each in ranges if each.least_losses and (each.least_losses.share("lost") or 0) > NEGLIGIBLE]
    if lossy:
        reason = "; ".join(f"{kind}: {each}" for kind, each in lossy)
        yield Advice(layer=layer, action="keep wide", text="keep its gradients in float32 or bfloat16", reason=reason)
    elif ranges:
        reason = "; ".join(f"{kind}: {each}" for kind, each in ranges)
        yield Advice(layer=layer, action="fits", text="fits fp16", reason=reason)
    elif "activations" in kinds and kinds["activations"].spread.nonzero:
        yield Advice(layer=layer, action="fits", text="fits fp16", reason="nothing overflows, and it has no gradients")


def _on_weights(layer: str, movements: Sequence[Movement]) -> Iterator[Advice]:
    """Whether weights may be stored narrow without a master."""
    elements = sum(each.elements for each in movements)
    for name in ("fp32", "bf16", "fp16"):
        stuck = sum(each.stuck[name] for each in movements)
        if elements and stuck / elements > MANY:
            wide = (
                "its updates are too small even for float32" if name == "fp32" else f"keep float32 masters beside {name} weights"
            )
            reason = f"{percent(stuck / elements)} of its weight updates are below half an ulp of {name}"
            yield Advice(layer=layer, action="master weights", text=wide, reason=reason)


def _on_fp8(layer: str, kinds: Mapping[str, Numbers]) -> Iterator[Advice]:
    """fp8: e4m3 forward, e5m2 for the gradients of activations, each tensor with a scale of its own."""
    forward = [kinds[kind].per_tensor["e4m3fn"] for kind in ("weights", "activations") if kind in kinds]
    backward = [kinds[kind].per_tensor["e5m2"] for kind in ("activation gradients",) if kind in kinds]
    if not backward or not forward or not kinds.get("weights"):
        return
    shares = {"e4m3 forward": _worst(forward), "e5m2 gradients": _worst(backward)}
    fits = all(share <= MANY for share in shares.values())
    reason = ", ".join(f"{name} flush {percent(share)}" for name, share in shares.items())
    text = "fp8 with a scale per tensor would do" if fits else "fp8 with a scale per tensor loses too much"
    yield Advice(layer=layer, action="fp8", text=text, reason=reason)


def _worst(losses: Sequence[Losses]) -> float:
    return max(each.share("flushed") or 0.0 for each in losses)
