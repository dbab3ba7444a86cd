"""Why an attempt stepped no optimizer, in words: by the loop's own word, by its loss scale, or by what is left in `.grad`."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch.nn import Parameter

from truestep.verification.result import Skipped


def skipped(
    attempt: int,
    *,
    said: str | None,
    scale: tuple[float | None, float | None],
    withheld: bool,
    finite: bool,
    parameters: Iterable[Parameter],
) -> Skipped:
    """One attempt that changed nothing.

    Args:
        said: why, by a loop that tells: a reason, and after a colon what else it knows.
        scale: the loss scale before and after.
        withheld: whether a fused optimizer was stepped with `found_inf` set.
        finite: whether the full batch's own gradient is.
        parameters: what takes gradients, as the attempt has left them.

    >>> str(skipped(2, said=None, scale=(65536.0, 32768.0), withheld=False, finite=True, parameters=[]))
    'attempt 2 was skipped: overflow at scale 65536: no step was made, and the scale went down to 32768'
    """
    before, after = scale
    at = "" if before is None else f" at scale {number(before)}"
    if said is not None:
        reason, _, detail = said.partition(": ")
        return Skipped(attempt=attempt, reason=f"{reason}{at if 'overflow' in reason else ''}", detail=detail or None)
    if not finite:
        detail = "no loss scale helps: look at the data and at the loss"
        return Skipped(attempt=attempt, reason="the full batch's own gradient is not finite", detail=detail)
    if before is not None and after is not None and after < before:
        detail = f"no step was made, and the scale went down to {number(after)}"
        return Skipped(attempt=attempt, reason=f"overflow{at}", detail=detail)
    left = [p.grad for p in parameters if p.grad is not None]
    if withheld or not all(torch.isfinite(gradient).all() for gradient in left):
        detail = "the optimizer was told so, and did nothing" if withheld else "the full batch's gradient is finite"
        return Skipped(attempt=attempt, reason=f"a gradient that is not finite{at}", detail=detail)
    detail = "its gradients are still in .grad, and the next window adds to them unless they are zeroed first"
    return Skipped(attempt=attempt, reason="no optimizer was stepped", detail=detail if any(map(torch.any, left)) else None)


def number(scale: float) -> str:
    """A loss scale, in whole numbers where it is one.

    >>> number(2.0**20), number(2.0**-16)
    ('1048576', '1.52588e-05')
    """
    return f"{scale:.0f}" if scale == round(scale) else f"{scale:g}"
