"""What stands below an inspection in words: what its numbers are numbers of, what was assumed, what was not seen. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from truestep.inspection.numbers import Numbers
from truestep.inspection.result import Inspected

_NARROW = (
    "Predicted, and measured against: a float32 run of the windows of the first and the last inspected attempt, from the"
    " same weights and random state, rounded to nearest by each format's own rules. It leaves out what low precision does to the"
    " numbers on their way. The scales that lose nothing go by the policy's own numbers in the attempts between, too, and stay"
    " below every scale at which any of them overflowed."
)
_WIDE = (
    "Predicted: the spread of the policy's own numbers, whose format has float32's range, rounded to nearest by each format's own"
    " rules; float32's would differ by their rounding alone."
)
_MEASURED = "Measured: in the first microbatch of the first inspected attempt, against a float32 run of it."
_ASSUMED = (
    "MX: blocks of 32 along the last dimension, scale 2^(floor(log2 amax) - emax); exact where that scale is 2^-127 or more.",
    "fp8 per tensor: the largest power of two at which the tensor's own largest number does not overflow.",
    "MX and fp8 per tensor: of the first inspected attempt alone, and of a tensor of more than 65,536 elements from 2,048 of its"
    " blocks, drawn at random; all else is exact. Weights: of the first and the last inspected attempt.",
)


def assumed(*, wide: bool, low: bool) -> Iterator[str]:
    """Of every inspection; `wide`: the policy computes in a format of float32's range, `low`: in another than float32."""
    yield _WIDE if wide else _NARROW
    if wide and low:
        yield _MEASURED
    yield from _ASSUMED


def particular(rows: Sequence[Numbers], attempts: Sequence[Inspected], *, silent: Sequence[str], compiled: bool) -> Iterator[str]:
    """Of this one; `silent` are the layers of which no number was seen.

    >>> list(particular([], [], silent=["head"], compiled=False))
    ['No number was seen of: head.']
    """
    if silent:
        yield f"No number was seen of: {', '.join(silent)}."
    if compiled:
        yield "The model is compiled and ran uncompiled here: what its fused kernels keep in float32 is rounded here."
    errors = [row.block_error for row in rows if row.block_error is not None]
    if errors:
        yield f"MX and fp8 per tensor: in 19 of 20 draws, a share is off by {100 * max(errors):.1f} points at most."
    skipped = [each for each in attempts if not each.completed]
    if skipped:
        yield (
            f"{len(skipped)} of {len(attempts)} inspected attempts were skipped ({skipped[0].reason} at a scale of"
            f" {skipped[0].scale:g}): their gradients at the optimizer and updates were not measured."
        )
