"""A rank that skips an update which the others make, by what it alone has seen."""

from __future__ import annotations

from collections.abc import Iterator

from truestep.audit.events import Ranks, Reduced, Unscaled
from truestep.audit.finding import Finding, Rule, found
from truestep.audit.story import Story, Window
from truestep.audit.together import attempt, decided, reduced, reductions, several


def check(story: Story) -> Iterator[Finding]:
    """Attempts that some ranks completed and others did not; and overflows looked for before the ranks' gradients were one."""
    for told in story.of(Ranks):
        if told.what == "completed":
            yield from _differs(story, told)
    for window in several(story):
        early = _early(window)
        if early is not None and not _agreed(window, early):
            yield found(
                early.site,
                "unscale_ looks for an overflow in the rank's own gradients, before they are reduced: one rank may "
                "skip a step that the others make",
                severity="warning",
                fix=AFTER,
            )


def _differs(story: Story, told: Ranks) -> Iterator[Finding]:
    window = attempt(story, told)
    common = [each for each in several(story) if each.optimizer == told.optimizer and reduced(each)]
    if not common or (window is not None and _alone(window)):
        return
    made = [str(rank) for rank, completed in enumerate(told.values) if completed]
    skipped = [str(rank) for rank, completed in enumerate(told.values) if not completed]
    early, words = (
        None if window is None else _early(window),
        f"rank {', '.join(skipped)} skipped an update that rank {', '.join(made)} made",
    )
    if early is not None:
        yield found(early.site, f"{words}: each looked for an overflow in its own gradients, before they were reduced", fix=AFTER)
    elif told.attempted and window is not None and window.step is not None and window.step.scaler is not None:
        yield found(
            window.step.site,
            f"{words}: each judges by an overflow in the gradients that it holds",
            fix="reduce the scaler's found_inf over the ranks (maximum) before the step, or shard with a scaler that does",
        )
    else:
        yield found(
            decided(story, told),
            f"{words}: the decision was made by what one rank has seen",
            fix="reduce what decides over the ranks first, so that all skip or none does",
        )


def _alone(window: Window) -> bool:
    """DDP was told to leave its gradients alone: then every rank had its own, and that is what is wrong."""
    return bool(window.used) and window.optimizer in window.used[-1].unsynced


def _early(window: Window) -> Unscaled | None:
    """An unscaling before the gradients were reduced by hand."""
    by_hand = reductions(window)
    unscales = [event for event in window.of(Unscaled) if by_hand and event.order < by_hand[0].order and event.scale != 1.0]
    return unscales[-1] if unscales else None


def _agreed(window: Window, early: Unscaled) -> bool:
    """Whether the ranks told each other a number afterwards, as an overflow is told."""
    return any(event.what == "number" for event in window.after(early, Reduced))


AFTER = "reduce the gradients first, then unscale_: all ranks then see the same overflow"

RULE = Rule(
    id="rank-local-decision",
    title="one rank skips a step that others make",
    why="Weights, optimizer states and loss scales of the ranks drift apart for good, and nothing brings them together again.",
    bad="loss.backward()\nif torch.isfinite(loss):\n    optimizer.step()",
    good="loss.backward()\nfinite = torch.isfinite(loss).float()\ndist.all_reduce(finite, op=dist.ReduceOp.MIN)\nif finite:\n"
    "    optimizer.step()",
    sources=(
        "https://github.com/pytorch/pytorch/blob/main/torch/distributed/fsdp/sharded_grad_scaler.py",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/core/optimizer/optimizer.py",
    ),
    check=check,
)
