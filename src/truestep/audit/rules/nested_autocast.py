"""Regions of automatic casts inside each other that disagree about the format."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from truestep.audit.beside import lines
from truestep.audit.events import Autocast, Overflowed, Raised, Stepped
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Place, Site
from truestep.audit.story import Story

MISMATCH = re.compile(
    r"(same dtype|same scalar type|expected scalar type|same data ?type|should be the same|dtypes? .*must match|dtype mismatch"
    r"|to have the same dtype|got (Half|BFloat16|Float) and|but got \w+ for)",
    re.IGNORECASE,
)
"""What torch says of two tensors of different formats."""


def check(story: Story) -> Iterator[Finding]:
    """An island whose input is still of the region around it, and a region of one format inside of another's."""
    inner = [
        event for event in story.of(Autocast) if event.outer is not None and (not event.enabled or event.outer != event.dtype)
    ]
    raised = next((event for event in story.of(Raised) if MISMATCH.search(event.text)), None)
    if raised is not None:
        around = [event for event in inner if _inside(raised.site, event.site)]
        if around:
            yield _crashed(raised, around[-1])
            return
    for event in inner:
        if event.enabled:
            yield from _crossed(story, event)
    seen: set[Place] = set()
    for over in story.of(Overflowed):
        if over.site is not None and over.site.place not in seen and uncast(story, over):
            seen.add(over.site.place)
            yield found(
                over.site,
                f"inside of a region that switches autocast off, `{over.operation}` was given {over.dtype} of the"
                " region around it,"
                " and overflowed",
                evidence=() if over.largest is None else (f"its largest value is {over.largest:.4g} in float32",),
                fix="cast what enters the region: .float()",
            )


def uncast(story: Story, over: Overflowed) -> bool:
    """Whether a value overflowed in the body of a region that is off, in the format of the one around it."""
    for event in story.of(Autocast):
        names = None if event.enabled or event.outer != over.dtype or event.site is None else story.sources.names(event.site.path)
        owner = None if names is None or event.site is None else names.text.at(event.site.place)
        if isinstance(owner, ast.With) and event.site is not None:
            last = owner.end_lineno or owner.lineno
            if any(each.path == event.site.path and owner.lineno < each.line <= last for each in lines(over.site)):
                return True
    return False


def _crashed(raised: Raised, region: Autocast) -> Finding:
    text = raised.text.splitlines()[0] if raised.text else raised.kind
    if region.enabled:
        return found(
            region.site,
            f"a {region.dtype} region lies inside of a {region.outer} one, and their tensors met at {raised.site}: {text}",
            evidence=(f"{raised.kind}: {text}",),
            fix=f"use {region.outer} in both, or cast at the entrance and the exit of the inner one",
        )
    return found(
        raised.site,
        f"inside of a region that switches autocast off, tensors of the {region.outer} region around it met float32: {text}",
        evidence=(f"the region was entered at {region.site}",),
        fix="cast what enters the region: .float()",
    )


def _crossed(story: Story, event: Autocast) -> Iterator[Finding]:
    after = [each for each in story.of(Overflowed) if each.order > event.order and each.dtype == event.dtype]
    unfit = [each for each in story.of(Stepped) if each.order > event.order and each.finite is False]
    shorter = event.dtype == "float16"  # of its range
    unscaled = all(backward.carried == "none" for backward in story.backwards.values())
    hurt = shorter and bool(after or (unfit and unscaled))
    outcome = f"; `{after[0].operation}` overflowed there (at {after[0].site})" if after else ""
    yield found(
        event.site,
        f"a {event.dtype} region inside of a {event.outer} one{outcome}",
        severity="error" if hurt else "warning" if shorter and unscaled else "note",
        evidence=("its gradients carry no loss scale",) if shorter and unscaled else (),
        fix=f"use {event.outer} in both, or leave the dtype of the inner region to the outer one",
    )


def _inside(raised: Site | None, entered: Site | None) -> bool:
    """Whether the function that entered a region was running when the exception was raised."""
    if raised is None or entered is None:
        return False
    running = {(place.path, place.function) for place in (raised.place, *raised.callers)}
    return (entered.place.path, entered.place.function) in running


RULE = Rule(
    id="nested-autocast",
    title="nested autocast regions of different formats",
    why="A region converts what its operations are given, not what is there already: tensors of the outer format meet those"
    " of the inner.",
    bad="with torch.autocast('cuda', dtype=torch.float16):\n    h = a(x)\n    with torch.autocast('cuda', enabled=False):\n "
    "       y = b(h)",
    good=(
        "with torch.autocast('cuda', dtype=torch.float16):\n    h = a(x)\n    with torch.autocast('cuda', enabled=False):\n"
        "        y = b(h.float())"
    ),
    sources=("https://github.com/pytorch/pytorch/issues/79085", "https://github.com/pytorch/pytorch/issues/99012"),
    check=check,
)
