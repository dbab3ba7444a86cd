"""A loss that is multiplied or divided by the number of ranks beside what their reduction does."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.beside import beside
from truestep.audit.events import Ranks, Reduced
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.site import Site
from truestep.audit.story import Story, Window
from truestep.audit.together import attempt, averaged_by, reductions, several
from truestep.audit.windows import close


def check(story: Story) -> Iterator[Finding]:
    """Attempts in which all elements on all ranks together weigh as much as there are ranks, or that part of it, and why."""
    for told in story.of(Ranks):
        window = attempt(story, told) if told.what == "weight" else None
        factor = None if window is None else averaged_by(window)
        if window is not None and factor is not None and window.used[-1].ranks == len(told.values):
            yield from _weighed(story, window, told.values, factor)
    for window in several(story):
        yield from _reduced_losses(window)


def _weighed(story: Story, window: Window, weights: tuple[float, ...], factor: float) -> Iterator[Finding]:
    ranks, total = len(weights), sum(weights) * factor
    words = f"over {ranks} ranks and their reduction all elements together weigh {total:.3g} where 1 is their mean: "
    if close(total, ranks):
        multiplied = _divisor(window, 1 / ranks)
        if multiplied is not None:
            yield found(
                multiplied, words + f"the loss was multiplied by the {ranks} ranks, whose gradients are averaged", fix=LEAVE
            )
        elif factor == 1.0 and all(close(each, 1.0) for each in weights):
            by_hand = reductions(window)
            yield found(
                beside(by_hand[-1].site, window.step.site if window.step else None),
                words + "the ranks' gradients were added up, and not divided by their number",
                severity="warning",
                fix="divide what is reduced by the number of ranks",
            )
    elif close(total, 1 / ranks):
        yield from _too_little(story, window, weights, words)


def _too_little(story: Story, window: Window, weights: tuple[float, ...], words: str) -> Iterator[Finding]:
    ranks = len(weights)
    elements = sum(backward.share.elements for backward in window.used if backward.share is not None)
    whole = [each for each in window.used[-1].divisors if elements * 1.01 < each.number and _of_all(window, each.number, weights)]
    if whole:
        yield found(
            whole[0].site,
            words
            + f"the loss was divided by the {whole[0].number:g} elements of all ranks, and the average divides by {ranks} again",
            fix=f"divide by the elements of one rank where all have as many, or multiply by the {ranks} ranks",
        )
        return
    divided = _divisor(window, ranks)
    twice = len([each for each in window.used[-1].divisors if close(each.number, ranks)]) > 1
    unclear = len(window.used) == ranks and (not twice or not _of_ranks(story, divided))
    if divided is not None and not unclear:
        yield found(divided, words + f"the loss was divided by the {ranks} ranks, whose average divides by them again", fix=LEAVE)


def _of_all(window: Window, number: float, weights: tuple[float, ...]) -> bool:
    """Whether a divisor counts the elements of all ranks: each has the part of it that its weight says, and all are the whole."""
    own = sum(backward.share.elements for backward in window.used if backward.share is not None)
    return close(sum(weights), 1.0) and any(close(own / number, weight) for weight in weights)


def _of_ranks(story: Story, site: Site | None) -> bool:
    return site is not None and any(story.sources.derives_from(site, None, name) for name in ("get_world_size", "WORLD_SIZE"))


def _divisor(window: Window, number: float) -> Site | None:
    """The line that divided the last loss by a number, or by its inverse multiplied it."""
    last = window.used[-1]
    known = next((each.site for each in last.divisors if close(each.number, number)), None)
    shared = last.share is not None and any(close(each, number) for each in last.share.divisors)
    return known or ((last.divided or last.site) if shared else None)


def _reduced_losses(window: Window) -> Iterator[Finding]:
    """A loss that was added up over the ranks where autograd sees it, so that its backward adds up their gradients already."""
    used, ranks = window.used, window.used[-1].ranks
    for event in window.events:
        if isinstance(event, Reduced) and event.what == "loss" and event.operation == "sum" and averaged_by(window) == 1 / ranks:
            microbatch = len(used) > 1 and len(used) != ranks and close(event.given, 1 / len(used))
            if close(event.given, 1.0) or microbatch:
                yield found(
                    event.site,
                    f"the loss was added up over {ranks} ranks before its backward, which adds up what comes back once more; "
                    f"averaging the gradients divides by {ranks} once: they are {ranks} times too large",
                    fix="call backward on the rank's own loss, and reduce a detached copy for the log",
                )


LEAVE = "leave the number of ranks out of the loss: what reduces the gradients sees to it"

RULE = Rule(
    id="ddp-loss-factor",
    title="the number of ranks enters the loss beside the average over them",
    why="DDP divides the sum of the gradients by the number of ranks; a loss that counts them too trains "
    "with another learning rate on every number of ranks.",
    bad="loss = loss_of(ddp(x)) * world_size\nloss.backward()",
    good="loss = loss_of(ddp(x))\nloss.backward()",
    sources=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
        "https://huggingface.co/docs/transformers/main_classes/trainer#transformers.TrainingArguments.average_tokens_across_devices",
    ),
    check=check,
)
