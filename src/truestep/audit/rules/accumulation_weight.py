"""Microbatches that do not add up to a mean over their window."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import replace

from truestep.audit.beside import companion, lines
from truestep.audit.coefficients import by_the_number, has_coefficient, of_the_loss, plain
from truestep.audit.events import Backward, Share
from truestep.audit.finding import Finding, Rule, Severity, found
from truestep.audit.site import Place, Site
from truestep.audit.story import Story
from truestep.audit.weights import Weighed, holds, holds_perhaps, weighed
from truestep.audit.windows import close, gradients_of

AMBIGUOUS = 2
"""A window of which a second division looks like the 0.5 that many losses have."""

ASKS = ("gradient_accumulation_steps", "accumulate_grad_batches")
"""Keywords by which libraries are asked to accumulate."""


def check(story: Story) -> Iterator[Finding]:
    """Equal microbatches whose weights add up to their number, to its inverse, or to what another number makes of it."""
    for optimizer in story.optimizers:
        windows = list(weighed(story, optimizer))
        several = [plain(story, each) for each in windows if each.number > 1]
        right = any(close(each.total * each.rescaled, 1.0, 0.01) and not list(_in_part(story, each)) for each in several)
        for each in several:
            lines = [site for site, ratios in each.edits.items() if _divides_always(several, site, each.number)]
            yield from _divided_later(story, each, lines)
            if not right and not lines:
                yield from _judged(story, each)
            yield from _in_part(story, each)


def _judged(story: Story, each: Weighed) -> Iterator[Finding]:
    number, total = each.number, each.total
    equal = close(max(share.weight for share in each.shares), min(share.weight for share in each.shares), 0.01)
    if each.reduced or not (each.even or equal):
        return
    if each.right_by_some_terms:
        yield from _untold(story, each)
        return
    first, words, times = each.backwards[-1], _words(each), each.divisions
    if times is not None and times > 1 and each.rescaled <= 1.0:
        if times - of_the_loss(story, each) < 2:
            return
        told = _found(first.divided, words + f": the loss was divided by {number} {_often(times)}", number, error=True)
        yield told if by_the_number(story, each) else replace(told, severity="note")
        earlier = [divisor.site for divisor in first.divisors if divisor.site is not None and divisor.site != first.divided]
        yield from companion(first.divided, earlier[-1] if earlier else None, "here it is divided the other time")
    elif close(total, number, 0.01) and each.even and not each.divided_by(number):
        if close(total * each.rescaled, 1.0, 0.01):
            return  # its gradient was divided after the window
        meant = _meant(story, each)
        main = _own_line(story, first)
        yield found(
            main,
            words + ": they were summed, not averaged" + (", and the learning rate was divided by their number" if meant else ""),
            severity="note" if meant else "warning",
            evidence=gradients_of([each.window]),
            fix=f"divide the loss by the {number} microbatches of the window, or declare the sum",
        )
        yield from companion(main, first.computed, "here that loss is made, and not divided")
    elif each.even and each.rescaled == 1.0 and _by_another_number(each):
        given = ", ".join(f"{divisor:g}" for divisor in each.shares[0].divisors)
        yield _found(
            first.divided or _own_line(story, first),
            words + f": the loss was divided by {given}, the window holds {number}",
            number,
            error=False,
        )
        if first.divided is not None:
            yield from companion(first.divided, first.site, "here that loss enters the window")


def _untold(story: Story, each: Weighed) -> Iterator[Finding]:
    """A note where more equal terms than microbatches were divided by their number, which holds that of the microbatches."""
    share = each.shares[0]
    if each.number < share.joined and close(each.total * each.rescaled, each.number, 0.01) and not _meant(story, each):
        yield found(
            _own_line(story, each.backwards[-1]),
            f"each of {each.number} microbatches is a sum of {share.joined} equal terms divided by {share.joined}: if that is"
            f" their mean, nothing divides by the {each.number} microbatches; the graph does not tell",
            severity="note",
            fix=f"where it is, divide the loss by the {each.number} microbatches of the window as well",
        )


def _own_line(story: Story, backward: Backward) -> Site | None:
    """The line of a backward; where a library's loop made it, the user's that made the loss, or asked for the accumulation."""
    site, computed = backward.site, backward.computed
    if site is None or site.library is None or site.below_library is not None:
        return site
    if computed is not None:
        return computed if computed.below_library is not None else site
    if story.sources.loop(site.place) is not None:
        return site
    for place in lines(site):
        names = story.sources.names(place.path)
        nodes = () if names is None else ast.walk(names.text.tree)
        asks = next((each for each in nodes if isinstance(each, ast.keyword) and each.arg in ASKS), None)
        if asks is not None:
            return Site(place=Place(place.path, asks.lineno, place.function), library=site.library)
    return site


def _words(each: Weighed) -> str:
    own = f" (its coefficient of {1 / math.prod(each.aside):.4g} aside)" if each.aside else ""
    return (
        f"{each.number} microbatches entered the update with a weight of {each.parts[0]:.4g} each{own}, {each.total:.4g}"
        " together, where 1 is their mean"
    )


def _found(site: Site | None, words: str, number: int, *, error: bool) -> Finding:
    severity: Severity = "warning" if not error else "note" if number == AMBIGUOUS else "error"
    return found(
        site,
        words,
        severity=severity,
        fix=f"divide the loss once, by the {number} microbatches that the window holds",
    )


def _by_another_number(each: Weighed) -> bool:
    """A mean was divided, and not by what the window holds. A sum may be over anything, ranks may have a part in a divisor, and
    what a loss was multiplied by may be made of a coefficient and the window's number."""
    share = each.shares[0]
    mean = not share.summed and not share.node.startswith(("Sum", "Dot", "Mm", "Linalg"))
    other = mean and bool(share.divisors) and not each.divided_by(each.number) and each.backwards[0].ranks == 1
    return other and not share.multiplied


