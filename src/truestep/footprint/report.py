"""A footprint in words: its table, when the peak comes, why predicted and measured differ, what a policy and a split change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from truestep.footprint.facts import Beside, Facts
from truestep.footprint.log import CATEGORIES, Account, Attempted, Attempts
from truestep.footprint.sizes import both, readable
from truestep.pages.words import percent

COLUMNS = ("bytes", "predicted", "measured", "a parameter", "at the peak")
_NAMES = {
    "weights": "weights",
    "low_copies": "weights cast by autocast",
    "gradients": "gradients",
    "accumulators": "gradients in float32",
    "masters": "float32 masters",
    "moments": "optimizer state",
    "activations": "activations saved for backward",
    "buffers": "buffers",
    "batch": "the batch",
    "temporaries": "all else, for a while",
    "workspaces": "workspaces inside of kernels",
}


def title(footprint: Facts) -> str:
    """Whose memory it is."""
    frozen = f" ({footprint.frozen:,} frozen)" if footprint.frozen else ""
    return (
        f"{footprint.subject}: {footprint.policy}, {footprint.optimizer}, {_split(footprint.microbatches)}, {footprint.device}, "
        f"{footprint.parameters:,} parameters{frozen}"
    )


def rows(footprint: Facts) -> list[tuple[str, ...]]:
    """The table: a later attempt by category, each by itself; then the peaks of first and later attempts."""
    predicted, measured = footprint.predicted, footprint.measured
    found = measured or predicted
    assert found is not None
    peak = asdict(_higher(found).account.peak)
    lines = []
    for kind in CATEGORIES:
        sizes = [None if side is None else getattr(side.each, kind) for side in (predicted, measured)]
        if kind == "workspaces" and measured is not None:
            sizes[1] = peak[kind] = _inside(_higher(measured))
        if any(sizes) or peak[kind]:
            own = next(size for size in reversed(sizes) if size is not None)
            each = f"{own / footprint.parameters:.3g}" if kind not in ("buffers", "batch") else ""
            lines.append((_NAMES[kind], *map(_cell, sizes), each, _cell(peak[kind])))
    for name in ("first", "later"):
        sides: list[Attempted | None] = [None if side is None else getattr(side, name) for side in (predicted, measured)]
        cells = [_cell(None if side is None else side.peak_bytes) for side in sides]
        word = "peak, first attempt" if name == "first" else "peak, later attempts"
        highest = _cell(found.peak_bytes) if getattr(found, name) is _higher(found) else ""
        lines.append((word, *cells, f"{getattr(found, name).peak_bytes / footprint.parameters:.3g}", highest))
    return lines


def sentences(footprint: Facts) -> list[str]:
    """What the table does not say."""
    return [*_missing(footprint), *_when(footprint), *_workspaces(footprint), *_difference(footprint), *_beside(footprint)]


def text(footprint: Facts) -> str:
    """All of it as plain text."""
    table = [COLUMNS, *rows(footprint)]
    widths = [max(len(row[place]) for row in table) for place in range(len(COLUMNS))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in table
    ]
    return "\n".join([title(footprint), *lines, *sentences(footprint)])


def _split(microbatches: int) -> str:
    return "1 microbatch" if microbatches == 1 else f"{microbatches} microbatches"


def _cell(size: int | None) -> str:
    return "-" if size is None else f"{size:,}"


def _higher(side: Attempts) -> Attempted:
    return side.first if side.first.peak_bytes >= side.later.peak_bytes else side.later


def _missing(footprint: Facts) -> Iterator[str]:
    if footprint.not_predicted is not None:
        yield f"Not predicted: {footprint.not_predicted}."
    if footprint.not_measured is not None:
        yield f"Not measured: {footprint.not_measured}."


def _when(footprint: Facts) -> Iterator[str]:
    """When the peak comes, by both accounts, and what first and later attempts differ by."""
    sides = [("measured", footprint.measured), ("predicted", footprint.predicted)]
    told = [
        f"{word} {both(side.peak_bytes)} in the {_higher(side).peak_phase} of {_which(side)}"
        for word, side in sides
        if side is not None
    ]
    yield f"Peak: {'; '.join(told)}."
    side = footprint.measured or footprint.predicted
    assert side is not None
    first, later = side.first, side.later
    if first.peak_bytes > later.peak_bytes:
        yield (
            f"A first attempt takes {readable(first.peak_bytes - later.peak_bytes)} more than a later one: "
            "its step keeps a copy of the weights, in case it fails, while the optimizer's state appears."
        )
    elif later.peak_bytes > first.peak_bytes:
        yield (
            f"A later attempt takes {readable(later.peak_bytes - first.peak_bytes)} more than the first: "
            "the optimizer's state is there from the start."
        )


def _workspaces(footprint: Facts) -> Iterator[str]:
    """Whence the prediction has what kernels allocate, or that it has not."""
    count = footprint.workspaces_measured
    if footprint.predicted is not None:
        yield from (f"Shapes do not tell {each}; a measurement has it." for each in footprint.untold)
    if footprint.predicted is None or count == 0:
        return
    if count is None:
        yield "Workspaces inside of kernels are not counted in the prediction: which the device takes is chosen as it runs."
    else:
        yield (
            f"The prediction's workspaces of {count} convolutions, products and LSTM layers, forward and backward apart, were "
            "measured one by one on this machine; another's may differ."
        )


def _which(side: Attempts) -> str:
    return (
        "every attempt"
        if side.first.peak_bytes == side.later.peak_bytes
        else ("the first attempt" if _higher(side) is side.first else "a later attempt")
    )


def _difference(footprint: Facts) -> Iterator[str]:
    """Predicted and measured, storage by storage, and what the allocator adds."""
    predicted, measured = footprint.predicted, footprint.measured
    if predicted is None or measured is None:
        return
    error = predicted.peak_bytes / measured.peak_bytes - 1.0
    theirs = measured.later if measured.later.peak_bytes > measured.first.peak_bytes else measured.first
    ours = predicted.later if theirs is measured.later else predicted.first
    side = "above" if error > 0 else "below"
    how = f"{percent(abs(error), 2)} {side} the measured peak" if error else "the measured peak to the byte"
    yield f"The prediction is {how}: {_reasons(ours.account, theirs)}."


def _reasons(ours: Account, theirs: Attempted) -> str:
    live = theirs.account
    apart = [
        f"{_NAMES[kind]} {getattr(live.each, kind) - getattr(ours.each, kind):+,} B"
        for kind in CATEGORIES
        if kind != "workspaces" and getattr(live.each, kind) != getattr(ours.each, kind)
    ]
    words = "category by category they agree to the byte" if not apart else f"measured less predicted, {', '.join(apart)}"
    if theirs.allocated_bytes is None:
        return words
    alone = f", and {ours.each.workspaces:,} B at the most in the prediction" if ours.each.workspaces else ""
    return f"{words}; workspaces inside of kernels take {_inside(theirs):,} B by the allocator at its peak{alone}"


def _inside(theirs: Attempted) -> int:
    """What the allocator counts at its peak beyond live tensors at theirs; a few bytes less than nothing are nothing."""
    return 0 if theirs.allocated_bytes is None else max(0, theirs.allocated_bytes - theirs.account.peak_bytes)


def _beside(footprint: Facts) -> Iterator[str]:
    """What the policy, and the split, change of this very window."""
    if footprint.predicted is None:
        return
    own, peak = footprint.predicted.each, footprint.predicted.peak_bytes
    for other in footprint.beside:
        if other.policy != footprint.policy:
            yield from _policy(footprint, other)
        else:
            kinds = ("activations", "gradients", "accumulators")
            changes = [f"{_NAMES[kind]} {readable(getattr(other.each, kind))} ({readable(getattr(own, kind))})" for kind in kinds]
            shown = ", ".join(
                change for kind, change in zip(kinds, changes, strict=True) if getattr(other.each, kind) or getattr(own, kind)
            )
            yield (
                f"In {_split(other.microbatches)} ({footprint.microbatches}): {shown}, "
                f"peak {readable(other.peak_bytes)} ({readable(peak)})."
            )
        if other.policy == footprint.policy and footprint.microbatches == 1:
            yield (
                "Microbatches divide activations; gradients are as large in any split, "
                "and narrow ones are then summed in float32."
            )


def _policy(footprint: Facts, other: Beside) -> Iterator[str]:
    assert footprint.predicted is not None
    own = footprint.predicted.each
    if own.weights == other.each.weights:
        yield (
            "Autocast does not halve memory: weights, gradients and optimizer state are as in float32; "
            "what shrinks is activations."
        )
    changes = [
        f"{_NAMES[kind]} {readable(getattr(other.each, kind))} to {readable(getattr(own, kind))}"
        for kind in ("weights", "low_copies", "gradients", "accumulators", "masters", "moments", "activations")
        if getattr(other.each, kind) != getattr(own, kind)
    ]
    yield (
        f"From {other.policy} to {footprint.policy}: {'; '.join(changes) or 'nothing changes'}; "
        f"peak {readable(other.peak_bytes)} to {readable(footprint.predicted.peak_bytes)}."
    )