def _meant(story: Story, each: Weighed) -> bool:
    """The learning rate was divided by the number of microbatches."""
    made = story.optimizers.get(each.window.optimizer)
    site = None if made is None else made.site
    return site is not None and any(story.sources.divided_by(site, argument, each.number) for argument in ("lr", 1))


def _divided_later(story: Story, each: Weighed, lines: list[Site]) -> Iterator[Finding]:
    """The gradient was divided by the number of microbatches at these lines, and at another of them or in the loss already."""
    by_loss = each.divisions
    if not lines or by_loss is None or each.reduced:
        return
    times = by_loss + len(lines)
    if times - of_the_loss(story, each) < 2:
        return
    number, site = each.number, lines[-1]
    before = f"by which each loss had been divided already{'' if by_loss == 1 else ' ' + _often(by_loss)}"
    words = f"the gradient was divided by the {number} microbatches of the window, " + (before if by_loss else "at several lines")
    words += f": it is 1/{number ** (times - 1)} of their mean"
    sure = (number != AMBIGUOUS or times > 2) and by_the_number(story, each)
    severity: Severity = "error" if sure else "note"
    yield found(site, words, severity=severity, evidence=gradients_of([each.window]), fix="divide once, here or at the loss")
    first = each.backwards[-1].divided if by_loss else lines[0]
    yield from companion(site, first, "here it had been divided already")


def _divides_always(windows: list[Weighed], site: Site, number: int) -> bool:
    """Whether a line divided the gradients by the number of microbatches in every window of as many, as no clip by hand does."""
    ratios = [ratio for each in windows if each.number == number for ratio in each.edits.get(site, ())]
    return all(close(ratio, 1 / number) for ratio in ratios)


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def _left(story: Story, each: Weighed, backward: Backward) -> Share | None:
    """A mean that was not divided by the window's number, though another term of the loss was, and is not right as it is."""
    left = [part for part in backward.parts if not part.summed and not holds_perhaps(part, each.number)]
    if not any(holds(part, each.number) for part in backward.parts):
        return None
    right = backward.share if close(each.total, 1.0, 0.01) else None
    wrong = (part for part in left if part != right)
    return next((part for part in wrong if not part.multiplied or has_coefficient(story, backward, part)), None)


def _in_part(story: Story, each: Weighed) -> Iterator[Finding]:
    """Some terms of every loss were divided by the number of microbatches, others were not, and nothing divided all later."""
    undivided = [backward for backward in each.backwards if _left(story, each, backward) is not None]
    later = close(each.rescaled, 1 / each.number, 0.01) or _meant(story, each)
    left = _left(story, each, each.backwards[-1])
    if each.number > 1 and len(undivided) == each.number and left is not None and not later:
        yield found(
            undivided[-1].divided or undivided[-1].site,
            f"a term of the loss was divided by the {each.number} microbatches of the window and another"
            f" ({left.node}) was not: that one"
            f" counts {each.number} times as much beside it as it was meant to",
            severity="warning",
            fix="divide the whole loss",
        )
        last = undivided[-1]
        yield from companion(last.divided or last.site, last.computed or last.site, "here the terms are put together")


RULE = Rule(
    id="accumulation-weight",
    title="accumulated microbatches do not add up to their mean",
    why=(
        "A sum of K means is a gradient K times too large: the learning rate, the clip's limit and weight decay mean"
        " something else."
    ),
    bad="for x in window:\n    loss_of(x).backward()\noptimizer.step()",
    good="for x in window:\n    (loss_of(x) / len(window)).backward()\noptimizer.step()",
    sources=("https://github.com/karpathy/nanoGPT/issues/168", "https://github.com/ultralytics/yolov5/issues/464"),
    check=check,
)
